"""The store in one SQLite file.

In: records of the model. Out: the same records, after a crash too.
`store.py` is the `Store`, `trial_writer.py` its writer thread, `connection.py` opens files, `migrations.py`
has the schema. Start with `store.py`.
"""

"""The store in a PostgreSQL database. In: a URL. Out: a `Store` and its location.

`location.py` is everything before a store is open, `store.py` the `Store`, `trial_writer.py` its writer
thread, `run_locks.py` its locks, `case_staging.py` writes suites, `schema.py` has the tables, and
`database.py` runs statements. What is the same for SQLite is in `proctor.stores.sql`.
"""

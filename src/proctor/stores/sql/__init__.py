"""What stores in SQL databases have in common. In: an `SqlDatabase`. Out: a `Store`.

Start with `store.py`. `database.py` says what a database must offer, `trial_queue.py` and `run_lock_table.py`
what must write trials and lock runs; `suite_writer.py`, `case_staging.py` and `versions.py` save suites.
"""

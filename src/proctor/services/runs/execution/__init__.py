"""Planned runs to stored results.

In: a request; `session.py` plans and makes all of its runs. Out: trials in the store, and events for the
listener. `runner.py` makes one run: an engine gets its missing trials, a worker that calls targets and judges
(`worker.py`) and a writer that stores (`writer.py`). `target_pool.py` opens targets and judges.
"""

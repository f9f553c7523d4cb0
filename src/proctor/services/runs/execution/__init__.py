"""Executes planned runs and stores the results.

In: a request; `session.py` plans and runs all of it. Out: trials in the store, and events for the
listener. `runner.py` is one run: an engine gets its missing trials, a worker that calls targets and judges
(`worker.py`) and a writer that stores them (`writer.py`). `target_pool.py` opens targets and judges.
The workers of an engine on other machines are those of `remote_worker.py`.
`interleaving.py` chooses the runs that are made in turns.
"""

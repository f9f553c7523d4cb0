"""Merging: the runs of several shards become one run.

In: stores with a run each. Out: a run in another store, with the trials of all of them.
`parts.py` says which runs belong together, `merge_runs.py` copies them. Start there.
"""

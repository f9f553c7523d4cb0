"""Planned runs to stored results.

In: planned runs. Out: trials in the store, and events for whoever listens.
`session.py` drives all runs of a request, `target_pool.py` opens targets and judges,
`runner.py` makes one run.
"""

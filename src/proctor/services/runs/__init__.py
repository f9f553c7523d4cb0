"""Runs: planned from a request, executed and stored.

In: a `Request`. Out: runs in the store, and their reports.
`request.py` and `config.py` hold what the user requests, `planning/` turns it into planned runs, `execution/`
executes them, `reading/` reads what is stored, `merging/` makes one run of several. Start with
`execution/session.py`.
"""

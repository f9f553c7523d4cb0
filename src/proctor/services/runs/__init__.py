"""Runs: what a user requests, planned, carried out and stored.

In: a `RunRequest`. Out: runs in the store, and their reports.
`request.py` and `config.py` say what is wanted, `planning/` turns it into runs, `execution/` asks, grades
and stores, `reading/` shows what is stored. Start with `execution/session.py`.
"""

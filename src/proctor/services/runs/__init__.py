"""Runs: what a user requests, planned, carried out and stored.

In: a `Request`. Out: runs in the store, and their reports.
`request.py` and `config.py` have what the user asks for, `planning/` turns it into planned runs, `execution/`
makes them, `reading/` shows what is stored. Start with `execution/session.py`.
"""

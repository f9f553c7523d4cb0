"""Runs started from a page or over the API.

In: the form of a new run. Out: a process that runs it, and its progress.
`form.py` validates the form, `start.py` starts the process with `services/runs/starts/`.
"""

"""Runs started from a page or over the API: their form, their allowed targets, their processes.

In: the form of a new run. Out: a process that makes it, and its progress.
`form.py` checks the form, `start.py` starts, `processes.py` keeps the processes.
"""

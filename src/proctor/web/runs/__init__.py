"""Runs started from a page or over the API: their form, their allowed targets, their processes.

In: the form of a new run. Out: a process that runs it, and its progress.
`form.py` validates the form, `start.py` starts the process, `processes.py` keeps track of processes.
"""

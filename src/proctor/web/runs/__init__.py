"""Runs that are started from a page.

In: the form of a new run. Out: a process that makes it, and its progress.
`form.py` checks the form, `start.py` starts, `processes.py` keeps the processes.
"""

"""Starts runs in processes of their own and stops runs, for the web application and for coding agents.

In: validated arguments of `proctor run`. Out: a process, and files by which another server finds it again.
`allowed_targets.py` says which targets may be called by name. `stop_run.py` stops runs of
any process. Start with `processes.py`.
"""

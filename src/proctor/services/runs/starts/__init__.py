"""Starts runs in processes of their own, for the web application and for coding agents.

In: validated arguments of `proctor run`. Out: a process, and files by which another server finds it again.
`allowed_targets.py` says which targets may be called by name. Start with `processes.py`.
"""

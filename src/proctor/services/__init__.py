"""The wiring: the only package that combines dialects, targets, graders, stores and reports.

In: what the command line and the web application request. Out: stored runs, records for reports and pages.
Start with `runs/execution/session.py`, which runs one request from start to end.
"""

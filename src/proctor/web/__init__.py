"""The web application: pages and an HTTP API over the store that the command line uses.

In: HTTP requests for one `Project`, a folder and its store. Out: pages, JSON and event streams.
Start with `app.py`, the tables of pages and of the API behind `security.py`; `server.py` binds and serves.
`pages/` answers browsers, `api/` programs, `runs/` reads the form of a run, and `tasks.py` does
what takes seconds.
"""

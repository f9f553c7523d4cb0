"""The pages for browsers; each module has the routes of one page.

In: a request. Out: HTML from a template of `web/templates/`. `proctor.web.app` has the table of pages.
Start reading with `suites.py`, a list, or `run.py`, the page of a run.
"""

"""The catalogue beside a store: trials of many runs, for lists and searches of the pages.

In: filters and a page. Out: rows. It is derived from the store and can be deleted at any time.
Start with `database.py`.
"""

"""The catalogue beside a store: rows for trials of many runs, for the lists and searches of the web pages.

In: filters and a page. Out: rows. It is derived from the store and can be deleted at any time. Start with
`database.py`.
"""

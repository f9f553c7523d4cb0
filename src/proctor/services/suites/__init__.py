"""Suites: found, loaded, checked, converted, split, saved and uploaded.

In: the word a user gives for a suite. Out: a `Suite` with its digest and problems. Start with `load.py`.
"""

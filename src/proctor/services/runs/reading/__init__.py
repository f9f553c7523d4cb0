"""Reads stored runs for lists, pages, reports and estimates.

In: a store and the name of a run. Out: records for reports and pages.
"""

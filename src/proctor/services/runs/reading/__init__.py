"""Reads stored runs for lists, pages, reports and estimates.

In: a store and the name of a run. Out: records for reports and pages. `report.py` reads a run with its
trials, `case_detail.py` one case of it, `history.py` earlier runs of a target, `estimate.py` what a run will
take; `totals.py` keeps what is counted, `trial_table.py` filters and searches. Start with `report.py`.
"""

"""Drift of a target over time as a document, JSON and a chart.

In: the result of the drift detector. Out: blocks or text. Start with `report.py`.
"""

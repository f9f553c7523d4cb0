"""Drift of a target over time as text, Markdown, JSON and a chart.

In: the result of the drift detector. Out: text. Start with `text.py`.
"""

"""Drift of a target over time as text, Markdown, JSON and a chart.

In: what the detector found. Out: text. Start with `text.py`.
"""

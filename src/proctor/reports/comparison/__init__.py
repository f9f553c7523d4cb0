"""Comparisons of runs as documents, JSON and a chart.

In: a `Comparison`. Out: blocks or text. `sentences.py` has the words that all forms share; start with
`report.py`.
"""

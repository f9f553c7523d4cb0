"""Comparisons of runs as text, Markdown, JSON and a chart.

In: a `Comparison`. Out: text. `sentences.py` has the words that all forms share; start with `text.py`.
"""

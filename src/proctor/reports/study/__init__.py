"""Plans of comparisons as documents and JSON.

In: a `StudyReport`. Out: blocks or text. Start with `report.py`.
"""

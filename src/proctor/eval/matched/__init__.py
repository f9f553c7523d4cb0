"""`MatchedBaseComparison`: two rollouts compared on the same tasks.

In: rows of graded tasks, of a baseline and a candidate. Out: counts, paired tests, a report and a chart.
Start with `comparison.py`.
"""

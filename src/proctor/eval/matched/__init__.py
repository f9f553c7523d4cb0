"""`MatchedComparison`: arms compared on the same questions.

In: rows with an arm and a question each. Out: paired tests and a report. Start with `comparison.py`.
"""

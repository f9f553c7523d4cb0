"""pass@k and pass^k: from counts of right answers to estimates with intervals.

In: counts or files of graded answers. Out: estimates and tables. Start with `estimators.py`;
`result.py` holds the estimates, `files.py` reads answers.
"""

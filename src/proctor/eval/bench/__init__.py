"""`Bench`: calls to models, measured and kept as JSON Lines.

In: prompts and a function that answers them. Out: calls, statistics, tables and charts.
Start with `bench.py`.
"""

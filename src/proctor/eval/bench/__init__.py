"""`Bench`: calls to models, measured and kept as JSON Lines.

In: prompts and a function that answers them. Out: calls, tables and statistics. Start with `bench.py`.
"""

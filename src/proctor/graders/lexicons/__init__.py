"""Words by which answers refuse, hedge or abstain, in six languages.

In: an answer. Out: whether it refuses or hedges, and where. Start with `matcher.py`.
"""

"""Words by which answers refuse, hedge or abstain, in six languages.

In: an answer. Out: the words that show it, or None. Words and patterns are in TOML files, which `files.py`
reads; the searches are in Python: `matcher.py` (refusals; start here), `hedging.py` and `abstention.py`.
"""

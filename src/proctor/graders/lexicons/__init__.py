"""Words by which answers refuse, hedge or abstain, in six languages.

In: an answer. Out: the words by which it does, or None. Words and patterns are TOML, which `files.py` reads;
what is done with them is Python: `matcher.py` (refusals; start here), `hedging.py` and `abstention.py`.
"""

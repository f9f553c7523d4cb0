"""Graders for numbers in prose.

In: a text. Out: the quantities that it states, with units and bounds, compared with the expected one.
`mentions.py` finds numbers, `quantities.py` reads them; start with `graders.py`.
"""

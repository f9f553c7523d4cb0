"""Lint rules for suites. Pure.

In: the cases of a suite with their lines, and a function that grades a text. Out: findings, each with a code.
`linter.py` runs all rules over a suite; each other file is one family of them, such as `contradictions.py`.
Start reading with `linter.py`, which has the table of codes.
"""

"""Dialect agentv: YAML and JSON Lines evaluation files for agents.

In: the text of a suite and of the files it names. Out: a `Suite`, or problems with file and line.
`read/` turns files into suites, `write/` turns suites into files; `dialect.py` is the entry point of both.
Start with `read/suite.py`.
"""

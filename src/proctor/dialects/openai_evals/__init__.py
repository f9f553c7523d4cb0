"""Dialect openai_evals: rows of OpenAI's evals, and the registry that names them.

In: JSON Lines of rows, or YAML of a registry. Out: a `Suite`.
`suite.py` reads rows, `classes.py` how a class compares answers. Start with `dialect.py`.
"""

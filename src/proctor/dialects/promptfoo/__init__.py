"""Dialect promptfoo: configuration files, test files and CSV of promptfoo.

In: YAML, JSON or CSV. Out: a `Suite`.
`reader.py` reads the document, `cases.py` its tests, `assertions.py` what grades them.
Start with `reader.py`.
"""

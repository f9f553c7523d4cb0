"""Dialect meridian: custom suites as JSON Lines or CSV, and the full schema.

In: lines of JSON or CSV. Out: a `Suite`, and back.
`reader.py` reads cases, `expected.py` turns `expected` into assertions, and `writer.py` goes the other way.
Start with `reader.py`.
"""

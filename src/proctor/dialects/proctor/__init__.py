"""Dialect proctor: JSON Lines that can express everything in a suite.

In: JSON Lines. Out: a `Suite`, and back without loss; `schema.py` has the JSON Schema.
Start with `reader.py`.
"""

"""Dialect proctor: JSON Lines that can say everything a suite can hold.

In: JSON Lines. Out: a `Suite`, and back without loss; `schema.py` has the JSON Schema.
Start with `reader.py`.
"""

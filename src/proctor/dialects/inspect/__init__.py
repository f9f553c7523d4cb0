"""Dialect inspect: samples of an Inspect dataset.

In: JSON Lines, a JSON array or CSV. Out: a `Suite`.
`samples.py` reads samples, `messages.py` their input. Start with `dialect.py`.
"""

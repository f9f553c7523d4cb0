"""Compares stored runs, and follows them over time.

In: names of runs in a store. Out: a comparison, or the history of a target with its change points.
`compare.py` reads runs for `proctor compare`, `drift.py` for `proctor drift`.
The statistics are in `proctor.comparison` and `proctor.drift`; nothing here computes them.
Start reading with `compare.py`.
"""

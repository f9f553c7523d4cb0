"""Compares stored runs, plans comparisons, and follows runs over time.

In: names of runs in a store. Out: a comparison, the plan of one, or the history of a target with its change
points. `compare.py` reads runs for `proctor compare`, `study_size.py` for `proctor plan`, `drift.py` for
`proctor drift`.
The statistics are in `proctor.comparison` and `proctor.drift`; nothing here computes them.
Start reading with `compare.py`.
"""

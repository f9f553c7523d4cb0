"""Runs of one suite on one target over time: what stayed the same, and since when it did not. Pure.

In: the trials of runs in time order, read by the class in `observations.py`. Out: a `Drift`.
`detector.py` has the verdict and is the place to start; `change_point.py` has the statistics.
"""

"""Detects drift of a target over several runs of one suite. Pure.

In: the trials of runs in time order, read by the class in `observations.py`. Out: a `Drift`.
`detector.py` has the verdict and is the place to start; `change_point.py` has the statistics.
"""

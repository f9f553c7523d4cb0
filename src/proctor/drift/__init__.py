"""Runs of one suite on one target over time: what stayed the same, and since when it did not. Pure.

`Seeing` reads the trials of one run, `drift` compares the runs, and `Drift` is what came of it.
"""

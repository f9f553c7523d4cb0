"""Stored runs compared, and followed over time.

In: names of runs in a store. Out: a `Comparison`, or the history of a target with its change points.
"""

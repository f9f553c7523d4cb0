"""Runs as signed bundles: written, verified, imported, replayed.

In: a run in a store, or a bundle's file. Out: a bundle, or what checking it showed.
Start with `attest.py` and `verify.py`.
"""

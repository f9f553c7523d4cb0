"""Targets put to the test: what `proctor certify --target` asks them.

In: a target. Out: the result of each check.
"""

"""Checks targets for `proctor certify --target`.

In: a target. Out: the result of each check.
"""

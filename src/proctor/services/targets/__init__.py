"""Checks targets for `proctor certify --target`.

In: a target. Out: the replies to the questions of `proctor.conformance`, and the result of each check.
Start reading with `conformance.py`, which sends the questions.
"""

"""The 14 conformance checks of a target. Pure.

In: a seed, and the replies to the questions. Out: the result of each check, and a score. `checks.py` has the
questions, built from the words of `vocabulary.py`; `expectations.py` decides whether replies are right;
`scoring.py` counts. Start reading with `checks.py`.
"""

from proctor.conformance.checks import CHECKS, ConformanceCheck, make_checks
from proctor.conformance.expectations import Question, Reply
from proctor.conformance.scoring import (
    GUARD_CHECKS,
    INTERVAL_ROUNDS,
    MIN_PASS_SHARE,
    CheckOutcome,
    CheckVerdict,
    Conformance,
    join_rounds,
    score_checks,
)

__all__ = [
    "CHECKS",
    "GUARD_CHECKS",
    "INTERVAL_ROUNDS",
    "MIN_PASS_SHARE",
    "CheckOutcome",
    "CheckVerdict",
    "Conformance",
    "ConformanceCheck",
    "Question",
    "Reply",
    "join_rounds",
    "make_checks",
    "score_checks",
]

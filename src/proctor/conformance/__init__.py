"""The 14 checks of a target. In: a seed, and the replies to the questions. Out: the score. Pure.

`checks` has the questions, with the words and texts of `vocabulary`; `expectations` says what a right reply
is; `scoring` counts. Start with `checks.py`.
"""

from proctor.conformance.checks import CHECKS, Check, checks
from proctor.conformance.expectations import Question, Reply
from proctor.conformance.scoring import BAR, GUARDS, Checked, CheckVerdict, Conformance, conformance

__all__ = [
    "BAR",
    "CHECKS",
    "GUARDS",
    "Check",
    "CheckVerdict",
    "Checked",
    "Conformance",
    "Question",
    "Reply",
    "checks",
    "conformance",
]

"""The 14 conformance checks of a target. In: a seed, and the replies to the questions. Out: a score. Pure.

`checks` has the questions, built from the words of `vocabulary`; `expectations` decides whether replies are
right; `scoring` counts. Start with `checks.py`.
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

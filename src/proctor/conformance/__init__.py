"""The 14 checks of a target: what is asked, what a right reply is, and what counts of it all. Pure.

`asking` has the questions, of the words and texts in `wording`, `rules` what a right reply is, and `counting`
the score.
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

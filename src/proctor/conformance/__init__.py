"""The 14 checks of a target: what is asked, what a right reply is, and what counts of it all. Pure.

`asking` has the questions, of the words and texts in `wording`, `rules` what a right reply is, and `counting`
the score.
"""

from proctor.conformance.asking import CHECKS, Check, checks
from proctor.conformance.counting import BAR, GUARDS, Checked, CheckVerdict, Conformance, conformance
from proctor.conformance.rules import Question, Reply

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

"""Graded prompts: checks of one answer, and suites of prompts with a check each.

In: prompts, checks and answers. Out: whether each answer passes and why. `checks.py` checks one answer;
`suite.py` reads a file of prompts and scores the answers to it.
"""

from proctor.eval.graded.checks import (
    CHECK_KINDS,
    CheckKind,
    CheckResult,
    CheckSpec,
    Rubric,
    extract_last_json,
    score_answer,
)
from proctor.eval.graded.suite import GradedPrompt, GradedPromptSuite, PromptResult, SuiteScore
from proctor.graders.lexicons.hedging import HEDGE_PHRASES

__all__ = [
    "CHECK_KINDS",
    "HEDGE_PHRASES",
    "CheckKind",
    "CheckResult",
    "CheckSpec",
    "GradedPrompt",
    "GradedPromptSuite",
    "PromptResult",
    "Rubric",
    "SuiteScore",
    "extract_last_json",
    "score_answer",
]

"""What a trial came to, and why, as briefly as the first line of a page has it. Pure."""

from __future__ import annotations

from proctor.model import Score, Trial, Verdict
from proctor.plurals import counted
from proctor.reports.runs.serialize import Row, why
from proctor.safe_text import cut
from proctor.verdicts import is_below_gate, score_of

SAID = {"pass": "passed", "fail": "failed", "error": "error", "unscored": "unscored"}
"""Each verdict as a word of a sentence."""
_REASON = 100
"""So many letters of a reason are told."""


def briefly(row: Row) -> str:
    """The verdict, and the one reason that decided it: `failed: contains: … (required), and 1 more`."""
    said = SAID[row.verdict.value]
    if row.sealed:
        return f"{said}; question, answer and reasons are sealed"
    if row.verdict is Verdict.PASS:
        return f"{said}: {_passed(row.trial)}"
    return f"{said}: {because(row.trial)}"


def because(trial: Trial) -> str:
    """Why a trial did not pass: its failure, or the first score that is below its gate, or else missed."""
    missed = [score for score in trial.scores if score.outcome is not Verdict.PASS]
    gates = [score for score in trial.scores if is_below_gate(score)]
    first = next(iter((*gates, *missed)), None)
    if trial.failure is not None or first is None:
        return cut(why(trial), _REASON)
    more = len({id(score) for score in (*gates, *missed)}) - 1
    required = " (required)" if gates else ""
    return f"{_missed(first)}{required}" + (f", and {more:,} more" if more else "")


def _missed(score: Score) -> str:
    reason = cut(score.reason, _REASON).rstrip(".")
    return cut(f"{score.name}: {reason or score.outcome.value}", 2 * _REASON)


def _passed(trial: Trial) -> str:
    """How many checks passed; a case can pass with some that did not."""
    checks = len(trial.scores)
    passed = sum(score.outcome is Verdict.PASS for score in trial.scores)
    if passed < checks:
        told = f"{passed:,} of {counted(checks, 'check')}"
    else:
        told = "its only check" if checks == 1 else f"all {counted(checks, 'check')}"
    mean = score_of(trial)
    return told if mean is None else f"{told}, score {mean:.2f}"

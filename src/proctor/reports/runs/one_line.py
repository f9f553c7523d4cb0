"""Summarizes the verdict of a trial in one line, for the top of a page. Pure."""

from __future__ import annotations

from proctor.model import Score, Trial, Verdict
from proctor.plurals import counted
from proctor.reports.runs.serialize import Row, why
from proctor.safe_text import cut
from proctor.verdicts import is_below_gate, score_of

SAID = {"pass": "passed", "fail": "failed", "error": "error", "unscored": "unscored"}
"""The verdicts as words in a sentence."""
_MAX_REASON_LENGTH = 100
"""Maximum length of a reason."""


def briefly(row: Row) -> str:
    """Returns the verdict with its main reason: `failed: contains: … (required), and 1 more`."""
    word = SAID[row.verdict.value]
    if row.sealed:
        return f"{word}; question, answer and reasons are sealed"
    if row.verdict is Verdict.PASS:
        return f"{word}: {_passed(row.trial)}"
    return f"{word}: {because(row.trial)}"


def because(trial: Trial) -> str:
    """Returns why a trial did not pass: its failure, else the first score below its gate, else not passed."""
    missed = [score for score in trial.scores if score.outcome is not Verdict.PASS]
    gates = [score for score in trial.scores if is_below_gate(score)]
    first = next(iter((*gates, *missed)), None)
    if trial.failure is not None or first is None:
        return cut(why(trial), _MAX_REASON_LENGTH)
    more = len({id(score) for score in (*gates, *missed)}) - 1
    required = " (required)" if gates else ""
    return f"{_missed(first)}{required}" + (f", and {more:,} more" if more else "")


def _missed(score: Score) -> str:
    reason = cut(score.reason, _MAX_REASON_LENGTH).rstrip(".")
    return cut(f"{score.name}: {reason or score.outcome.value}", 2 * _MAX_REASON_LENGTH)


def _passed(trial: Trial) -> str:
    """Returns how many checks passed; a case can pass although some did not."""
    checks = len(trial.scores)
    passed = sum(score.outcome is Verdict.PASS for score in trial.scores)
    if passed < checks:
        checks_text = f"{passed:,} of {counted(checks, 'check')}"
    else:
        checks_text = "its only check" if checks == 1 else f"all {counted(checks, 'check')}"
    mean = score_of(trial)
    return checks_text if mean is None else f"{checks_text}, score {mean:.2f}"

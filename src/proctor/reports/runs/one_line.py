"""Summarizes the verdict of a trial in one line, for the top of a page. Pure."""

from __future__ import annotations

from proctor.model import Score, Trial, Verdict
from proctor.plurals import pluralize
from proctor.reports.runs.serialize import TrialResult, failure_reason
from proctor.safe_text import truncate
from proctor.verdicts import is_below_gate, trial_score

VERDICT_WORDS = {"pass": "passed", "fail": "failed", "error": "error", "unscored": "unscored"}
"""The verdicts as words in a sentence."""
_MAX_REASON_LENGTH = 100
"""Maximum length of a reason."""
_MAX_QUOTE_START = 12
"""The number of characters by which a quoted answer is recognized."""


def summarize_verdict(row: TrialResult) -> str:
    """Returns the verdict with its main reason: `failed contains: … (required), and 1 more`."""
    word = VERDICT_WORDS[row.verdict.value]
    if row.sealed:
        return f"{word}; prompt, answer and reasons are hidden (holdout)"
    if row.verdict is Verdict.PASS:
        return f"{word}: {_passed_checks(row.trial)}"
    has_check = row.verdict is Verdict.FAIL and _first_missed(row.trial) is not None
    return f"{word} {first_reason(row.trial)}" if has_check else f"{word}: {first_reason(row.trial)}"


def first_reason(trial: Trial) -> str:
    """Returns why a trial has no PASS: its failure, its first failed gate, or its first failed score."""
    missed = [score for score in trial.scores if score.outcome is not Verdict.PASS]
    gates = [score for score in trial.scores if is_below_gate(score)]
    first = _first_missed(trial)
    if first is None:
        return truncate(failure_reason(trial), _MAX_REASON_LENGTH)
    more = len({id(score) for score in (*gates, *missed)}) - 1
    required = " (required)" if gates else ""
    reason = (
        truncate(_without_answer(first.reason, trial), _MAX_REASON_LENGTH).rstrip(".") or first.outcome.value
    )
    text = truncate(f"{first.name}: {reason or first.outcome.value}", 2 * _MAX_REASON_LENGTH)
    return f"{text}{required}" + (f", and {more:,} more" if more else "")


def _without_answer(reason: str, trial: Trial) -> str:
    """Returns a reason without the answer that it quotes at its end."""
    start = "" if trial.output is None else trial.output.text.lstrip()[:_MAX_QUOTE_START]
    at = reason.find(f": '{start}") if start else -1
    return reason[:at] if at > 0 else reason


def _first_missed(trial: Trial) -> Score | None:
    """Returns the score that is the reason, one below its gate before others; None without one."""
    if trial.failure is not None:
        return None
    missed = [score for score in trial.scores if score.outcome is not Verdict.PASS]
    return next((score for score in trial.scores if is_below_gate(score)), next(iter(missed), None))


def _passed_checks(trial: Trial) -> str:
    """Returns how many checks passed; a case can pass although some did not."""
    checks = len(trial.scores)
    passed = sum(score.outcome is Verdict.PASS for score in trial.scores)
    if passed < checks:
        checks_text = f"{passed:,} of {pluralize(checks, 'check')}"
    else:
        checks_text = "its only check" if checks == 1 else f"all {pluralize(checks, 'check')}"
    mean = trial_score(trial)
    return checks_text if mean is None else f"{checks_text}, score {mean:.2f}"

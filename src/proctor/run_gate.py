"""Decides the gate of a run, `--min-pass-rate`, and from it the exit code. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from proctor.errors import ExitCode
from proctor.model import Settings
from proctor.stats import reaches
from proctor.verdicts import Counts, sequence_best_count


class GateDecision(StrEnum):
    """Whether a gate is known to hold."""

    SHOWN = "shown"
    NOT_SHOWN = "not shown"
    RULED_OUT = "ruled out"


def is_measured(counts: Counts, settings: Settings) -> bool:
    """Returns whether no more trials are ERROR or UNSCORED than the settings allow, and not all of them."""
    return counts.unmeasured <= settings.allow_errors and not counts.total == counts.unmeasured > 0


def gate_range(counts: Counts, settings: Settings) -> tuple[float, float] | None:
    """Returns the lowest and the highest pass rate that a gate must reckon with; None if none was measured.

    Unmeasured trials have failed for the lowest and passed for the highest. In the mode `point` these are the
    rates themselves; in the mode `interval` the ends of their exact 95 % intervals, or of their confidence
    sequences if the run could stop by what it showed.

    Args:
        counts: the result counts of the run.
        settings: its settings.
    """
    bounds = counts.bounds
    if bounds is None or not counts.cases:
        return None
    if settings.gate_mode == "point":
        return bounds
    if settings.is_watched:
        is_set = counts.best_count is not None
        return counts.ci95 if is_set else counts.sequence_range(sequence_best_count(settings))
    low, high = (counts.resolved(passed=passed).exact95 for passed in (False, True))
    return (low or bounds)[0], (high or bounds)[1]


def decide_gate(low: float, high: float, bar: float) -> GateDecision:
    """Returns whether a gate holds whatever the pass rate is within a range."""
    if reaches(low, bar):
        return GateDecision.SHOWN
    return GateDecision.NOT_SHOWN if reaches(high, bar) else GateDecision.RULED_OUT


def decide_run_gate(counts: Counts, settings: Settings) -> GateDecision:
    """Returns whether the gate of a finished run holds; without a gate, one at 0."""
    ends = gate_range(counts, settings)
    return GateDecision.NOT_SHOWN if ends is None else decide_gate(*ends, settings.min_pass_rate or 0.0)


_GATE_CODES = {
    GateDecision.SHOWN: ExitCode.OK,
    GateDecision.NOT_SHOWN: ExitCode.NOT_MEASURED,
    GateDecision.RULED_OUT: ExitCode.FAILED,
}


def run_exit_code(counts: Counts, settings: Settings) -> ExitCode:
    """Returns the exit code of a finished run; unmeasured trials outrank failed ones.

    A gate that is not decided is NOT_MEASURED; see `gate_range`.
    """
    if not is_measured(counts, settings):
        return ExitCode.NOT_MEASURED
    if settings.min_pass_rate is None:
        return ExitCode.FAILED if counts.failed else ExitCode.OK
    return _GATE_CODES[decide_run_gate(counts, settings)]


_SEVERITY = (
    ExitCode.OK,
    ExitCode.NOTHING_SELECTED,
    ExitCode.FAILED,
    ExitCode.NOT_MEASURED,
    ExitCode.USAGE,
    ExitCode.INTERRUPTED,
)


def worst_exit_code(codes: Iterable[ExitCode]) -> ExitCode:
    """Returns the most severe of the exit codes of several runs."""
    return max(codes, key=_SEVERITY.index, default=ExitCode.OK)

"""The exit code of a comparison, for gates in CI."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from proctor.comparison.compare import Comparison
from proctor.errors import ExitCode


class GateRule(Struct, frozen=True, kw_only=True):
    """What a gate requires of a comparison."""

    max_regression: float = 0.0
    """How much worse the candidate may be, as a fraction of 1."""
    strict: bool = False
    """Whether to fail unless a larger regression is ruled out, instead of only if one is shown."""
    allow_errors: int = 0
    """The maximum number of pairs with an ERROR or UNSCORED trial."""
    partial: bool = False
    """Whether to compare runs of which one has trials that the other does not have."""


def gate_exit_code(comparison: Comparison, rule: GateRule) -> ExitCode:
    """Returns the exit code of the gate.

    NOTHING_SELECTED without any pair; NOT_MEASURED when a run is not finished, when either has trials that
    the other has not, unless `partial`, when more pairs are ERROR or UNSCORED than allowed, or all of them,
    and when these could decide the gate either way; FAILED when the upper end of the interval is below the
    largest regression that may be, or with `strict` unless its lower end is above that; else OK.
    """
    if not comparison.pairs:
        return ExitCode.NOTHING_SELECTED
    if not (comparison.baseline_finished and comparison.candidate_finished):
        return ExitCode.NOT_MEASURED
    if comparison.unpaired.is_partial and not rule.partial:
        return ExitCode.NOT_MEASURED
    whole = comparison.whole
    if whole.ci95 is None or whole.unmeasured > rule.allow_errors or not is_decided(comparison, rule):
        return ExitCode.NOT_MEASURED
    return ExitCode.OK if _is_held(whole.ci95, rule) else ExitCode.FAILED


def is_decided(comparison: Comparison, rule: GateRule) -> bool:
    """Returns whether the gate is the same whatever the unmeasured pairs would have been."""
    intervals = [scenario.ci95 for scenario in comparison.whole.scenarios]
    return len({_is_held(ci95, rule) for ci95 in intervals if ci95 is not None}) <= 1


def _is_held(ci95: tuple[float, float], rule: GateRule) -> bool:
    return ci95[0] > -rule.max_regression if rule.strict else ci95[1] >= -rule.max_regression


def ungated_exit_code(comparisons: Sequence[Comparison]) -> ExitCode:
    """Returns the exit code without a gate: whether any of the comparisons has measured pairs."""
    if any(comparison.whole.pairs for comparison in comparisons):
        return ExitCode.OK
    if any(comparison.pairs for comparison in comparisons):
        return ExitCode.NOT_MEASURED
    return ExitCode.NOTHING_SELECTED

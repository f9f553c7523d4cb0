"""The difference of two runs' latencies, with an interval only if they called their targets in turns. Pure.

All calls of one run share the conditions of its hour: the load of the server, of the network and of this
machine. Runs one after the other therefore differ by more than the spread of their calls tells, and an
interval over cases would exclude 0 for equal targets. Calls for one case that are made in turns share their
conditions, so that the differences of cases are independent: docs/latency.md has the figures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from msgspec.structs import asdict, replace

from proctor.comparison.differences import MetricDifference, metric_difference, paired_means
from proctor.comparison.outcomes import TrialOutcome
from proctor.comparison.pairing import Pair, PairedCase
from proctor.model import Run
from proctor.stats import quantile

MAX_TURN_GAP_S = 60.0
"""How long after the end of the first call of a pair the second one may begin to be in turn.

In turns it begins when a place is free, which is at the latest when the first call ends. The calls of a pair
that one session made before, and the other after an interruption, are further apart.
"""


Metric = Callable[[TrialOutcome], float | None]
"""Returns the latency or the speed of an outcome; None if it was not measured in its run."""


class LatencyDifference(MetricDifference, frozen=True, kw_only=True):
    """The latencies of both runs, in milliseconds, or their tokens per second.

    Intervals are None unless the runs were interleaved.
    """

    baseline_median: float
    """The median over cases."""
    candidate_median: float
    interleaved: bool
    """Whether both runs called their targets in turns; then only pairs that were called in turn count."""
    out_of_turn: int = 0
    """The number of pairs left out as their calls were too far apart; 0 unless interleaved."""


def latency_difference(
    cases: Iterable[PairedCase], before: Run, after: Run, metric: Metric = lambda outcome: outcome.latency_ms
) -> tuple[LatencyDifference | None, int]:
    """Returns the difference of the latencies, and how many pairs lack one that was measured in its run.

    Args:
        cases: the paired cases.
        before: the baseline.
        after: the candidate.
        metric: what is compared in place of the latency, such as the time to the first token.

    Returns:
        None instead of the difference if no pair has both latencies.
    """
    measured, left_out = _split_pairs(cases, lambda pair: None not in map(metric, pair))
    if are_interleaved(before, after):
        in_turn, out_of_turn = _split_pairs(measured, _is_in_turn)
        difference = metric_difference(in_turn, metric)
        if difference is not None:
            medians = _medians(in_turn, metric)
            return _with_medians(difference, medians, interleaved=True, out_of_turn=out_of_turn), left_out
    difference = metric_difference(measured, metric)
    if difference is None:
        return None, left_out
    difference = replace(difference, ci95=None, median_ci95=None)
    return _with_medians(difference, _medians(measured, metric), interleaved=False), left_out


def are_interleaved(before: Run, after: Run) -> bool:
    """Returns whether two runs of one suite called their targets in turns."""
    return (
        before.settings.interleave
        and after.settings.interleave
        and before.id != after.id
        and before.group == after.group
        and before.suite.digest == after.suite.digest
    )


def _medians(cases: Sequence[PairedCase], metric: Metric) -> tuple[float, float]:
    """Returns the median over cases of both runs; there is at least one case."""
    before, after, _ = paired_means(cases, metric)
    medians = quantile(sorted(before), 0.5), quantile(sorted(after), 0.5)
    assert medians[0] is not None
    assert medians[1] is not None
    return medians[0], medians[1]


def _with_medians(
    difference: MetricDifference, medians: tuple[float, float], *, interleaved: bool, out_of_turn: int = 0
) -> LatencyDifference:
    return LatencyDifference(
        **asdict(difference),
        baseline_median=medians[0],
        candidate_median=medians[1],
        interleaved=interleaved,
        out_of_turn=out_of_turn,
    )


def _split_pairs(
    cases: Iterable[PairedCase], matches: Callable[[Pair], bool]
) -> tuple[list[PairedCase], int]:
    """Returns the cases with their measured pairs that match, and the number of those that do not."""
    matching, n_unmatched = list[PairedCase](), 0
    for case in cases:
        measured = [pair for pair in case.pairs if pair[0].is_measured and pair[1].is_measured]
        pairs = tuple([pair for pair in measured if matches(pair)])
        n_unmatched += len(measured) - len(pairs)
        if pairs:
            matching.append(replace(case, pairs=pairs))
    return matching, n_unmatched


def _is_in_turn(pair: Pair) -> bool:
    before, after = pair[0].call_s, pair[1].call_s
    if before is None or after is None:
        return False
    return max(before[0], after[0]) - min(before[1], after[1]) <= MAX_TURN_GAP_S

"""The difference of two runs' latencies, with an interval only if they called their targets in turns. Pure.

All calls of one run share the conditions of its hour: the load of the server, of the network and of this
machine. Runs one after the other therefore differ by more than the spread of their calls tells, and an
interval over cases would exclude 0 for equal targets. Calls for one case that are made in turns share their
conditions, so that the differences of cases are independent; docs/guides/compare-latencies.md has figures.
"""

from __future__ import annotations

from msgspec.structs import asdict

from proctor.comparison.differences import Metric, MetricDifference, MetricPairs
from proctor.comparison.pairing import Pair, PairedCase
from proctor.model import Run

MAX_TURN_GAP_S = 60.0
"""How long after the end of the first call of a pair the second one may begin to be in turn.

In turns it begins when a place is free, which is at the latest when the first call ends. The calls of a pair
that one session made before, and the other after an interruption, are further apart.
"""


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


class LatencyPairs:
    """The latencies of paired cases."""

    def __init__(self, before: Run, after: Run, metric: Metric = lambda outcome: outcome.latency_ms) -> None:
        """Starts without cases.

        Args:
            before: the baseline.
            after: the candidate.
            metric: what is compared in place of the latency, such as the time to the first token.
        """
        self._metric = metric
        self._interleaved = are_interleaved(before, after)
        self._measured, self._in_turn = MetricPairs(), MetricPairs()
        self._out_of_turn = 0
        self.left_out = 0
        """The number of measured pairs that lack a latency that was measured in its run."""

    def add(self, case: PairedCase) -> None:
        """Adds a case."""
        metric = self._metric
        values, values_in_turn = list[tuple[float, float]](), list[tuple[float, float]]()
        for baseline, candidate in case.pairs:
            if not (baseline.is_measured and candidate.is_measured):
                continue
            before, after = metric(baseline), metric(candidate)
            if before is None or after is None:
                self.left_out += 1
                continue
            values.append((before, after))
            if self._interleaved:
                if _is_in_turn((baseline, candidate)):
                    values_in_turn.append((before, after))
                else:
                    self._out_of_turn += 1
        if values:
            self._measured.add(values, case.cluster)
        if values_in_turn:
            self._in_turn.add(values_in_turn, case.cluster)

    def difference(self) -> LatencyDifference | None:
        """Returns the difference of the latencies; None if no pair has both."""
        is_in_turn = len(self._in_turn) > 0
        pairs = self._in_turn if is_in_turn else self._measured
        difference = pairs.difference(has_intervals=is_in_turn)
        if difference is None:
            return None
        medians = pairs.medians()
        return LatencyDifference(
            **asdict(difference),
            baseline_median=medians[0],
            candidate_median=medians[1],
            interleaved=is_in_turn,
            out_of_turn=self._out_of_turn if is_in_turn else 0,
        )


def are_interleaved(before: Run, after: Run) -> bool:
    """Returns whether two runs of one suite called their targets in turns."""
    return (
        before.settings.interleave
        and after.settings.interleave
        and before.id != after.id
        and before.group == after.group
        and before.suite.digest == after.suite.digest
    )


def _is_in_turn(pair: Pair) -> bool:
    before, after = pair[0].call_s, pair[1].call_s
    if before is None or after is None:
        return False
    return max(before[0], after[0]) - min(before[1], after[1]) <= MAX_TURN_GAP_S

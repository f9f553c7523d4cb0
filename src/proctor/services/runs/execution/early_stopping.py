"""Decides when a run has shown enough to stop: `--until` and `--stop-when-shown`."""

from __future__ import annotations

from collections import deque

from msgspec.structs import replace

from proctor.model import Case, EarlyStop, Run, StopReason, Trial, Verdict
from proctor.plan import count_repeats
from proctor.run_gate import GateDecision, decide_run_gate, gate_range
from proctor.verdicts import (
    NO_TRIALS,
    CaseRepeats,
    Counts,
    add_to_shape,
    pass_rules_for,
    sequence_best_count,
)

_CHECK_SHARE = 100
"""After this many cases, a check comes whenever their number has grown by 1 in this many."""
_GATE_REASONS: dict[GateDecision, StopReason] = {
    GateDecision.SHOWN: "shown",
    GateDecision.RULED_OUT: "ruled out",
}


class EarlyStopping:
    """Counts the cases of a run in the order in which they are sent, and reports when they show enough.

    A confidence sequence is valid for cases in random order. The order in which cases finish is not random,
    because fast answers may belong to easy cases. So a finished case waits for all cases that were sent
    before it.
    """

    def __init__(self, run: Run, planned_cases: int) -> None:
        """Starts without cases.

        Args:
            run: the run, with the settings that say when it stops.
            planned_cases: the number of cases that it would send.
        """
        self._settings = run.settings
        self._repeats_rule = run.suite.repeats_rule
        self._rules = pass_rules_for(run)
        self._planned_cases = planned_cases
        self._waiting: deque[int] = deque()
        """The positions of the cases that were sent and are not counted, in this order."""
        self._shapes: dict[int, str] = {}
        self._repeats: dict[int, CaseRepeats] = {}
        self._whole: set[int] = set()
        self._counts = Counts(best_count=sequence_best_count(run.settings))
        self._cases = 0
        self._next_check = 1
        self.result: EarlyStop | None = None
        """The result at the time of the stop, after which no further case is sent; None before that."""

    def expect(self, position: int) -> None:
        """Notes that the case at a position is the next one that is sent."""
        if not self._waiting or self._waiting[-1] != position:
            self._waiting.append(position)

    def add(self, trial: Trial, case: Case, verdict: Verdict) -> None:
        """Counts a finished trial; see `result` for what is known then."""
        position = trial.position
        if position not in self._repeats:
            self._repeats[position] = CaseRepeats(self._rules(case))
        repeats = self._repeats[position]
        repeats.add(trial, verdict)
        self._shapes[position] = add_to_shape(self._shapes.get(position, NO_TRIALS), verdict)
        if len(repeats) < count_repeats(case, self._settings.repeats):
            return
        self._whole.add(position)
        while self._waiting and self._waiting[0] in self._whole:
            self._count_case(self._waiting.popleft())

    def finish(self) -> EarlyStop | None:
        """Returns the result once the calls in flight have ended; None if it is not enough to stop.

        A confidence sequence is valid at all checks at the same time. So the result at the stop remains
        valid, and the last cases can only narrow it: the interval is the intersection of both. If the pass
        rate is outside that intersection, as after many calls in flight, only the last check counts.
        """
        stop = self.result
        if stop is None or stop.cases == self._cases:
            return stop
        last, rate = self._describe(stop.reason), self._counts.pass_rate
        if stop.interval is None or last.interval is None or rate is None:
            return last
        low, high = max(stop.interval[0], last.interval[0]), min(stop.interval[1], last.interval[1])
        if not low <= rate <= high:
            return last
        return replace(
            last,
            interval=(low, high),
            gate_range=(low, high) if self._settings.gate_mode == "interval" else last.gate_range,
        )

    def _count_case(self, position: int) -> None:
        self._whole.discard(position)
        shape, repeats = self._shapes.pop(position), self._repeats.pop(position)
        if self._repeats_rule != "each":
            shape = add_to_shape(NO_TRIALS, repeats.verdict(self._repeats_rule))
        self._counts.shapes[shape] = self._counts.shapes.get(shape, 0) + 1
        self._cases += 1
        if self.result is None and self._next_check <= self._cases < self._planned_cases:
            self._next_check = self._cases + max(1, self._cases // _CHECK_SHARE)
            self.result = self._check()

    def _check(self) -> EarlyStop | None:
        settings, interval = self._settings, self._counts.ci95
        reason: StopReason | None = None
        if settings.stop_when_shown and settings.min_pass_rate is not None:
            reason = _GATE_REASONS.get(decide_run_gate(self._counts, settings))
        if reason is None and interval is not None and settings.until is not None:
            reason = "until" if (interval[1] - interval[0]) / 2 <= settings.until else None
        return None if reason is None else self._describe(reason)

    def _describe(self, reason: StopReason) -> EarlyStop:
        counts = self._counts
        return EarlyStop(
            reason=reason,
            cases=self._cases,
            planned_cases=self._planned_cases,
            interval=counts.ci95,
            fixed_interval=_fixed_interval(counts),
            gate_range=gate_range(counts, self._settings) or (0.0, 1.0),
        )


def _fixed_interval(counts: Counts) -> tuple[float, float] | None:
    """Returns the interval of a run of fixed size, with unmeasured trials as failed and as passed."""
    if counts.ci95 is None:
        return None
    low, high = (counts.resolved(passed=passed).ci95 for passed in (False, True))
    return None if low is None or high is None else (low[0], high[1])

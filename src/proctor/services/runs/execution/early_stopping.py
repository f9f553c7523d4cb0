"""Decides when a run that is watched knows enough to stop: `--until` and `--stop-when-shown`."""

from __future__ import annotations

from collections import deque

from proctor.model import Case, EarlyStop, Run, StopReason, Trial, Verdict
from proctor.plan import count_repeats
from proctor.verdicts import (
    NO_TRIALS,
    CaseRepeats,
    Counts,
    GateDecision,
    add_to_shape,
    decide_gate,
    gate_range,
    pass_rules_for,
    sequence_range,
)

_CHECK_SHARE = 100
"""After this many cases, a check comes whenever their number has grown by 1 in this many."""
_GATE_REASONS: dict[GateDecision, StopReason] = {
    GateDecision.SHOWN: "shown",
    GateDecision.RULED_OUT: "ruled out",
}


class EarlyStopping:
    """Counts the cases of a run in the order in which they are sent, and says when they show enough.

    A confidence sequence holds for cases in random order. The order in which they finish is none: those that
    are answered fast may be easy ones. So a case that finishes waits for those that were sent before it.
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
        self._counts = Counts()
        self._cases = 0
        self._next_check = 1
        self.result: EarlyStop | None = None
        """What was known when it was enough; None before that."""

    def expect(self, position: int) -> None:
        """Notes that the case at a position is the next one that is sent."""
        if not self._waiting or self._waiting[-1] != position:
            self._waiting.append(position)

    def add(self, trial: Trial, case: Case, verdict: Verdict) -> bool:
        """Counts a finished trial, and returns whether enough is known, for the first time."""
        if self.result is not None:
            return False
        position = trial.position
        if position not in self._repeats:
            self._repeats[position] = CaseRepeats(self._rules(case))
        repeats = self._repeats[position]
        repeats.add(trial, verdict)
        self._shapes[position] = add_to_shape(self._shapes.get(position, NO_TRIALS), verdict)
        if len(repeats) < count_repeats(case, self._settings.repeats):
            return False
        self._whole.add(position)
        while self.result is None and self._waiting and self._waiting[0] in self._whole:
            self._count_case(self._waiting.popleft())
        return self.result is not None

    def _count_case(self, position: int) -> None:
        self._whole.discard(position)
        shape, repeats = self._shapes.pop(position), self._repeats.pop(position)
        if self._repeats_rule != "each":
            shape = add_to_shape(NO_TRIALS, repeats.verdict(self._repeats_rule))
        self._counts.shapes[shape] = self._counts.shapes.get(shape, 0) + 1
        self._cases += 1
        if self._cases >= self._next_check and self._cases < self._planned_cases:
            self._next_check = self._cases + max(1, self._cases // _CHECK_SHARE)
            self.result = self._check()

    def _check(self) -> EarlyStop | None:
        settings, counts = self._settings, self._counts
        interval = None if counts.pass_rate is None else sequence_range(counts, settings)
        low, high = gate_range(counts, settings)
        reason: StopReason | None = None
        if settings.stop_when_shown and settings.min_pass_rate is not None:
            reason = _GATE_REASONS.get(decide_gate(low, high, settings.min_pass_rate))
        if reason is None and interval is not None and settings.until is not None:
            reason = "until" if (interval[1] - interval[0]) / 2 <= settings.until else None
        if reason is None:
            return None
        return EarlyStop(
            reason=reason,
            cases=self._cases,
            planned_cases=self._planned_cases,
            interval=interval,
            fixed_interval=None if interval is None else _fixed_interval(counts),
            gate_range=(low, high),
        )


def _fixed_interval(counts: Counts) -> tuple[float, float] | None:
    """Returns the interval of a run of fixed size, with unmeasured trials as failed and as passed."""
    low, high = (counts.resolved(passed=passed).ci95 for passed in (False, True))
    return None if low is None or high is None else (low[0], high[1])

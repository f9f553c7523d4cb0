"""A run in progress: its splits, its speed and its cost so far."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from time import monotonic

from msgspec import Struct

from proctor.model import Run
from proctor.plan import CaseIndexer
from proctor.plurals import pluralize
from proctor.protocols import Store
from proctor.reports.formatting import cost, seconds
from proctor.reports.runs.splits import split_sizes_line
from proctor.services.runs.reading.run_summaries import RunSummary

_WINDOW_S = 60.0
_MIN_SPAN_S = 1.0
"""A rate over less time than this is not shown."""


def opening_line(store: Store, run: Run) -> str:
    """The first line of a run: `Running custom suite: 8 dev + 2 holdout tests`, or its cases and target.

    Raises:
        StoreError: the store cannot be read.
    """
    if run.suite.split_rule is not None:
        indexer = CaseIndexer(run.settings.selection, run.settings.repeats)
        for stored_case in store.cases(run.suite.content):
            indexer.add(stored_case.case)
        index = indexer.build(run.suite.split_rule, run.seat)
        held_out_count = index.count_held_out()
        line = split_sizes_line(len(index.positions) - held_out_count, held_out_count)
        if line is not None:
            return line
    return f"Running {run.suite.title} on {run.target_title}: {pluralize(run.planned, 'trial')}"


class RunSpeed(Struct, frozen=True):
    """The speed of a run."""

    rate: float
    """Trials per second."""
    remaining_s: float

    @property
    def words(self) -> str:
        """The speed as text, such as `3.2/s · 12 s left`."""
        return f"{self.rate:,.1f}/s · {seconds(self.remaining_s)} left"


class SpeedMeter:
    """Measures the speed of a run from repeated samples."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        """Takes the clock.

        Args:
            clock: returns seconds.
        """
        self._clock = clock
        self._samples: deque[tuple[float, int]] = deque()
        self._speed: RunSpeed | None = None

    def measure(self, done: int, planned: int) -> RunSpeed | None:
        """Adds a sample and returns the speed; None before it can be measured."""
        now = self._clock()
        if self._samples and self._samples[-1][1] == done:
            return self._speed
        self._samples.append((now, done))
        while now - self._samples[0][0] > _WINDOW_S and len(self._samples) > 2:
            self._samples.popleft()
        began, before = self._samples[0]
        if now - began >= _MIN_SPAN_S and done > before:
            rate = (done - before) / (now - began)
            self._speed = RunSpeed(rate, max(0, planned - done) / rate)
        return self._speed


def format_cost_so_far(run_summary: RunSummary) -> str:
    """Returns the cost of a run so far as text, including judges; says where a part is unknown."""
    summary = run_summary.summary
    parts = [summary.cost_usd, *([summary.judge.cost_usd] if summary.judge.calls else [])]
    known_parts = [part for part in parts if part is not None]
    if not run_summary.done:
        return "nothing spent yet"
    if not known_parts:
        return "cost unknown"
    return cost(sum(known_parts)) + (" plus an unknown amount" if len(known_parts) < len(parts) else "")

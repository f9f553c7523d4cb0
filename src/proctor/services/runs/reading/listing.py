"""Lists stored runs with the numbers of each, from the verdict counts of the store."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from proctor.model import Run, Verdict
from proctor.protocols import Store
from proctor.reports.runs.listing import Listed
from proctor.services.runs.reading.report import reported
from proctor.verdicts import Counts


class Filter(Struct, frozen=True, kw_only=True):
    """Which runs are listed; a field that is None or empty matches all."""

    suite: str | None = None
    version: str | None = None
    """The suite's, such as `v2`."""
    target: str | None = None
    tag: str | None = None
    group: str | None = None
    status: str | None = None

    def takes(self, run: Run) -> bool:
        """Whether a run matches."""
        conditions = (
            (self.suite, run.suite.name),
            (self.version, run.suite.version),
            (self.target, run.target.name),
            (self.group, run.group),
            (self.status, run.status),
        )
        return all(not word or word == value for word, value in conditions) and (
            not self.tag or self.tag in run.tags
        )


def fitting(store: Store, run_filter: Filter, after: str | None = None) -> Iterator[Run]:
    """Yields the matching runs, newest first.

    Args:
        store: has the runs.
        run_filter: the filter.
        after: start after the run with this id.
    """
    has_started = not after
    for run in store.runs():
        if has_started and run_filter.takes(run):
            yield run
        has_started = has_started or run.id == after


def listed(store: Store, run: Run) -> Listed:
    """Returns a run with its counts, as lists show it."""
    verdicts = store.counts(run.id)
    counts = Counts()
    if run.suite.repeats_rule == "each":
        counts.passed = verdicts.get(Verdict.PASS, 0)
        counts.failed = verdicts.get(Verdict.FAIL, 0)
        counts.errors = verdicts.get(Verdict.ERROR, 0)
        counts.unscored = verdicts.get(Verdict.UNSCORED, 0)
        counts.cases = store.asked_cases(run.id)
    else:  # whether a case passed depends on all of its trials
        counts = reported(store, run).tally.counted
    trial_count = sum(count for verdict, count in verdicts.items() if verdict is not None)
    return Listed(run=run, counts=counts, there=trial_count)

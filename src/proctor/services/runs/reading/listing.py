"""Lists stored runs with the numbers of each, from their stored totals or the verdict counts of the store."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from proctor.clusters import make_cluster_lookup
from proctor.model import Run
from proctor.protocols import Store
from proctor.reports.runs.listing import RunListEntry
from proctor.services.runs.reading.current_status import iter_current_status
from proctor.services.runs.reading.report import build_report
from proctor.services.runs.reading.totals import load_totals
from proctor.verdicts import Counts, set_intervals


class RunFilter(Struct, frozen=True, kw_only=True):
    """Which runs are listed; a field that is None or empty matches all."""

    suite: str | None = None
    version: str | None = None
    """The suite's, such as `v2`."""
    target: str | None = None
    prompt: str | None = None
    """The name of the prompt."""
    tag: str | None = None
    group: str | None = None
    status: str | None = None

    def matches(self, run: Run) -> bool:
        """Whether a run matches."""
        conditions = (
            (self.suite, run.suite.name),
            (self.version, run.suite.version),
            (self.target, run.target.name),
            (self.prompt, run.prompt_name),
            (self.group, run.group),
            (self.status, run.status),
        )
        return all(not word or word == value for word, value in conditions) and (
            not self.tag or self.tag in run.tags
        )


def find_runs(store: Store, run_filter: RunFilter, after: str | None = None) -> Iterator[Run]:
    """Yields the matching runs, newest first.

    Args:
        store: has the runs.
        run_filter: the filter.
        after: start after the run with this id.
    """
    has_started = not after
    for run in iter_current_status(store, store.runs()):
        if has_started and run_filter.matches(run):
            yield run
        has_started = has_started or run.id == after


def summarize_run(store: Store, run: Run) -> RunListEntry:
    """Returns a run with its counts, as lists show it."""
    totals = load_totals(store, run)
    if totals is not None:
        tally = totals.tally
        return RunListEntry(run=run, counts=tally.result_counts, verdict_count=tally.all.total)
    if run.suite.repeats_rule == "each" and make_cluster_lookup(run.settings.cluster) is None:
        counts = Counts.from_cases(store.count_cases(run.id))
        set_intervals([counts], run)
        return RunListEntry(run=run, counts=counts, verdict_count=counts.total)
    # Whether a case passed depends on all of its trials, and its cluster on the case.
    tally = build_report(store, run).tally
    return RunListEntry(run=run, counts=tally.result_counts, verdict_count=tally.all.total)

"""The state of runs in progress, of one run or of all runs started together, rendered for live pages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from itertools import product
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from proctor.errors import StoreError
from proctor.model import Run
from proctor.plurals import join_names, pluralize
from proctor.protocols import Store
from proctor.reports.formatting import percent
from proctor.services.runs.reading.progress import RunSpeed, SpeedMeter, format_cost_so_far, opening_line
from proctor.services.runs.reading.run_summaries import RunSummary
from proctor.services.runs.reading.trial_table import read_table_rows
from proctor.services.runs.request import split_prompt_word
from proctor.services.runs.starts.processes import StartedRun, get_run_processes
from proctor.web.project import Project
from proctor.web.templates_env import PageNotFound, get_templates

_TIMEOUT_S = 0.3
"""How long one read of new trials may take."""
_MAX_ERRORS_READ = 20
"""Number of errors searched for one whose message may be shown."""
_MAX_LATEST_EACH = 3
"""The number of latest answers of each run, if several are shown."""


class LiveSection(Struct, frozen=True):
    """The rendered section of a page."""

    html: str
    is_final: bool
    """Whether nothing changes any more."""


class LiveView(Protocol):
    """Renders the section of a page that shows something in progress."""

    def render(self) -> LiveSection:
        """Renders the current state."""


class LatestAnswer(Struct, frozen=True, kw_only=True):
    """One of the answers that arrived last."""

    position: int
    repeat: int
    case_id: str
    verdict: str
    """Empty if the case is held out: verdicts one by one would show the holdout's pass rate."""
    line: str
    """The first line of the answer, or why there is none; empty if the case is held out."""


def read_latest_answers(store: Store, run_summary: RunSummary) -> tuple[LatestAnswer, ...]:
    """Returns the answers of an unfinished run that arrived last, newest first.

    Raises:
        StoreError: the store cannot be read.
    """
    rows = read_table_rows(store, run_summary.run, run_summary.newest, revealed=False)
    return tuple(
        LatestAnswer(
            position=row.position,
            repeat=row.repeat,
            case_id=row.case_id,
            verdict="" if row.sealed else row.verdict.value,
            line=next(iter((row.answer or row.why).strip().splitlines()), ""),
        )
        for row in rows
    )


def describe_progress(run_summary: RunSummary, *, stopping: bool = False) -> str:
    """Returns the heading of a run that is in progress, or whose trials are not all read.

    Args:
        run_summary: the run.
        stopping: whether it is stopping.
    """
    run = run_summary.run
    name = f"{run.suite.title} on {run.target_title}"
    if not run_summary.whole:
        return f"Reading: {run_summary.done:,} of {run_summary.stored:,} stored trials of {name}"
    state = "Stopping" if stopping else "Running"
    return f"{state}: {run_summary.done:,} of {run_summary.planned:,} trials of {name}"


class RunSnapshot(Struct, frozen=True, kw_only=True):
    """The state of a run at one moment."""

    run_summary: RunSummary
    first_line: str
    """The first line of the run, such as `Running custom suite: 8 dev + 2 holdout tests`."""
    pace: RunSpeed | None = None
    cost: str = ""
    stopping: bool = False
    """Whether it is stopping and waits for calls in progress."""
    first_error: str = ""
    """The message of the first error that may be shown."""
    latest: tuple[LatestAnswer, ...] = ()
    """The answers that arrived last, if the run is in progress."""

    @property
    def error_text(self) -> str:
        """The number of errors in words; empty if there is none."""
        count = self.run_summary.counts.errors
        return pluralize(count, "error") if count else ""

    @property
    def run(self) -> Run:
        """The run."""
        return self.run_summary.run

    @property
    def name(self) -> str:
        """The suite, the target and the prompt."""
        return f"{self.run.suite.title} on {self.run.target_title}"

    @property
    def result(self) -> str:
        """The result of a finished run."""
        counts = self.run_summary.counts
        rate = "" if counts.pass_rate is None else f"{percent(counts.pass_rate, 0)}, "
        errors = f"; {pluralize(counts.errors, 'error')}" if counts.errors else ""
        return f"{rate}{counts.passed:,} of {counts.total:,} passed, {self.name}{errors}"

    @property
    def line(self) -> str:
        """The progress in one line with numbers."""
        run_summary = self.run_summary
        parts = [f"{run_summary.done:,} of {run_summary.planned:,} trials"]
        waiting = run_summary.stored - run_summary.done
        parts += [f"{waiting:,} waiting for judges"] * (waiting > 0 and run_summary.whole)
        parts += ["stopping: open calls get 1 s"] * self.stopping
        if self.pace is not None and not self.stopping:
            parts.append(self.pace.words)
        return " · ".join([*parts, self.cost])

    @property
    def verdicts(self) -> list[tuple[str, int]]:
        """The number of trials by verdict; passes and failures are always listed."""
        counts = self.run_summary.counts
        counts_by_verdict = [("pass", counts.passed), ("fail", counts.failed)]
        optional = (("error", counts.errors), ("unscored", counts.unscored))
        return [*counts_by_verdict, *(pair for pair in optional if pair[1])]


def _existing_runs(store: Store, run_ids: Iterable[str]) -> Iterator[Run]:
    """Yields those runs that have not been deleted."""
    for run_id in run_ids:
        with suppress(StoreError):
            yield store.run(run_id)


_MAX_FIRST_LINES = 1_000
"""Cached first lines of runs; each is found by reading all cases of a suite."""


class RunPoller:
    """Reads the state of a run repeatedly."""

    def __init__(self, project: Project) -> None:
        """Reads nothing yet.

        Args:
            project: its store has the runs.
        """
        self._project = project
        self._pacing = SpeedMeter()
        self._first_lines: dict[str, str] = project.get_shared("first lines by run", dict)
        self._first_error = ""

    def take_snapshot(self, store: Store, run: Run) -> RunSnapshot:
        """Returns the current state of a run.

        Raises:
            StoreError: the store cannot be read.
        """
        if run.id not in self._first_lines:
            if len(self._first_lines) >= _MAX_FIRST_LINES:
                self._first_lines.clear()
            self._first_lines[run.id] = opening_line(store, run)
        run_summary = self._project.summaries.refresh_in(store, run, _TIMEOUT_S)
        return RunSnapshot(
            run_summary=run_summary,
            first_line=self._first_lines.get(run.id, ""),
            pace=self._pacing.measure(run_summary.done, run_summary.planned) if run_summary.alive else None,
            cost=format_cost_so_far(run_summary),
            stopping=run_summary.alive and get_run_processes(self._project).is_stopping(store, run),
            first_error=self._find_first_error(store, run_summary),
            latest=read_latest_answers(store, run_summary) if run_summary.alive else (),
        )

    def _find_first_error(self, store: Store, run_summary: RunSummary) -> str:
        if run_summary.counts.errors and not self._first_error:
            run = run_summary.run
            places = store.trial_places(run.id, ("error",), limit=_MAX_ERRORS_READ)
            rows = read_table_rows(store, run, places, revealed=False)
            self._first_error = next((row.why for row in rows if row.why), "")
        return self._first_error


class RunLiveView:
    """Renders a run, wherever it was started."""

    def __init__(self, project: Project, run_id: str) -> None:
        self._project = project
        self._run_id = run_id
        self._poller = RunPoller(project)

    def render(self) -> LiveSection:
        """Renders the current state.

        Raises:
            StoreError: it is not there, or the store cannot be read.
        """
        with self._project.open_store() as store:
            snapshot = self._poller.take_snapshot(store, store.run(self._run_id))
        html = (
            get_templates(self._project)
            .get_template("run_live.html")
            .render(
                snapshot=snapshot,
                run_summary=snapshot.run_summary,
                heading=describe_progress(snapshot.run_summary, stopping=snapshot.stopping),
                latest=snapshot.latest,
            )
        )
        return LiveSection(html, is_final=snapshot.run_summary.whole and not snapshot.run_summary.alive)


class GroupSnapshot(Struct, frozen=True, kw_only=True):
    """The state of all runs that were started together."""

    id: str
    start: StartedRun | None
    """None if it was not started from a page."""
    alive: bool
    output: tuple[str, ...] = ()
    """The last lines that the process wrote to stderr."""
    runs: tuple[RunSnapshot, ...] = ()

    @property
    def waiting_s(self) -> int:
        """Seconds since it was started."""
        return 0 if self.start is None else int((datetime.now(UTC) - self.start.started_at).total_seconds())

    @property
    def pending_targets(self) -> list[str]:
        """The targets whose runs have not started, each with its prompt if the start names prompts."""
        targets, prompts = self._find_values("--target="), self._find_values("--prompt=")
        if not prompts:
            started_names = {snapshot.run.target.name for snapshot in self.runs}
            return [name for name in targets if name not in started_names]
        started_titles = {snapshot.run.target_title for snapshot in self.runs}
        titles = [f"{target} · {split_prompt_word(word)[0]}" for word, target in product(prompts, targets)]
        return [title for title in titles if title not in started_titles]

    def _find_values(self, flag: str) -> list[str]:
        """Returns the values of a flag in the command of its start."""
        arguments = () if self.start is None else self.start.words
        return [argument.removeprefix(flag) for argument in arguments if argument.startswith(flag)]

    @property
    def heading(self) -> str:
        """The first line of its page: the state and the numbers."""
        if not self.runs:
            request = self._describe_request()
            return f"Starting: {request}" if self.alive else f"Nothing ran: {request} did not start"
        snapshots = self.runs
        title = self.runs[0].name
        if len(self.runs) > 1:
            title = f"{self.runs[0].run.suite.title} in {len(self.runs)} runs"
        if self.is_final:
            snapshots = tuple(item for item in self.runs if item.run_summary.status != "finished")
        done = sum(snapshot.run_summary.done for snapshot in snapshots)
        planned = sum(snapshot.run_summary.planned for snapshot in snapshots)
        trial_counts = f"{done:,} of {planned:,} trials of {title}"
        if not self.is_final:
            state = "Stopping" if any(snapshot.stopping for snapshot in self.active_runs) else "Running"
            return f"{state}: {trial_counts}"
        if snapshots:
            return f"Stopped: {trial_counts} are stored"
        return f"Finished: {title}" if len(self.runs) > 1 else f"Finished: {self.runs[0].result}"

    def _describe_request(self) -> str:
        """Describes what was requested, before it has runs."""
        assert self.start is not None
        if self.start.run is not None:
            return f"the missing trials of {self.start.run}"
        suite_argument = self.start.words[1]
        if suite_argument.startswith("--retry-errors="):
            return f"the errors of {suite_argument.removeprefix('--retry-errors=')}"
        suite = (
            " ".join(suite_argument.removeprefix("--saved=").rsplit("@", 1))
            if suite_argument.startswith("--saved=")
            else suite_argument
        )
        return f"{suite} on {join_names(self.pending_targets, 3)}" if self.pending_targets else suite

    @property
    def active_runs(self) -> list[RunSnapshot]:
        """Its runs in progress."""
        return [snapshot for snapshot in self.runs if snapshot.run_summary.alive]

    @property
    def is_final(self) -> bool:
        """Whether nothing changes any more."""
        return not self.alive and all(snapshot.run_summary.whole for snapshot in self.runs)


class GroupLiveView:
    """Renders all runs that were started together."""

    def __init__(self, project: Project, group: str) -> None:
        self._project = project
        self._group = group
        self._pollers: dict[str, RunPoller] = {}

    def take_snapshot(self, store: Store, *, newest: bool = False) -> GroupSnapshot:
        """Returns the current state of the group.

        Args:
            store: the store of its runs.
            newest: search only the newest runs for further ones.

        Raises:
            PageNotFound: nothing was started under that id.
            StoreError: the store cannot be read.
        """
        processes = get_run_processes(self._project)
        start = processes.find(self._group)
        alive = start is not None and processes.is_alive(start)  # read before the runs: it may end in between
        runs = processes.list_runs(store, self._group, newest=newest)
        run_ids = {run.id for run in runs}
        runs = [*_existing_runs(store, [run_id for run_id in self._pollers if run_id not in run_ids]), *runs]
        if start is None and not runs:
            raise PageNotFound(f"There is no start {self._group[:80]!r} on this server.")
        snapshots = [
            self._pollers.setdefault(run.id, RunPoller(self._project)).take_snapshot(store, run)
            for run in runs
        ]
        if len(snapshots) > 1:
            snapshots = [
                replace(snapshot, latest=snapshot.latest[:_MAX_LATEST_EACH]) for snapshot in snapshots
            ]
        return GroupSnapshot(
            id=self._group,
            start=start,
            alive=alive or any(snapshot.run_summary.alive for snapshot in snapshots),
            output=() if start is None else tuple(processes.read_output(start)),
            runs=tuple(snapshots),
        )

    def render(self) -> LiveSection:
        """Renders the current state.

        Raises:
            PageNotFound: nothing was started under that id.
            StoreError: the store cannot be read.
        """
        with self._project.open_store() as store:
            group = self.take_snapshot(store, newest=bool(self._pollers))
        html = get_templates(self._project).get_template("started_live.html").render(group=group)
        return LiveSection(html, is_final=group.is_final)

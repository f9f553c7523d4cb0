"""Whether targets changed, for the list of trends: read in the background, and remembered by the runs."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from datetime import datetime
from threading import Lock
from typing import Literal

from msgspec import Struct

from proctor.drift.detector import Drift
from proctor.errors import NothingSelected, ProctorError
from proctor.model import Run
from proctor.protocols import Store
from proctor.services.analysis.drift import DriftQuery, RunSelection
from proctor.web.project import Project
from proctor.web.tasks import ProgressCallback, Task, TaskRunner

_MAX_SERIES = 2_000
"""The maximum number of series whose state is remembered."""
_MAX_TRIALS = 100_000
"""Longer series are not read for the list: their own page reads them."""
MAX_RATES = 16
"""The newest runs of a series whose pass rates the list draws."""
_TOTALS_PATIENCE_S = 60.0
"""How long to count runs without stored totals."""
ChangeWord = Literal["unchanged", "changed", "watch", "noisy", "unknown", "few", "long", "unreadable"]


class TrendState(Struct, frozen=True, kw_only=True):
    """Whether the target of a series of runs changed."""

    word: ChangeWord
    since: datetime | None = None
    """When it changed, or since when it has not."""
    is_worse: bool = False
    """Whether fewer cases pass."""


class TrendStates:
    """The states of series of runs, by the ids of their runs; safe to use from many threads."""

    def __init__(self) -> None:
        """Starts without any."""
        self._states: OrderedDict[tuple[str, ...], TrendState] = OrderedDict()
        self._lock = Lock()

    def get(self, runs: Sequence[Run]) -> TrendState | None:
        """Returns the state of a series; None if it was not read yet."""
        if sum(run.planned for run in runs) > _MAX_TRIALS:
            return TrendState(word="long")
        with self._lock:
            return self._states.get(_series_key(runs))

    def save(self, runs: Sequence[Run], state: TrendState) -> None:
        """Remembers the state of a series."""
        with self._lock:
            self._states[_series_key(runs)] = state
            while len(self._states) > _MAX_SERIES:
                self._states.popitem(last=False)


def get_trend_states(project: Project) -> TrendStates:
    """Returns the states that a project's server remembers."""
    return project.get_shared("trend states", TrendStates)


def submit_states(tasks: TaskRunner, project: Project, series: Sequence[tuple[Run, ...]]) -> Task[int]:
    """Returns the task that reads the states of series, each with its runs in time order."""

    def read_all(on_progress: ProgressCallback) -> int:
        states = get_trend_states(project)
        with project.open_store() as store:
            for place, runs in enumerate(series):
                on_progress(place, len(series))
                project.summaries.read_totals(store, runs[-MAX_RATES:], _TOTALS_PATIENCE_S)
                if states.get(runs) is None:
                    states.save(runs, _read_state(store, project, runs))
        return len(series)

    key = ("trend states", tuple(map(_series_key, series)))
    return tasks.submit(key, read_all, "trends read", cacheable=False)


def _series_key(runs: Sequence[Run]) -> tuple[str, ...]:
    return tuple([run.id for run in runs])


def _read_state(store: Store, project: Project, runs: tuple[Run, ...]) -> TrendState:
    query = DriftQuery(store, project.environ, project.config)
    try:
        return summarize_drift(query.load(RunSelection(runs=runs, notes=())).drift)
    except NothingSelected:
        return TrendState(word="few")
    except ProctorError:
        return TrendState(word="unreadable")  # the page of the trend says why


def summarize_drift(drift: Drift) -> TrendState:
    """Returns the state of a drift: what its report says first, and a lasting change for the better."""
    if drift.state == "drifting":
        return TrendState(word="changed", since=drift.since, is_worse=drift.by_verdicts)
    change_point = drift.change_point
    if change_point is not None and change_point.split.is_lasting:
        return TrendState(word="changed", since=drift.points[change_point.after].started_at)
    if drift.state == "stable":
        return TrendState(word="unchanged", since=drift.since)
    return TrendState(word=drift.state, since=drift.since if drift.state == "watch" else None)

"""What pages show of runs that go on: of one run, and of all that was started together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import Protocol

from msgspec import Struct

from proctor.errors import StoreError
from proctor.model import Run
from proctor.plurals import counted
from proctor.protocols import Store
from proctor.services.runs.reading.catalogue_sync import Looked
from proctor.services.runs.reading.progress import Pace, Pacing, money_so_far, opening_of
from proctor.stores.catalogue.records import Wanted
from proctor.web.project import Project
from proctor.web.runs.processes import StartedRun, get_run_processes
from proctor.web.templates_env import PageNotFound, templates

_PATIENCE_S = 0.3
"""How long one look may read new trials of a run."""
_TRIED = 20
"""Among so many errors is one whose reason may be told."""


class LiveSection(Struct, frozen=True):
    """What one look came to."""

    html: str
    done: bool
    """Nothing changes any more."""


class LiveView(Protocol):
    """Something that goes on."""

    def look(self) -> LiveSection:
        """Look at it once; changes nothing but what is remembered of how fast it goes."""


class RunSnapshot(Struct, frozen=True, kw_only=True):
    """A run, as far as it is."""

    looked: Looked
    opening: str
    """Its first line."""
    pace: Pace | None = None
    money: str = ""
    stopping: bool = False
    """It was told to stop, and lets calls under way end."""
    why: str = ""
    """What came instead of the first answer that is missing, where that may be told."""

    @property
    def errors(self) -> str:
        """How many answers are missing; empty where none is."""
        count = self.looked.counts.errors
        return counted(count, "error") if count else ""

    @property
    def run(self) -> Run:
        """The run."""
        return self.looked.run

    @property
    def name(self) -> str:
        """What it is called."""
        return f"{self.run.suite.title} on {self.run.target.name}"

    @property
    def line(self) -> str:
        """How far it is, in one line with numbers."""
        looked = self.looked
        parts = [f"{looked.done:,} of {looked.planned:,} trials"]
        waiting = looked.stored - looked.done
        parts += [f"{waiting:,} wait for their judges"] * (waiting > 0 and looked.whole)
        parts += ["stopping: calls under way get 1 s"] * self.stopping
        if self.pace is not None and not self.stopping:
            parts.append(self.pace.words)
        return " · ".join([*parts, self.money])

    @property
    def verdicts(self) -> list[tuple[str, int]]:
        """How many trials have each verdict; those that none has are left out, passes and failures aside."""
        counts = self.looked.counts
        found = [("pass", counts.passed), ("fail", counts.failed)]
        more = (("error", counts.errors), ("unscored", counts.unscored))
        return [*found, *(one for one in more if one[1])]


def _there(store: Store, run_ids: Iterable[str]) -> Iterator[Run]:
    """Those of some runs that were not deleted meanwhile."""
    for run_id in run_ids:
        with suppress(StoreError):
            yield store.run(run_id)


_MOST_OPENINGS = 1_000
"""So many first lines of runs are remembered: to find one, all cases of a suite are read."""


class RunPoller:
    """Looks at one run again and again."""

    def __init__(self, project: Project) -> None:
        """Looks at nothing yet.

        Args:
            project: whose store it is in.
        """
        self._project = project
        self._pacing = Pacing()
        self._openings: dict[str, str] = project.get_shared("openings by run", dict)
        self._why = ""

    def going(self, store: Store, run: Run) -> RunSnapshot:
        """The run now.

        Raises:
            StoreError: the store cannot be read.
        """
        if run.id not in self._openings:
            if len(self._openings) >= _MOST_OPENINGS:
                self._openings.clear()
            self._openings[run.id] = opening_of(store, run)
        looked = self._project.cataloguer.look_in(store, run, _PATIENCE_S)
        return RunSnapshot(
            looked=looked,
            opening=self._openings.get(run.id, ""),
            pace=self._pacing.pace(looked.done, looked.planned) if looked.alive else None,
            money=money_so_far(looked),
            stopping=looked.alive and get_run_processes(self._project).is_stopping(store, run),
            why=self._why_missing(looked),
        )

    def _why_missing(self, looked: Looked) -> str:
        if looked.counts.errors and not self._why:
            missing = self._project.catalogue.page(looked.run.id, Wanted(verdicts=("error",)), limit=_TRIED)
            self._why = next((line.why for line in missing.lines if line.why and not line.sealed), "")
        return self._why


class RunLiveView:
    """A run that is watched, whoever makes it."""

    def __init__(self, project: Project, run_id: str) -> None:
        """Looks at nothing yet."""
        self._project = project
        self._run_id = run_id
        self._look = RunPoller(project)

    def look(self) -> LiveSection:
        """Look at it once.

        Raises:
            StoreError: it is not there, or the store cannot be read.
        """
        with self._project.store() as store:
            going = self._look.going(store, store.run(self._run_id))
        html = templates(self._project).get_template("run_live.html").render(going=going, looked=going.looked)
        return LiveSection(html, done=going.looked.whole and not going.looked.alive)


class GroupSnapshot(Struct, frozen=True, kw_only=True):
    """What was started together, as far as it is."""

    id: str
    start: StartedRun | None
    """None for what was not started from a page."""
    alive: bool
    said: tuple[str, ...] = ()
    """What the child said on stderr."""
    runs: tuple[RunSnapshot, ...] = ()

    @property
    def waited_s(self) -> int:
        """For how long its first run is waited for."""
        return 0 if self.start is None else int((datetime.now(UTC) - self.start.started_at).total_seconds())

    @property
    def next(self) -> list[str]:
        """The targets that its child asks after those of these runs."""
        words = () if self.start is None else self.start.words
        asked = [word.removeprefix("--target=") for word in words if word.startswith("--target=")]
        begun = {going.run.target.name for going in self.runs}
        return [name for name in asked if name not in begun]

    @property
    def still(self) -> list[RunSnapshot]:
        """Its runs that go on."""
        return [going for going in self.runs if going.looked.alive]

    @property
    def done(self) -> bool:
        """Nothing of it changes any more."""
        return not self.alive and all(going.looked.whole for going in self.runs)


class GroupLiveView:
    """All that was started together."""

    def __init__(self, project: Project, group: str) -> None:
        """Looks at nothing yet."""
        self._project = project
        self._group = group
        self._looks: dict[str, RunPoller] = {}

    def now(self, store: Store, *, newest: bool = False) -> GroupSnapshot:
        """All of it now.

        Args:
            store: where its runs are.
            newest: look for further runs among the newest only.

        Raises:
            NotThere: nothing was started under that id.
            StoreError: the store cannot be read.
        """
        processes = get_run_processes(self._project)
        start = processes.find(self._group)
        alive = start is not None and processes.is_alive(start)  # before its runs: it may end meanwhile
        runs = processes.runs(store, self._group, newest=newest)
        found = {run.id for run in runs}
        runs = [*_there(store, [run_id for run_id in self._looks if run_id not in found]), *runs]
        if start is None and not runs:
            raise PageNotFound(f"Nothing was started here as {self._group[:80]!r}.")
        going = [self._looks.setdefault(run.id, RunPoller(self._project)).going(store, run) for run in runs]
        return GroupSnapshot(
            id=self._group,
            start=start,
            alive=alive or any(one.looked.alive for one in going),
            said=() if start is None else tuple(processes.said(start)),
            runs=tuple(going),
        )

    def look(self) -> LiveSection:
        """Look at it once.

        Raises:
            NotThere: nothing was started under that id.
            StoreError: the store cannot be read.
        """
        with self._project.store() as store:
            group = self.now(store, newest=bool(self._looks))
        html = templates(self._project).get_template("started_live.html").render(group=group)
        return LiveSection(html, done=group.done)

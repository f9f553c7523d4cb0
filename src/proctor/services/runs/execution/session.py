"""The straight line: suites and targets to stored runs.

file → suite and cases → planned trials → output → scores → trial → store, and the numbers at the end.
`jobs` does the first step, `making` the rest.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from proctor.engines.retries import Patience
from proctor.env_vars import check_set
from proctor.errors import UsageError
from proctor.invalid_cases import summary
from proctor.lint.suite_size import too_few_cases
from proctor.model import Case
from proctor.protocols import Store
from proctor.services import events
from proctor.services.runs.execution.open_targets import specs_of
from proctor.services.runs.execution.runner import Making
from proctor.services.runs.execution.target_pool import Prices, Reach, load_prices
from proctor.services.runs.planning.jobs import Jobs
from proctor.services.runs.planning.judge_choice import judges_of
from proctor.services.runs.request import Job, Request


class Session:
    """Makes the runs of one request. Everything that happens is told to the listener."""

    def __init__(
        self, store: Store, environ: Mapping[str, str], listen: events.Listener, *, folder: Path
    ) -> None:
        """Opens nothing yet.

        Args:
            store: where everything is kept.
            environ: where keys come from.
            listen: told every event, in order.
            folder: where the store lies; a user's own `prices.toml` is in it.
        """
        self._store = store
        self._environ = environ
        self._listen = listen
        self._folder = folder
        self._making: Making | None = None
        self._stopped = False
        self.not_begun: list[str] = []
        """What was still to be run when `stop` came, in words."""

    def stop(self) -> None:
        """Begin no further trial; calls under way get a few seconds, and what finished is kept."""
        self._stopped = True
        if self._making is not None:
            self._making.stop()

    async def run(self, request: Request) -> list[events.Done]:
        """Make all runs of a request, one after the other.

        Raises:
            SuiteError: a suite is wrong; carries all problems of all suites, and nothing was asked.
            UsageError: a target, judge or run cannot be had; nothing was asked.
            NothingSelected: the selection leaves no case of any suite.
        """
        self._store.on_wait(lambda message: self._listen(events.Told(message)))
        self._store.protect()
        prices = load_prices(self._environ, self._folder)
        desk = Jobs(self._store, self._environ, self._listen, prices.date)
        jobs = self._with_doubts(desk.of(request), prices)
        if placeholders := _placeholders(jobs):
            self._listen(events.Warned(summary(placeholders)))
        if message := _too_few_cases(jobs):
            self._listen(events.Warned(message))
        settings = jobs[0].run.settings  # of a stored run these are its own, where nothing else was asked for
        reach = Reach(
            self._environ,
            concurrency=max(job.run.settings.concurrency for job in jobs),
            patience=Patience(timeout_s=settings.timeout_s, retries=settings.retries),
            prices=prices,
            notify=lambda message: self._listen(events.Told(message)),
            progress=lambda name, done, total: self._listen(events.Fetching(name, done, total)),
            open_cache=self._store.open_answer_cache,
            max_answer_bytes=settings.max_answer_bytes,
        )
        try:
            await self._open(jobs, reach)
            done = []
            for place, job in enumerate(jobs):
                await asyncio.sleep(0.001)  # a signal that came while something was imported is heard now
                if self._stopped:
                    self.not_begun = [
                        f"{left.run.suite.name} on {left.run.target.name}" for left in jobs[place:]
                    ]
                    break
                self._making = Making(job, self._store, reach, self._listen)
                done.append(await self._making.make())
            return done
        finally:
            await reach.aclose()

    def _with_doubts(self, jobs: Sequence[Job], prices: Prices) -> list[Job]:
        """The jobs with what is doubtful about their prices among their warnings; each is told once."""
        told = set[str]()
        doubted = []
        for job in jobs:
            doubts = prices.doubts(specs_of(job.run))
            for message in doubts:
                if message not in told:
                    self._listen(events.Warned(message))
            told.update(doubts)
            warnings = tuple(dict.fromkeys((*job.run.warnings, *doubts)))
            doubted.append(replace(job, run=replace(job.run, warnings=warnings)))
        return doubted

    async def _open(self, jobs: Sequence[Job], reach: Reach) -> None:
        """Open all that will be asked, so that what is missing is known before the first call."""
        for job in jobs:
            check_set(job.wanted.variables, self._environ)
            reach.hide(job.wanted.variables)
            if job.run.settings.budget_usd is not None:
                reach.require_prices(specs_of(job.run))
            judges = judges_of(job.run)
            for spec in specs_of(job.run):
                await reach.target(spec, judging=spec in judges)
        if any("embedder" in job.wanted.needs for job in jobs):
            try:
                await reach.open_embedder()
            except UsageError as error:
                self._listen(events.Warned(f"{error} Until then semantic similarity stays unscored."))


def _placeholders(jobs: Sequence[Job]) -> list[tuple[str, Case]]:
    """The cases that are never sent, each once though several targets have it, by names that differ."""
    several = len({job.run.suite.digest for job in jobs}) > 1
    cases = {(job.run.suite.name, case.id): case for job in jobs for case in job.index.placeholders}
    return [(f"{suite}: {name}" if several else name, case) for (suite, name), case in cases.items()]


def _too_few_cases(jobs: Sequence[Job]) -> str | None:
    """A warning where few cases decide between targets or by a gate; None where they decide nothing."""
    targets = Counter(job.run.suite.digest for job in jobs)
    return too_few_cases(
        {
            job.run.suite.name: len(job.index.chosen)
            for job in jobs
            if (targets[job.run.suite.digest] > 1 or job.run.settings.min_pass_rate)
            and "too-few-cases" not in job.wanted.silenced
        }
    )

"""One run: its planned trials asked, graded, counted and stored."""

from __future__ import annotations

import asyncio
import platform
import sys
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Literal

from msgspec.structs import replace

from proctor import __version__
from proctor.codec import assertion_digest
from proctor.engines.asyncio_engine import Engine, Work, trial_of
from proctor.env_vars import filled_case, masked, names_in, unmasked
from proctor.graders import GRADERS
from proctor.grading import Manner, grade, grade_at_once, grade_repeats, manner_of, uninterrupted_size
from proctor.model import Case, Output, Prompt, Run, Trial, Verdict
from proctor.plan import Earlier, Finder, InOrder, Known, Planned, trials
from proctor.plurals import counted
from proctor.protocols import Stay, Store, StoredTrial
from proctor.services import events
from proctor.services.runs.execution.open_targets import Cast, specs_of
from proctor.services.runs.execution.reuse import finder_of
from proctor.services.runs.execution.store_watch import check_store, watch_store, write_rest
from proctor.services.runs.execution.target_pool import Reach
from proctor.services.runs.execution.variable_values import VariableValues, variables_of
from proctor.services.runs.planning.judge_choice import judges_of
from proctor.services.runs.reading.report import keep_look
from proctor.services.runs.request import Job
from proctor.verdicts import Tally, rules_of, taken_over, verdict_of

if TYPE_CHECKING:
    from proctor.workspaces.environment import Workspaces


_ENDPOINT_KINDS = frozenset({"http", "connection"})
_MAX_HELD = 4_096
"""Trials in memory whose errors are not stored yet."""


class Making:
    """Makes the run of one job, once."""

    def __init__(self, job: Job, store: Store, reach: Reach, listen: events.Listener) -> None:
        """Nothing is asked yet.

        Args:
            job: the run and what of it is there already.
            store: where its trials are kept.
            reach: opens its target and judges.
            listen: told every event.
        """
        self._run = job.run
        self._index = job.index
        self._variables = job.wanted.variables
        self._handed = names_in([spec.options.get("env", {}) for spec in specs_of(job.run)])
        """The variables whose values programs are given that answer."""
        self._earlier_run = job.earlier_run
        self._continues = job.earlier_run is not None and job.earlier_run.id == job.run.id
        self._store = store
        self._reach = reach
        self._listen = listen
        self._rules = rules_of(job.run)
        self._tally = Tally(self._rules, job.run.suite.repeats_rule, job.run.settings.repeats)
        self._engine: Engine | None = None
        self._cast: Cast | None = None
        self._environment: Workspaces | None = None
        self._stopped = False
        self._latest = job.run.started_at
        """The latest time that the run has, which no later one may be before."""
        self._held: list[tuple[Trial, Case]] = []
        """Errors while an endpoint fails every call: perhaps they are not the trials' own."""
        self._errors = 0
        self._has_judges = bool(judges_of(job.run))

    def stop(self) -> None:
        """Begin no further trial."""
        self._stopped = True
        if self._engine is not None:
            self._engine.stop()
        if self._cast is not None:
            self._cast.isolation.stop()

    async def make(self) -> events.Done:
        """Make every trial that is missing, or what can be made until `stop`; what was made is stored.

        Raises:
            StoreError: the store's file could not be written to the end; the text names the one that was.
        """
        self._begin()
        settings = self._run.settings
        self._reach.begin(budget_usd=settings.budget_usd, spent_usd=self._spent_usd(), cached=settings.cache)
        cast = self._cast = await Cast.of(self._run, self._reach, self._stop_because)
        self._environment = self._lodging(cast)
        self._engine = Engine(self._work(cast), self._workers())
        if self._stopped:
            self._engine.stop()
        with watch_store(self._store, self._listen, self.stop):
            run = await self._run_trials(self._engine, cast)
        check_store(self._store, run)
        for note in self._reach.notes():
            self._listen(events.Told(note))
        done = events.Done(run, self._tally)
        self._listen(done)
        return done

    async def _run_trials(self, engine: Engine, cast: Cast) -> Run:
        """Run the engine and close what it used; the run's last state is durable then."""
        status: Literal["finished", "interrupted"] = "interrupted"
        try:
            await engine.run(self._planned())
            if not (engine.stop_reason and self._reach.is_in_doubt()):
                self._release_held()  # else the run was stopped for what caused them, and asks again
            if not engine.stopped or self._tally.all.total >= self._index.planned:
                status = "finished"
        except asyncio.CancelledError:
            self._stopped = True  # stopped at once: what finished is stored, and the run says so below
        finally:
            try:
                await self._close(cast)
            finally:  # also when closing is cut short
                finished_at = max(self._run.finished_at or self._now(), self._latest)
                stopped = engine.stop_reason if status == "interrupted" else None
                run = replace(self._run, status=status, finished_at=finished_at, stopped=stopped)
                self._store.update(run, wait=False)
                await write_rest(self._store, lambda: self._stopped)
        return run

    def _begin(self) -> None:
        if self._continues:
            self._store.claim(self._run.id)
            if self._run.status != "finished":
                self._run = replace(self._run, status="running", finished_at=None, stopped=None)
                self._store.update(self._run)
        else:
            self._latest = datetime.now(UTC)
            self._run = replace(self._run, versions=_versions(), started_at=self._latest)
            self._store.begin(self._run)
            self._keep_variables()
            if self._run.suite.no_holdout:  # it shows what other runs of the suite hold out
                keep_look(self._store, self._run, "reveal")
        index = self._index
        splits = (
            [index.split_of(position) for position in index.chosen] if index.holdout is not None else None
        )
        self._listen(
            events.Planned(
                run=self._run,
                total=index.planned,
                dev=None if splits is None else splits.count("dev"),
                holdout=None if splits is None else splits.count("holdout"),
            )
        )

    def _now(self) -> datetime:
        """The time; while a clock that was set back has not caught up, the latest one of the run."""
        self._latest = max(self._latest, datetime.now(UTC))
        return self._latest

    def _keep_variables(self) -> None:
        """Keep which values variables have; of a run on another one's answers only what that one has kept."""
        names = self._variables | variables_of(specs_of(self._run))
        earlier = self._run.regrade_of or (self._earlier_run and self._earlier_run.id)
        if earlier:
            names &= self._store.variables(earlier).keys()
        VariableValues(self._store, self._reach.environ).keep(self._run.id, names)

    def _stop_because(self, reason: str) -> None:
        if self._engine is not None:
            self._engine.stop(reason)

    def _release_held(self) -> None:
        """Store the errors held back."""
        held, self._held = self._held, []
        for trial, case in held:
            self._store_trial(trial, case, stored=False)

    async def _close(self, cast: Cast) -> None:
        await cast.aclose()
        if self._environment is None:
            return
        from proctor.services.runs.execution.workspaces import kept

        await self._environment.aclose()
        for line in kept(self._environment):
            self._listen(events.Told(line))

    def _spent_usd(self) -> float:
        """What the run has cost before it is continued; only a budget wants to know."""
        if not self._continues or self._run.settings.budget_usd is None:
            return 0.0
        earlier = Tally(self._rules)
        for stored in self._store.trials(self._run.id):
            kept = taken_over(stored.trial, self._run)
            earlier.add(stored.trial, Case(id=stored.trial.case_id, input=()), kept=kept)
        return earlier.least_cost_usd

    def _workers(self) -> int:
        return max(1, min(self._run.settings.concurrency, self._index.planned))

    def _planned(self) -> Iterator[Planned]:
        if self._earlier_run is not None and not self._continues:
            self._take_over()
        return map(self._filled, self._trials(self._kept))

    def _trials(self, kept: Callable[[Known, Case], None]) -> Iterator[Planned]:
        earlier_run, store = self._earlier_run, self._store
        if earlier_run is not None and not self._continues:
            find: Finder = InOrder(store.trials(earlier_run.id), self._stays, earlier_run.id)
        else:
            values = VariableValues(store, self._reach.environ)
            find = finder_of(store, self._run, self._index, self._stays, values)
        return trials(
            store.cases(self._run.suite.content),
            self._index,
            repeats=self._run.settings.repeats,
            together=_together,
            earlier=Earlier(find=find, kept=kept),
        )

    def _take_over(self) -> None:
        """Store all that an earlier run leaves to this one before it asks anybody, as it may be cut short."""
        store, run_id = self._store, self._run.id

        def record(known: Known, case: Case) -> None:
            store.record(run_id, _taken(known), verdict_of(known.trial, self._rules(case)))

        for planned in self._trials(record):
            if planned.output is not None:
                store.arrived(run_id, trial_of(planned, datetime.now(UTC), planned.output))

    def _filled(self, planned: Planned) -> Planned:
        """The trial with the values of the variables that its case, and a stored output of it, name."""
        if self._run.regrade_of is not None and planned.case.workspace is not None:
            planned = replace(planned, case=replace(planned.case, workspace=None))  # nobody works in it
        if not planned.case.variables:
            return planned
        environ = self._reach.environ
        output = planned.output
        return replace(
            planned,
            case=filled_case(planned.case, environ),
            digests=tuple(map(assertion_digest, planned.case.assertions)),
            output=None if output is None else unmasked(output, planned.case.variables, environ),
        )

    def _lodging(self, cast: Cast) -> Workspaces | None:
        """What makes the workspaces, where a case has one."""
        if not self._index.workspaces or self._run.regrade_of is not None:
            return None
        from proctor.services.runs.execution.workspaces import workspaces_of

        return workspaces_of(
            self._run, self._index, self._store, self._reach, cast.programs, self._warn_of_workspace
        )

    def _warn_of_workspace(self, message: str) -> None:
        self._listen(events.Warned(masked(message, (*self._variables, *self._handed), self._reach.environ)))

    def _work(self, cast: Cast) -> Work:
        run, store = self._run, self._store

        def ask(planned: Planned, workspace: str | None) -> Awaitable[Output]:
            return cast.target(planned.case).answer(_prompt(planned, workspace))

        def enter(planned: Planned) -> Awaitable[Stay]:
            assert self._environment is not None
            return self._environment.enter(planned.case, planned.repeat)

        async def leave(stay: Stay, passed: bool) -> None:
            assert self._environment is not None
            await self._environment.leave(stay, passed=passed)

        return Work(
            ask=ask,
            grade=lambda planned, output, workspace: grade(
                planned.case, output, GRADERS.get, cast.help(planned.case, workspace, planned.known)
            ),
            grade_repeats=lambda ones, outputs: grade_repeats(
                ones[0].case, outputs, GRADERS.get, cast.help(ones[0].case), [one.known for one in ones]
            ),
            grade_at_once=lambda case, output: cast.isolation.attempt(
                partial(grade_at_once, case, output, GRADERS.get),
                uninterrupted_size(case.assertions, (output,), GRADERS.get),
            ),
            manner=lambda case: manner_of(case, GRADERS.get),
            arrived=lambda trial, planned: store.arrived(run.id, self._masked(trial, planned.case)),
            finished=lambda trial, planned: self._count(
                _as_written(trial, planned.digests), planned.case, stored=False
            ),
            enter=enter,
            leave=leave,
            now=self._now,
            is_full=store.is_full,
        )

    def _count(self, trial: Trial, case: Case, *, stored: bool) -> Verdict:
        # Of most trials this is all: they have an answer, and no judge is asked about it.
        if stored or not (self._held or trial.output is None or self._has_judges):
            return self._store_trial(trial, case, stored=stored)
        if not self._reach.is_in_doubt():
            self._release_held()
        elif _may_be_endpoint_fault(trial):
            self._held.append((trial, case))
            if len(self._held) >= min(_MAX_HELD, self._errors_left()):
                self._release_held()
            return verdict_of(trial, self._rules(case))
        return self._store_trial(trial, case, stored=stored)

    def _store_trial(self, trial: Trial, case: Case, *, stored: bool) -> Verdict:
        trial = self._masked(trial, case)
        if not stored and trial.source_run is not None and trial.graded_in is None:
            trial = replace(trial, graded_in=self._run.id)
        if trial.source_run is None:
            self._latest = max(self._latest, trial.started_at)
        verdict = self._tally.add(trial, case, kept=taken_over(trial, self._run))
        if not stored:
            self._store.record(self._run.id, trial, verdict)
            if verdict is Verdict.ERROR and not case.problems:
                self._count_error()
        self._listen(events.Finished(trial, verdict, self._tally.known_cost_usd))
        return verdict

    def _errors_left(self) -> float:
        """How many more trials may end as errors before the run is stopped."""
        most = self._run.settings.max_failures
        return inf if most is None else most - self._errors

    def _count_error(self) -> None:
        self._errors += 1
        if self._errors_left() <= 0:
            self._stop_because(
                f"{counted(self._errors, 'trial')} ended as errors, as many as --max-failures allows. "
                f"`proctor runs show {self._run.id} --failures` shows them."
            )

    def _masked(self, trial: Trial, case: Case) -> Trial:
        """What is kept and told names a variable where an answer or a reason has its value."""
        # What a program was given can be in any file of the workspace, and so in all that graders say.
        names = case.variables if case.workspace is None else (*case.variables, *self._handed)
        return masked(trial, names, self._reach.environ) if names else trial

    def _stays(self, stored: StoredTrial, case: Case) -> bool:
        if self._continues:
            return stored.verdict is not None
        return verdict_of(stored.trial, self._rules(case)) in (Verdict.PASS, Verdict.FAIL)

    def _kept(self, known: Known, case: Case) -> None:
        self._count(_taken(known), case, stored=known.stored)


def _may_be_endpoint_fault(trial: Trial) -> bool:
    """Whether a trial has no answer, or no reply of a judge, for a reason that may be its endpoint's."""
    if trial.failure is not None:
        return trial.failure.stage == "target" and trial.failure.kind in _ENDPOINT_KINDS
    return any(score.outcome is Verdict.UNSCORED and _may_call(score.grader) for score in trial.scores)


def _may_call(grader: str) -> bool:
    kind = GRADERS.get(grader)
    return bool(kind.needs or kind.waits or kind.over_repeats)


def _taken(known: Known) -> Trial:
    """A trial that stays, with the run that it comes from."""
    trial, source_run = known.trial, known.source_run
    if trial.source_run == source_run:
        return trial
    return replace(trial, source_run=source_run, graded_in=trial.graded_in or source_run)


def _as_written(trial: Trial, digests: tuple[str, ...]) -> Trial:
    """The trial without digests of what has the values of variables in it, as a short value can be guessed.

    A judge's prompt may have them where the assertion does; it gets the assertion's digest.
    """
    if not digests or not trial.scores:
        return trial
    scores = [
        score
        if score.assertion == digest
        else replace(
            score,
            assertion=digest,
            judgments=tuple([replace(one, prompt_digest=digest) for one in score.judgments]),
        )
        for score, digest in zip(trial.scores, digests, strict=True)
    ]
    return replace(trial, scores=tuple(scores))


def _prompt(planned: Planned, workspace: str | None) -> Prompt:
    case, form = planned.case, planned.case.form
    prompt = Prompt(messages=case.input, case_id=case.id, repeat=planned.repeat, workspace=workspace)
    if form is None:
        return prompt
    return replace(prompt, json_answer=form.json, response_schema=form.schema, tools=form.tools)


def _together(case: Case) -> bool:
    return manner_of(case, GRADERS.get) is Manner.TOGETHER


def _versions() -> dict[str, str]:
    """What makes the run; of libraries those that are loaded, as only they can have to do with it."""
    versions = {
        "proctor": __version__,
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
    }
    for name in ("aiohttp", "msgspec", "regex"):
        module = sys.modules.get(name)
        if module is not None:
            versions[name] = str(vars(module).get("__version__", "unknown"))
    return versions

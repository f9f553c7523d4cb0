"""Executes one run: plans its missing trials, and passes them to an engine with a worker and a writer."""

from __future__ import annotations

import asyncio
import platform
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal, cast

from msgspec.structs import replace

from proctor import __version__
from proctor.engines import ENGINES
from proctor.engines.protocol import (
    Engine,
    RemoteEngine,
    RunWork,
    WorkerOpener,
    WorkspaceUse,
    make_trial,
)
from proctor.engines.turns import RunTurns
from proctor.errors import UsageError
from proctor.graders import GRADERS
from proctor.grading import GradingMode, grading_mode
from proctor.model import Case, EarlyStop, Run, Trial, Verdict
from proctor.plan import (
    PlannedTrial,
    PriorTrial,
    PriorTrialFinder,
    PriorTrials,
    SequentialPriorTrials,
    plan_cases,
    plan_trials,
)
from proctor.prompts.fill import read_run_cases
from proctor.protocols import Store, StoredTrial
from proctor.services import events
from proctor.services.runs.execution.reuse import add_reused_answers, chain_finders
from proctor.services.runs.execution.store_watch import check_store, flush_store
from proctor.services.runs.execution.target_pool import CallAccount, TargetPool
from proctor.services.runs.execution.trial_variables import fill_variables
from proctor.services.runs.execution.variable_values import VariableValues, target_variables
from proctor.services.runs.execution.worker import RunWorker, open_worker
from proctor.services.runs.execution.writer import RunWriter
from proctor.services.runs.planning.judge_choice import all_specs
from proctor.services.runs.planning.planned_run import PlannedRun
from proctor.services.runs.reading.report import count_trials, record_holdout_access
from proctor.services.runs.reading.totals import encode_totals
from proctor.verdicts import Tally, decide_verdict, is_reused, pass_rules_for

if TYPE_CHECKING:
    from proctor.services.runs.execution.early_stopping import EarlyStopping


class TrialRunner:
    """Executes the missing trials of one run, once."""

    def __init__(
        self,
        planned_run: PlannedRun,
        store: Store,
        pool: TargetPool,
        listen: events.Listener,
        turns: RunTurns | None = None,
        opener: WorkerOpener | None = None,
    ) -> None:
        """Stores its arguments; opens and sends nothing.

        Args:
            planned_run: the run, its selected cases and the run whose trials it reuses.
            store: the store for its trials.
            pool: opens its target and judges.
            listen: receives every event.
            turns: the turns of an interleaved run; None for a run by itself.
            opener: opens the workers of a remote engine; None for an engine of this process.
        """
        self._run = planned_run.run
        self._opener = opener
        self._index = planned_run.index
        self._variables = planned_run.required.variables
        self._reuse_limits = planned_run.reuse_limits
        self._earlier_run = planned_run.earlier_run
        self._continues = (
            planned_run.earlier_run is not None and planned_run.earlier_run.id == planned_run.run.id
        )
        self._store = store
        self._pool = pool
        self._listen = listen
        self._turns = turns
        self._rules = pass_rules_for(planned_run.run)
        self._early_stopping = _watch_run(planned_run)
        self._engine: Engine | None = None
        self._worker: RunWorker | None = None
        self._writer: RunWriter | None = None
        self._account: CallAccount | None = None
        self._stopped = self._started = False

    def stop(self) -> None:
        """Prevents further trials from starting."""
        self._stopped = True
        if self._engine is not None:
            self._engine.stop()
        if self._worker is not None:
            self._worker.stop()
        self._leave_turns()

    def finish_calls(self, reason: str) -> None:
        """Prevents further trials from starting; calls under way may end, if the engine can wait."""
        engine = self._engine
        if engine is None:
            self._stopped = True
        else:
            getattr(engine, "finish_calls", engine.stop)(reason)
        self._leave_turns()

    async def prepare(self) -> None:
        """Stores the run, and opens what it calls; call `execute` or `aclose` next.

        Raises:
            UsageError: a target or judge cannot be opened.
        """
        self._start()
        settings = self._run.settings
        self._account = self._pool.start_run(
            budget_usd=settings.budget_usd,
            spent_usd=self._spent_usd(),
            cached=settings.cache and self._opener is None,
        )
        work = self._make_work()
        self._writer = RunWriter(
            self._run,
            self._store,
            self._pool.environ,
            self._has_failing_endpoint,
            self._listen,
            self._stop_because,
            self._early_stopping,
            self._account,
        )
        factory = ENGINES.get(settings.engine)
        if self._opener is not None:
            self._engine = factory(work, self._opener, self._writer)
        else:
            self._worker = await open_worker(
                work,
                self._pool,
                stop=self._stop_because,
                warn=lambda text: self._listen(events.WarningMessage(text)),
                turns=self._turns,
            )
            self._engine = factory(work, self._worker, self._writer)
        if self._stopped:
            self._engine.stop()

    def _make_work(self) -> RunWork:
        settings = self._run.settings
        return RunWork(
            run=self._run,
            variables=self._variables,
            max_concurrency=max(1, min(settings.concurrency, self._index.trial_count)),
            workspaces=self._list_workspaces(),
            spent_usd=self._spent_usd() if self._opener is not None else 0.0,
        )

    async def aclose(self) -> None:
        """Closes what was opened for a run that is not executed, which is interrupted if it was stored."""
        try:
            if self._worker is not None:
                await self._worker.aclose()
        finally:
            if self._started and self._run.status == "running":
                finished_at = datetime.now(UTC)
                self._store.update_run(replace(self._run, status="interrupted", finished_at=finished_at))

    async def execute(self) -> events.RunFinished:
        """Executes all missing trials, or as many as possible before `stop`, and stores them.

        Raises:
            StoreError: trials had to be written to another file than the store's; the text names that file.
        """
        assert self._engine is not None
        assert self._writer is not None
        assert self._account is not None
        run = await self._run_trials(self._engine, self._writer)
        check_store(self._store, run)
        for note in self._account.notes():
            self._listen(events.StatusMessage(note))
        event = events.RunFinished(run, self._writer.tally)
        self._listen(event)
        return event

    async def _run_trials(self, engine: Engine, writer: RunWriter) -> Run:
        """Runs the engine and closes what it used; then the run's last state is durable."""
        status: Literal["finished", "interrupted"] = "interrupted"
        try:
            await engine.run(self._plan_trials(writer))
            if not (engine.stop_reason and self._has_failing_endpoint()):
                writer.release_held()  # else their cause stopped the run; resuming sends them again
            is_enough = self._early_stopping is not None and self._early_stopping.result is not None
            if not engine.is_stopped or is_enough or writer.tally.all.total >= self._index.trial_count:
                status = "finished"
        except asyncio.CancelledError:
            self._stopped = True  # cancelled: what finished is stored, and the run is marked as stopped below
        finally:
            self._leave_turns()
            try:
                if self._worker is not None:
                    for line in await self._worker.aclose():
                        self._listen(events.StatusMessage(line))
            finally:  # also when closing is interrupted
                stopped = engine.stop_reason if status == "interrupted" else None
                run = replace(self._run, status=status, finished_at=writer.finished_at(), stopped=stopped)
                if status == "finished" and self._was_stored_by_others(engine):
                    await flush_store(self._store, lambda: self._stopped)
                    writer.tally = count_trials(self._store, self._run)
                if status == "finished" and self._early_stopping is not None:
                    run = await self._note_early_stop(run, self._early_stopping.finish(), writer)
                    writer.tally.set_intervals(run)
                # After a stop, trials of an earlier session may be missing in the tally.
                # Workers that were ended may have stored some that were never counted.
                is_known = self._earlier_run is None and not self._do_workers_store()
                has_all = (status == "finished" and not run.early_stop) or is_known
                totals = encode_totals(writer.tally) if has_all else None
                self._store.update_run(run, wait=False, totals=totals)
                await flush_store(self._store, lambda: self._stopped)
        return run

    def _do_workers_store(self) -> bool:
        """Returns whether the workers of the run are in other processes, which store its trials."""
        return self._opener is not None and self._store.shared_address is not None

    def _was_stored_by_others(self, engine: Engine) -> bool:
        """Returns whether lost workers may have stored trials that were made again and counted.

        The first of two trials is the one that a store keeps. In a resumed run it may be that of a process
        of the earlier command that has not noticed its end.
        """
        has_lost_worker = self._continues or getattr(engine, "has_lost_worker", False)
        return self._do_workers_store() and has_lost_worker

    async def _note_early_stop(self, run: Run, stop: EarlyStop | None, writer: RunWriter) -> Run:
        """Returns the finished run, with what is known of it if it has not sent every case."""
        trial_count = writer.tally.all.total
        if stop is not None and self._earlier_run is not None:  # its trials may be missing in the tally
            await flush_store(self._store, lambda: self._stopped)
            verdicts = self._store.count_verdicts(run.id)
            trial_count = sum(count for verdict, count in verdicts.items() if verdict is not None)
        if stop is None or trial_count >= self._index.trial_count:
            return run
        return replace(run, planned=trial_count, early_stop=stop)

    def _start(self) -> None:
        """Stores the run, and reports the number of its trials to the listener."""
        if self._continues:
            self._store.lock_run(self._run.id)
            if self._run.status != "finished":
                self._run = replace(self._run, status="running", finished_at=None, stopped=None)
                self._store.update_run(self._run)
        else:
            self._run = replace(self._run, versions=_collect_versions(), started_at=datetime.now(UTC))
            self._store.add_run(self._run)
            self._store_variables()
            if self._run.suite.no_holdout:  # this run shows cases that other runs of the suite hold out
                record_holdout_access(self._store, self._run, "reveal")
        self._started = True
        index = self._index
        held_out_count = None if index.holdout is None else index.count_held_out()
        self._listen(
            events.RunStarted(
                run=self._run,
                total=index.trial_count,
                dev=None if held_out_count is None else len(index.positions) - held_out_count,
                holdout=held_out_count,
            )
        )

    def _store_variables(self) -> None:
        """Stores digests of variables' values; for reused answers only those that their run has."""
        names = self._variables | target_variables(all_specs(self._run))
        earlier = self._run.regrade_of or (self._earlier_run and self._earlier_run.id)
        if earlier:
            names &= self._store.variable_digests(earlier).keys()
        VariableValues(self._store, self._pool.environ).record(self._run.id, names)

    def _stop_because(self, reason: str) -> None:
        if self._engine is not None:
            self._engine.stop(reason)
        self._leave_turns()

    def _leave_turns(self) -> None:
        if self._turns is not None:
            self._turns.leave()

    def _spent_usd(self) -> float:
        """Returns what the run has cost so far; 0 without a budget, as nothing else needs it."""
        if not self._continues or self._run.settings.budget_usd is None:
            return 0.0
        earlier = Tally(self._rules)
        for stored_trial in self._store.trials(self._run.id):
            was_reused = is_reused(stored_trial.trial, self._run)
            earlier.add(stored_trial.trial, Case(id=stored_trial.trial.case_id, input=()), kept=was_reused)
        return earlier.least_cost_usd

    def _plan_trials(self, writer: RunWriter) -> Iterator[PlannedTrial]:
        """Yields the missing trials, and counts the others on the way."""
        if self._earlier_run is not None and not self._continues:
            self._store_reused()

        def count(prior_trial: PriorTrial, case: Case) -> None:
            self._expect(prior_trial.trial.position)
            writer.count(_copied_trial(prior_trial), case, is_stored=prior_trial.is_stored)

        planned_trials = self._missing_trials(count)
        if self._early_stopping is not None:
            planned_trials = self._end_when_known(planned_trials)
        planned_trials = map(self._prepare, planned_trials)
        return planned_trials if self._turns is None else self._turns.plan(planned_trials)

    def _end_when_known(self, planned_trials: Iterator[PlannedTrial]) -> Iterator[PlannedTrial]:
        """Yields trials until the run can stop; then only the rest of the case that was partly sent."""
        position = -1
        for planned_trial in planned_trials:
            if planned_trial.position != position and self._knows_enough():
                return
            position = planned_trial.position
            yield planned_trial

    def _knows_enough(self) -> bool:
        """Returns whether the run stops early; interleaved ones stop when each of them can."""
        if self._early_stopping is None or self._early_stopping.result is None:
            return False
        return self._turns is None or self._turns.all_know_enough()

    def _prepare(self, planned_trial: PlannedTrial) -> PlannedTrial:
        """Returns a trial that is sent next, with the values of variables if it is made in this process."""
        if self._early_stopping is not None:
            self._early_stopping.expect(planned_trial.position)
        if self._opener is not None:
            return planned_trial
        return fill_variables(planned_trial, self._run, self._pool.environ)

    def _has_failing_endpoint(self) -> bool:
        """Returns whether an endpoint fails every call; a remote engine reports it from its workers."""
        if self._opener is None:
            return self._pool.has_failing_endpoint()
        return self._engine is not None and cast("RemoteEngine", self._engine).has_failing_endpoint()

    def _expect(self, position: int) -> None:
        if self._early_stopping is not None:
            self._early_stopping.expect(position)

    def _missing_trials(self, on_kept: Callable[[PriorTrial, Case], None]) -> Iterator[PlannedTrial]:
        """Yields the missing trials in the order in which they are sent, and passes on the others."""
        run, earlier_run, store = self._run, self._earlier_run, self._store
        is_copied = earlier_run is not None and not self._continues
        source = earlier_run if earlier_run is not None and is_copied else run
        source_id, seed = source.id if is_copied else None, run.settings.order_seed
        find = self._make_finder(source, self._is_reusable, source_id)
        if self._continues and run.retry_of is not None:
            find = chain_finders(find, self._make_retry_finder(run.retry_of))
        if not is_copied:
            values = VariableValues(store, self._pool.environ)
            find = add_reused_answers(find, store, run, self._index, values, self._reuse_limits)
        earlier = PriorTrials(find=find, on_reuse=on_kept)
        repeats = run.settings.repeats
        if seed is None:
            stored_cases = read_run_cases(store, run)
            return plan_trials(
                stored_cases, self._index, repeats=repeats, together=_grades_repeats_together, earlier=earlier
            )
        from proctor.services.runs.execution.shuffled_cases import read_shuffled_cases

        shuffled_cases = read_shuffled_cases(store, run, self._index.positions, seed)
        return plan_cases(
            shuffled_cases, self._index, repeats=repeats, together=_grades_repeats_together, earlier=earlier
        )

    def _make_finder(
        self,
        source: Run,
        stays: Callable[[StoredTrial, Case], bool],
        source_id: str | None,
        *,
        stored: bool = True,
    ) -> PriorTrialFinder:
        """Returns a finder of a run's trials in the order in which this run's cases are sent."""
        if self._run.settings.order_seed is None:
            return SequentialPriorTrials(self._store.trials(source.id), stays, source_id, stored=stored)
        from proctor.services.runs.execution.shuffled_cases import PriorTrialReader

        return PriorTrialReader(self._store, source, stays, source_id, stored=stored)

    def _make_retry_finder(self, retried_id: str) -> PriorTrialFinder:
        """Returns a finder of the trials that a retry takes over, and had not stored when it ended."""
        try:
            retried = self._store.run(retried_id)
        except UsageError:  # it was deleted meanwhile
            return lambda _position, _case: {}
        return self._make_finder(retried, self._is_taken_over, retried_id, stored=False)

    def _store_reused(self) -> None:
        """Stores all reused trials before the first call, as the run may be interrupted."""
        store, run_id = self._store, self._run.id

        def record(prior_trial: PriorTrial, case: Case) -> None:
            store.save_trial(
                run_id, _copied_trial(prior_trial), decide_verdict(prior_trial.trial, self._rules(case))
            )

        for planned_trial in self._missing_trials(record):
            if planned_trial.output is not None:
                store.save_output(run_id, make_trial(planned_trial, datetime.now(UTC), planned_trial.output))

    def _list_workspaces(self) -> tuple[WorkspaceUse, ...]:
        """Returns the workspaces that targets will work in; none for a regrade."""
        if not self._index.has_workspaces or self._run.regrade_of is not None:
            return ()
        from proctor.services.runs.execution.workspaces import list_workspaces

        return list_workspaces(self._run, self._index, self._store)

    def _is_reusable(self, stored_trial: StoredTrial, case: Case) -> bool:
        """Returns whether an earlier trial is kept as it is."""
        if self._continues:
            return stored_trial.verdict is not None
        return self._is_taken_over(stored_trial, case)

    def _is_taken_over(self, stored_trial: StoredTrial, case: Case) -> bool:
        """Returns whether a retry keeps a trial of the run that it retries."""
        return decide_verdict(stored_trial.trial, self._rules(case)) in (Verdict.PASS, Verdict.FAIL)


def _watch_run(planned_run: PlannedRun) -> EarlyStopping | None:
    """Returns the rule by which a run stops early; None if it does not."""
    if not planned_run.run.settings.is_watched:
        return None
    from proctor.services.runs.execution.early_stopping import EarlyStopping

    return EarlyStopping(planned_run.run, len(planned_run.index.positions))


def _copied_trial(prior_trial: PriorTrial) -> Trial:
    """Returns a reused trial, with the run that it comes from."""
    trial, source_run = prior_trial.trial, prior_trial.source_run
    if trial.source_run == source_run:
        return trial
    return replace(trial, source_run=source_run, graded_in=trial.graded_in or source_run)


def _grades_repeats_together(case: Case) -> bool:
    return grading_mode(case, GRADERS.get) is GradingMode.ACROSS_REPEATS


def _collect_versions() -> dict[str, str]:
    """Returns the versions of Proctor, Python and loaded libraries; others cannot affect the run."""
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

"""Executes one request: plans its runs, opens what they call, executes each run, and closes everything."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from proctor.abilities import ABILITIES_NAME
from proctor.engines import ENGINES
from proctor.engines.protocol import RunWork
from proctor.engines.retries import RetryPolicy
from proctor.env_substitution import check_variables_set
from proctor.errors import UsageError
from proctor.invalid_cases import summarize_placeholders
from proctor.lint.related_cases import MIN_CASES
from proctor.lint.suite_size import too_few_cases
from proctor.model import Case
from proctor.protocols import Store
from proctor.services import events
from proctor.services.runs.config import CONFIG_NAME
from proctor.services.runs.execution.interleaving import check_interleaving, group_interleaved, turns_for
from proctor.services.runs.execution.runner import TrialRunner
from proctor.services.runs.execution.store_watch import watch_stop_requests, watch_store
from proctor.services.runs.execution.target_pool import Prices, TargetPool, load_prices
from proctor.services.runs.planning.context import PlanningContext
from proctor.services.runs.planning.judge_choice import all_judges, all_specs
from proctor.services.runs.planning.plan_runs import plan_runs
from proctor.services.runs.planning.planned_run import PlannedRun
from proctor.services.runs.planning.target_names import TARGETS_FILE_NAMES
from proctor.services.runs.request import Request

if TYPE_CHECKING:
    from proctor.engines.protocol import WorkerOpener
    from proctor.services.file_log import FileLog

_MANY_CALLS = 50
"""With more calls at once a run may need more files than the 256 that macOS allows by itself."""
_OTHER_FILES = 256
_FILES_PER_CALL = 3
"""A program has three pipes, a request one connection."""


class RunSession:
    """Executes the runs of one request. The listener receives every event."""

    def __init__(
        self,
        store: Store,
        environ: Mapping[str, str],
        listen: events.Listener,
        *,
        folder: Path,
        files: FileLog | None = None,
    ) -> None:
        """Stores its arguments; opens nothing.

        Args:
            store: the store for the runs.
            environ: the environment, with keys.
            listen: receives every event, in order.
            folder: the store's folder, which may have the user's own `prices.toml`.
            files: gets the files that are read; None if nobody watches them.
        """
        self._store = store
        self._environ = environ
        self._listen = listen
        self._folder = folder
        self._files = files
        self._runners: list[TrialRunner] = []
        self._stopped = False
        self._openers: dict[str, WorkerOpener] = {}
        """What opens the workers of a run with a remote engine, by the id of the run."""
        self.not_started: list[str] = []
        """The runs that did not start because of `stop`, as `SUITE on TARGET`."""

    @property
    def is_watched(self) -> bool:
        """Whether another process watches the files that it reads."""
        return self._files is not None

    def stop(self) -> None:
        """Prevents further trials from starting; calls in progress get a few seconds to finish."""
        self._stopped = True
        self._stop_runners()

    def finish_calls(self) -> None:
        """Prevents further trials from starting; calls in progress end by themselves."""
        self._stopped = True
        for runner in self._runners:
            runner.finish_calls("A file of the run changed.")

    def _stop_as_requested(self) -> None:
        self._listen(
            events.WarningMessage(
                "Another process stopped this run: requests in progress have 1 s to finish."
            )
        )
        self.stop()

    def _stop_runners(self) -> None:
        for runner in self._runners:
            runner.stop()

    async def run(self, request: Request) -> list[events.RunFinished]:
        """Executes all runs of a request, one after the other, or those of a suite in turns.

        Raises:
            SuiteError: a suite is invalid; has all problems of all suites, and nothing was sent.
            UsageError: a target, judge or run is not available; nothing was sent.
            NothingSelected: the selection leaves no case of any suite.
        """
        ENGINES.get(request.settings.engine)  # reports a wrong name before anything is read
        self._store.on_wait(lambda message: self._listen(events.StatusMessage(message)))
        self._store.protect()
        prices = load_prices(self._environ, self._folder)
        planned_runs = self._add_price_warnings(self._plan(request, prices), prices)
        self._check_batches(planned_runs)
        if placeholders := _list_placeholders(planned_runs):
            self._listen(events.WarningMessage(summarize_placeholders(placeholders)))
        if message := _too_few_cases(planned_runs):
            self._listen(events.WarningMessage(message))
        for message in (
            *_find_related_cases(planned_runs),
            *_find_missing_abilities(planned_runs, self._folder),
        ):
            self._listen(events.WarningMessage(message))
        pool = self._new_pool(planned_runs, prices)
        async with AsyncExitStack() as stack:
            stack.push_async_callback(pool.aclose)
            batches = group_interleaved(planned_runs)
            for batch in batches:
                check_interleaving(batch, self._store)
            await self._open(planned_runs, pool)
            await self._connect(planned_runs, prices, request, stack)
            if self._files is not None:
                batches = [self._log_files(batch, self._files) for batch in batches]
            results = []
            for number, batch in enumerate(batches):
                await asyncio.sleep(0.001)  # handles a signal that arrived during imports
                if self._stopped:
                    self.not_started = [
                        f"{remaining.run.suite.name} on {remaining.run.target_title}"
                        for remaining in chain.from_iterable(batches[number:])
                    ]
                    break
                results += await self._execute(batch, pool)
            return results

    def _plan(self, request: Request, prices: Prices) -> list[PlannedRun]:
        files = self._files
        context = PlanningContext(self._store, self._environ, self._listen, prices.date, files)
        if files is None:
            return plan_runs(request, context)
        files.add(request.config.path or CONFIG_NAME, context.target_names.path or TARGETS_FILE_NAMES[0])
        try:
            return plan_runs(request, context)
        finally:
            files.save()

    def _check_batches(self, planned_runs: Sequence[PlannedRun]) -> None:
        """Checks that runs can send their requests in batches, and warns if any gives up those that it has.

        Raises:
            UsageError: a target, a case or a setting cannot be used in a batch.
        """
        if not any(
            planned_run.run.settings.is_batch or planned_run.earlier_run is not None
            for planned_run in planned_runs
        ):
            return
        from proctor.services.runs.execution.batching import check_batching, warn_of_abandoned_batches

        check_batching(planned_runs, self._environ)
        for message in warn_of_abandoned_batches(planned_runs, self._store):
            self._listen(events.WarningMessage(message))

    def _log_files(self, batch: Sequence[PlannedRun], files: FileLog) -> list[PlannedRun]:
        """Returns runs that reuse nothing that is older than the program behind it."""
        from proctor.services.runs.execution.run_files import log_run_files

        try:
            return [log_run_files(planned_run, self._store, files) for planned_run in batch]
        finally:
            files.save()

    async def _execute(self, batch: Sequence[PlannedRun], pool: TargetPool) -> list[events.RunFinished]:
        """Executes a run, or several in turns."""
        self._runners = [
            TrialRunner(
                planned_run, self._store, pool, self._listen, turns, self._openers.get(planned_run.run.id)
            )
            for planned_run, turns in zip(batch, turns_for(batch), strict=True)
        ]
        try:
            for runner in self._runners:
                await runner.prepare()
        except BaseException:
            async with AsyncExitStack() as stack:
                for runner in self._runners:
                    stack.push_async_callback(runner.aclose)
                raise
        run_ids = [planned_run.run.id for planned_run in batch]
        with (
            watch_store(self._store, self._listen, self._stop_runners),
            watch_stop_requests(self._store, run_ids, self._stop_as_requested),
        ):
            if len(self._runners) == 1:
                return [await self._runners[0].execute()]
            return await self._execute_together()

    async def _execute_together(self) -> list[events.RunFinished]:
        """Executes several runs at the same time; the error of one stops the others."""
        tasks = [asyncio.create_task(runner.execute()) for runner in self._runners]
        waiting = set(tasks)
        while waiting:
            try:
                finished, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_EXCEPTION)
            except asyncio.CancelledError:
                for task in waiting:
                    task.cancel()  # as a run by itself, each stores what has finished
                continue
            if any(task.cancelled() or task.exception() is not None for task in finished):
                self._stop_runners()
        return [task.result() for task in tasks]

    def _new_pool(self, planned_runs: Sequence[PlannedRun], prices: Prices) -> TargetPool:
        settings = planned_runs[0].run.settings  # a stored run's own, except for what the request changes
        concurrency = max(planned_run.run.settings.concurrency for planned_run in planned_runs)
        if concurrency > _MANY_CALLS:
            from proctor.open_file_limit import raise_open_file_limit

            raise_open_file_limit(_OTHER_FILES + _FILES_PER_CALL * concurrency)
        return TargetPool(
            self._environ,
            concurrency=concurrency,
            retry_policy=RetryPolicy(timeout_s=settings.timeout_s, retries=settings.retries),
            prices=prices,
            notify=lambda message: self._listen(events.StatusMessage(message)),
            progress=lambda name, count, total: self._listen(events.DownloadProgress(name, count, total)),
            open_cache=self._store.open_answer_cache,
            max_answer_bytes=settings.max_answer_bytes,
        )

    def _add_price_warnings(self, planned_runs: Sequence[PlannedRun], prices: Prices) -> list[PlannedRun]:
        """Returns the runs with warnings about uncertain prices; the listener gets each warning once."""
        messages = set[str]()
        runs = []
        for planned_run in planned_runs:
            doubts = prices.warnings(all_specs(planned_run.run))
            for message in doubts:
                if message not in messages:
                    self._listen(events.WarningMessage(message))
            messages.update(doubts)
            warnings = tuple(dict.fromkeys((*planned_run.run.warnings, *doubts)))
            runs.append(replace(planned_run, run=replace(planned_run.run, warnings=warnings)))
        return runs

    async def _open(self, planned_runs: Sequence[PlannedRun], pool: TargetPool) -> None:
        """Opens every engine, target and judge, so that what is missing is known before the first call.

        Those of a remote engine are opened where its workers are, by `_connect`.
        """
        local_runs = [planned_run for planned_run in planned_runs if not _is_remote(planned_run)]
        for planned_run in planned_runs:
            if planned_run.run.settings.budget_usd is not None:
                pool.require_prices(all_specs(planned_run.run))
        for planned_run in local_runs:
            check_variables_set(planned_run.required.variables, self._environ)
            pool.add_secrets(planned_run.required.variables)
            judges = all_judges(planned_run.run)
            for spec in all_specs(planned_run.run):
                await pool.open_target(spec, judging=spec in judges)
        if any("embedder" in planned_run.required.needs for planned_run in local_runs):
            try:
                await pool.open_embedder()
            except UsageError as error:
                self._listen(events.WarningMessage(f"{error} Without it, semantic similarity is unscored."))

    async def _connect(
        self,
        planned_runs: Sequence[PlannedRun],
        prices: Prices,
        request: Request,
        stack: AsyncExitStack,
    ) -> None:
        """Connects to the cluster of a remote engine, and opens what each run needs there.

        Args:
            planned_runs: the runs of the request.
            prices: the prices of models.
            request: has the address of the cluster.
            stack: disconnects at its end.

        Raises:
            UsageError: the cluster cannot be reached, or a run cannot be made there.
        """
        remote_runs = [planned_run for planned_run in planned_runs if _is_remote(planned_run)]
        # A run that has finished already needs no cluster.
        unfinished_runs = [planned_run for planned_run in remote_runs if planned_run.run.status != "finished"]
        if not unfinished_runs:
            if not remote_runs and "--engine-address" in request.flags:
                raise UsageError("--engine-address is the address of a cluster. Add --engine ray.")
            return
        from proctor.services.runs.execution.remote_runs import check_remote_run, make_opener

        for planned_run in unfinished_runs:
            check_remote_run(planned_run, self._store)
        factory: Any = ENGINES.get(unfinished_runs[0].run.settings.engine)
        cluster = await stack.enter_async_context(
            factory.connect(
                request.engine_address, lambda message: self._listen(events.StatusMessage(message))
            )
        )
        for planned_run in unfinished_runs:
            opener = self._openers[planned_run.run.id] = make_opener(planned_run, prices, self._store)
            await cluster.check(
                RunWork(run=planned_run.run, variables=planned_run.required.variables), opener
            )


def _is_remote(planned_run: PlannedRun) -> bool:
    """Returns whether the workers of a run are in other processes."""
    return bool(getattr(ENGINES.get(planned_run.run.settings.engine), "is_remote", False))


def _list_placeholders(planned_runs: Sequence[PlannedRun]) -> list[tuple[str, Case]]:
    """Returns the cases that are never sent, each once for all targets, with unambiguous names."""
    several = len({planned_run.run.suite.digest for planned_run in planned_runs}) > 1
    cases = {
        (planned_run.run.suite.name, case.id): case
        for planned_run in planned_runs
        for case in planned_run.index.placeholders
    }
    return [(f"{suite}: {name}" if several else name, case) for (suite, name), case in cases.items()]


def _too_few_cases(planned_runs: Sequence[PlannedRun]) -> str | None:
    """Returns a warning if few cases decide between targets or a gate; None if nothing is decided."""
    target_counts = Counter(planned_run.run.suite.digest for planned_run in planned_runs)
    return too_few_cases(
        {
            planned_run.run.suite.name: len(planned_run.index.positions)
            for planned_run in planned_runs
            if (target_counts[planned_run.run.suite.digest] > 1 or planned_run.run.settings.min_pass_rate)
            and planned_run.run.settings.selection.shard is None  # the merged run decides
            and "too-few-cases" not in planned_run.required.suppressed_rules
        }
    )


def _find_missing_abilities(planned_runs: Sequence[PlannedRun], folder: Path) -> list[str]:
    """Returns a sentence for each ability that a target needs and lacked when it was last checked."""
    if not (folder / ABILITIES_NAME).exists():
        return []
    from proctor.services.targets.abilities import warn_of_missing_abilities

    new_runs = (planned_run for planned_run in planned_runs if planned_run.run.regrade_of is None)
    return list(
        dict.fromkeys(
            message
            for planned_run in new_runs
            for message in warn_of_missing_abilities(
                folder, planned_run.run.target, planned_run.required.abilities, planned_run.run.prompt
            )
        )
    )


def _find_related_cases(planned_runs: Sequence[PlannedRun]) -> list[str]:
    """Returns a warning for each suite whose cases look related, where a new run names no cluster."""
    several = len({planned_run.run.suite.digest for planned_run in planned_runs}) > 1
    messages = {
        planned_run.run.suite.digest: f"{planned_run.run.suite.name}: {message}" if several else message
        for planned_run in planned_runs
        if planned_run.earlier_run is None
        and planned_run.run.settings.cluster is None
        and len(planned_run.index.positions) >= MIN_CASES
        if (message := planned_run.required.related_cases) is not None
    }
    return list(messages.values())

"""The worker of a run in another process than the run's store, such as one of a cluster."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from contextlib import suppress

from msgspec import Struct
from msgspec.structs import replace

from proctor import __version__
from proctor.engines.caching import CallCounts
from proctor.engines.protocol import RunWork, WorkerHost
from proctor.engines.retries import RetryPolicy
from proctor.env_substitution import check_variables_set
from proctor.errors import UsageError
from proctor.model import Trial, Verdict
from proctor.plan import PlannedTrial
from proctor.protocols import Store
from proctor.services.runs.execution.target_pool import CallAccount, Prices, TargetPool
from proctor.services.runs.execution.trial_variables import (
    fill_variables,
    list_program_variables,
    mask_variables,
    without_secret_digests,
)
from proctor.services.runs.execution.worker import RunWorker, open_worker
from proctor.services.runs.execution.writer import may_be_endpoint_fault
from proctor.stores import open_store

_FOLDERS_PER_WORKER = 100_000
"""The numbers of the workspace folders of one worker, before those of the next one."""


class RemoteWorkerOpener(Struct, frozen=True, kw_only=True):
    """Opens the worker of a run in another process; implements `protocol.WorkerOpener`.

    It has what is read beside the store: prices, but no key and no value of a variable.
    """

    prices: Prices
    store_address: str | None = None
    """The address of the store, without a password, if workers store their trials themselves."""
    needs_embedder: bool = False
    """Whether a grader compares embeddings."""
    working_directory: str = ""
    """Where relative paths begin, if there is such a folder on the other machine."""
    version: str = __version__
    """The version of Proctor that planned the run."""

    async def __call__(self, work: RunWork, host: WorkerHost) -> RemoteRunWorker:
        """Opens the worker with the keys and variables of this process.

        Raises:
            UsageError: Proctor is another version, a variable is not set, or a target cannot be opened.
        """
        if self.version != __version__:
            raise UsageError(
                f"It has Proctor {__version__}, but the run was planned with Proctor {self.version}. "
                "Install the same version."
            )
        with suppress(OSError):  # without it, what has an absolute path or none can still be run
            os.chdir(self.working_directory)
        settings = work.run.settings
        check_variables_set(work.variables, os.environ)
        store = None if self.store_address is None else await asyncio.to_thread(self._open_store)
        pool = TargetPool(
            os.environ,
            concurrency=settings.concurrency,
            retry_policy=RetryPolicy(timeout_s=settings.timeout_s, retries=settings.retries),
            prices=self.prices,
            notify=host.report,
            open_cache=None if store is None else store.open_answer_cache,
            max_answer_bytes=settings.max_answer_bytes,
        )
        try:
            account = pool.start_run(
                budget_usd=settings.budget_usd, cached=settings.cache, call_limits=host.limits
            )
            pool.add_secrets(work.variables)
            if self.needs_embedder:
                try:
                    await pool.open_embedder()
                except UsageError as error:
                    host.warn(f"{error} Without it, semantic similarity is unscored.")
            worker = await open_worker(
                work,
                pool,
                stop=host.stop,
                warn=host.warn,
                first_folder=1 + host.number * _FOLDERS_PER_WORKER,
            )
        except BaseException:
            await pool.aclose()
            if store is not None:
                await asyncio.to_thread(store.close)
            raise
        return RemoteRunWorker(work, worker, pool, account, store)

    def _open_store(self) -> Store:
        assert self.store_address is not None
        store = open_store(self.store_address)
        store.protect()
        return store


class RemoteRunWorker:
    """The open worker of a run in another process; implements `protocol.RemoteWorker`."""

    def __init__(
        self,
        work: RunWork,
        worker: RunWorker,
        pool: TargetPool,
        account: CallAccount,
        store: Store | None = None,
    ) -> None:
        """Use `RemoteWorkerOpener`."""
        self._store = store
        self.worker = worker
        self._run = work.run
        self._pool = pool
        self._account = account
        self._environ: Mapping[str, str] = pool.environ
        self._program_variables = list_program_variables(work.run)

    def fill(self, planned_trial: PlannedTrial) -> PlannedTrial:
        """Returns a trial with the values that variables have here."""
        return fill_variables(planned_trial, self._run, self._environ)

    def mask(self, trial: Trial, planned_trial: PlannedTrial) -> Trial:
        """Returns a trial with names of variables in place of their values, and of digests of them."""
        trial = without_secret_digests(trial, planned_trial.assertion_digests)
        return mask_variables(trial, planned_trial.case, self._program_variables, self._environ)

    def store_answer(self, trial: Trial) -> bool:
        """Stores an answer that is being graded, if the store can be opened here."""
        if self._store is None:
            return False
        self._store.save_output(self._run.id, trial)
        return True

    def store_trial(self, trial: Trial, verdict: Verdict) -> bool:
        """Stores a finished trial, if the store can be opened here.

        One without an answer or a judge's reply is left to the run, which may hold it back.
        """
        if self._store is None or trial.output is None or may_be_endpoint_fault(trial):
            return False
        if trial.source_run is not None and trial.graded_in is None:
            trial = replace(trial, graded_in=self._run.id)
        self._store.save_trial(self._run.id, trial, verdict)
        return True

    def is_full(self) -> bool:
        """Returns whether the store has as many pending rows as allowed."""
        return self._store is not None and self._store.is_full()

    def flush(self) -> None:
        """Waits until all trials that were stored here are durable."""
        if self._store is not None:
            self._store.flush()

    def has_failing_endpoint(self) -> bool:
        """Returns whether the last call to any endpoint failed in a way that may be the endpoint's fault."""
        return self._pool.has_failing_endpoint()

    def stop(self) -> None:
        """Ends graders that take long."""
        self.worker.stop()

    def call_counts(self) -> CallCounts:
        """Returns the counts of its calls so far."""
        return self._account.counts()

    async def aclose(self) -> list[str]:
        """Closes the worker and its targets; returns sentences on workspaces that stay on disk."""
        try:
            return await self.worker.aclose()
        finally:
            await self._pool.aclose()
            if self._store is not None:
                await asyncio.to_thread(self._store.close)

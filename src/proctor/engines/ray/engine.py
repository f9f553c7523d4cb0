"""The engine on a Ray cluster: hands out shards of trials to processes, and stores what they send.

Ray itself repeats nothing. If a process ends, its undelivered trials are planned again here, so you never pay
twice for an answer that was delivered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from itertools import chain, count, groupby
from time import monotonic
from typing import Any, ClassVar

from proctor.engines.asyncio_engine import GRACE_S, LONG_GRACE_S
from proctor.engines.caching import CallCounts
from proctor.engines.protocol import RunWork, TrialWriter, WorkerOpener, make_trial
from proctor.engines.ray.cluster import RayCluster, kill
from proctor.engines.ray.messages import (
    LOST_CONNECTION,
    LOST_LIMITS,
    Breakdown,
    Delivery,
    Message,
    Sentence,
    ShardEnd,
    StopRequest,
    TrialKey,
    TrialMessage,
    TrialShard,
    dump,
    load,
)
from proctor.engines.ray.shards import MAX_LOSSES, SHARD_SIZE, ShardPlanner
from proctor.errors import ProctorError, UsageError
from proctor.model import Failure, Output
from proctor.plan import PlannedTrial
from proctor.plurals import pluralize

_MAX_FAILED_STARTS = 3
"""The number of processes in a row that may end before they make a trial; then the run stops."""
_STOP_MARGIN_S = 3.0
"""How much longer than its calls a stopped run waits for what its processes still send."""
_CLOSE_TIMEOUT_S = 10.0
_POLL_S = 0.1
_FULL_PAUSE_S = 0.02
_BEAT_S = 2.0
_NO_ROOM_AFTER_S = 10.0
_SILENT_S = 30.0
"""A process that does not answer for this long counts as lost."""


class _Shard:
    """A shard that a process makes."""

    def __init__(self, trials: list[PlannedTrial], *, is_alone: bool) -> None:
        self.is_alone = is_alone
        """Whether its process makes no other shard."""
        self.trials = {(trial.position, trial.repeat): trial for trial in trials}
        """What is not finished."""
        self.outputs: dict[TrialKey, Output] = {}
        """The answers that were delivered ungraded."""


class _Process:
    """A process of the cluster, and its shards by their numbers."""

    def __init__(self, handle: Any, number: int) -> None:
        self.handle = handle
        self.number = number
        self.name = f"process-{number}"
        self.shards: dict[int, _Shard] = {}
        self.is_open = False
        self.has_failing_endpoint = False


class RayEngine:
    """Runs the planned trials of one run on the cluster that is connected."""

    is_remote: ClassVar[bool] = True

    def __init__(self, work: RunWork, opener: WorkerOpener, writer: TrialWriter) -> None:
        """Starts nothing.

        Args:
            work: the run.
            opener: opens its worker in each process.
            writer: stores and reports trials.
        """
        self._work = work
        self._opener = opener
        self._writer = writer
        self._planner = ShardPlanner(iter(()))
        self._processes: set[_Process] = set()
        self._leases: Any = None
        self._shard_numbers = count(1)
        self._shards_per_process = 2
        self._failed_starts = 0
        self.has_lost_worker = False
        """Whether a process ended before all its trials were done: it may have stored some that ran again."""
        self._was_failing = False
        """Whether an endpoint failed when the last process ended."""
        self._changed = asyncio.Event()
        """Set when there may be shards for processes without one."""
        self._stop_event = asyncio.Event()
        self._stop_calls: list[tuple[str | None, bool]] = []
        self._is_stopped_by_user = self._waits_for_calls = False
        self.stop_reason: str | None = None
        """Why the run was stopped, as a sentence; None if it was not, or the user stopped it."""

    @staticmethod
    def connect(address: str | None, report: Callable[[str], None]) -> RayCluster:
        """Returns the cluster of an address; None for one that is started on this machine."""
        return RayCluster(address, report)

    @property
    def is_stopped(self) -> bool:
        """Whether `stop` was called."""
        return bool(self._stop_calls)

    def stop(self, reason: str | None = None) -> None:
        """Starts no further trials; running ones get as long as with the engine on one machine.

        Args:
            reason: why, as a sentence; None if the user stopped the run. The first reason is kept.
        """
        self._request_stop(reason, waits=False)

    def finish_calls(self, reason: str) -> None:
        """Starts no further trials; running ones end by themselves, unless the user stops the run."""
        self._waits_for_calls = True
        self._request_stop(reason, waits=True)

    def has_failing_endpoint(self) -> bool:
        """Returns whether the last call of any process failed in a way that may be an endpoint's fault."""
        return self._was_failing or any(process.has_failing_endpoint for process in self._processes)

    async def run(self, planned_trials: Iterator[PlannedTrial]) -> None:
        """Runs every planned trial, or as many as possible before `stop`.

        Raises:
            ProctorError: something other than a target failed, such as the store.
        """
        if self.is_stopped:
            return
        first_trial = next(planned_trials, None)
        if first_trial is None:
            return
        cluster = RayCluster.current
        if cluster is None:
            raise UsageError("The engine 'ray' is not connected to a cluster.")
        concurrency = self._work.max_concurrency
        process_count = max(1, min(cluster.process_count, concurrency))
        if self._work.run.settings.is_watched:
            # What an answer shows may stop the run before the next trial.
            size, self._shards_per_process = 1, max(1, concurrency // process_count)
        else:
            size = max(1, min(SHARD_SIZE, self._work.run.planned // (2 * process_count)))
            self._shards_per_process = 1 + max(1, -(-concurrency // (size * process_count)))
        self._planner = ShardPlanner(chain((first_trial,), planned_trials), size)
        await self._open_leases(cluster)
        tasks: set[asyncio.Task[None]] = set()
        began, is_told = monotonic(), False
        try:
            while not self._stop_event.is_set():
                self._start_processes(cluster, tasks, process_count)
                if self._is_over():
                    break
                finished, tasks = await asyncio.wait(
                    tasks, timeout=_POLL_S, return_when=asyncio.FIRST_COMPLETED
                )
                for task in finished:
                    task.result()
                is_waiting = not any(process.is_open for process in self._processes)
                if is_waiting and not is_told and monotonic() - began > _NO_ROOM_AFTER_S:
                    is_told = True
                    self._writer.report("Waiting for a free processor on the Ray cluster.")
            if self._stop_event.is_set():
                await self._wait_in_grace(tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._close(cluster)

    async def _open_leases(self, cluster: RayCluster) -> None:
        import ray

        self._leases = cluster.get_leases()
        try:
            await self._leases.open.remote(self._work.run.settings.budget_usd, self._work.spent_usd)
        except ConnectionError:
            raise ProctorError(LOST_CONNECTION) from None
        except ray.exceptions.RayError:
            cluster.drop_leases()
            raise ProctorError(LOST_LIMITS) from None

    # --- processes ---

    def _start_processes(self, cluster: RayCluster, tasks: set[asyncio.Task[None]], most: int) -> None:
        """Starts processes for the shards that no process has."""
        starting = len(tasks) - sum(process.is_open for process in self._processes)
        while len(tasks) < most and self._planner.count_ready(starting + 1) > starting:
            tasks.add(asyncio.create_task(self._run_process(cluster)))
            starting += 1

    async def _run_process(self, cluster: RayCluster) -> None:
        """Uses a process until it is lost or this task is cancelled; stops without a connection."""
        try:
            await self._use_process(cluster)
        except ConnectionError:
            self._processes.clear()
            self.stop(LOST_CONNECTION)

    async def _use_process(self, cluster: RayCluster) -> None:
        """Opens a process and lets it make shards."""
        import ray

        process = _Process(cluster.take_process(), cluster.next_number())
        self._processes.add(process)
        try:
            data = dump((self._work, self._opener))
            problem = await _finish(
                process.handle.open.remote(process.name, process.number, data, self._leases)
            )
            if problem is not None:
                raise UsageError(problem)
            process.is_open = True
            self._failed_starts = 0
            while not (self.is_stopped and not process.shards):
                self._changed.clear()
                await self._hand_out(process)
                if process.shards:
                    await self._take(process)
                else:
                    await self._changed.wait()
        except (ray.exceptions.RayError, TimeoutError) as error:
            self._processes.discard(process)
            kill(process.handle)
            await self._plan_again(process, error)

    async def _hand_out(self, process: _Process) -> None:
        while not self.is_stopped and len(process.shards) < self._shards_per_process:
            if any(shard.is_alone for shard in process.shards.values()):
                return
            trials = self._planner.take(process.name, is_busy=bool(process.shards))
            if not trials:
                return
            number = next(self._shard_numbers)
            process.shards[number] = _Shard(trials, is_alone=self._planner.was_lost(trials))
            await _answer(process.handle.start.remote(dump(TrialShard(number, tuple(trials)))))

    async def _take(self, process: _Process) -> None:
        """Fetches and stores what a process has, when the store has room."""
        beat_at = monotonic() + _BEAT_S
        while self._writer.is_full() and not self.is_stopped:
            await asyncio.sleep(_FULL_PAUSE_S)
            if monotonic() >= beat_at:
                beat_at = monotonic() + _BEAT_S
                await _answer(process.handle.beat.remote())
        call = _begin(process.handle.take.remote())
        while not (await asyncio.wait({call}, timeout=2 * _BEAT_S))[0]:
            # Its store does not answer, or itself does not.
            await _answer(process.handle.beat.remote())
        self._deliver(process, load(call.result()))

    def _deliver(self, process: _Process, delivery: Delivery) -> None:
        process.has_failing_endpoint = delivery.has_failing_endpoint
        for message in delivery.messages:
            self._handle(process, message)

    def _handle(self, process: _Process, message: Message) -> None:
        match message:
            case TrialMessage(shard=number, trial=trial):
                shard = process.shards[number]
                planned_trial = shard.trials[message.key]
                if message.is_finished:
                    del shard.trials[message.key]
                    if message.is_stored:
                        self._writer.count_trial(trial, planned_trial)
                    else:
                        self._writer.store_trial(trial, planned_trial)
                else:
                    if not message.is_stored:
                        self._writer.store_answer(trial, planned_trial)
                    if trial.output is not None:
                        shard.outputs[message.key] = trial.output
            case ShardEnd():
                del process.shards[message.shard]
                self._changed.set()
            case Sentence():
                (self._writer.warn if message.is_warning else self._writer.report)(message.text)
            case StopRequest():
                self.stop(message.reason)
            case CallCounts():
                self._writer.add_call_counts(message)
            case Breakdown():
                raise ProctorError(f"A process of the Ray cluster failed: {message.text}")

    async def _plan_again(self, process: _Process, error: Exception) -> None:
        """Plans again what a lost process has not delivered; ends trials that were lost too often."""
        import ray

        if not process.is_open:
            self._failed_starts += 1
            if self._failed_starts >= _MAX_FAILED_STARTS:
                self.stop(
                    f"The processes of the Ray cluster end before they can run a trial: {_summarize(error)}"
                )
        self.has_lost_worker = self.has_lost_worker or bool(process.shards)
        for shard in process.shards.values():
            self._count_stored(shard)
            trials = sorted(shard.trials.values(), key=lambda trial: trial.position)
            for planned_trial in self._planner.lose(process.name, trials, shard.outputs):
                times = pluralize(MAX_LOSSES + 1, "time")
                message = (
                    f"The process that ran this trial on the Ray cluster ended {times} before the "
                    f"trial was complete: {_summarize(error)}"
                )
                failure = Failure(stage="target", kind="worker", message=message)
                trial = make_trial(planned_trial, datetime.now(UTC), None, failure)
                self._writer.store_trial(trial, planned_trial)
        if process.shards and not self.is_stopped:
            left = sum(len(shard.trials) for shard in process.shards.values())
            self._writer.warn(
                f"A process of the Ray cluster has ended. {pluralize(left, 'trial')} that it had not "
                "delivered will run again."
            )
        process.shards.clear()
        self._changed.set()
        try:
            await self._leases.release.remote(process.name)
        except ray.exceptions.RayError:
            self.stop(LOST_LIMITS)

    def _count_stored(self, shard: _Shard) -> None:
        """Counts the cases that a lost process had stored and not delivered."""
        by_position = sorted(shard.trials.values(), key=lambda trial: trial.position)
        for _, case in groupby(by_position, key=lambda trial: trial.position):
            results = [(trial, self._writer.find_stored(trial)) for trial in case]
            is_whole = all(stored is not None and stored.verdict is not None for _, stored in results)
            for planned_trial, stored in results:
                key = planned_trial.position, planned_trial.repeat
                if is_whole and stored is not None:
                    del shard.trials[key]
                    self._writer.count_trial(stored.trial, planned_trial)
                elif stored is not None and stored.trial.output is not None:
                    shard.outputs.setdefault(key, stored.trial.output)

    # --- the end ---

    def _is_over(self) -> bool:
        """Returns whether all trials have been made."""
        return self._planner.is_done() and not any(process.shards for process in self._processes)

    def _request_stop(self, reason: str | None, *, waits: bool) -> None:
        self.stop_reason = self.stop_reason or (None if self.is_stopped else reason)
        self._is_stopped_by_user = self._is_stopped_by_user or reason is None
        self._stop_calls.append((reason, waits))
        self._stop_event.set()
        self._changed.set()

    async def _wait_in_grace(self, tasks: set[asyncio.Task[None]]) -> None:
        """Stops the processes, and stores what they still send; the user may stop a run that is stopping."""
        began, sent_count = monotonic(), 0
        while any(process.shards for process in self._processes):
            with suppress(ConnectionError):  # then each task ends
                for reason, waits in self._stop_calls[sent_count:]:
                    for process in self._processes:
                        process.handle.stop.remote(reason, waits)
            sent_count = len(self._stop_calls)
            grace_s = (GRACE_S if self._is_stopped_by_user else LONG_GRACE_S) + _STOP_MARGIN_S
            is_endless = self._waits_for_calls and not self._is_stopped_by_user
            if monotonic() - began >= grace_s and not is_endless:
                return
            for task in tasks:
                if task.done():
                    task.result()
            await asyncio.sleep(_POLL_S)

    async def _close(self, cluster: RayCluster) -> None:
        """Closes the workers; processes that still make trials, or do not answer, are ended."""
        self._was_failing = self.has_failing_endpoint()
        try:
            async with asyncio.timeout(_CLOSE_TIMEOUT_S):
                await asyncio.gather(*[self._close_process(cluster, process) for process in self._processes])
        finally:
            for process in self._processes:
                kill(process.handle)
            self._processes.clear()
            if self.stop_reason == LOST_LIMITS:
                cluster.drop_leases()

    async def _close_process(self, cluster: RayCluster, process: _Process) -> None:
        import ray

        if process.shards or not process.is_open:
            return
        try:
            delivery = load(await process.handle.close.remote())
        except (ray.exceptions.RayError, ConnectionError):
            return
        self._deliver(process, delivery)
        self._processes.discard(process)
        cluster.give_back(process.handle)


async def _answer(call: Awaitable[Any]) -> None:
    """Awaits a call that a process answers at once.

    Raises:
        TimeoutError: it does not.
    """
    try:
        async with asyncio.timeout(_SILENT_S):
            await _finish(call)
    except TimeoutError:
        raise TimeoutError(f"It has not answered for {_SILENT_S:g} s.") from None


async def _finish(call: Awaitable[Any]) -> Any:
    """Returns the result of a call, which goes on if this is cancelled."""
    return await asyncio.shield(_begin(call))


def _begin(call: Awaitable[Any]) -> asyncio.Task[Any]:
    """Returns a task that awaits a call; never cancel it, as Ray Client prints errors for cancelled calls."""

    async def wait() -> Any:
        return await call

    task = asyncio.ensure_future(wait())
    task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
    return task


def _summarize(error: Exception) -> str:
    """Returns the first sentence of an error of Ray's, which may have many lines."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = lines[0] if lines else type(error).__name__
    return text if text.endswith(".") else f"{text}."

"""The actors on a Ray cluster: `TrialProcess` runs trials, `LeaseProcess` shares the limits.

The engine fetches what a process has with one `take` after the other, and not from a generator of Ray's,
which cannot be used through `ray://`. The calls are the engine's heartbeat as well.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections import deque
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from msgspec.structs import replace

from proctor.engines.asyncio_engine import AsyncioEngine
from proctor.engines.lease_manager import Lease, LeaseManager, LeaseRequest
from proctor.engines.leased_limits import LeasedLimits
from proctor.engines.protocol import RemoteWorker, RunWork, TrialWriter, WorkerOpener
from proctor.engines.ray.messages import (
    LOST_LIMITS,
    Breakdown,
    Delivery,
    Message,
    Sentence,
    ShardEnd,
    StopRequest,
    TrialMessage,
    TrialShard,
    dump,
    load,
)
from proctor.errors import ProctorError, UsageError
from proctor.grading import GradingMode
from proctor.model import Run, Trial, Verdict
from proctor.plan import PlannedTrial
from proctor.verdicts import decide_verdict, pass_rules_for

HEARTBEAT_S = 10.0
"""A process that hears nothing from the engine for this long ends, and makes no further call."""
MAX_MESSAGES = 64
MAX_WAIT_S = 0.1
"""The limits of trials that are fetched together: their number, and how long they wait."""
IDLE_S = 2.0
"""How long a fetch waits for the first message."""
_MAX_WAITING = 512
"""At this number of messages that are not fetched, no further trial starts."""


class Outbox:
    """The messages that the engine has not fetched, in order."""

    def __init__(self) -> None:
        """Starts empty."""
        self._bundles: deque[list[Message]] = deque()
        self._count = 0
        self._has_any = asyncio.Event()
        self._is_urgent = asyncio.Event()

    @property
    def is_full(self) -> bool:
        """Whether too many messages wait."""
        return self._count >= _MAX_WAITING

    def add(self, *messages: Message, is_urgent: bool = False) -> None:
        """Adds messages that are delivered together."""
        self._bundles.append(list(messages))
        self._count += len(messages)
        self._has_any.set()
        if is_urgent or self._count >= MAX_MESSAGES:
            self._is_urgent.set()

    async def take(self) -> list[Message]:
        """Returns the next messages: those of `MAX_WAIT_S`, or `MAX_MESSAGES`; none after `IDLE_S`."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._has_any.wait(), IDLE_S)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._is_urgent.wait(), MAX_WAIT_S)
        messages: list[Message] = []
        while self._bundles and len(messages) < MAX_MESSAGES:
            messages += self._bundles.popleft()
        self._count -= len(messages)
        if not self._bundles:
            self._has_any.clear()
        if self._count < MAX_MESSAGES:
            self._is_urgent.clear()
        return messages

    def drain(self) -> list[Message]:
        """Returns all messages."""
        messages = [message for bundle in self._bundles for message in bundle]
        self._bundles.clear()
        self._count = 0
        return messages


class ShardWriter(TrialWriter):
    """Sends the trials of one shard to the engine, with names of variables in place of their values."""

    def __init__(self, run: Run, shard: TrialShard, worker: RemoteWorker, outbox: Outbox) -> None:
        """Sends nothing.

        Args:
            run: the run.
            shard: the shard.
            worker: masks trials, and knows which are graded together.
            outbox: gets the messages.
        """
        self._shard = shard
        self._worker = worker
        self._outbox = outbox
        self._rules = pass_rules_for(run)
        self._latest = run.started_at
        self._case_sizes: dict[int, int] = {}
        for planned_trial in shard.trials:
            position = planned_trial.position
            self._case_sizes[position] = self._case_sizes.get(position, 0) + 1
        self._groups: dict[int, list[Message]] = {}
        """The finished trials of cases that are graded together, which are delivered together as well."""

    def now(self) -> datetime:
        """Returns the time, which is not before the run began even if the clock of this machine is."""
        self._latest = max(self._latest, datetime.now(UTC))
        return self._latest

    def is_full(self) -> bool:
        """Returns whether too many messages wait for the engine."""
        return self._outbox.is_full or self._worker.is_full()

    def store_answer(self, trial: Trial, planned_trial: PlannedTrial) -> None:
        """Sends an answer that is being graded."""
        trial = self._worker.mask(trial, planned_trial)
        is_stored = self._worker.store_answer(trial)
        self._outbox.add(TrialMessage(self._shard.number, trial, is_finished=False, is_stored=is_stored))

    def store_trial(self, trial: Trial, planned_trial: PlannedTrial) -> Verdict:
        """Sends a finished trial and returns its verdict."""
        verdict = decide_verdict(trial, self._rules(planned_trial.case))
        trial = self._worker.mask(trial, planned_trial)
        is_stored = self._worker.store_trial(trial, verdict)
        message = TrialMessage(self._shard.number, trial, is_finished=True, is_stored=is_stored)
        if self._worker.worker.grading_mode(planned_trial.case) is GradingMode.ACROSS_REPEATS:
            group = self._groups.setdefault(trial.position, [])
            group.append(message)
            if len(group) == self._case_sizes[trial.position]:
                self._outbox.add(*self._groups.pop(trial.position))
        else:
            self._outbox.add(message)
        return verdict


class ProcessHost:
    """What a worker reports to its process; implements `protocol.WorkerHost`."""

    def __init__(self, number: int, limits: LeasedLimits, outbox: Outbox) -> None:
        """Stores its arguments.

        Args:
            number: the number of the process among those of the run.
            limits: its part of the limits.
            outbox: gets what the worker reports.
        """
        self.number = number
        self.limits = limits
        self._outbox = outbox

    def stop(self, reason: str) -> None:
        """Tells the engine to stop the run."""
        self._outbox.add(StopRequest(reason), is_urgent=True)

    def report(self, message: str) -> None:
        """Sends a sentence."""
        self._outbox.add(Sentence(message))

    def warn(self, message: str) -> None:
        """Sends a warning."""
        self._outbox.add(Sentence(message, is_warning=True))


class TrialProcess:
    """Makes the trials of shards, of one run at a time. An actor: it stays for the runs of a command."""

    def __init__(self) -> None:
        """Opens nothing."""
        self._work: RunWork | None = None
        self._worker: RemoteWorker | None = None
        self._outbox = Outbox()
        self._engines: dict[int, AsyncioEngine] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._renewal: asyncio.Task[None] | None = None
        self._watch: asyncio.Task[None] | None = None
        self._silent_s = 0.0

    async def open(self, name: str, number: int, data: bytes, lease_process: Any) -> str | None:
        """Opens the worker of a run; returns why it cannot be opened, as a sentence.

        Args:
            name: the name of this process, which no other of the run has had.
            number: its number among those of the run.
            data: the `RunWork` and the `WorkerOpener`.
            lease_process: the handle of the `LeaseProcess` of the run.
        """
        work, opener = load(data)

        async def renew(request: LeaseRequest) -> Lease:
            lease: Lease = load(await lease_process.renew.remote(dump(request)))
            return lease

        self._outbox = Outbox()
        limits = LeasedLimits(name, renew)
        try:
            self._worker = await _open(opener, work, ProcessHost(number, limits, self._outbox))
        except ProctorError as error:
            return str(error)
        self._work = work
        self._renewal = asyncio.create_task(limits.run())
        self._renewal.add_done_callback(self._on_lost_limits)
        if self._watch is None:
            self._watch = asyncio.create_task(self._watch_engine())
        self._silent_s = 0.0
        return None

    async def start(self, data: bytes) -> None:
        """Starts to make the trials of a shard."""
        self._silent_s = 0.0
        task = asyncio.create_task(self._run_shard(load(data)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def take(self) -> bytes:
        """Returns the next messages, as a `Delivery`; none after a while in which nothing happened."""
        self._silent_s = 0.0
        messages = await self._outbox.take()
        if self._worker is not None:
            await asyncio.to_thread(self._worker.flush)  # what the engine hears of is durable
        is_failing = self._worker is not None and self._worker.has_failing_endpoint()
        return dump(Delivery(tuple(messages), is_failing))

    async def beat(self) -> None:
        """Reports that the engine is alive, although it cannot take messages now."""
        self._silent_s = 0.0

    async def stop(self, reason: str | None, waits: bool) -> None:
        """Starts no further trials; those under way end as with the engine on one machine."""
        self._silent_s = 0.0
        for engine in self._engines.values():
            if waits and reason is not None:
                engine.finish_calls(reason)
            else:
                engine.stop(reason)
        if reason is None and self._worker is not None:
            self._worker.stop()

    async def close(self) -> bytes:
        """Closes the worker, and returns the last messages; the process can make another run."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        worker, self._worker, self._work = self._worker, None, None
        ending: list[Message] = []
        if worker is not None:
            ending = [worker.call_counts(), *map(Sentence, await worker.aclose())]  # all is durable then
        if self._renewal is not None:
            self._renewal.remove_done_callback(self._on_lost_limits)
            self._renewal.cancel()
        return dump(Delivery((*self._outbox.drain(), *ending), has_failing_endpoint=False))

    async def _run_shard(self, shard: TrialShard) -> None:
        assert self._work is not None
        assert self._worker is not None
        work = replace(self._work, max_concurrency=min(self._work.max_concurrency, len(shard.trials)))
        writer = ShardWriter(work.run, shard, self._worker, self._outbox)
        engine = self._engines[shard.number] = AsyncioEngine(work, self._worker.worker, writer)
        try:
            await engine.run(map(self._worker.fill, iter(shard.trials)))
        except Exception as error:  # noqa: BLE001  # the engine raises it: nobody awaits the task
            self._outbox.add(Breakdown(f"{type(error).__name__}: {error}"), is_urgent=True)
        finally:
            del self._engines[shard.number]
            if engine.stop_reason is not None:
                self._outbox.add(StopRequest(engine.stop_reason))
            self._outbox.add(ShardEnd(shard.number), is_urgent=True)

    def _on_lost_limits(self, renewal: asyncio.Task[None]) -> None:
        if not renewal.cancelled():
            self._outbox.add(StopRequest(LOST_LIMITS), is_urgent=True)

    async def _watch_engine(self) -> None:
        """Ends the process when the engine is silent; the time in which a grader blocks it does not count."""
        while True:
            await asyncio.sleep(1.0)
            self._silent_s = self._silent_s + 1.0 if self._engines else 0.0
            if self._silent_s > HEARTBEAT_S:
                os._exit(1)


async def _open(opener: WorkerOpener, work: RunWork, host: ProcessHost) -> RemoteWorker:
    try:
        return await opener(work, host)
    except UsageError as error:
        host_name = socket.gethostname()
        raise UsageError(f"On node {host_name} of the Ray cluster: {error}") from error


class LeaseProcess:
    """Shares the limits of a run among its processes, of one run at a time. An actor on the head node."""

    def __init__(self) -> None:
        """Leases nothing before `open`."""
        self._manager = LeaseManager()
        self._lost: set[str] = set()

    async def open(self, budget_usd: float | None, spent_usd: float) -> None:
        """Starts with the limits of another run; see `LeaseManager`."""
        self._manager = LeaseManager(budget_usd, spent_usd)
        self._lost = set()

    async def renew(self, data: bytes) -> bytes:
        """Returns the `Lease` for a `LeaseRequest`; none to a process that is taken for lost."""
        request = load(data)
        if request.worker in self._lost:
            return dump(Lease(places=dict.fromkeys(request.places, 0)))
        return dump(self._manager.renew(request))

    async def release(self, worker: str) -> None:
        """Frees what a lost process had, as its trials are planned again."""
        self._lost.add(worker)
        self._manager.release(worker)

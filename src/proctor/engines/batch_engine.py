"""The engine that sends requests in batches, which services answer within a day at half the price.

A batch is stored before its service gets it, and again with the id that the service gave it, so that no
request is sent twice: a resumed run finds the batch by that id, or by its key in the service's list. The
answers are graded and stored by the engine on one machine. The trials of a run are in memory until their
batches have ended.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from proctor.batch_protocol import BatchMatch, BatchReply, BatchRequest, BatchStatus, make_custom_id
from proctor.engines.asyncio_engine import GRACE_S, AsyncioEngine
from proctor.engines.protocol import BatchTarget, RunWork, TrialWorker, TrialWriter
from proctor.errors import EndpointFault, TargetError
from proctor.grading import GradingMode
from proctor.invalid_cases import setup_failure
from proctor.model import Case, Output, Score
from proctor.plan import PlannedTrial
from proctor.plurals import pluralize
from proctor.protocols import StoredBatch, WorkspaceVisit

T = TypeVar("T")

_NOT_ACCEPTED = "not accepted"
"""The state of a batch that the service rejected or never received."""
_MAX_PAUSE_S = 3600.0
"""The longest pause that a service is granted; a batch takes a day at most."""
_MAX_TRIES = 5
"""How often a batch is submitted, or its answers are read, before the run stops."""
_OUTAGE_KINDS = frozenset({"connection", "http", "timeout"})
"""The kinds of errors that pass when the service or the network is back, and count as no try."""
_POLL_GROWTH = 1.5
_MAX_POLL_FACTOR = 12
"""An interval between polls is at most this many times the first."""
_REPORT_EVERY_S = 60.0
_DIRECT_SIZE = 256
"""How many trials that need no request are graded together."""
_PAUSE_EVERY = 64
_MAX_STATE, _MAX_REASON = 60, 500
"""How many characters of a message from a service are shown."""
_RECENT_S = 60.0
_Result = Output | TargetError


class _BatchTrial(Struct, frozen=True):
    """A trial of a batch."""

    planned_trial: PlannedTrial
    target: BatchTarget

    @property
    def custom_id(self) -> str:
        return make_custom_id(self.planned_trial.position, self.planned_trial.repeat)


class _Draft:
    """The requests of a batch that is not submitted yet."""

    def __init__(self, target: BatchTarget, case_target: str | None) -> None:
        self.target = target
        self.case_target = case_target
        self.left_out = target.refused_params
        self.trials: list[_BatchTrial] = []
        self.requests: list[BatchRequest] = []
        self._size = 0

    def add(self, trial: _BatchTrial) -> bool:
        """Adds a trial; returns False if the batch is full.

        Raises:
            TargetError: its request cannot be sent in any batch.
        """
        request = BatchRequest(trial.custom_id, self.target.encode(trial.planned_trial, self.left_out))
        service = self.target.service
        request_size = service.measure(request)
        if request_size > service.max_bytes:
            raise TargetError(
                f"The request has {request_size:,} bytes, more than the maximum for a batch "
                f"({service.max_bytes:,}). Send it with --no-batch.",
                kind="unsupported",
            )
        size = self._size + request_size
        if self.requests and (size > service.max_bytes or len(self.requests) >= service.max_requests):
            return False
        self.trials.append(trial)
        self.requests.append(request)
        self._size = size
        return True


class BatchEngine:
    """Sends the requests of a run in batches, and waits for them."""

    def __init__(self, work: RunWork, worker: TrialWorker, writer: TrialWriter) -> None:
        """Sends nothing.

        Args:
            work: the run.
            worker: calls the graders, and has the targets.
            writer: stores batches and trials, and reports how far they are.
        """
        self._run_id = work.run.id
        self._worker = worker
        self._writer = writer
        self._replies = _ReplyWorker(worker)
        self._inner = AsyncioEngine(work, self._replies, writer)
        self._grading_lock = asyncio.Lock()
        self._stop_event = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._drafts: dict[str | None, _Draft] = {}
        """The batches that are being put together, by the target that their cases name."""
        self._waiting: dict[str, int] = {}
        """The number of requests of each batch that has not ended, by its key."""

    @property
    def is_stopped(self) -> bool:
        """Whether `stop` was called."""
        return self._inner.is_stopped

    @property
    def stop_reason(self) -> str | None:
        """Why the run was stopped, as a sentence; None if it was not, or the user stopped it."""
        return self._inner.stop_reason

    def stop(self, reason: str | None = None) -> None:
        """Sends no further batches and stops waiting; submitted batches continue at the service.

        Args:
            reason: why, as a sentence; None if the user stopped the run. The first reason is kept.
        """
        self._inner.stop(reason)
        self._stop_event.set()

    async def run(self, planned_trials: Iterator[PlannedTrial]) -> None:
        """Runs every planned trial, or as many as possible before `stop`.

        Raises:
            ProctorError: something other than a target failed, such as the store.
        """
        try:
            new_trials, sent_trials = await self._sort(planned_trials)
            new_trials += await self._take_over(sent_trials)
            for trial in new_trials:
                if self._stop_event.is_set():
                    break
                await self._draft(trial)
            await self._submit_drafts()
            await self._wait_for_batches()
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            if self._waiting:
                self._report_waiting()

    # --- sorting ---

    async def _sort(
        self, planned_trials: Iterator[PlannedTrial]
    ) -> tuple[list[_BatchTrial], dict[str, list[_BatchTrial]]]:
        """Returns the trials to send, and those that earlier processes sent, by the keys of their batches.

        Trials without a request, such as those with a reused answer, are graded at once.
        """
        keys = {
            custom_id: batch.key
            for batch in self._writer.batches()
            if batch.state != _NOT_ACCEPTED
            for custom_id in batch.custom_ids  # the last batch of an id counts
        }
        new_trials: list[_BatchTrial] = []
        sent_trials: dict[str, list[_BatchTrial]] = {}
        direct_trials: list[PlannedTrial] = []
        for count, planned_trial in enumerate(planned_trials, 1):
            if self._stop_event.is_set():
                break
            target = self._find_target(planned_trial)
            if target is None:
                direct_trials.append(planned_trial)
            else:
                trial = _BatchTrial(planned_trial, target)
                key = keys.get(trial.custom_id)
                (new_trials if key is None else sent_trials.setdefault(key, [])).append(trial)
            if len(direct_trials) >= _DIRECT_SIZE:
                await self._grade(direct_trials)
                direct_trials = []
            if count % _PAUSE_EVERY == 0:
                await asyncio.sleep(0)
        await self._grade(direct_trials)
        return new_trials, sent_trials

    def _find_target(self, planned_trial: PlannedTrial) -> BatchTarget | None:
        """Returns the target of a trial whose request belongs into a batch; None if it needs none."""
        case = planned_trial.case
        if planned_trial.output is not None or case.workspace is not None or setup_failure(case) is not None:
            return None
        return self._worker.batch_target(case)

    # --- batches of earlier processes ---

    async def _take_over(self, sent_trials: dict[str, list[_BatchTrial]]) -> list[_BatchTrial]:
        """Waits for batches of earlier processes; returns the trials of those that were never accepted."""
        batches = {batch.key: batch for batch in self._writer.batches()}
        never_sent: list[_BatchTrial] = []
        for trials in sent_trials.values():
            for trial in trials:
                trial.target.reserve(trial.planned_trial, is_sent=True)
        # Those with an id first: to find another one may take until a batch of its size has ended.
        for key in sorted(sent_trials, key=lambda key: batches[key].batch_id is None):
            batch, trials = batches[key], sent_trials[key]
            if self._stop_event.is_set():
                return []
            trials[0].target.leave_out(batch.left_out)
            if batch.batch_id is None:
                match = await self._find(batch, trials[0].target)
                if match is not None and match.status is None and _is_recent(batch):
                    await self._pause(trials[0].target.first_poll_s)  # lists may be late
                    match = await self._find(batch, trials[0].target)
                if match is None:
                    return []
                if match.status is None:
                    self._writer.save_batch(replace(batch, state=_NOT_ACCEPTED))
                    for trial in trials:
                        trial.target.settle(trial.planned_trial, None)
                    never_sent += trials
                    continue
                batch = self._accept(batch, match.status)
            self._writer.report(
                f"Batch {batch.batch_id} was submitted {_ago(batch.submitted_at)} ago. Waiting for "
                f"{pluralize(len(trials), 'answer')} from it."
            )
            self._start_waiting(batch, trials)
        return never_sent

    async def _find(self, batch: StoredBatch, target: BatchTarget) -> BatchMatch | None:
        """Finds a batch of which it is unknown whether it was accepted; None if the run was stopped."""
        other_ids = {other.batch_id for other in self._writer.batches() if other.batch_id is not None}
        pauses, is_told = _intervals(target.first_poll_s), False
        while not self._stop_event.is_set():
            match = await self._ask(
                target,
                lambda: target.service.find(batch.key, len(batch.custom_ids), batch.submitted_at, other_ids),
            )
            if match is None or match.is_certain:
                return match
            if not is_told:
                is_told = True
                self._writer.report(
                    f"A batch to {target.name} may have been accepted before Proctor was stopped. "
                    f"Waiting until the batches of {pluralize(len(batch.custom_ids), 'request')} there "
                    "have ended, so that no request is paid for twice."
                )
            await self._pause(next(pauses))
        return None

    # --- submitting ---

    async def _draft(self, trial: _BatchTrial) -> None:
        """Adds a trial to the batch of its target, once the budget has room for it."""
        try:
            while not trial.target.reserve(trial.planned_trial):
                await self._submit_drafts()
                await self._wait_for_batches()
                await asyncio.sleep(0)
                if self._stop_event.is_set():
                    return
            try:
                await self._add(trial)
            except TargetError:
                trial.target.settle(trial.planned_trial, None)
                raise
        except TargetError as error:  # nothing is left of the budget, or the case cannot be sent
            self._replies.add(trial, error)
            await self._grade([trial.planned_trial])

    async def _add(self, trial: _BatchTrial) -> None:
        name = trial.planned_trial.case.target
        draft = self._drafts.setdefault(name, _Draft(trial.target, name))
        if not draft.add(trial):
            del self._drafts[name]
            await self._submit(draft)
            self._drafts[name] = draft = _Draft(trial.target, name)
            draft.add(trial)

    async def _submit_drafts(self) -> None:
        while self._drafts:
            _, draft = self._drafts.popitem()
            await self._submit(draft)

    async def _submit(self, draft: _Draft) -> None:
        """Submits a batch, and begins to wait for it."""
        target = draft.target
        if self._stop_event.is_set():
            return
        for task in self._tasks:
            if task.done():
                task.result()  # after an error, such as of the store, nothing more is sent
        batch = StoredBatch(
            key=f"proctor-{self._run_id}-{secrets.token_hex(6)}",
            target=draft.case_target,
            custom_ids=tuple([request.custom_id for request in draft.requests]),
            left_out=tuple(sorted(draft.left_out)),
            submitted_at=datetime.now(UTC),
        )
        self._writer.save_batch(batch)  # before the service can accept it
        status = await self._send(batch, draft)
        if status is None:
            return
        batch = self._accept(batch, status)
        self._writer.report(
            f"Batch {batch.batch_id}: {pluralize(len(draft.requests), 'request')} sent to {target.name}."
        )
        self._start_waiting(batch, draft.trials)

    async def _send(self, batch: StoredBatch, draft: _Draft) -> BatchStatus | None:
        """Submits a batch; returns None if the run was stopped, also because it was not accepted."""
        target, pauses = draft.target, _intervals(draft.target.first_poll_s)
        for tries_left in reversed(range(_MAX_TRIES)):
            try:
                return await self._finish(target.service.submit(draft.requests, batch.key))
            except TargetError as error:
                # A reply that cannot be read may be that of an accepted batch.
                is_refused = error.kind == "http" and not error.transient
                if is_refused:
                    self._writer.save_batch(replace(batch, state=_NOT_ACCEPTED))
                if is_refused or not tries_left:
                    self.stop(
                        f"A batch was not accepted. {_sentence(error)} {error.remedy} With --no-batch, "
                        "requests are sent one by one."
                    )
                    return None
                self._writer.report(f"A batch to {target.name} was not accepted yet. {_sentence(error)}")
                is_throttled = error.fault is EndpointFault.THROTTLED
                pause_s = _choose_pause(next(pauses), error)
            await self._pause(pause_s)
            if not is_throttled:
                match = await self._find(batch, target)
                if match is None or match.status is not None:
                    return None if match is None else match.status
            if self._stop_event.is_set():
                return None
        return None

    def _accept(self, batch: StoredBatch, status: BatchStatus) -> StoredBatch:
        """Stores the id of a batch."""
        batch = replace(batch, batch_id=status.batch_id, state=status.state)
        self._writer.save_batch(batch)
        return batch

    # --- waiting ---

    def _start_waiting(self, batch: StoredBatch, trials: Sequence[_BatchTrial]) -> None:
        self._waiting[batch.key] = len(trials)
        self._tasks.add(asyncio.create_task(self._collect(batch, trials)))

    async def _wait_for_batches(self) -> None:
        """Waits until every batch has ended and is graded, or the run is stopped."""
        stopping = asyncio.create_task(self._stop_event.wait())
        try:
            while self._tasks and not self._stop_event.is_set():
                ended, _ = await asyncio.wait({*self._tasks, stopping}, return_when=asyncio.FIRST_COMPLETED)
                self._tasks -= ended
                for task in ended - {stopping}:
                    task.result()
        finally:
            stopping.cancel()

    async def _collect(self, batch: StoredBatch, trials: Sequence[_BatchTrial]) -> None:
        """Waits for a batch, and grades and stores its answers."""
        target = trials[0].target
        status = await self._wait_until_ended(batch, target)
        results = None if status is None else await self._read(batch, status, trials)
        if status is None or results is None:
            return
        again, left_out = list[_BatchTrial](), frozenset(batch.left_out)
        for trial in trials:
            result = results[trial.custom_id]
            is_refused = isinstance(result, TargetError) and target.can_send_again(
                trial.planned_trial, result, left_out
            )
            if is_refused:
                target.settle(trial.planned_trial, None)
                again.append(trial)
            else:
                target.settle(trial.planned_trial, result)  # before judges need the budget
                self._replies.add(trial, result)
        names = {trial.custom_id for trial in again}
        await self._grade([trial.planned_trial for trial in trials if trial.custom_id not in names])
        del self._waiting[batch.key]
        if again and not self._stop_event.is_set():
            await self._send_again(again)

    async def _send_again(self, trials: Sequence[_BatchTrial]) -> None:
        """Submits requests again that were refused for a parameter, without it."""
        target = trials[0].target
        names = ", ".join(sorted(target.refused_params))
        self._writer.report(
            f"{target.name} rejected {pluralize(len(trials), 'request')} because of parameters that it "
            f"does not accept ({names}). Sending them again without these parameters."
        )
        draft = _Draft(target, trials[0].planned_trial.case.target)
        for trial in trials:
            trial.target.reserve(trial.planned_trial, is_sent=True)
            if not draft.add(trial):
                await self._submit(draft)
                draft = _Draft(target, draft.case_target)
                draft.add(trial)
        await self._submit(draft)

    async def _wait_until_ended(self, batch: StoredBatch, target: BatchTarget) -> BatchStatus | None:
        """Polls a batch until it has ended; returns None if the run was stopped."""
        assert batch.batch_id is not None
        batch_id = batch.batch_id
        intervals, line, told_s = _intervals(target.first_poll_s), "", 0.0
        while not self._stop_event.is_set():
            status = await self._ask(target, lambda: target.service.poll(batch_id))
            if status is None:
                return None
            if status.state != batch.state:
                batch = replace(batch, state=status.state)
                self._writer.save_batch(batch)
            if status.is_ended:
                return status
            interval_s, earlier_line = next(intervals), line
            line = _describe(status, len(batch.custom_ids))
            told_s += interval_s
            if line != earlier_line or told_s >= _REPORT_EVERY_S:
                told_s = 0.0
                self._writer.report(
                    f"{line} after {_ago(batch.submitted_at)}. Next check in {interval_s:.3g} s."
                )
            await self._pause(interval_s)
        return None

    async def _read(
        self, batch: StoredBatch, status: BatchStatus, trials: Sequence[_BatchTrial]
    ) -> dict[str, _Result] | None:
        """Returns the result of each trial of a batch by its custom id; None if the run was stopped."""
        target, results = trials[0].target, dict[str, _Result]()
        pauses, tries_left = _intervals(target.first_poll_s), _MAX_TRIES - 1
        while True:
            try:
                await self._finish(self._read_replies(batch, status, trials, results, is_last=not tries_left))
                if self._stop_event.is_set():
                    return None  # some may be missing
                break
            except TargetError as error:
                if error.transient and error.kind in _OUTAGE_KINDS:
                    self._writer.report(
                        f"The answers of batch {batch.batch_id} cannot be read yet. Trying again. {error}"
                    )
                elif tries_left:
                    tries_left -= 1
                else:
                    self.stop(
                        f"The answers of batch {batch.batch_id} cannot be read. {_sentence(error)} If they "
                        "are gone, resume with --no-batch to send their requests again."
                    )
                    return None
            await self._pause(next(pauses))
            if self._stop_event.is_set():
                return None
        reason = f" {status.reason[:_MAX_REASON]}" if status.reason else ""
        for trial in trials:
            results.setdefault(
                trial.custom_id,
                TargetError(
                    f"Batch {batch.batch_id} ended as {status.state[:_MAX_STATE]!r} without an answer to "
                    f"this request.{reason}",
                    kind="batch",
                ),
            )
        return results

    async def _read_replies(
        self,
        batch: StoredBatch,
        status: BatchStatus,
        trials: Sequence[_BatchTrial],
        results: dict[str, _Result],
        *,
        is_last: bool,
    ) -> None:
        """Adds the result of each reply. An earlier result is kept, unless it was an error.

        Raises:
            TargetError: not all can be read; with `is_last` only if that is no fault of a single line.
        """
        wanted = {trial.custom_id: trial for trial in trials}
        unknown_ids = set[str]()
        service, custom_ids = trials[0].target.service, frozenset(batch.custom_ids)
        unread = list[TargetError]()
        async for reply in service.read_replies(status.batch_id, batch.key, batch.custom_ids):
            if reply.custom_id is None:
                assert reply.error is not None
                unread.append(reply.error)
                continue
            trial = wanted.get(reply.custom_id)
            if trial is None:
                if reply.custom_id not in custom_ids:
                    unknown_ids.add(reply.custom_id)
            elif not isinstance(results.get(reply.custom_id), Output):
                results[reply.custom_id] = _decode(trial, reply, status.batch_id)
        if unknown_ids:
            example = min(unknown_ids)[:80]
            self._writer.warn(
                f"Batch {status.batch_id} has {pluralize(len(unknown_ids), 'answer')} to requests that "
                f"were not in it, such as {example!r}. They are ignored."
            )
        if unread and not is_last:
            raise unread[0]
        if unread:
            self._writer.warn(
                f"Batch {status.batch_id} has {pluralize(len(unread), 'line')} that cannot be read. "
                f"{_sentence(unread[0])}"
            )

    # --- calling the service ---

    async def _ask(self, target: BatchTarget, make_call: Callable[[], Coroutine[Any, Any, T]]) -> T | None:
        """Returns a reply of the service, also if it cannot be reached for a while.

        None if the run was stopped, also because the service refuses the request.
        """
        pauses, is_told, unreadable_count = _intervals(target.first_poll_s), False, 0
        while not self._stop_event.is_set():
            try:
                return await self._finish(make_call())
            except TargetError as error:
                # A proxy may answer for a while, such as with a page for people.
                unreadable_count = unreadable_count + 1 if error.kind == "protocol" else 0
                if not error.transient and not 0 < unreadable_count < _MAX_TRIES:
                    self.stop(
                        f"The batches at {target.name} cannot be read. {_sentence(error)} If they are gone, "
                        "resume with --no-batch to send their requests again."
                    )
                    return None
                if not is_told:
                    is_told = True
                    self._writer.report(
                        f"The service of {target.name} does not answer. Trying again. {error}"
                    )
                pause_s = _choose_pause(next(pauses), error)
            await self._pause(pause_s)
        return None

    async def _finish(self, call: Coroutine[Any, Any, T]) -> T | None:
        """Returns the result of a call; None if it takes more than a moment after the run is stopped."""
        task, stopping = asyncio.create_task(call), asyncio.create_task(self._stop_event.wait())
        try:
            await asyncio.wait({task, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                await asyncio.wait({task}, timeout=GRACE_S)
            return task.result() if task.done() else None
        finally:
            for each in (task, stopping):
                each.cancel()
            await asyncio.gather(task, stopping, return_exceptions=True)

    async def _pause(self, seconds: float) -> None:
        """Waits for a time, or until the run is stopped."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stop_event.wait()

    # --- grading ---

    async def _grade(self, planned_trials: Sequence[PlannedTrial]) -> None:
        """Grades and stores trials whose results are known, or that need no request."""
        if planned_trials:
            async with self._grading_lock:
                await self._inner.run(iter(planned_trials))
        if self._inner.is_stopped:
            self._stop_event.set()

    def _report_waiting(self) -> None:
        requests = pluralize(sum(self._waiting.values()), "request")
        subject = "A batch" if len(self._waiting) == 1 else f"{len(self._waiting):,} batches"
        verb = "goes" if len(self._waiting) == 1 else "go"
        self._writer.report(
            f"{subject} with {requests} {verb} on at the service. When you resume the run, it collects "
            "the answers and sends nothing twice."
        )


class _ReplyWorker(TrialWorker):
    """A worker whose answers came in batches; other requests go to the target."""

    def __init__(self, worker: TrialWorker) -> None:
        self._worker = worker
        self._results: dict[tuple[int, int], _Result] = {}

    def add(self, trial: _BatchTrial, result: _Result) -> None:
        """Adds the result of a trial that is graded next."""
        planned_trial = trial.planned_trial
        self._results[planned_trial.position, planned_trial.repeat] = result

    def answer(self, planned_trial: PlannedTrial, workspace: str | None) -> Awaitable[Output]:
        """Returns the answer; raises TargetError if there is none."""
        result = self._results.pop((planned_trial.position, planned_trial.repeat), None)
        return self._worker.answer(planned_trial, workspace) if result is None else _as_answer(result)

    def grade(
        self, planned_trial: PlannedTrial, output: Output, workspace: str | None
    ) -> Awaitable[tuple[Score, ...]]:
        return self._worker.grade(planned_trial, output, workspace)

    def grading_mode(self, case: Case) -> GradingMode:
        return self._worker.grading_mode(case)

    def grade_immediately(self, case: Case, output: Output) -> tuple[Score, ...] | None:
        return self._worker.grade_immediately(case, output)

    async def grade_repeats(
        self, group: Sequence[PlannedTrial], outputs: Sequence[Output | None]
    ) -> list[tuple[Score, ...]]:
        return await self._worker.grade_repeats(group, outputs)

    async def enter(self, planned_trial: PlannedTrial) -> WorkspaceVisit:
        return await self._worker.enter(planned_trial)

    async def leave(self, visit: WorkspaceVisit, passed: bool) -> None:
        await self._worker.leave(visit, passed)


async def _as_answer(result: _Result) -> Output:
    if isinstance(result, TargetError):
        raise result
    return result


def _decode(trial: _BatchTrial, reply: BatchReply, batch_id: str) -> _Result:
    try:
        return trial.target.decode(trial.planned_trial, reply, batch_id)
    except TargetError as error:
        return error


def _intervals(first_s: float) -> Iterator[float]:
    """Yields growing intervals between polls."""
    interval_s = first_s
    while True:
        yield interval_s
        interval_s = min(interval_s * _POLL_GROWTH, first_s * _MAX_POLL_FACTOR)


def _describe(status: BatchStatus, count: int) -> str:
    failed = f", {status.failed:,} failed" if status.failed else ""
    answered = f"{status.answered:,} of {count:,} answered{failed}"
    return f"Batch {status.batch_id}: {status.state[:_MAX_STATE]}, {answered}"


def _ago(moment: datetime) -> str:
    """Returns how long ago something was, such as `3 h 20 min`."""
    seconds = max(0, int((datetime.now(UTC) - moment).total_seconds()))
    if seconds < 60:
        return f"{seconds} s"
    hours, minutes = divmod(seconds // 60, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"


def _is_recent(batch: StoredBatch) -> bool:
    return (datetime.now(UTC) - batch.submitted_at).total_seconds() < _RECENT_S


def _sentence(error: TargetError) -> str:
    text = str(error)
    return text if text.endswith((".", "?", "!")) else f"{text}."


def _choose_pause(pause_s: float, error: TargetError) -> float:
    """Returns how long to wait: as long as the service asked for, within limits."""
    return max(pause_s, min(error.retry_after_s or 0.0, _MAX_PAUSE_S))

"""The engine on one machine: N tasks pull planned trials from one iterator, which is never held in memory.

It depends on no files, stores or terminals, only on a worker and a writer. It plans, grades and stores a few
dozen trials at a time: one at a time between network events, each would run on cold caches and take three
times as long, which is a fifth of a whole trial on a fast endpoint.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import datetime
from itertools import count, islice
from time import perf_counter

from msgspec.structs import replace

from proctor.engines.protocol import RunWork, TrialWorker, TrialWriter, make_trial
from proctor.errors import EndpointFailed, TargetError, WorkspaceError
from proctor.grading import GradingMode
from proctor.invalid_cases import setup_failure
from proctor.model import Failure, Output, Trial, Verdict
from proctor.plan import PlannedTrial

GRACE_S = 1.0
"""How long running calls may continue after the user stops a run: commands must end within 2 s."""
LONG_GRACE_S = 5.0
"""The same after a run stops by itself."""
_POLL_INTERVAL_S = 0.1
_BATCH_SIZE = 64
"""The number of trials that are planned, or graded and stored, together; 1 in a run that may stop early."""
MAX_LONG_GRADINGS = 8
MAX_LONG_GRADING_CHARACTERS = 16_000_000
"""At these limits of answers that wait for slow graders, no further trial starts."""
_LARGE_ANSWER_SIZE = 2**20
"""Longer answers are graded and stored immediately, and end a batch of planned trials."""
_FULL_PAUSE_S = 0.01
_MAX_BATCH_WAIT_S = 0.01
"""The maximum time that an answer waits for the rest of its batch."""


class AsyncioEngine:
    """Runs the planned trials of a run on one event loop."""

    def __init__(self, work: RunWork, worker: TrialWorker, writer: TrialWriter) -> None:
        """Starts nothing.

        Args:
            work: has the maximum number of concurrent trials.
            worker: calls the target and the graders.
            writer: stores and reports trials.
        """
        self._max_concurrency = work.max_concurrency
        # What an answer shows may stop a run before the next trial.
        self._batch_size = 1 if work.run.settings.is_watched else _BATCH_SIZE
        self._worker = worker
        self._writer = writer
        self._stop_event = asyncio.Event()
        self._groups: dict[int, dict[int, tuple[PlannedTrial, Trial]]] = {}
        self._answered_trials: list[_AnsweredTrial] = []
        self._stored_count = 0
        """How many of the first answered trials are stored without scores."""
        self._timer: asyncio.TimerHandle | None = None
        self._long_gradings: dict[asyncio.Task[None], int] = {}
        """The tasks of slow graders, with the length of each answer."""
        self._error: BaseException | None = None
        self._is_stopped_by_user = self._waits_for_calls = False
        self.stop_reason: str | None = None
        """Why the run was stopped, as a sentence; None if it was not, or the user stopped it."""

    @property
    def is_stopped(self) -> bool:
        """Whether `stop` was called."""
        return self._stop_event.is_set()

    def stop(self, reason: str | None = None) -> None:
        """Starts no further trials; running ones get `GRACE_S`, or with a reason `LONG_GRACE_S`.

        Args:
            reason: why, as a sentence; None if the user stopped the run. The first reason is kept.
        """
        self.stop_reason = self.stop_reason or (None if self.is_stopped else reason)
        self._is_stopped_by_user = self._is_stopped_by_user or reason is None
        self._stop_event.set()

    def finish_calls(self, reason: str) -> None:
        """Starts no further trials; running ones end by themselves, unless the user stops the run."""
        self._waits_for_calls = True
        self.stop(reason)

    async def run(self, planned_trials: Iterator[PlannedTrial]) -> None:
        """Runs every planned trial, or as many as possible before `stop`.

        Raises:
            ProctorError: something other than a target failed, such as the store; the other workers are
                stopped first.
        """
        trials = _in_batches(planned_trials, self._batch_size)
        workers = {asyncio.create_task(self._run_worker(trials)) for _ in range(self._max_concurrency)}
        stopping = asyncio.create_task(self._stop_event.wait())
        try:
            while workers:
                finished, _ = await asyncio.wait({*workers, stopping}, return_when=asyncio.FIRST_COMPLETED)
                if stopping in finished:
                    for task in self._long_gradings:
                        task.cancel()
                    finished = {*await self._wait_in_grace(workers)}
                for worker in finished - {stopping}:
                    if not worker.cancelled():  # else its grader was stopped with the run
                        worker.result()
                if self._stop_event.is_set():
                    break
                workers -= finished
            await self._finish_all(stopping)
        finally:
            leftovers = (*workers, *self._long_gradings, stopping)
            for leftover in leftovers:
                leftover.cancel()
            await asyncio.gather(*leftovers, return_exceptions=True)
            while self._answered_trials:
                self._finish_answered()
            for task in self._long_gradings:
                task.cancel()
            if self._timer is not None:
                self._timer.cancel()
        if self._error is not None:
            raise self._error

    async def _wait_in_grace(self, workers: set[asyncio.Task[None]]) -> set[asyncio.Task[None]]:
        """Waits for running calls; the user may still stop a run that is stopping by itself."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        while True:
            finished, waiting = await asyncio.wait(workers, timeout=_POLL_INTERVAL_S)
            grace_s = GRACE_S if self._is_stopped_by_user else LONG_GRACE_S
            is_over = loop.time() - began >= grace_s and (
                self._is_stopped_by_user or not self._waits_for_calls
            )
            if not waiting or is_over:
                return finished

    async def _finish_all(self, stopping: asyncio.Task[bool]) -> None:
        """Waits for slow graders, unless the run is stopped: their answers are stored."""
        while not self._stop_event.is_set():
            while self._answered_trials:
                self._finish_answered()
                await asyncio.sleep(0)
            if not self._long_gradings:
                return
            await asyncio.wait({*self._long_gradings, stopping}, return_when=asyncio.FIRST_COMPLETED)

    async def _run_worker(self, trials: Iterator[PlannedTrial]) -> None:
        for number in count(1):
            if self._long_gradings or self._writer.is_full():
                await self._wait_for_room()  # before the next trials are planned, which reads the store
            if self._stop_event.is_set():
                return
            planned_trial = next(trials, None)
            if planned_trial is None:
                return
            try:
                await self._attempt(planned_trial)
            except EndpointFailed as error:
                # The trial has not failed, it did not run. The run can be resumed when the endpoint answers.
                self.stop(str(error))
                return
            if number % _BATCH_SIZE == 0:
                await asyncio.sleep(0)  # targets that answer immediately never yield to the loop

    async def _wait_for_room(self) -> None:
        """Waits for slow graders and for the store, until another trial may start or the run is stopped."""
        while self._grades_too_much():
            await asyncio.wait(self._long_gradings, return_when=asyncio.FIRST_COMPLETED)
        while self._writer.is_full() and not self._stop_event.is_set():  # noqa: ASYNC110  # a thread makes room
            await asyncio.sleep(_FULL_PAUSE_S)

    async def _attempt(self, planned_trial: PlannedTrial) -> None:
        worker, writer, case = self._worker, self._writer, planned_trial.case
        started_at = writer.now()
        invalid = setup_failure(case)
        if invalid is not None:
            self._queue_finish((planned_trial, started_at, None, invalid))
            return
        if case.workspace is not None:
            await self._run_in_workspace(planned_trial, started_at)
            return
        output, failure = planned_trial.output, None
        if output is None:
            try:
                output = await worker.answer(planned_trial, None)
            except EndpointFailed:
                raise
            except TargetError as error:
                failure = _to_failure(error)
        mode = worker.grading_mode(case)
        if mode is GradingMode.ACROSS_REPEATS:
            await self._collect_repeats(planned_trial, make_trial(planned_trial, started_at, output, failure))
        elif mode is GradingMode.IMMEDIATE or output is None:
            self._queue_finish((planned_trial, started_at, output, failure))
        else:
            if planned_trial.output is None:
                writer.store_answer(make_trial(planned_trial, started_at, output, None), planned_trial)
            scores = await worker.grade(planned_trial, output, None)
            writer.store_trial(make_trial(planned_trial, started_at, output, None, scores), planned_trial)

    async def _run_in_workspace(self, planned_trial: PlannedTrial, started_at: datetime) -> None:
        """Runs a trial in a workspace, which stays as the target left it until the answer is graded."""
        worker, writer, passed = self._worker, self._writer, False
        try:
            visit = await worker.enter(planned_trial)
        except WorkspaceError as error:
            broken = Failure(stage="setup", kind="workspace", message=_error_text(error))
            trial = make_trial(planned_trial, started_at, None, broken)
            if worker.grading_mode(planned_trial.case) is GradingMode.ACROSS_REPEATS:
                await self._collect_repeats(planned_trial, trial)
            else:
                writer.store_trial(trial, planned_trial)
            return
        try:
            if self._stop_event.is_set():
                passed = True  # nothing happened in the workspace, so it need not be kept
                return
            output, failure = None, None
            try:
                output = await worker.answer(planned_trial, visit.path)
            except EndpointFailed:
                raise
            except TargetError as error:
                failure = _to_failure(error)
            else:
                output = replace(output, file_changes=await visit.diff() or output.file_changes)
            trial = make_trial(planned_trial, started_at, output, failure)
            if worker.grading_mode(planned_trial.case) is GradingMode.ACROSS_REPEATS:
                passed = output is not None
                await self._collect_repeats(planned_trial, trial)
                return
            if output is not None:
                writer.store_answer(trial, planned_trial)
                trial = replace(trial, scores=await worker.grade(planned_trial, output, visit.path))
            passed = writer.store_trial(trial, planned_trial) is Verdict.PASS
        finally:
            await worker.leave(visit, passed)

    def _queue_finish(self, answered_trial: _AnsweredTrial) -> None:
        self._answered_trials.append(answered_trial)
        _, _, output, failure = answered_trial
        # Failures may end the run, so they are counted immediately.
        at_once = _is_large(output) if failure is None else failure.stage == "target"
        if at_once or len(self._answered_trials) >= self._batch_size:
            self._finish_answered()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_MAX_BATCH_WAIT_S, self._finish_answered)

    def _finish_answered(self) -> None:
        """Grades and stores the answered trials since the last time."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        answered_trials, self._answered_trials = self._answered_trials, []
        worker, writer, started = self._worker, self._writer, perf_counter()
        try:
            for number, (planned_trial, started_at, output, failure) in enumerate(answered_trials):
                if number and perf_counter() - started > _MAX_BATCH_WAIT_S:
                    self._requeue(answered_trials[number:], stored_count=self._stored_count - number)
                    return
                scores = () if output is None else worker.grade_immediately(planned_trial.case, output)
                if scores is None:
                    self._grade_apart(answered_trials[number], is_stored=number < self._stored_count)
                else:
                    writer.store_trial(
                        make_trial(planned_trial, started_at, output, failure, scores), planned_trial
                    )
            self._stored_count = 0
        except Exception as error:  # noqa: BLE001  # `run` raises it, as a timer's callback cannot
            self._error = self._error or error
            self._stop_event.set()

    def _grade_apart(self, answered_trial: _AnsweredTrial, *, is_stored: bool) -> None:
        """Grades an answer with slow graders in a task, while other trials continue."""
        planned_trial, started_at, output, _ = answered_trial
        assert output is not None
        if planned_trial.output is None and not is_stored:
            self._writer.store_answer(make_trial(planned_trial, started_at, output, None), planned_trial)

        async def grade() -> None:
            try:
                scores = await self._worker.grade(planned_trial, output, None)
                self._writer.store_trial(
                    make_trial(planned_trial, started_at, output, None, scores), planned_trial
                )
            except Exception as error:  # noqa: BLE001  # `run` raises it: nobody awaits the task
                self._error = self._error or error
                self._stop_event.set()

        task = asyncio.create_task(grade())
        self._long_gradings[task] = len(output.text)
        task.add_done_callback(self._long_gradings.pop)

    def _grades_too_much(self) -> bool:
        sizes = self._long_gradings.values()
        return len(sizes) >= MAX_LONG_GRADINGS or sum(sizes) > MAX_LONG_GRADING_CHARACTERS

    def _requeue(self, remaining: list[_AnsweredTrial], stored_count: int) -> None:
        """Stores the remaining answers and grades them later, so that slow graders do not block the loop."""
        for planned_trial, started_at, output, _ in remaining[max(stored_count, 0) :]:
            if output is not None and planned_trial.output is None:
                self._writer.store_answer(make_trial(planned_trial, started_at, output, None), planned_trial)
        self._stored_count = len(remaining)
        self._answered_trials = remaining
        self._timer = asyncio.get_running_loop().call_later(0, self._finish_answered)

    async def _collect_repeats(self, planned_trial: PlannedTrial, trial: Trial) -> None:
        """Collects the repeats of a case and grades them when all are there."""
        if planned_trial.output is None and trial.output is not None:
            self._writer.store_answer(trial, planned_trial)
        group = self._groups.setdefault(planned_trial.position, {})
        group[planned_trial.repeat] = planned_trial, trial
        if len(group) < planned_trial.repeats:
            return
        del self._groups[planned_trial.position]
        repeats, trials = zip(*(group[repeat] for repeat in sorted(group)), strict=True)
        scores = await self._worker.grade_repeats(repeats, [repeat_trial.output for repeat_trial in trials])
        for repeat_plan, its_trial, its_scores in zip(repeats, trials, scores, strict=True):
            self._writer.store_trial(replace(its_trial, scores=its_scores), repeat_plan)


_AnsweredTrial = tuple[PlannedTrial, datetime, Output | None, Failure | None]


def _in_batches(planned_trials: Iterator[PlannedTrial], size: int) -> Iterator[PlannedTrial]:
    while batch := _take_batch(planned_trials, size):
        yield from batch


def _take_batch(planned_trials: Iterator[PlannedTrial], size: int) -> list[PlannedTrial]:
    """Returns the next planned trials, up to one with a large answer, as in a regraded run."""
    batch = []
    for planned_trial in islice(planned_trials, size):
        batch.append(planned_trial)
        if _is_large(planned_trial.output):
            break
    return batch


def _is_large(output: Output | None) -> bool:
    return output is not None and len(output.text) >= _LARGE_ANSWER_SIZE


def _to_failure(error: TargetError) -> Failure:
    return Failure(stage="target", kind=error.kind, message=_error_text(error))


def _error_text(error: Exception) -> str:
    """Returns the message of an error, with characters replaced that cannot be stored."""
    return str(error).encode("utf-8", "replace").decode("utf-8")

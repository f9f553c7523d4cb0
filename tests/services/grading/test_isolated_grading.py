"""Slow computations of graders: where they run, how they are ended, and that an event loop goes on."""

from __future__ import annotations

import asyncio
import gc
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from time import process_time
from typing import ClassVar
from weakref import finalize

import pytest

from proctor.errors import GraderBroke, TimeLimitExceeded
from proctor.grading import run_isolated, score
from proctor.model import Assertion, Case, GraderResult, Output, Verdict
from proctor.protocols import BaseGrader, GradingInput
from proctor.services.grading import worker_pool
from proctor.services.grading.isolated_grading import MAX_INLINE_SIZE, BlockingIsolation, EventLoopIsolation
from proctor.services.grading.worker_pool import GradingProcess
from support.waiting import PATIENCE_S, wait_until

SLOW_C_CODE = partial(sum, range(10**15))
"""A call of C code that takes days."""
needs_timer = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="the system has no such timer")


def _loop_forever() -> None:
    while True:
        pass


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> Iterator[GradingProcess]:
    monkeypatch.setattr(worker_pool, "CPU_LIMIT_S", 0.2)
    with closing(GradingProcess()) as process:
        yield process


def test_a_process_gives_what_a_function_gives(process: GradingProcess) -> None:
    assert process.call(partial(sorted, [2, 1])) == [1, 2]
    assert process.call(partial(len, "a\ud800")) == 2
    assert process.is_alive


@pytest.mark.slow
@needs_timer
def test_c_code_that_does_not_return_is_ended_at_the_limit(process: GradingProcess) -> None:
    with pytest.raises(TimeLimitExceeded, match=r"^0\.2 s of processor time$"):
        process.call(SLOW_C_CODE)
    assert not process.is_alive


def test_a_process_that_ends_by_itself_is_told(process: GradingProcess) -> None:
    with pytest.raises(GraderBroke, match="its process ended with exit code 3"):
        process.call(partial(os._exit, 3))


def test_what_a_function_raises_is_told(process: GradingProcess) -> None:
    with pytest.raises(GraderBroke, match="ValueError: invalid literal"):
        process.call(partial(int, "x"))
    assert process.call(partial(len, "still there")) == 11


def test_what_a_grader_prints_is_no_reply(process: GradingProcess) -> None:
    assert process.call(partial(print, "hello")) is None
    assert process.call(partial(len, "a")) == 1


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the parent-death signal is Linux's")
def test_a_worker_in_a_long_computation_ends_with_its_parent() -> None:
    program = (
        "from functools import partial; from proctor.services.grading.worker_pool import GradingProcess\n"
        "process = GradingProcess(); process.call(len, 'a'); print(process._process.pid, flush=True)\n"
        "process.call(partial(sum, range(10**15)))"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        worker = Path(f"/proc/{int(parent.stdout.readline())}/stat")
        parent.kill()
    wait_until(lambda: not worker.exists() or ") Z " in worker.read_text("ascii"))


@needs_timer
def test_what_is_not_soon_is_ended_in_the_middle() -> None:
    with closing(BlockingIsolation()) as isolation:
        assert isolation.attempt(partial(sum, [1, 2]), 0) == 3
        assert isolation.attempt(_loop_forever, 0) is None
        assert isolation.attempt(partial(re.search, "(a|aa)+$", "a" * 60 + "b"), 0) is None
        assert isolation.attempt(partial(sum, [1, 2]), MAX_INLINE_SIZE + 1) is None


@needs_timer
def test_many_short_attempts_are_not_ended_whatever_they_take_together() -> None:
    def work() -> int:
        return sum(range(1000))

    with closing(BlockingIsolation()) as isolation:
        began = process_time()
        while process_time() - began < 0.1:
            assert isolation.attempt(work, 0) == 499_500


@needs_timer
def test_what_goes_on_between_attempts_is_not_interrupted() -> None:
    with closing(BlockingIsolation()) as isolation:
        for _ in range(3):
            assert isolation.attempt(_loop_forever, 0) is None
            began = process_time()
            while process_time() - began < 0.05:
                pass


@needs_timer
def test_the_timer_of_attempts_ends_soon_after_the_last() -> None:
    with closing(BlockingIsolation()) as isolation:
        assert isolation.attempt(partial(sum, [1, 2]), 0) == 3
        assert signal.getitimer(signal.ITIMER_VIRTUAL) != (0.0, 0.0)
        began = process_time()
        while signal.getitimer(signal.ITIMER_VIRTUAL) != (0.0, 0.0):
            assert process_time() - began < PATIENCE_S
    previous = signal.getsignal(signal.SIGVTALRM)
    with closing(BlockingIsolation()) as isolation:
        assert isolation.attempt(partial(sum, [1, 2]), 0) == 3
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0.0, 0.0)
    assert signal.getsignal(signal.SIGVTALRM) is previous


@needs_timer
@pytest.mark.parametrize("closes_first", [True, False])
def test_the_attempts_of_one_run_end_when_another_run_has_ended(closes_first: bool) -> None:
    first, second = BlockingIsolation(), BlockingIsolation()
    closed_isolation, open_isolation = (first, second) if closes_first else (second, first)
    with closing(open_isolation):
        assert closed_isolation.attempt(_loop_forever, 0) is None
        closed_isolation.close()
        closed_isolation.close()
        assert open_isolation.attempt(_loop_forever, 0) is None
        assert open_isolation.attempt(partial(sum, [1, 2]), 0) == 3


@needs_timer
def test_what_is_called_because_an_object_is_freed_runs_to_its_end() -> None:
    class Thing:
        pass

    finished: list[bool] = []

    def clean_up() -> None:
        began = process_time()
        while process_time() - began < 0.03:
            pass
        finished.append(True)

    def free() -> None:
        thing = Thing()
        finalize(thing, clean_up)
        del thing
        _loop_forever()

    with closing(BlockingIsolation()) as isolation:
        assert isolation.attempt(free, 1) is None
    assert finished == [True]


@needs_timer
def test_what_is_called_because_the_collector_starts_runs_to_its_end() -> None:
    finished: list[bool] = []

    def watch(_phase: str, _info: dict[str, int]) -> None:
        began = process_time()
        while process_time() - began < 0.03:
            pass
        finished.append(True)

    def collect() -> None:
        gc.collect()
        _loop_forever()

    gc.callbacks.append(watch)
    try:
        with closing(BlockingIsolation()) as isolation:
            assert isolation.attempt(collect, 1) is None
    finally:
        gc.callbacks.remove(watch)
    assert finished[:2] == [True, True]


@needs_timer
def test_what_took_long_once_is_not_attempted_again() -> None:
    with closing(BlockingIsolation()) as isolation:
        assert isolation.attempt(_loop_forever, 0, "slow") is None
        assert isolation.attempt(partial(sum, [1, 2]), 0, "slow") is None
        assert isolation.attempt(partial(sum, [1, 2]), 0, "quick") == 3


def test_without_an_alarm_only_what_is_tiny_is_done_at_once() -> None:
    values: list[int | None] = []

    def work() -> None:
        with closing(BlockingIsolation()) as isolation:
            values.extend(isolation.attempt(partial(len, "ab"), size) for size in (2, 10_000))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert values == [2, None]


async def test_stopping_ends_what_takes_long_and_nothing_comes_of_it() -> None:
    with closing(EventLoopIsolation()) as isolation:
        task = asyncio.create_task(isolation.call(SLOW_C_CODE, MAX_INLINE_SIZE + 1))
        while not isolation.is_waiting:
            await asyncio.sleep(0.001)
        isolation.stop()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, PATIENCE_S)
        assert await isolation.call(partial(sum, [1, 2]), 0) == 3


@pytest.mark.slow
@needs_timer
async def test_others_are_served_while_one_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_pool, "CPU_LIMIT_S", 0.5)
    with closing(EventLoopIsolation()) as isolation:
        long = asyncio.create_task(isolation.call(SLOW_C_CODE, MAX_INLINE_SIZE + 1))
        while not isolation.is_waiting:
            await asyncio.sleep(0.001)
        assert await isolation.call(partial(sum, [1, 2]), 0) == 3
        assert not long.done()
        with pytest.raises(TimeLimitExceeded):
            await long


def test_a_process_whose_time_was_up_as_its_reply_came_gets_no_other_job(process: GradingProcess) -> None:
    assert process.call(partial(len, "a")) == 1
    process._end_overdue()  # the signal may not have arrived yet
    assert not process.is_alive


class _Slow(BaseGrader, frozen=True):
    is_async: ClassVar[bool] = True

    async def grade(self, graded: GradingInput) -> GraderResult:
        value = await run_isolated(graded, SLOW_C_CODE, MAX_INLINE_SIZE + 1)
        return GraderResult(value=float(value), passed=True, reason="It ended.")


@pytest.mark.slow
@needs_timer
async def test_a_part_of_a_grader_that_does_not_end_is_told_with_its_name_and_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(worker_pool, "CPU_LIMIT_S", 0.2)
    with closing(EventLoopIsolation()) as isolation:
        graded = GradingInput(case=Case(id="c", input=()), output=Output(text=""), isolation=isolation)
        result = await score(Assertion(grader="slow"), graded, lambda _name: _Slow)
    assert result.outcome is Verdict.UNSCORED
    assert result.reason.startswith("The grader 'slow' did not end within 0.2 s of processor time.")

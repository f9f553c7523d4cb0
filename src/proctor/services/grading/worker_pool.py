"""Processes for graders that may take long: started on demand, killed at their limit.

A timeout costs one process, which the next job replaces. This module does not depend on graders.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pickle import PicklingError
from typing import Any, TypeVar

from proctor.errors import GraderBroke, TimeLimitExceeded
from proctor.services.grading.worker import (
    dump_job,
    ended_by_limit,
    load_result,
    read_message,
    write_message,
)

T = TypeVar("T")

CPU_LIMIT_S = 5.0
"""The processor time for one job."""
WALL_LIMIT_S = 60.0 if hasattr(os, "fork") else 3 * CPU_LIMIT_S
"""A worker that needs longer is killed even if it used less processor time."""
MAX_PROCESSES = 4


class GradingProcess:
    """One worker process; runs one job at a time, on the thread of its caller."""

    def __init__(self) -> None:
        """Starts the process."""
        self._overdue = False
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "proctor.services.grading.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            start_new_session=True,  # Ctrl-C in a terminal is for the parent, which then ends its workers
        )

    def call(self, work: Callable[..., T], *arguments: Any) -> T:
        """Calls a function of a module in the process.

        Raises:
            TimeLimitExceeded: it did not end within the limit; the process is gone.
            GraderBroke: it raised something, or the process ended by itself.
        """
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            job = dump_job(CPU_LIMIT_S, work, arguments)
        except (PicklingError, AttributeError, TypeError) as error:
            raise GraderBroke(f"it cannot be sent to another process: {error}") from None
        timer = threading.Timer(WALL_LIMIT_S, self._end_overdue)
        timer.daemon = True
        timer.start()
        try:
            write_message(process.stdin, job)
            reply = read_message(process.stdout)
        except OSError:
            reply = None
        finally:
            timer.cancel()
        if reply is None:
            process.kill()
            exit_code = process.wait()
            if ended_by_limit(exit_code):
                raise TimeLimitExceeded(f"{CPU_LIMIT_S:g} s of processor time")
            if self._overdue:
                raise TimeLimitExceeded(f"{WALL_LIMIT_S:g} s")
            raise GraderBroke(f"its process ended with exit code {exit_code}")
        ended_well, value = load_result(reply)
        if not ended_well:
            raise GraderBroke(value)
        result: T = value
        return result

    @property
    def is_alive(self) -> bool:
        """Whether it can run another job; one that was killed just as its reply came cannot."""
        return not self._overdue and self._process.poll() is None

    def close(self) -> None:
        """Kills the process, even in the middle of a job. Safe to call twice."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):  # unwritten data
                    pipe.close()

    def _end_overdue(self) -> None:
        self._overdue = True
        self._process.kill()


class GradingPool:
    """Worker processes for an event loop."""

    def __init__(self, size: int = 0) -> None:
        """Starts no process; size 0 means one per processor, at most `MAX_PROCESSES`."""
        size = size or min(os.cpu_count() or 1, MAX_PROCESSES)
        self._threads = ThreadPoolExecutor(size, "proctor-grading")
        self._idle: list[GradingProcess] = []
        self._all: set[GradingProcess] = set()
        self._lock = threading.Lock()
        self._closed = False

    async def call(self, work: Callable[..., T], *arguments: Any) -> T:
        """Calls a function of a module in the next worker that is free.

        Raises:
            TimeLimitExceeded: it did not end within the limit.
            GraderBroke: it raised something, or the process ended by itself.
        """
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._call, work, arguments)

    def _call(self, work: Callable[..., T], arguments: tuple[Any, ...]) -> T:
        process = self._acquire()
        try:
            return process.call(work, *arguments)
        finally:
            self._release(process)

    def _acquire(self) -> GradingProcess:
        with self._lock:
            if self._closed:
                raise GraderBroke("the run was stopped")
            if self._idle:
                return self._idle.pop()
            process = GradingProcess()
            self._all.add(process)
            return process

    def _release(self, process: GradingProcess) -> None:
        with self._lock:
            if process.is_alive and not self._closed:
                self._idle.append(process)
                return
            self._all.discard(process)
        process.close()

    def close(self) -> None:
        """Kills every worker, even in the middle of a job. Safe to call twice."""
        with self._lock:
            self._closed = True
            processes = list(self._all)
        for process in processes:
            process.close()
        self._threads.shutdown(wait=False, cancel_futures=True)

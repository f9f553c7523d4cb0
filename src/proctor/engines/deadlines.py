"""Time limits of equal length for many calls, watched by one timer.

`asyncio.timeout` sets a timer for every call, which costs a tenth of a whole trial on a fast endpoint. Here
calls stand in line in the order in which they are due, and the timer is only ever set for the first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar

T = TypeVar("T")


class Deadlines:
    """Gives each call the same time."""

    def __init__(self, limit_s: float) -> None:
        """Nothing is watched yet.

        Args:
            limit_s: what one call may take, in seconds.
        """
        self._limit_s = limit_s
        self._due: dict[asyncio.Task[Any], float] = {}
        self._late: set[asyncio.Task[Any]] = set()
        self._timer: asyncio.TimerHandle | None = None

    async def within(self, call: Awaitable[T]) -> T:
        """What the call returns.

        Raises:
            TimeoutError: it took too long and was cancelled.
        """
        task = asyncio.current_task()
        assert task is not None
        cancelled_before = task.cancelling()
        loop = asyncio.get_running_loop()
        self._due[task] = loop.time() + self._limit_s
        if self._timer is None:
            self._timer = loop.call_later(self._limit_s, self._look, loop)
        try:
            return await call
        except asyncio.CancelledError:
            if task in self._late and task.uncancel() <= cancelled_before:
                raise TimeoutError from None
            raise
        finally:
            self._due.pop(task, None)
            self._late.discard(task)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        now = loop.time()
        for task, due in list(self._due.items()):
            if due > now:
                self._timer = loop.call_at(due, self._look, loop)
                return
            if task not in self._late:
                self._late.add(task)
                task.cancel()

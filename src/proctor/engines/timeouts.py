"""Equal time limits for many calls, with a single timer.

`asyncio.timeout` sets a timer for every call, which costs a tenth of a whole trial on a fast endpoint. Here
calls are queued in the order of their deadlines, and the timer is only set for the first.
"""

from __future__ import annotations

import asyncio
from math import inf
from typing import Any

_BLOCKED_S = 0.05


class SharedTimer:
    """Limits the time of each call."""

    def __init__(self, limit_s: float) -> None:
        """Starts no timer.

        Args:
            limit_s: the time limit of one call, in seconds.
        """
        self._limit_s = limit_s
        self._due_times: dict[asyncio.Task[Any], float] = {}
        self._timed_out: set[asyncio.Task[Any]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._is_rechecking = False
        self._loop: asyncio.AbstractEventLoop | None = None
        """The loop of the latest call, which is cheaper to know than to find."""

    def start(self) -> asyncio.Task[Any]:
        """Starts a call of the current task; pass the result to `stop`."""
        loop = self._loop
        task = None if loop is None else asyncio.current_task(loop)
        if task is None or loop is None:
            self._loop = loop = asyncio.get_running_loop()
            task = asyncio.current_task(loop)
            assert task is not None
        self._due_times[task] = loop.time() + self._limit_s
        if self._timer is None:
            self._timer = loop.call_later(self._limit_s, self._check, loop)
        return task

    def stop(self, task: asyncio.Task[Any]) -> bool:
        """Ends a call; returns True if it was cancelled because it took too long.

        The task then no longer counts as cancelled, unless it was also cancelled for another reason.
        """
        self._due_times.pop(task, None)
        if self._timed_out and task in self._timed_out:
            self._timed_out.discard(task)
            return task.uncancel() == 0
        return False

    def _check(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        now = loop.time()
        first = next(iter(self._due_times.values()), inf)
        if now - first > _BLOCKED_S and not self._is_rechecking:
            # The loop was blocked: answers may have arrived and only need to be read. Wait once more.
            self._is_rechecking = True
            self._timer = loop.call_later(_BLOCKED_S, self._check, loop)
            return
        self._is_rechecking = False
        for task, due in list(self._due_times.items()):
            if due > now:
                self._timer = loop.call_at(due, self._check, loop)
                return
            del self._due_times[task]
            self._timed_out.add(task)
            task.cancel()

"""Time limits of equal length for many calls, watched by one timer.

`asyncio.timeout` sets a timer for every call, which costs a tenth of a whole trial on a fast endpoint. Here
calls stand in line in the order in which they are due, and the timer is only ever set for the first.
"""

from __future__ import annotations

import asyncio
from math import inf
from typing import Any

_BLOCKED_S = 0.05


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
        self._looks_again = False

    def begin(self) -> asyncio.Task[Any]:
        """The present task's call begins; give what is returned to `end`."""
        task = asyncio.current_task()
        assert task is not None
        loop = asyncio.get_running_loop()
        self._due[task] = loop.time() + self._limit_s
        if self._timer is None:
            self._timer = loop.call_later(self._limit_s, self._look, loop)
        return task

    def end(self, task: asyncio.Task[Any]) -> bool:
        """The call has ended; True when it was cancelled because it took too long.

        Then the task is no longer counted as cancelled, unless somebody else cancelled it as well.
        """
        self._due.pop(task, None)
        if task in self._late:
            self._late.discard(task)
            return task.uncancel() == 0
        return False

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        now = loop.time()
        first = next(iter(self._due.values()), inf)
        if now - first > _BLOCKED_S and not self._looks_again:
            # Something kept the loop from running: answers may be here and only want reading. Once for all.
            self._looks_again = True
            self._timer = loop.call_later(_BLOCKED_S, self._look, loop)
            return
        self._looks_again = False
        for task, due in list(self._due.items()):
            if due > now:
                self._timer = loop.call_at(due, self._look, loop)
                return
            del self._due[task]
            self._late.add(task)
            task.cancel()

"""Limits how many bytes of large answers are in memory at a time."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class ByteLimit:
    """A fair semaphore that counts bytes."""

    def __init__(self, limit: int) -> None:
        """Reserves nothing.

        Args:
            limit: the most bytes reserved at a time; a larger request gets all of them.
        """
        self._limit = limit
        self._free = limit
        self._waiters: deque[tuple[int, asyncio.Future[None]]] = deque()

    @asynccontextmanager
    async def reserve(self, size: int) -> AsyncIterator[None]:
        """Reserves bytes for the duration of the block; waits in the order of calls."""
        size = min(size, self._limit)
        if self._waiters or size > self._free:
            await self._wait(size)
        else:
            self._free -= size
        try:
            yield
        finally:
            self._release(size)

    async def _wait(self, size: int) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append((size, waiter))
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():  # admitted just as it was cancelled
                self._release(size)
            raise

    def _release(self, size: int) -> None:
        self._free += size
        while self._waiters and (self._waiters[0][1].done() or self._waiters[0][0] <= self._free):
            size, waiter = self._waiters.popleft()
            if not waiter.done():
                self._free -= size
                waiter.set_result(None)

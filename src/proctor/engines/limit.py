"""How many requests one endpoint gets at once: a limit that shrinks when it is busy and grows back.

Additive increase, multiplicative decrease, as TCP does it (V. Jacobson, "Congestion avoidance and control",
1988), but starting at the ceiling: most endpoints take what they are given.
"""

from __future__ import annotations

import asyncio
from collections import deque
from time import monotonic


class Limit:
    """Places for requests to one endpoint; hand them out with `enter` and take them back with `leave`."""

    def __init__(self, ceiling: int) -> None:
        """All places free.

        Args:
            ceiling: the most requests ever under way at once.
        """
        self.ceiling = ceiling
        self.allowed = float(ceiling)
        self.in_flight = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._halved_at = float("-inf")
        self._closed_until = 0.0
        self._opening: asyncio.TimerHandle | None = None

    def try_enter(self) -> bool:
        """Take a place if one is free now and nobody waits for it."""
        if self.in_flight < int(self.allowed) and not self._waiting and not self._closed_until:
            self.in_flight += 1
            return True
        return False

    async def enter(self) -> None:
        """Take a place, waiting in turn for one and for the end of a pause that the endpoint asked for."""
        if self.try_enter():
            return
        place = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self.leave()  # the place came just as its taker went
            raise

    def leave(self) -> None:
        """Give a place back."""
        self.in_flight -= 1
        self._let_in()

    def succeeded(self) -> None:
        """A request went well: one more place after as many successes as there are places now."""
        if self.allowed < self.ceiling:
            self.allowed = min(float(self.ceiling), self.allowed + 1 / self.allowed)
            self._let_in()

    def busy(self, asked_at: float, pause_s: float | None) -> None:
        """The endpoint said it has too much to do: halve, once for all requests that were under way.

        Args:
            asked_at: `time.monotonic()` when the refused request was sent.
            pause_s: how long the endpoint wants nobody to ask, if it said so.
        """
        now = monotonic()
        if asked_at > self._halved_at:
            self.allowed = max(1.0, self.allowed / 2)
            self._halved_at = now
        if pause_s:
            self._closed_until = max(self._closed_until, now + pause_s)
            if self._opening is None:
                self._opening = asyncio.get_running_loop().call_later(pause_s, self._open)

    def _open(self) -> None:
        self._opening = None
        left = self._closed_until - monotonic()
        if left > 0:  # the pause was prolonged meanwhile
            self._opening = asyncio.get_running_loop().call_later(left, self._open)
            return
        self._closed_until = 0.0
        self._let_in()

    def _let_in(self) -> None:
        while self._waiting and not self._closed_until and self.in_flight < int(self.allowed):
            place = self._waiting.popleft()
            if not place.done():
                self.in_flight += 1
                place.set_result(None)

"""An event loop whose clock jumps to the next timer, so that minutes of waiting take no time."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")
Virtually = Callable[[Coroutine[Any, Any, Any]], Any]


class _JumpingSelector(selectors.SelectSelector):
    """Never waits: it moves its loop's clock on instead."""

    loop: JumpingLoop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if timeout is None:
            raise RuntimeError("Everything waits and nothing is due.")
        self.loop.now += timeout
        return []


class JumpingLoop(asyncio.SelectorEventLoop):
    """For code without threads and sockets."""

    def __init__(self) -> None:
        self.now = 0.0
        selector = _JumpingSelector()
        selector.loop = self
        super().__init__(selector)

    def time(self) -> float:
        return self.now


def run_virtually(coroutine: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine on a loop whose time costs nothing."""
    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        return runner.run(coroutine)


def get_time() -> float:
    """The time of the running loop, in seconds."""
    return asyncio.get_running_loop().time()

"""Blocking work beside the event loop."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from proctor.environments.aside import aside


async def test_a_cancelled_caller_waits_until_the_work_has_ended(tmp_path: Path) -> None:
    def work() -> None:
        time.sleep(0.05)
        (tmp_path / "written").touch()

    task = asyncio.create_task(aside(work))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (tmp_path / "written").exists()


async def test_the_loop_goes_on_meanwhile() -> None:
    task = asyncio.create_task(aside(time.sleep, 0.05))
    turns = 0
    while not task.done():
        await asyncio.sleep(0.001)
        turns += 1
    assert turns > 5


async def test_what_the_work_raises_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        await aside(divmod, 1, 0)

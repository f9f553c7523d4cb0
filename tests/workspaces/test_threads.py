"""Blocking work beside the event loop."""

from __future__ import annotations

import asyncio
from pathlib import Path
from threading import Event

import pytest

from proctor.workspaces.threads import run_in_thread
from support.waiting import PATIENCE_S


async def test_a_cancelled_caller_waits_until_the_work_has_ended(tmp_path: Path) -> None:
    has_begun, may_end = Event(), Event()

    def work() -> None:
        has_begun.set()
        may_end.wait(PATIENCE_S)
        (tmp_path / "written").touch()

    task = asyncio.create_task(run_in_thread(work))
    while not has_begun.is_set():
        await asyncio.sleep(0.001)
    task.cancel()
    await asyncio.sleep(0.01)
    assert not task.done()
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (tmp_path / "written").exists()


async def test_the_loop_goes_on_meanwhile() -> None:
    may_end = Event()
    task = asyncio.create_task(run_in_thread(may_end.wait, PATIENCE_S))
    for _ in range(5):
        await asyncio.sleep(0.001)
    assert not task.done()
    may_end.set()
    await task


async def test_what_the_work_raises_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        await run_in_thread(divmod, 1, 0)

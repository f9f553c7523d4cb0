"""Watches the store during a run: warns about locks, stops on faults and requests, writes the last trials."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Thread
from time import monotonic
from typing import Any

from proctor.errors import StoreError
from proctor.model import Run
from proctor.plurals import pluralize
from proctor.protocols import Store
from proctor.services import events

_POLL_INTERVAL_S = 0.25
_NOTICE_AFTER_S = 2.0
_REQUEST_INTERVAL_S = 1.0
"""How often the store is checked for a request of another process to stop the run."""
MAX_LOCK_WAIT_S = 1.0
"""How long a stopped run waits for the lock of its store."""


@contextmanager
def watch_store(store: Store, listen: events.Listener, stop: Callable[[], None]) -> Iterator[None]:
    """Warns when a lock keeps answers waiting, and stops the run when the store's file is lost.

    Args:
        store: the store of the run.
        listen: receives a warning when waiting starts and ends, and when it holds requests back.
        stop: called to stop the run.
    """
    with _background(_watch(store, listen, stop)):
        yield


@contextmanager
def watch_stop_requests(store: Store, run_ids: Sequence[str], stop: Callable[[], None]) -> Iterator[None]:
    """Stops runs when another process asks for it through the store.

    Args:
        store: the store of the runs, which this process has locked.
        run_ids: the runs.
        stop: called once, to stop them all.
    """
    with _background(_watch_requests(store, run_ids, stop)):
        yield


@contextmanager
def _background(work: Coroutine[Any, Any, None]) -> Iterator[None]:
    """Runs a coroutine until the end of the block."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()


async def _watch_requests(store: Store, run_ids: Sequence[str], stop: Callable[[], None]) -> None:
    def is_any_requested() -> bool:
        with suppress(StoreError):  # while the database is away nobody can ask
            return any(map(store.is_stop_requested, run_ids))
        return False

    while True:
        await asyncio.sleep(_REQUEST_INTERVAL_S)
        if await _call_in_thread(is_any_requested):  # a distant database does not keep calls waiting
            stop()
            return


async def _call_in_thread(ask: Callable[[], bool]) -> bool:
    """Calls a function in a thread of its own, for which neither a cancelled task nor the process waits."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[bool] = loop.create_future()

    def settle(result: bool) -> None:
        if not answer.done():
            answer.set_result(result)

    def run() -> None:
        result = ask()
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(settle, result)

    Thread(target=run, name="proctor-stop-requests", daemon=True).start()
    return await answer


async def _watch(store: Store, listen: events.Listener, stop: Callable[[], None]) -> None:
    last = ""
    while True:
        await asyncio.sleep(_POLL_INTERVAL_S)
        health = store.health()
        if health.fault is not None:
            stop()
        if last and not health.locked_s:
            last = ""
            listen(events.WarningMessage("The store is writable again."))
        state = "" if health.locked_s < _NOTICE_AFTER_S else "full" if store.is_full() else "locked"
        if state and state != last:
            last = state
            verb = "waits" if health.waiting == 1 else "wait"
            pause = " No request is sent until they are written." if state == "full" else ""
            answers = pluralize(health.waiting, "answer")
            listen(
                events.WarningMessage(f"The store {health.obstacle}. {answers} {verb} to be written.{pause}")
            )


async def flush_store(store: Store, is_stopped: Callable[[], bool]) -> None:
    """Waits until all trials of a run are durable; a stopped run waits only a second for a lock."""
    last: float | None = None
    try:
        while not store.flush(_POLL_INTERVAL_S / 5):
            if is_stopped() and last is None:
                last = monotonic() + MAX_LOCK_WAIT_S
            if last is not None and monotonic() >= last:
                store.abandon_lock()
            await asyncio.sleep(_POLL_INTERVAL_S / 5)
    except asyncio.CancelledError:
        store.abandon_lock()
        store.flush()
        raise


def check_store(store: Store, run: Run) -> None:
    """Checks that a run is still in its store.

    Raises:
        StoreError: it was written to another file; the text names that file.
    """
    fault = store.health().fault
    if fault is None:
        return
    command = shlex.join(["proctor", "run", f"--resume={run.id}", "--store", fault.path])
    raise StoreError(f"{fault.message} Continue with: {command}")

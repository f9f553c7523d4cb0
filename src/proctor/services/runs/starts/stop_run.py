"""Stops the process of a run: on this machine by a signal, on another machine through the store."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from time import monotonic, sleep

from msgspec import Struct

from proctor.errors import UsageError
from proctor.model import Run
from proctor.protocols import RunOwner, Store

MAX_STOP_WAIT_S = 30.0
"""How long `stop_runs` waits for the end of runs."""
_POLL_INTERVAL_S = 0.1
STOP_SIGNAL: signal.Signals = (
    getattr(signal, "CTRL_BREAK_EVENT", signal.SIGTERM) if sys.platform == "win32" else signal.SIGINT
)
"""Tells a process to stop its runs, as Ctrl-C does."""


class StoppedRun(Struct, frozen=True, kw_only=True):
    """A run that was told to stop."""

    run: Run
    """As it was stored last."""
    owner: RunOwner
    """The process that was told."""
    has_ended: bool
    """Whether the process has released it."""


def send_stop_signal(pid: int) -> bool:
    """Interrupts a process of this machine; returns False if it has ended, or is another user's."""
    try:
        os.kill(pid, STOP_SIGNAL)
    except OSError:
        return False
    return True


def stop_run(store: Store, run_id: str, send_signal: Callable[[int], bool] = send_stop_signal) -> bool:
    """Tells the process of a run to stop; returns False if there is none, or it cannot be told.

    No process is signalled by an id that another machine, or another container, has given it.

    Args:
        store: the store of the run.
        run_id: the run.
        send_signal: interrupts a process of this machine; returns False if that fails.

    Raises:
        StoreError: the store cannot be read.
    """
    if store.request_stop(run_id):
        return True
    owner = store.lock_owner(run_id)
    if owner is None or owner.host is not None or owner.pid in (None, os.getpid()):
        return False
    assert owner.pid is not None
    return send_signal(owner.pid)


def stop_runs(store: Store, words: Sequence[str], timeout_s: float = MAX_STOP_WAIT_S) -> list[StoppedRun]:
    """Stops runs, and waits until their processes have stored what finished.

    Args:
        store: the store of the runs.
        words: what names each run, as for `Store.run`.
        timeout_s: how long to wait for all of them.

    Raises:
        UsageError: a run is not in progress, or its process cannot be told; nothing after it was stopped.
        StoreError: there is no such run, or the store cannot be read.
    """
    owned_runs = [_find_owner(store, word) for word in words]
    for run, owner in owned_runs:
        if not stop_run(store, run.id) and store.is_run_locked(run.id):
            raise UsageError(
                f"Run {run.id} is running in {owner.title}, which cannot be stopped from here. Stop it "
                "where it was started."
            )
    until = monotonic() + timeout_s
    stopped_runs = []
    for run, owner in owned_runs:
        while (is_locked := store.is_run_locked(run.id)) and monotonic() < until:
            sleep(_POLL_INTERVAL_S)
        stopped_runs.append(StoppedRun(run=store.run(run.id), owner=owner, has_ended=not is_locked))
    return stopped_runs


def _find_owner(store: Store, word: str) -> tuple[Run, RunOwner]:
    run = store.run(word)
    owner = store.lock_owner(run.id) if run.status == "running" else None
    if owner is None:
        status = "interrupted" if run.status == "running" else run.status
        raise UsageError(f"Run {run.id} is not in progress: it is {status}.")
    return run, owner

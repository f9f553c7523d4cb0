"""The current status of stored runs: a `running` one that no process has locked is interrupted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from proctor.model import Run
from proctor.protocols import Store


def with_current_status(store: Store, run: Run) -> Run:
    """Returns a run with its current status.

    Raises:
        StoreError: the store cannot be read.
    """
    if run.status != "running" or store.is_run_locked(run.id):
        return run
    return replace(run, status="interrupted")


def iter_current_status(store: Store, runs: Iterable[Run]) -> Iterator[Run]:
    """Yields runs with their current status; the locks of all of them are read at once.

    Raises:
        StoreError: the store cannot be read.
    """
    unlocked_ids: frozenset[str] | None = None
    for run in runs:
        if run.status != "running":
            yield run
            continue
        if unlocked_ids is None:
            unlocked_ids = store.unlocked_runs()
        yield replace(run, status="interrupted") if run.id in unlocked_ids else run

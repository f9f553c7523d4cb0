"""Locks of runs, by their keys. They belong to a process and end with it, however it dies."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from proctor.protocols import RunOwner


class RunLockTable(Protocol):
    """The locks of one store; each method raises OSError or StoreError if it cannot be reached."""

    def lock(self, key: int) -> bool:
        """Locks a run for this process; returns False if another one has locked it. Safe to call twice."""

    def is_locked(self, key: int) -> bool:
        """Returns whether any process, even this one, has locked a run; True if the system cannot tell."""

    def find_unlocked(self, keys: Collection[int]) -> set[int]:
        """Returns those of the given runs that no process has locked, with one query."""

    def find_owner(self, key: int) -> RunOwner | None:
        """Returns the process that has locked a run; None if certainly none has."""

    def request_stop(self, key: int) -> bool:
        """Requests the owner of a lock to stop its run; returns False if it cannot be reached."""

    def is_stop_requested(self, key: int) -> bool:
        """Returns whether a stop was requested from the owner of a lock; for any thread."""

    def close(self) -> None:
        """Releases all locks. Safe to call twice."""

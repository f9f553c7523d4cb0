"""What writes trials for a store: `put` does not wait, and rows are durable within 100 ms."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from proctor.protocols import StoreHealth

TrialRecord = tuple[int, int, int, str | None, bytes]
"""run key, position, repeat, verdict, body."""


class RunState(Struct, frozen=True, gc=False):
    """The current state of a run, written after the rows before it."""

    key: int
    status: str
    body: bytes
    totals: bytes | None = None
    """The totals of all of its trials, if they are known."""


class TrialQueue(Protocol):
    """Takes rows from one thread and commits them elsewhere, in order.

    A finished trial is never replaced: a second row for the same run, position and repeat is ignored. A trial
    without a verdict is replaced by the next row for it.
    """

    def put(self, row: TrialRecord) -> None:
        """Adds a row; waits only if very many are pending."""

    def put_state(self, state: RunState) -> None:
        """Adds the current state of a run, to be written after all rows so far."""

    def flush(self, timeout_s: float | None = None) -> bool:
        """Waits until every row so far is durable; returns False if that takes longer than the timeout."""

    def is_full(self) -> bool:
        """Returns whether no more should be added before some of it is written."""

    def health(self) -> StoreHealth:
        """Returns how much is pending, and what is wrong with the database."""

    def close(self) -> None:
        """Flushes, and releases all resources.

        Raises:
            StoreError: not all rows could be written, or the last ones only elsewhere.
        """

"""The thread that writes trials: `put` does not wait, and rows are committed in batches within 100 ms."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from threading import Event, Lock, Thread
from time import monotonic

from msgspec import Struct

from proctor.errors import StoreError
from proctor.protocols import StoreFault, StoreHealth
from proctor.stores.sql.wait_policy import DEFAULT_PATIENCE_S, WaitPolicy, interruptible

TrialRecord = tuple[int, int, int, str | None, bytes]
"""run key, position, repeat, verdict, body."""


class RunState(Struct, frozen=True, gc=False):
    """The current state of a run, written after the rows before it."""

    key: int
    status: str
    body: bytes
    totals: bytes | None = None
    """The totals of all of its trials, if they are known."""


MAX_WAITING_ROWS = 4096
"""From this number of rows on that are not durable, no new requests are sent."""
MAX_WAITING_BYTES = 16 * 2**20
_MAX_OVERRUN = 4
"""At this multiple of the limits `put` waits, so that memory use stays bounded for any caller."""
_GATHER_S = 0.03
"""How long rows gather before they are committed: well under the promised 100 ms."""
_CHECK_EVERY_S = 0.1
_CLOSE_TIMEOUT_S = 1.0
"""How long closing waits for the store before pending rows are saved elsewhere."""


class TrialQueue(ABC):
    """Takes rows from one thread and commits them in another, in order.

    A finished trial is never replaced: a second row for the same run, position and repeat is ignored. A trial
    without a verdict is replaced by the next row for it.
    """

    def __init__(self, wait_policy: WaitPolicy) -> None:
        """Stores its argument; the thread starts with the first row.

        Args:
            wait_policy: how long it waits for other processes and for the database.
        """
        self._wait_policy = wait_policy
        self.can_rescue = False
        """Whether rows that the store does not take are saved elsewhere; otherwise that is an error."""
        self._pending: list[TrialRecord] = []
        self._states: list[RunState] = []
        self._row_count = 0
        """The number of rows that are not durable."""
        self._byte_count = 0
        self._lock = Lock()
        self._has_work = Event()
        self._flush_now = Event()
        self._idle = Event()
        self._idle.set()
        self._has_room = Event()
        self._thread: Thread | None = None
        self._is_closing = False
        self._error: Exception | None = None
        self._waiting_since: float | None = None
        """Since when rows wait for another process or for the database; None if they do not."""

    @abstractmethod
    def _write_rows(self, rows: Sequence[TrialRecord], states: Sequence[RunState]) -> None:
        """Makes rows durable, and then the states of runs; called in the thread."""

    @abstractmethod
    def _disconnect(self) -> None:
        """Closes the thread's connection, if it has one; called in the thread."""

    @abstractmethod
    def _make_error(self, error: Exception) -> StoreError:
        """Returns the error for the callers of a queue whose thread has failed."""

    @abstractmethod
    def _make_wait_error(self) -> StoreError:
        """Returns the error for callers that have waited for too long."""

    def _find_fault(self) -> StoreFault | None:
        """Returns why the store takes no more trials; None if it does."""
        return None

    # --- for the callers' thread ---

    def put(self, row: TrialRecord) -> None:
        """Adds a row; waits only if very many are pending."""
        if self._error is not None:
            self._raise_error()
        if self._is_closing:
            raise StoreError("The store is closed, so nothing can be written.")
        with self._lock:
            is_first = not self._pending
            self._pending.append(row)
            self._row_count += 1
            self._byte_count += len(row[4])
            if is_first:
                self._idle.clear()
        if is_first:
            self._wake()
        elif self._exceeds_limits(_MAX_OVERRUN):
            self._wait_for_room()

    def put_state(self, state: RunState) -> None:
        """Adds the current state of a run, to be written after all rows so far."""
        self._raise_error()
        with self._lock:
            self._states.append(state)
            self._idle.clear()
        self._wake()

    def flush(self, timeout_s: float | None = None) -> bool:
        """Waits until every row so far is durable; returns False if that takes longer than the timeout."""
        self._flush_now.set()
        last = None if timeout_s is None else monotonic() + timeout_s
        self._wait(self._idle, lambda: self._idle.is_set() or (last is not None and monotonic() >= last))
        return self._idle.is_set()

    def is_full(self) -> bool:
        """Returns whether no more should be added before some of it is written."""
        return self._row_count >= MAX_WAITING_ROWS or self._byte_count >= MAX_WAITING_BYTES

    def health(self) -> StoreHealth:
        """Returns how much is pending, how long it has waited, and what is wrong with the store."""
        since = self._waiting_since
        waited_s = 0.0 if since is None else monotonic() - since
        return StoreHealth(waiting=self._row_count, locked_s=waited_s, fault=self._find_fault())

    def abandon(self) -> None:
        """Stops waiting for other processes and for the database."""
        self._wait_policy.abandoned.set()

    def close(self) -> None:
        """Flushes, and ends the thread.

        Raises:
            StoreError: not all rows could be written, or the last ones only elsewhere.
        """
        self._is_closing = True
        if self._thread is not None:
            self._wake()
            self._flush_now.set()
            patience_s = _CLOSE_TIMEOUT_S if self.can_rescue else self._wait_policy.patience_s
            self._thread.join(min(patience_s, DEFAULT_PATIENCE_S))
            self.abandon()
            self._thread.join()
            self._thread = None
        self._raise_error()

    def _wake(self) -> None:
        if self._thread is None:
            self._thread = Thread(target=self._run, name="proctor-store", daemon=True)
            self._thread.start()
        self._has_work.set()

    def _exceeds_limits(self, times: int) -> bool:
        return self._row_count >= times * MAX_WAITING_ROWS or self._byte_count >= times * MAX_WAITING_BYTES

    def _wait_for_room(self) -> None:
        self._flush_now.set()
        self._has_room.clear()
        self._wait(self._has_room, lambda: not self._exceeds_limits(_MAX_OVERRUN))

    def _wait(self, event: Event, is_over: Callable[[], bool]) -> None:
        """Waits until a condition holds; also checks whether the thread has died.

        Raises:
            StoreError: the writer failed, or the store kept them waiting for too long.
        """
        if not is_over():
            with interruptible():
                while not is_over() and not event.wait(_CHECK_EVERY_S):
                    self._raise_error()
                    since = self._waiting_since
                    if since is not None and monotonic() - since > self._wait_policy.patience_s:
                        raise self._make_wait_error()
        self._raise_error()

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self._make_error(self._error) from self._error

    # --- in the thread ---

    def _run(self) -> None:
        try:
            try:
                while not self._is_closing:
                    self._has_work.wait()
                    self._flush_now.wait(_GATHER_S)
                    self._flush_now.clear()
                    self._has_work.clear()
                    self._write()
                while not self._idle.is_set():  # what came between the last write and the request to close
                    self._write()
            finally:
                self._disconnect()
        except Exception as error:  # noqa: BLE001  # whatever it is, the next `put` must report it
            self._error = error
        finally:
            self._idle.set()
            self._has_room.set()

    def _write(self) -> None:
        """Writes what is pending; what comes meanwhile gathers again, or each time would write few rows."""
        with self._lock:
            rows, self._pending = self._pending, []
            states, self._states = self._states, []
        if rows or states:
            self._write_rows(rows, states)
        with self._lock:
            self._row_count -= len(rows)
            self._byte_count -= sum([len(row[4]) for row in rows])
            if not self._pending and not self._states:
                self._idle.set()
        self._has_room.set()

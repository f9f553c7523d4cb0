"""The store in memory: `--store :memory:`.

It is the store of `proctor.stores.sqlite` over an SQLite database in memory, so it needs no second
implementation of versions, digests and orders. Only what concerns files differs: locks of runs are in memory,
too, and there is no rescue file. It writes no file.

A database in memory holds 1 GiB at most, and its readers and writers wait for each other.

Sources: "In-Memory Databases" and the comments of memdb.c, sqlite.org: a database of the VFS `memdb` whose
name begins with `/` is shared by the connections of a process.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from functools import partial
from math import inf
from pathlib import Path
from time import time
from typing import TYPE_CHECKING
from weakref import finalize

from msgspec import Struct

from proctor.errors import UsageError
from proctor.protocols import AnswerCache
from proctor.stores.location import (
    DEFAULT_FOLDER,
    NO_GRANTS,
    Grants,
    MigrationReport,
    StoredNames,
    StoreMaintenance,
)
from proctor.stores.sqlite.connection import connect_to_memory
from proctor.stores.sqlite.lock_wait import LockWait
from proctor.stores.sqlite.migrations import MIGRATIONS, migrate
from proctor.stores.sqlite.run_locks import RunLocks, SharedLocks
from proctor.stores.sqlite.store import SqliteStore
from proctor.stores.sqlite.trial_writer import WriterThread

if TYPE_CHECKING:
    from proctor.stores.sql.row_access import StoreRows

ADDRESS = ":memory:"


class MemoryLocation:
    """The `StoreLocation` of one store in memory; every `open_store` returns the same data."""

    address = name = ADDRESS
    is_durable = is_in_folder = False
    maintenance: StoreMaintenance | None = None
    rows: StoreRows | None = None

    def __init__(self) -> None:
        """Creates nothing yet."""
        self.folder = Path(DEFAULT_FOLDER)
        self._uri = f"file:/proctor-{secrets.token_hex(8)}?vfs=memdb"
        self._locks = SharedLocks()
        self._answers: dict[bytes, _MemoryAnswer] = {}
        self._trash: MemoryLocation | None = None
        self._close: Callable[[], object] | None = None
        """Closes the connection that keeps the database; it is called when the location is collected."""

    def exists(self) -> bool:
        """Whether it was opened before."""
        return self._close is not None

    def is_empty(self) -> bool:
        """Returns False: an open store has its tables."""
        return False

    def check_writable(self) -> None:
        """Does nothing: memory can be written."""

    def open_store(self, notify: Callable[[str], None] = lambda _line: None) -> MemoryStore:  # noqa: ARG002
        """The store; `notify` is never called."""
        if self._close is None:
            keeper = connect_to_memory(self._uri)
            self._close = finalize(self, keeper.close)
            migrate(keeper)
        return MemoryStore(self)

    def keep_connections(self) -> None:
        """Does nothing: a store opens in no time."""

    def open_to_read(self) -> MemoryStore:
        """Opens the store; nobody else can use it."""
        return self.open_store()

    def migrate(
        self,
        grants: Grants = NO_GRANTS,
        notify: Callable[[str], None] = lambda _line: None,  # noqa: ARG002
    ) -> MigrationReport:
        """Creates the tables, which need no upgrade: their versions are those of this process."""
        if grants != NO_GRANTS:
            raise UsageError("A store in memory has no roles. Remove --grant and --grant-read.")
        self.open_store().close()
        return MigrationReport(before=len(MIGRATIONS), after=len(MIGRATIONS))

    def migration_script(self, grants: Grants = NO_GRANTS) -> str:  # noqa: ARG002
        """Refuses: no server executes it.

        Raises:
            UsageError: always.
        """
        raise UsageError(
            "--sql prints statements for a database server, but a store in memory has no server. Remove "
            "--sql."
        )

    def list_names(self) -> StoredNames:
        """Returns no names: no other process sees them."""
        return StoredNames()

    def list_case_labels(self, suite: str) -> Iterator[tuple[tuple[str, ...], str | None]]:  # noqa: ARG002
        """Yields nothing."""
        return iter(())

    def trash(self) -> MemoryLocation:
        """Where deleted versions of suites are."""
        if self._trash is None:
            self._trash = MemoryLocation()
        return self._trash

    def open_answer_cache(
        self,
        notify: Callable[[str], None] = lambda _message: None,  # noqa: ARG002
    ) -> AnswerCache:
        """The answers that this process has kept; `notify` is never called."""
        return _MemoryAnswerCache(self._answers)


def memory_location(name: str = "") -> MemoryLocation:
    """A new, empty store in memory.

    Raises:
        UsageError: the address goes on after the scheme.
    """
    if name.strip("/"):
        raise UsageError(f"A store in memory has no name: write {ADDRESS} instead of memory://{name}.")
    return MemoryLocation()


class MemoryStore(SqliteStore):
    """The `Store` over a database in memory; use `MemoryLocation.open_store`."""

    is_durable = False

    def __init__(self, location: MemoryLocation) -> None:
        """Opens the store of a location.

        Args:
            location: keeps the database for as long as this store is open.
        """
        lock_wait = LockWait()
        connect = partial(connect_to_memory, location._uri)  # one thing in two classes
        db = connect(lock_wait)
        # Readers of a database in memory keep a writer waiting, so its commit waits for them.
        writer = WriterThread(ADDRESS, lambda: connect(LockWait()), lock_wait, db)
        super().__init__(ADDRESS, db, lock_wait, writer, _MemoryRunLocks(location._locks))
        self._location = location

    def protect(self) -> None:
        """Waits for locks for as long as it takes; there is no other place to which trials could be saved."""
        self._lock_wait.patience_s = inf

    def open_answer_cache(self, notify: Callable[[str], None] = lambda _message: None) -> AnswerCache:
        """The answers that this process has kept; `notify` is never called."""
        return self._location.open_answer_cache(notify)


class _MemoryRunLocks(RunLocks):
    """Which stores of this process have which run; no other process can have any."""

    def __init__(self, locks: SharedLocks) -> None:
        super().__init__(ADDRESS)
        self._locks = locks

    def _share_if_there(self) -> SharedLocks | None:
        return self._share()

    def _find_shared(self, *, writes: bool) -> SharedLocks:  # noqa: ARG002
        return self._locks


class _MemoryAnswer(Struct, frozen=True, gc=False):
    about: str
    put_at: float
    parts: bytes
    value: bytes | None
    why_not: str


class _MemoryAnswerCache:
    """The `AnswerCache` of a store in memory."""

    def __init__(self, answers: dict[bytes, _MemoryAnswer]) -> None:
        self._answers = answers
        self._opened_at = time()

    def get(self, key: bytes) -> tuple[bytes | None, str] | None:
        answer = self._answers.get(key)
        return None if answer is None else (answer.value, answer.why_not)

    def earlier_parts(self, about: str) -> list[bytes]:
        answers = [
            answer
            for answer in self._answers.values()
            if answer.about == about and answer.put_at < self._opened_at
        ]
        return [answer.parts for answer in reversed(answers)][:50]

    def put(self, key: bytes, about: str, parts: bytes, value: bytes | None, why_not: str) -> None:
        previous = self._answers.get(key)
        if value is None and previous is not None and previous.value is not None:
            return
        self._answers[key] = _MemoryAnswer(about, time(), parts, value, why_not)

    def close(self) -> None:
        pass

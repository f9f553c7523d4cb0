"""The location of a store in an SQLite file, and the files beside it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from proctor.errors import UsageError
from proctor.protocols import AnswerCache
from proctor.store_protocol import Progress
from proctor.stores.location import (
    NO_GRANTS,
    Grants,
    MigrationReport,
    SalvageResult,
    StoredNames,
    StoreReport,
    UnusedFile,
)

if TYPE_CHECKING:
    from proctor.stores.sqlite.row_access import SqliteRows
    from proctor.stores.sqlite.store import SqliteStore


class SqliteLocation:
    """Implements `StoreLocation` and `StoreMaintenance` for a file."""

    is_durable = is_in_folder = True

    def __init__(self, path: str) -> None:
        """Stores the path; reads nothing.

        Args:
            path: the file, which need not exist.
        """
        self.address = path
        self.name = Path(path).name
        self.folder = Path(path).parent
        self._path = Path(path)

    @property
    def maintenance(self) -> SqliteLocation:
        """Returns the operations on the file."""
        return self

    @property
    def rows(self) -> SqliteLocation:
        """Returns the access to all rows."""
        return self

    def exists(self) -> bool:
        """Returns whether there is anything at the path, even a broken link, or cannot be seen."""
        is_locked = os.path.isdir(self.folder) and not os.access(self.folder, os.X_OK)  # noqa: PTH112
        return is_locked or os.path.lexists(self._path)

    def is_empty(self) -> bool:
        """Returns whether the file exists and has no bytes."""
        return os.path.isfile(self._path) and not self._path.stat().st_size  # noqa: PTH113

    def check_writable(self) -> None:
        """Refuses a store that is read-only.

        Raises:
            StoreError: it cannot be written.
        """
        from proctor.errors import ReadOnlyStore
        from proctor.stores.sqlite.connection import is_writable, read_only_message

        if not is_writable(self.address):
            raise ReadOnlyStore(read_only_message(self.address))

    def open_store(self, notify: Callable[[str], None] = lambda _line: None) -> SqliteStore:
        """Opens the store; see `SqliteStore.open_file`."""
        from proctor.stores.sqlite.store import SqliteStore

        return SqliteStore.open_file(self.address, notify)

    def keep_connections(self) -> None:
        """Does nothing: a store opens in no time."""

    def open_to_read(self) -> SqliteStore:
        """Opens the store without writing to it; see `SqliteStore.open_file_to_read`."""
        from proctor.stores.sqlite.store import SqliteStore

        return SqliteStore.open_file_to_read(self.address)

    def migrate(
        self, grants: Grants = NO_GRANTS, notify: Callable[[str], None] = lambda _line: None
    ) -> MigrationReport:
        """Creates or upgrades the file, as opening it does; see `StoreLocation.migrate`."""
        from proctor.stores.sqlite.migrations import MIGRATIONS

        if grants != NO_GRANTS:
            raise UsageError(
                f"The store {self.address} is a file, which has no roles. Set the permissions of the file "
                f"instead of --grant and --grant-read."
            )
        before = self._read_version()
        self.open_store(notify).close()
        return MigrationReport(before=before, after=len(MIGRATIONS))

    def _read_version(self) -> int:
        if not self.exists() or self.is_empty():
            return 0
        from proctor.stores.sqlite.connection import open_as_is

        with closing(open_as_is(self.address)) as db:
            return int(db.execute("PRAGMA user_version").fetchone()[0])

    def migration_script(self, grants: Grants = NO_GRANTS) -> str:  # noqa: ARG002
        """Refuses: no server executes it.

        Raises:
            UsageError: always.
        """
        raise UsageError(
            f"--sql prints statements for a database server, but the store {self.address} is a file. Remove "
            f"--sql."
        )

    def list_names(self) -> StoredNames:
        """Returns the names in the store; see `stored_names`."""
        from proctor.stores.sqlite.stored_names import list_names

        return list_names(self.address)

    def list_case_labels(self, suite: str) -> Iterator[tuple[tuple[str, ...], str | None]]:
        """Yields the tags and the category of cases of a saved suite; see `stored_names`."""
        from proctor.stores.sqlite.stored_names import list_case_labels

        return list_case_labels(self.address, suite)

    def trash(self) -> SqliteLocation:
        """Returns the location of the store of deleted versions, a file beside this one."""
        return SqliteLocation(f"{self.address}-trash")

    def open_answer_cache(self, notify: Callable[[str], None] = lambda _message: None) -> AnswerCache:
        """Opens the answer cache in the store's folder, which other stores there share."""
        from proctor.stores.sqlite.answer_cache import CACHE_NAME, SqliteAnswerCache

        return SqliteAnswerCache(self.folder / CACHE_NAME, notify)

    # --- rows ---

    def read_rows(
        self, notify: Callable[[str], None] = lambda _line: None
    ) -> AbstractContextManager[SqliteRows]:
        """Opens the rows of the store at this moment; see `StoreRows.read_rows`."""
        from proctor.stores.sqlite.row_access import read_store

        return read_store(self.address, notify)

    def write_rows(self) -> AbstractContextManager[SqliteRows]:
        """Opens an empty store to be filled; see `StoreRows.write_rows`."""
        from proctor.stores.sqlite.row_access import fill_store

        return fill_store(self.address)

    def read_answers(self) -> AbstractContextManager[SqliteRows | None]:
        """Opens the answer cache in the store's folder; see `StoreRows.read_answers`."""
        from proctor.stores.sqlite.answer_cache import CACHE_NAME
        from proctor.stores.sqlite.row_access import read_cache

        return read_cache(self.folder / CACHE_NAME)

    def write_answers(self) -> AbstractContextManager[SqliteRows]:
        """Opens the answer cache to be extended; see `StoreRows.write_answers`."""
        from proctor.stores.sqlite.answer_cache import CACHE_NAME
        from proctor.stores.sqlite.row_access import extend_cache

        return extend_cache(self.folder / CACHE_NAME)

    # --- files ---

    def check(self, on_progress: Progress = lambda _count, _total: None) -> StoreReport:
        """Checks the file and every row in it; see `StoreMaintenance.check`."""
        from proctor.stores.sqlite.integrity import check_store

        return check_store(self.address, on_progress)

    def back_up(self, to: Path, on_progress: Progress = lambda _count, _total: None) -> dict[str, int]:
        """Copies the store to a new file; see `StoreMaintenance.back_up`."""
        from proctor.stores.sqlite.backup import back_up

        return back_up(self.address, to, on_progress)

    def repair(self, to: Path, on_progress: Progress = lambda _count, _total: None) -> SalvageResult:
        """Saves what can be read into a new store; see `StoreMaintenance.repair`."""
        from proctor.stores.sqlite.salvage import salvage_store

        if not self.exists():
            raise UsageError(f"There is no store at {self.address}. Choose a store with --store.")
        return salvage_store(self._path, to, on_progress)

    def find_unused(self, is_unused: Callable[[Path], bool]) -> Iterator[UnusedFile]:
        """Yields damaged caches, and the cache and the catalogue of an older Proctor if they are not used."""
        from proctor.stores.sqlite.answer_cache import CACHE_NAME
        from proctor.stores.sqlite.file_copy import remove_database

        folder = self._path.absolute().parent
        for damaged in sorted(folder.glob(f"{CACHE_NAME}.damaged-*")):
            yield UnusedFile(path=damaged, is_damaged=True, remove=partial(remove_database, damaged))
        for cache in (folder / CACHE_NAME, folder / f"{self._path.name}-catalogue"):
            if cache.is_file() and is_unused(cache) and is_unused(Path(f"{cache}-wal")):
                yield UnusedFile(path=cache, is_damaged=False, remove=partial(remove_database, cache))


def sqlite_location(path: str) -> SqliteLocation:
    """Returns the store of a URL: `sqlite:///runs.db` is relative, `sqlite:////home/ana/runs.db` absolute.

    Args:
        path: the part after `sqlite://`.

    Raises:
        UsageError: the URL names a host, or no file.
    """
    if not path.startswith("/") or not path[1:]:
        raise UsageError(
            f"sqlite://{path} names no file. Write sqlite:///runs.db with three slashes, or only the path."
        )
    return SqliteLocation(path[1:])

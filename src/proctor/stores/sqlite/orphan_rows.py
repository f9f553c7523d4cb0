"""Rows of a file that nothing refers to; see `proctor.stores.sql.unused_rows`."""

from __future__ import annotations

from proctor.stores.sql.unused_rows import count_unused_rows, delete_unused_rows
from proctor.stores.sqlite.database import SqliteDatabase
from proctor.stores.sqlite.run_locks import RunLocks
from proctor.stores.sqlite.suite_staging import find_leftovers, remove_leftovers


def count_leftovers(database: SqliteDatabase, run_locks: RunLocks) -> dict[str, int]:
    """Returns the number of unused rows by kind, without kinds that have none."""
    partial_count = len(find_leftovers(database.connection, run_locks))
    return {**({"partly saved suite": partial_count} if partial_count else {}), **count_unused_rows(database)}


def delete_leftovers(database: SqliteDatabase, run_locks: RunLocks) -> None:
    """Deletes unused rows, a few thousand per transaction."""
    remove_leftovers(database.connection, run_locks)
    delete_unused_rows(database)

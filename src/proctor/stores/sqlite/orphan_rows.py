"""Rows of a store that nothing refers to: of deleted runs, and of unnamed suites."""

from __future__ import annotations

import sqlite3

from proctor.stores.sql.versions import IS_UNFINISHED
from proctor.stores.sqlite.run_locks import RunLocks
from proctor.stores.sqlite.suite_staging import find_leftovers, remove_leftovers
from proctor.stores.sqlite.transactions import transaction

_BATCH_ROWS = 5000
"""Rows deleted in one transaction; few enough not to block other processes for long."""
_UNUSED_CONTENT = (
    f"NOT ({IS_UNFINISHED}) AND content NOT IN (SELECT content FROM runs) AND content NOT IN "  # noqa: S608
    "(SELECT content FROM versions WHERE content IS NOT NULL) "
    # A process may have just saved the newest one and be about to start a run of it.
    "AND key < (SELECT max(key) FROM contents)"
)
_NO_RUN = "run NOT IN (SELECT key FROM runs)"
_UNUSED_ROWS = {
    "trial": ("trials", _NO_RUN),
    "run secret": ("secrets", _NO_RUN),
    "run variable": ("variables", _NO_RUN),
    "batch": ("batches", _NO_RUN),
    "unnamed suite": ("contents", _UNUSED_CONTENT),
    "suite position": ("suite_cases", "suite NOT IN (SELECT key FROM contents)"),
    "case": ("cases", "digest NOT IN (SELECT digest FROM suite_cases)"),
}
"""The kinds of unused rows, each with its table and the condition that finds it, in order of deletion."""


def count_leftovers(db: sqlite3.Connection, run_locks: RunLocks) -> dict[str, int]:
    """Returns the number of unused rows by kind, without kinds that have none."""
    counts = {"partly saved suite": len(find_leftovers(db, run_locks))}
    counts |= {
        noun: db.execute(f"SELECT count(*) FROM {table} WHERE {where}").fetchone()[0]  # noqa: S608
        for noun, (table, where) in _UNUSED_ROWS.items()
    }
    return {noun: count for noun, count in counts.items() if count}


def delete_leftovers(db: sqlite3.Connection, run_locks: RunLocks) -> None:
    """Deletes unused rows, a few thousand per transaction."""
    remove_leftovers(db, run_locks)
    for table, where in _UNUSED_ROWS.values():
        key = {"suite_cases": "(suite, position)", "variables": "(run, name)"}.get(table, "rowid")
        keys = key.strip("()")
        while True:
            with transaction(db):
                deleted = db.execute(
                    f"DELETE FROM {table} WHERE {key} IN "  # noqa: S608  # names of ours
                    f"(SELECT {keys} FROM {table} WHERE {where} LIMIT {_BATCH_ROWS})"
                ).rowcount
            if deleted < _BATCH_ROWS:
                break

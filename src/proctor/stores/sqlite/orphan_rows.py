"""Rows of a store that nothing refers to: of runs that were deleted meanwhile, and of unnamed suites."""

from __future__ import annotations

import sqlite3

from proctor.stores.sqlite.run_locks import RunLocks
from proctor.stores.sqlite.suite_staging import IS_UNFINISHED, find_leftovers, remove_leftovers
from proctor.stores.sqlite.transactions import transaction

_BATCH_ROWS = 5000
"""Rows deleted in one transaction; few enough not to block other processes for long."""
_UNUSED_CONTENT = (
    f"NOT ({IS_UNFINISHED}) AND content NOT IN (SELECT content FROM runs) AND content NOT IN "  # noqa: S608
    "(SELECT content FROM versions WHERE content IS NOT NULL) "
    # A process may have saved the newest a moment ago, and begin a run of it next.
    "AND key < (SELECT max(key) FROM contents)"
)
_NO_RUN = "run NOT IN (SELECT key FROM runs)"
_UNUSED_ROWS = {
    "trial": ("trials", _NO_RUN),
    "run secret": ("secrets", _NO_RUN),
    "run variable": ("variables", _NO_RUN),
    "unnamed suite": ("contents", _UNUSED_CONTENT),
    "suite position": ("suite_cases", "suite NOT IN (SELECT key FROM contents)"),
    "case": ("cases", "digest NOT IN (SELECT digest FROM suite_cases)"),
}
"""What is left over, each with its table and the condition that finds it; in the order of deleting."""


def count_leftovers(db: sqlite3.Connection, run_locks: RunLocks) -> dict[str, int]:
    """How many rows of each kind nothing uses; kinds of which there are none are left out."""
    counts = {"partly saved suite": len(find_leftovers(db, run_locks))}
    counts |= {
        noun: db.execute(f"SELECT count(*) FROM {table} WHERE {where}").fetchone()[0]  # noqa: S608
        for noun, (table, where) in _UNUSED_ROWS.items()
    }
    return {noun: count for noun, count in counts.items() if count}


def delete_leftovers(db: sqlite3.Connection, run_locks: RunLocks) -> None:
    """Deletes them, a few thousand at a time."""
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

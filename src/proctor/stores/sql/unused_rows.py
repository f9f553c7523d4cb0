"""Rows of a store that nothing refers to: of deleted runs, and of unnamed suites."""

from __future__ import annotations

from proctor.stores.sql.database import SqlDatabase
from proctor.stores.sql.versions import IS_UNFINISHED

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
    "trial": ("trials", "run, position, repeat", _NO_RUN),
    "run secret": ("secrets", "run", _NO_RUN),
    "run variable": ("variables", "run, name", _NO_RUN),
    "batch": ("batches", "number", _NO_RUN),
    "unnamed suite": ("contents", "key", _UNUSED_CONTENT),
    "suite position": ("suite_cases", "suite, position", "suite NOT IN (SELECT key FROM contents)"),
    "case": ("cases", "key", "digest NOT IN (SELECT digest FROM suite_cases)"),
}
"""The kinds of unused rows, in order of deletion: table, key, and the condition that finds them."""


def count_unused_rows(database: SqlDatabase) -> dict[str, int]:
    """Returns the number of unused rows by kind, without kinds that have none."""
    counts = {
        noun: int(database.fetch_one(f"SELECT count(*) FROM {table} WHERE {where}")[0])  # noqa: S608
        for noun, (table, _, where) in _UNUSED_ROWS.items()
    }
    return {noun: count for noun, count in counts.items() if count}


def delete_unused_rows(database: SqlDatabase) -> None:
    """Deletes unused rows, a few thousand per transaction."""
    for table, key, where in _UNUSED_ROWS.values():
        while True:
            with database.transaction():
                deleted = database.execute(
                    f"DELETE FROM {table} WHERE ({key}) IN "  # noqa: S608  # names of ours
                    f"(SELECT {key} FROM {table} WHERE {where} LIMIT {_BATCH_ROWS})"
                )
            if deleted < _BATCH_ROWS:
                break

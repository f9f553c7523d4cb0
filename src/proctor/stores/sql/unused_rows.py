"""Rows of a store that nothing refers to: of deleted runs, and of unnamed suites.

Other processes may save suites and make runs meanwhile. Rows come after what they refer to, or in the same
transaction, and a suite is saved and its unused contents are deleted by one process at a time.
"""

from __future__ import annotations

from proctor.stores.sql.case_staging import CaseStaging
from proctor.stores.sql.database import SqlDatabase
from proctor.stores.sql.versions import IS_UNFINISHED, IS_UNUSED_CASE

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
    "trial": ("trials", "rowid", _NO_RUN),
    "run secret": ("secrets", "run", _NO_RUN),
    "run variable": ("variables", "run, name", _NO_RUN),
    "batch": ("batches", "number", _NO_RUN),
    "unnamed suite": ("contents", "key", _UNUSED_CONTENT),
    "suite position": ("suite_cases", "suite, position", "suite NOT IN (SELECT key FROM contents)"),
    "case": ("cases", "key", IS_UNUSED_CASE),
}
"""The kinds of unused rows, each with its table, its key and the condition that finds it, in order of
deletion."""


def count_unused_rows(database: SqlDatabase, staging: CaseStaging) -> dict[str, int]:
    """Returns the number of unused rows by kind, without kinds that have none."""
    counts = {"partly saved suite": staging.count_leftovers()}
    for noun, (table, _key, where) in _UNUSED_ROWS.items():
        (counts[noun],) = database.fetch_one(f"SELECT count(*) FROM {table} WHERE {where}")  # noqa: S608
    return {noun: count for noun, count in counts.items() if count}


def delete_unused_rows(database: SqlDatabase, staging: CaseStaging) -> None:
    """Deletes unused rows, a few thousand per transaction."""
    staging.remove_leftovers()
    for table, key, where in _UNUSED_ROWS.values():
        statement = (
            f"DELETE FROM {table} WHERE ({key}) IN "  # noqa: S608  # names of ours
            f"(SELECT {key} FROM {table} WHERE {where} LIMIT {_BATCH_ROWS})"
        )
        deleted = _BATCH_ROWS
        while deleted == _BATCH_ROWS:
            with database.transaction():
                deleted = database.execute(statement)

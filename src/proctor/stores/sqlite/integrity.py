"""Checks the integrity of a store: the SQLite file, then the rows that Proctor relies on.

Nothing is written, and all rows come from one snapshot, even while runs add to them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from proctor.errors import StoreError
from proctor.plurals import pluralize
from proctor.store_protocol import Progress
from proctor.stores.location import StoreProblem, StoreReport
from proctor.stores.sql.row_check import Remedies, RowCheck
from proctor.stores.sql.unused_rows import count_unused_rows
from proctor.stores.sqlite.case_staging import SqliteCaseStaging
from proctor.stores.sqlite.connection import as_store_errors, open_as_is, shorter_path
from proctor.stores.sqlite.database import SqliteDatabase
from proctor.stores.sqlite.file_copy import count_rows
from proctor.stores.sqlite.migrations import MIGRATIONS
from proctor.stores.sqlite.run_locks import RunLocks

MAX_FAULTS = 100
"""The maximum number of faults of the file that SQLite lists."""
_REPAIR = "`proctor store repair NEWFILE` saves everything that can be read to a new store."
_REMEDIES = Remedies(
    row=_REPAIR,
    suite="Save the suite file again with `proctor suites save`, or save everything that can be read to a "
    "new store with `proctor store repair NEWFILE`.",
    run="`proctor store repair NEWFILE` creates a new store in which the run is unfinished, and "
    "`proctor run --resume={run} --store NEWFILE` completes it.",
)
_SIBLINGS = ("", "-wal", "-shm", "-claims", "-catalogue", "-trash")


def check_store(path: str, on_progress: Progress = lambda _count, _total: None) -> StoreReport:
    """Checks a store.

    Args:
        path: the file.
        on_progress: called with the amount done and the total.

    Raises:
        StoreError: the store is missing, or cannot be read at all.
    """
    with closing(open_as_is(path)) as db, closing(RunLocks(path)) as run_locks:
        with as_store_errors(path):
            db.execute("BEGIN")
            (version,) = db.execute("PRAGMA user_version").fetchone()
            problems = list(_check_file(db))
        rows: dict[str, int] = {}
        notes: list[str] = []
        if version < len(MIGRATIONS):
            notes.append(
                f"The store has version {version}. The next command that writes to it migrates it to version "
                f"{len(MIGRATIONS)} after a backup. Its rows were not checked."
            )
        else:
            database = SqliteDatabase(path, db)
            staging = SqliteCaseStaging(database, run_locks)
            check = RowCheck(shorter_path(path), partial(_iter_rows, db), run_locks, on_progress, _REMEDIES)
            try:
                rows = count_rows(db)
                problems += check.find_problems(rows)
                notes += check.find_notes()
                for noun, count in count_unused_rows(database, staging).items():
                    notes.append(f"Not in use: {pluralize(count, noun)}. `proctor store gc` removes them.")
            except (sqlite3.DatabaseError, UnicodeDecodeError, StoreError):
                if not problems:
                    raise
                notes.append("The rows were not checked because the file is damaged.")
    return StoreReport(
        path=path,
        version=version,
        problems=tuple(problems),
        notes=tuple(notes),
        rows=rows,
        sizes=_file_sizes(path),
    )


def _iter_rows(db: sqlite3.Connection, statement: str, *values: object) -> Iterator[Any]:
    return db.execute(statement, values)


def _check_file(db: sqlite3.Connection) -> Iterator[StoreProblem]:
    try:
        faults = [fault for (fault,) in db.execute(f"PRAGMA integrity_check({MAX_FAULTS})")]
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        faults = [str(error)]
    if faults != ["ok"]:
        more = "at least " if len(faults) >= MAX_FAULTS else ""
        first = faults[0].strip().removeprefix("*** in database main ***\n")
        yield StoreProblem(
            code="file",
            message=f"The file is damaged in {more}{pluralize(len(faults), 'place')}, such as: {first}.",
            remedy=_REPAIR,
        )


def _file_sizes(path: str) -> dict[str, int]:
    files = [Path(f"{path}{ending}") for ending in _SIBLINGS]
    files.append(files[0].parent / "cache.db")
    return {file.name: file.stat().st_size for file in files if file.is_file()}

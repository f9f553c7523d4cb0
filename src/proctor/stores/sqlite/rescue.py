"""Copies a store that can no longer be written to a new file, while it can still be read.

The descriptors of an open connection still see a file that was deleted or replaced.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Collection
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path

from proctor.errors import StoreError
from proctor.stores.sqlite.connection import open_database
from proctor.stores.sqlite.file_copy import remove_database

_CASES_OF_CONTENTS = "suite IN (SELECT key FROM rescue.contents)"
_COPIED_TABLES = (
    ("runs", "key = :run"),
    ("secrets", "run = :run"),
    ("variables", "run = :run"),
    ("batches", "run = :run"),
    ("contents", "content IN (SELECT content FROM rescue.runs)"),
    ("suite_cases", _CASES_OF_CONTENTS),
    ("cases", "digest IN (SELECT digest FROM rescue.suite_cases)"),
    ("versions", "content IN (SELECT content FROM rescue.runs)"),
    ("looks", "suite IN (SELECT suite FROM rescue.runs)"),
    ("labels", "run IN (SELECT id FROM rescue.runs)"),
    ("comments", "run IN (SELECT id FROM rescue.runs)"),
    ("trials", "run = :run ORDER BY rowid"),
)
"""The tables with rows of a run, each after those that it refers to."""


def save_elsewhere(db: sqlite3.Connection, path: str, runs: Collection[int], *, whole: bool) -> str:
    """Copies a store, or some of its runs, to a new one and returns its path.

    The new store is beside the old one, else in the working directory, else in the temporary folder.

    Args:
        db: a connection to the old store, outside of a transaction.
        path: the old store's file, which may be gone.
        runs: the keys of the runs, if not everything is copied.
        whole: copy the whole store, unless there is room only for these runs.

    Raises:
        sqlite3.Error: the old store cannot be read, or the new one cannot be written to any of these folders.
        OSError: as sqlite3.Error.
        StoreError: as sqlite3.Error.
    """
    error: sqlite3.Error | OSError | StoreError = OSError("its folder does not exist")
    for folder in find_folders(path):
        for copy in (_copy_all, _copy_runs) if whole else (_copy_runs,):
            try:
                new = _new_file(folder, path)
            except OSError as refusal:
                error = refusal
                break
            try:
                copy(db, new, runs)
            except (sqlite3.Error, OSError, StoreError) as refusal:
                error = refusal
                with suppress(OSError):
                    remove_database(Path(new))
            else:
                return new
    raise error


def find_folders(path: str) -> list[Path]:
    """Returns the folders to try for a new store, in order of preference."""
    folders = [Path(path).parent]
    for find in (Path.cwd, lambda: Path(tempfile.gettempdir())):
        with suppress(OSError):  # the working directory may be gone, too
            folders.append(find())
    return list(dict.fromkeys(folders))


def _new_file(folder: Path, path: str) -> str:
    """Creates an empty file that only its owner can read, as the temporary folder is shared."""
    old = Path(path)
    time = f"{datetime.now(UTC):%Y%m%d-%H%M%S}"
    for number in range(1, 100):
        ending = f"-{number}" if number > 1 else ""
        new = folder / f"{old.stem}-rescued-{time}{ending}{old.suffix}"
        try:
            os.close(os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except FileExistsError:
            continue
        return str(new)
    raise FileExistsError(f"{folder} has too many rescued stores")


def _copy_all(db: sqlite3.Connection, new: str, _runs: Collection[int]) -> None:
    with closing(sqlite3.connect(new)) as target:
        db.backup(target)


def _copy_runs(db: sqlite3.Connection, new: str, runs: Collection[int]) -> None:
    open_database(new).close()
    db.execute("ATTACH DATABASE ? AS rescue", (new,))
    try:
        db.execute("BEGIN")  # not IMMEDIATE: the old store needs only a read lock
        try:
            for run in runs:
                for table, condition in _COPIED_TABLES:
                    db.execute(
                        f"INSERT OR IGNORE INTO rescue.{table} SELECT * FROM main.{table} WHERE {condition}",  # noqa: S608  # names of our own
                        {"run": run},
                    )
            db.execute("COMMIT")
        except BaseException:
            db.rollback()
            raise
    finally:
        db.execute("DETACH DATABASE rescue")

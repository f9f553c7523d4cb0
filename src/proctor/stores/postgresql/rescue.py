"""Answers that a store could not take, in files of the project, until their run is resumed.

They are SQLite files, one for each run.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

Answer = tuple[str, int, int, str | None, bytes]
"""The id of the run, position, repeat, verdict, body."""
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]", re.ASCII)
_TABLE = """CREATE TABLE IF NOT EXISTS answers (
    store TEXT, run TEXT, position INTEGER, repeat INTEGER, verdict TEXT, body BLOB)"""


def save_answers(folder: Path, store: str, answers: Sequence[Answer]) -> Path:
    """Adds answers to the files of their runs; returns the file of the first.

    Args:
        folder: the project's folder.
        store: the address of the store.
        answers: the answers.

    Raises:
        OSError: they cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    runs = dict.fromkeys(answer[0] for answer in answers)
    for run in runs:
        with _open_file(rescue_file(folder, run)) as db:
            db.executemany(
                "INSERT INTO answers VALUES (?, ?, ?, ?, ?, ?)",
                [(store, *answer) for answer in answers if answer[0] == run],
            )
    return rescue_file(folder, next(iter(runs)))


def load_answers(folder: Path, run: str) -> list[Answer]:
    """Returns the saved answers of a run, in the order in which they came.

    Raises:
        OSError: they cannot be read.
    """
    file = rescue_file(folder, run)
    if not file.exists():
        return []
    with _open_file(file) as db:
        return db.execute(
            "SELECT run, position, repeat, verdict, body FROM answers WHERE run = ? ORDER BY rowid", (run,)
        ).fetchall()


def rescue_file(folder: Path, run: str) -> Path:
    """Returns the file for the answers of a run."""
    return folder / f"rescued-{_UNSAFE.sub('-', run)[:100]}.db"


@contextmanager
def _open_file(file: Path) -> Iterator[sqlite3.Connection]:
    """Opens a file for one transaction; errors are OSErrors."""
    try:
        os.close(os.open(file, os.O_CREAT | os.O_RDWR, 0o600))
        with closing(sqlite3.connect(file)) as db, db:
            db.execute(_TABLE)
            yield db
    except sqlite3.Error as error:
        raise OSError(0, str(error), str(file)) from error

"""Backs up a store: consistently even while runs write to it, and checked before it gets its name."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path

from proctor.errors import StoreError, UsageError
from proctor.store_protocol import Progress
from proctor.stores.sqlite.connection import REMEDY, as_store_errors, open_as_is
from proctor.stores.sqlite.file_copy import copy_store, count_rows


def back_up(path: str, to: Path, on_progress: Progress = lambda _count, _total: None) -> dict[str, int]:
    """Copies a store to a new file and checks the copy; returns the number of rows of each table.

    Args:
        path: the store.
        to: the new file.
        on_progress: called with the amount done and the total.

    Raises:
        UsageError: the new file already exists, or cannot be written.
        StoreError: the store cannot be read, or is damaged.
    """
    if os.path.lexists(to):
        raise UsageError(f"{to} already exists. Remove it, or choose another file.")
    if not to.absolute().parent.is_dir():
        raise UsageError(f"The folder of {to} does not exist. Create it first.")
    with closing(open_as_is(path)) as source:
        try:
            return copy_store(source, to, on_progress, verify=partial(_verify, path))
        except FileExistsError:
            raise UsageError(f"{to} already exists. Remove it, or choose another file.") from None
        except (sqlite3.Error, OSError) as error:
            raise UsageError(f"{to} cannot be written: {error}. No file was left behind.") from error


def _verify(store: str, part: Path, rows: dict[str, int]) -> None:
    with as_store_errors(store), closing(sqlite3.connect(f"{part.as_uri()}?immutable=1", uri=True)) as copy:
        (answer,) = copy.execute("PRAGMA integrity_check(1)").fetchone()
        if answer != "ok" or count_rows(copy) != rows:
            raise StoreError(f"The store {store} is damaged, so no backup was made: {answer}. {REMEDY}")

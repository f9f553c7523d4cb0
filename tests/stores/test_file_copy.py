"""Copies of store files to which other processes write meanwhile."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from proctor.stores.sqlite.file_copy import copy_store, count_rows


def test_rows_that_are_written_during_a_copy_are_not_in_it(tmp_path: Path) -> None:
    path, copy = tmp_path / "t.db", tmp_path / "copy.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as source:
        source.execute("PRAGMA journal_mode = WAL")
        source.execute("CREATE TABLE numbers (n)")
        source.execute("INSERT INTO numbers VALUES (1)")

        def write(*_progress: Any) -> None:
            with closing(sqlite3.connect(path, isolation_level=None)) as other:
                other.execute("INSERT INTO numbers VALUES (2)")

        assert copy_store(source, copy, write) == {"numbers": 1}
    with closing(sqlite3.connect(copy)) as copy_connection:
        assert count_rows(copy_connection) == {"numbers": 1}

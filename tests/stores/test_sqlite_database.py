"""Inserting many rows into SQLite at once."""

from __future__ import annotations

import sqlite3

import pytest

from proctor.errors import StoreError
from proctor.stores.sqlite.database import SqliteDatabase

_INSERT = "INSERT OR FAIL INTO numbers (number, name)"


def _new_database() -> SqliteDatabase:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.execute("CREATE TABLE numbers (number INTEGER PRIMARY KEY, name TEXT)")
    return SqliteDatabase("numbers", connection)


@pytest.mark.parametrize("count", [0, 1, 31, 32, 33, 64, 100])
def test_every_row_is_inserted(count: int) -> None:
    database = _new_database()
    rows = [(number, f"number {number}") for number in range(count)]
    database.insert_many(_INSERT, "(?, ?)", rows)
    assert database.select("SELECT number, name FROM numbers ORDER BY number") == rows


@pytest.mark.parametrize("place", [0, 40, 99])
def test_a_row_that_fails_leaves_nothing_in_its_transaction(place: int) -> None:
    database = _new_database()
    database.execute("INSERT INTO numbers VALUES (?, 'first')", place)
    with pytest.raises(StoreError, match="UNIQUE"), database.transaction():
        database.insert_many(_INSERT, "(?, ?)", [(number, "") for number in range(100)])
    assert database.select("SELECT number, name FROM numbers") == [(place, "first")]


def test_existing_rows_can_be_left_as_they_are() -> None:
    database = _new_database()
    database.execute("INSERT INTO numbers VALUES (40, 'first')")
    database.insert_many(_INSERT.replace("FAIL", "IGNORE"), "(?, '')", [(number,) for number in range(100)])
    assert database.select("SELECT count(*), max(name) FROM numbers") == [(100, "first")]

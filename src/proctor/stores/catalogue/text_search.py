"""The texts of a catalogue, hundreds in one row, as Python searches bytes faster than SQLite."""

from __future__ import annotations

import sqlite3
from array import array
from collections.abc import Iterator, Sequence

TABLE = """CREATE TABLE texts (
    key INTEGER PRIMARY KEY, run INTEGER NOT NULL, sealed INTEGER NOT NULL, places BLOB NOT NULL,
    body BLOB NOT NULL)"""
INDEX = "CREATE INDEX texts_by_run ON texts (run, sealed, key)"
_ADD = "INSERT INTO texts (run, sealed, places, body) VALUES (?, ?, ?, ?)"
_SELECT_TEXTS = "SELECT places, body FROM texts WHERE run = ? AND sealed <= ? ORDER BY sealed, key"
_SEPARATOR = b"\0"
"""Separates two texts; no text contains it."""


def add_texts(db: sqlite3.Connection, run: int, texts: Sequence[tuple[int, str]], *, sealed: bool) -> None:
    """Adds texts, each with the place of its trial.

    Args:
        db: a connection to the catalogue.
        run: the key of the run.
        texts: the places and texts.
        sealed: whether they are found only by searches with `revealed`.
    """
    if texts:
        places = array("q", [place for place, _ in texts])
        body = _SEPARATOR.join([_fold_case(text) for _, text in texts])
        db.execute(_ADD, (run, sealed, places.tobytes(), body))


def find_text(db: sqlite3.Connection, run: int, text: str, *, revealed: bool) -> Iterator[int]:
    """Yields the places of the trials whose text contains a text, some of them perhaps twice."""
    needle = _fold_case(text)
    for places, body in db.execute(_SELECT_TEXTS, (run, revealed)):
        if needle in body:
            texts = zip(array("q", places), body.split(_SEPARATOR), strict=True)
            yield from (place for place, content in texts if needle in content)


def _fold_case(text: str) -> bytes:
    return text.casefold().encode("utf-8", "surrogatepass").replace(_SEPARATOR, b" ")

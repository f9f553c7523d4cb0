"""Reads the trials of a run in the order in which they were stored, for readers that follow it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice

from proctor.codec import decode
from proctor.model import Case, Trial, Verdict
from proctor.protocols import TrialUpdate
from proctor.stores.sqlite.connection import as_store_errors
from proctor.stores.sqlite.transactions import decode_row, fetch_page

_MAX_TURNS = 5000
"""At most this many turns are read at once, from the index alone, which is not ordered by turn."""
_PAGE_ROWS = 256
_COUNT_AND_LAST_TURN = "SELECT count(*), coalesce(max(rowid), 0) FROM trials WHERE run = ?"
_TURNS = "SELECT rowid FROM trials WHERE run = ? AND +rowid > ? ORDER BY rowid LIMIT ?"
_SUITE = """SELECT contents.key FROM runs JOIN contents ON contents.content = runs.content
    WHERE runs.key = ?"""
_TRIALS = """SELECT trials.rowid, trials.verdict, trials.body, cases.body FROM json_each(?) AS wanted
    JOIN trials ON trials.rowid = wanted.value
    LEFT JOIN suite_cases ON suite_cases.suite = ? AND suite_cases.position = trials.position
    LEFT JOIN cases ON cases.digest = suite_cases.digest
    WHERE trials.run = ? AND (trials.rowid > ? OR trials.verdict IS NOT NULL) ORDER BY trials.rowid"""


def count_and_last_turn(path: str, db: sqlite3.Connection, run: int) -> tuple[int, int]:
    """See `Store.get_progress`; `run` is its key."""
    with as_store_errors(path):
        count, last = db.execute(_COUNT_AND_LAST_TURN, (run,)).fetchone()
    return int(count), int(last)


def iter_new_trials(
    path: str, db: sqlite3.Connection, run: int, after: int, waiting: Iterable[int]
) -> Iterator[TrialUpdate]:
    """See `Store.trials_since`.

    Args:
        path: the store's file, for messages.
        db: a connection to it.
        run: the run's key.
        after: the turn of the last trial that the caller has.
        waiting: the turns of trials without a verdict; those that have one now are yielded again.
    """
    with as_store_errors(path):
        suite = db.execute(_SUITE, (run,)).fetchone()
    turns = _iter_turns(path, db, run, after, sorted(waiting))
    while some := list(islice(turns, _PAGE_ROWS)):
        while some:
            with as_store_errors(path):
                cursor = db.execute(_TRIALS, (json.dumps(some), suite and suite[0], run, after))
                rows = fetch_page(cursor, 2)
                cursor.close()
            for row in rows:
                yield decode_row(path, partial(_decode_trial, *row))
            some = [turn for turn in some if rows and turn > rows[-1][0]]


def _iter_turns(
    path: str, db: sqlite3.Connection, run: int, after: int, waiting: Iterable[int]
) -> Iterator[int]:
    yield from waiting
    while True:
        with as_store_errors(path):
            rows = db.execute(_TURNS, (run, after, _MAX_TURNS)).fetchall()
        yield from (turn for (turn,) in rows)
        if len(rows) < _MAX_TURNS:
            return
        after = rows[-1][0]


def _decode_trial(turn: int, verdict: str | None, body: bytes, case: bytes | None) -> TrialUpdate:
    if case is None:
        raise ValueError("a case is missing")
    stored_verdict = None if verdict is None else Verdict(verdict)
    return TrialUpdate(turn, decode(body, Trial), stored_verdict, decode(case, Case))

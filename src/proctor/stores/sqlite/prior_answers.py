"""Finds earlier answers by what was sent and to which target."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from functools import partial

from proctor.codec import decode
from proctor.model import Case, Trial, Verdict
from proctor.protocols import PriorAnswer
from proctor.stores.sqlite.connection import as_store_errors
from proctor.stores.sqlite.transactions import decode_row

_PLACES = """SELECT runs.key, runs.id, suite_cases.position, suite_cases.digest
    FROM suite_cases JOIN contents ON contents.key = suite_cases.suite
    JOIN runs ON runs.content = contents.content AND runs.target = ?
    WHERE suite_cases.sent = ? AND (? IS NULL OR runs.id = ?)
    ORDER BY runs.key DESC, suite_cases.position"""
_TRIALS = "SELECT verdict, body FROM trials WHERE run = ? AND position = ? ORDER BY repeat"
_CASE = "SELECT body FROM cases WHERE digest = ?"


def find_prior_answers(
    path: str, db: sqlite3.Connection, sent_digest: str, target_digest: str, run_id: str | None
) -> Iterator[PriorAnswer]:
    """See `Store.find_prior_answers`. Reads one run at a time, only as far as the caller iterates.

    Args:
        path: the store's file, for messages.
        db: a connection to it.
        sent_digest: the digest of what was sent.
        target_digest: the digest of the target of the runs.
        run_id: the only run to read; None for all.
    """
    with as_store_errors(path):
        values = (target_digest, bytes.fromhex(sent_digest[7:]), run_id, run_id)
        places = db.execute(_PLACES, values).fetchall()
    for run, name, position, digest in places:
        with as_store_errors(path):
            rows = db.execute(_TRIALS, (run, position)).fetchall()
            body = db.execute(_CASE, (digest,)).fetchone() if rows else None
        case = decode_row(path, partial(_decode_case, body)) if rows else None
        for verdict, trial_body in rows:
            trial = decode_row(path, partial(decode, trial_body, Trial))
            if case is not None and trial.output is not None:
                stored_verdict = None if verdict is None else decode_row(path, partial(Verdict, verdict))
                yield PriorAnswer(run=name, trial=trial, verdict=stored_verdict, case=case)


def _decode_case(row: tuple[bytes] | None) -> Case:
    if row is None:
        raise ValueError("a case is missing")
    return decode(row[0], Case)

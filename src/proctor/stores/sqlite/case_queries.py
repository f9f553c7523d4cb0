"""Reads one position of a suite: its case, its trials in a run, and other runs that sent the same case.

Everything is read by keys, so that it is fast however many trials a run has.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from proctor.codec import decode
from proctor.model import Case, Run, Trial, Verdict
from proctor.protocols import CaseInRun, SameCaseRun, StoredCase, StoredTrial
from proctor.stores.sqlite.connection import as_store_errors
from proctor.stores.sqlite.transactions import decode_row

T = TypeVar("T")

_CASE = """SELECT cases.body, suite_cases.sent FROM contents
    JOIN suite_cases ON suite_cases.suite = contents.key
    JOIN cases ON cases.digest = suite_cases.digest WHERE contents.content = ? AND position = ?"""
_TRIALS = """SELECT verdict, trials.body FROM trials JOIN runs ON runs.key = trials.run
    WHERE runs.id = ? AND position = ? ORDER BY repeat"""
_SAME_SENT = """SELECT runs.key, runs.body, suite_cases.position FROM suite_cases
    JOIN contents ON contents.key = suite_cases.suite
    JOIN runs ON runs.content = contents.content
    WHERE suite_cases.sent = ? AND runs.id <> ? ORDER BY runs.key DESC, suite_cases.position LIMIT ?"""
_SAME = """SELECT suite_cases.position, cases.body FROM suite_cases
    JOIN contents ON contents.key = suite_cases.suite
    JOIN cases ON cases.digest = suite_cases.digest
    WHERE suite_cases.sent = ? AND contents.content = ? ORDER BY suite_cases.position LIMIT 100"""
_VERDICTS = "SELECT verdict FROM trials WHERE run = ? AND position = ? ORDER BY repeat"
_MAX_PLACES = 500
"""At most this many positions in other runs are read, newest first."""


class CaseQueries:
    """The part of a store that reads single cases."""

    def __init__(self, path: str, db: sqlite3.Connection) -> None:
        """Stores its arguments; reads nothing.

        Args:
            path: the store's file, for messages.
            db: a connection to it.
        """
        self.path = path
        self._db = db

    def case_in_run(self, run: Run, position: int) -> CaseInRun | None:
        """See `Store.case_in_run`."""
        with as_store_errors(self.path):
            row = self._db.execute(_CASE, (run.suite.content, position)).fetchone()
            rows = [] if row is None else self._db.execute(_TRIALS, (run.id, position)).fetchall()
        if row is None:
            return None
        body, sent_digest = row
        return CaseInRun(
            case=self._decode(lambda: StoredCase(decode(body, Case), "sha256:" + sent_digest.hex())),
            trials=tuple(self._decode(partial(_decode_trial, *trial_row)) for trial_row in rows),
        )

    def find_position(self, run: Run, sent_digest: str, case_id: str) -> int | None:
        """See `Store.find_position`."""
        with as_store_errors(self.path):
            rows = self._db.execute(_SAME, (bytes.fromhex(sent_digest[7:]), run.suite.content)).fetchall()
        if len(rows) > 1:
            for position, body in rows:
                if self._decode(partial(decode, body, Case)).id == case_id:
                    return int(position)
        return int(rows[0][0]) if rows else None

    def find_same_case(self, run: Run, sent_digest: str, limit: int) -> list[SameCaseRun]:
        """See `Store.find_same_case`."""
        matches: list[SameCaseRun] = []
        with as_store_errors(self.path):
            rows = self._db.execute(
                _SAME_SENT, (bytes.fromhex(sent_digest[7:]), run.id, _MAX_PLACES)
            ).fetchall()
            for key, body, position in rows:
                other = self._decode(partial(decode, body, Run))
                if other.suite.name != run.suite.name:
                    continue
                words = [word for (word,) in self._db.execute(_VERDICTS, (key, position)).fetchall()]
                if words:
                    verdicts = tuple(self._decode(partial(_decode_verdict, word)) for word in words)
                    matches.append(SameCaseRun(run=other, position=position, verdicts=verdicts))
                if len(matches) == limit:
                    break
        return matches

    def _decode(self, decode_body: Callable[[], T]) -> T:
        return decode_row(self.path, decode_body)


def _decode_trial(verdict: str | None, body: bytes) -> StoredTrial:
    return StoredTrial(decode(body, Trial), _decode_verdict(verdict))


def _decode_verdict(word: str | None) -> Verdict | None:
    return None if word is None else Verdict(word)

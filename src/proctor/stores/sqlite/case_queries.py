"""One place of a suite in a store: its case, its trials in a run, and other runs that were asked the same.

Each is read by its keys, however many trials a run has.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

from msgspec import Struct

from proctor.codec import decode
from proctor.model import Case, Run, Trial, Verdict
from proctor.protocols import StoredCase, StoredTrial
from proctor.stores.sqlite.connection import as_store_errors, connect
from proctor.stores.sqlite.transactions import made

T = TypeVar("T")

_CASE = """SELECT cases.body, suite_cases.sent FROM contents
    JOIN suite_cases ON suite_cases.suite = contents.key
    JOIN cases ON cases.digest = suite_cases.digest WHERE contents.content = ? AND position = ?"""
_TRIALS = """SELECT verdict, trials.body FROM trials JOIN runs ON runs.key = trials.run
    WHERE runs.id = ? AND position = ? ORDER BY repeat"""
_ELSEWHERE = """SELECT runs.key, runs.body, suite_cases.position FROM suite_cases
    JOIN contents ON contents.key = suite_cases.suite
    JOIN runs ON runs.content = contents.content
    WHERE suite_cases.sent = ? AND runs.id <> ? ORDER BY runs.key DESC, suite_cases.position LIMIT ?"""
_SAME = """SELECT suite_cases.position, cases.body FROM suite_cases
    JOIN contents ON contents.key = suite_cases.suite
    JOIN cases ON cases.digest = suite_cases.digest
    WHERE suite_cases.sent = ? AND contents.content = ? ORDER BY suite_cases.position LIMIT 100"""
_VERDICTS = "SELECT verdict FROM trials WHERE run = ? AND position = ? ORDER BY repeat"
_LOOKED_AT = 500
"""So many places of other runs are looked at, the newest."""


class Place(Struct, frozen=True, kw_only=True):
    """The case at one position of a suite, and its trials in one run."""

    case: StoredCase
    trials: tuple[StoredTrial, ...]
    """In order of repeat."""


class Elsewhere(Struct, frozen=True, kw_only=True):
    """Another run that was asked the same."""

    run: Run
    position: int
    verdicts: tuple[Verdict | None, ...]
    """One a repeat; None for one that waits for its judges."""


class Places:
    """Reads single places of a store that is there."""

    def __init__(self, path: Path) -> None:
        """Reads nothing yet; `path` is the store's file, which has been opened as a store before."""
        self._path = str(path)

    def place(self, run: Run, position: int) -> Place | None:
        """The case at a position of a run's suite, with its trials; None where the suite has no such place.

        Raises:
            StoreError: the store cannot be read.
        """
        with self._db() as db:
            row = db.execute(_CASE, (run.suite.content, position)).fetchone()
            rows = [] if row is None else db.execute(_TRIALS, (run.id, position)).fetchall()
        if row is None:
            return None
        body, sent = row
        return Place(
            case=self._read(lambda: StoredCase(decode(body, Case), "sha256:" + sent.hex())),
            trials=tuple(self._read(partial(_trial, *stored)) for stored in rows),
        )

    def position_of(self, run: Run, sent: str, case_id: str) -> int | None:
        """Where the suite of a run sends that; None where it does not.

        Where it does so several times, the case with the same id is meant, else the first.

        Raises:
            StoreError: the store cannot be read.
        """
        with self._db() as db:
            rows = db.execute(_SAME, (bytes.fromhex(sent[7:]), run.suite.content)).fetchall()
        if len(rows) > 1:
            for position, body in rows:
                if self._read(partial(decode, body, Case)).id == case_id:
                    return int(position)
        return int(rows[0][0]) if rows else None

    def elsewhere(self, run: Run, sent: str, most: int) -> list[Elsewhere]:
        """The newest other runs of a suite of the same name that were asked the same.

        Args:
            run: the run that is left out.
            sent: the digest of what was sent.
            most: so many.

        Raises:
            StoreError: the store cannot be read.
        """
        found: list[Elsewhere] = []
        with self._db() as db:
            rows = db.execute(_ELSEWHERE, (bytes.fromhex(sent[7:]), run.id, _LOOKED_AT)).fetchall()
            for key, body, position in rows:
                other = self._read(partial(decode, body, Run))
                if other.suite.name != run.suite.name:
                    continue
                words = [word for (word,) in db.execute(_VERDICTS, (key, position))]
                if words:
                    verdicts = tuple(self._read(partial(_verdict, word)) for word in words)
                    found.append(Elsewhere(run=other, position=position, verdicts=verdicts))
                if len(found) == most:
                    break
        return found

    @contextmanager
    def _db(self) -> Iterator[sqlite3.Connection]:
        with as_store_errors(self._path), closing(connect(self._path)) as db:
            yield db

    def _read(self, make: Callable[[], T]) -> T:
        return made(self._path, make)


def _trial(verdict: str | None, body: bytes) -> StoredTrial:
    return StoredTrial(decode(body, Trial), _verdict(verdict))


def _verdict(word: str | None) -> Verdict | None:
    return None if word is None else Verdict(word)

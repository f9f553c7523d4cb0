"""A store as anybody sees it who opens its SQLite file read-only; knows nothing of Proctor's code."""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LABEL = re.compile(r"\bw\d+c\d+r\d+\b")
"""A label, in the name of a target, tells whose requests are whose: worker, chapter, number of the run."""


@dataclass(frozen=True)
class StoredRun:
    """A run, as its row has it."""

    id: str
    label: str
    suite: str
    status: str
    planned: int
    regrade: bool
    imported: bool
    targets_program: bool


@dataclass(frozen=True)
class StoredTrial:
    """A trial, as its row has it."""

    run: str
    token: str
    repeat: int
    verdict: str | None
    text: str | None
    """The answer; None where there is none."""
    failure: str | None
    """The kind of the failure."""
    output: str | None
    """The digest of the whole output."""
    digest: str
    """The digest of verdict and body."""

    @property
    def key(self) -> tuple[str, str, int]:
        """What must be unique in a store."""
        return self.run, self.token, self.repeat


def connect_read_only(path: Path) -> sqlite3.Connection:
    """A connection that can change nothing, and that waits for nobody for long.

    Raises:
        sqlite3.Error: the file cannot be read now.
    """
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=10, isolation_level=None)


def read_runs(path: Path) -> dict[str, StoredRun]:
    """All runs, in the order in which they began; none where there is no store yet."""
    if not path.exists() or not path.stat().st_size:
        return {}
    with closing(connect_read_only(path)) as db:
        if db.execute("SELECT 1 FROM sqlite_master WHERE name = 'runs'").fetchone() is None:
            return {}
        rows = db.execute("SELECT id, body FROM runs ORDER BY key").fetchall()
    return {run_id: _run(run_id, json.loads(body)) for run_id, body in rows}


def read_trials(db: sqlite3.Connection, after: int = 0) -> Iterator[tuple[int, StoredTrial]]:
    """The trials with a row number above that, each with its number."""
    statement = (
        "SELECT trials.rowid, runs.id, trials.verdict, trials.body FROM trials "
        "JOIN runs ON runs.key = trials.run WHERE trials.rowid > ? ORDER BY trials.rowid"
    )
    for number, run_id, verdict, body in db.execute(statement, (after,)).fetchall():
        yield number, _trial(run_id, verdict, body)


def check_integrity(path: Path) -> str:
    """What SQLite says of the file: `ok`, or what is wrong."""
    with closing(connect_read_only(path)) as db:
        return str(db.execute("PRAGMA integrity_check(1)").fetchone()[0])


def _run(run_id: str, body: dict[str, Any]) -> StoredRun:
    target = body["target"]
    label = LABEL.search(target["name"])
    return StoredRun(
        id=run_id,
        label=label[0] if label else "",
        suite=body["suite"]["name"],
        status=body.get("status", "running"),
        planned=body.get("planned", 0),
        regrade=bool(body.get("regrade_of")),
        imported=bool(body.get("imported")),
        targets_program=target["kind"] == "command",
    )


def _trial(run_id: str, verdict: str | None, body: bytes) -> StoredTrial:
    trial = json.loads(body)
    output = trial.get("output")
    return StoredTrial(
        run=run_id,
        token=trial["case_id"],
        repeat=trial.get("repeat", 0),
        verdict=verdict,
        text=None if output is None else output["text"],
        failure=(trial.get("failure") or {}).get("kind"),
        output=None if output is None else _digest(json.dumps(output, sort_keys=True).encode()),
        digest=_digest(f"{verdict}\n".encode() + body),
    )


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=12).hexdigest()

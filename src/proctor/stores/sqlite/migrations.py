"""The tables of a store, as numbered migrations.

A row has a few columns to find it by, and the canonical JSON of its record. `trials.verdict` is a cache of
`proctor.verdicts`; it is NULL while a trial waits for its judges. `versions.content` is NULL for a deleted
version, and `versions.turn` grows with each save under a name. `origins.path` is relative to the store's
folder, so that a project can be moved and copied with its store. Of `labels`, the newest row for a person and
an answer counts; earlier rows stay and count again when it is removed, and none is deleted with its run.
`totals.body` is a cache, too: the transaction that writes trials of a run empties it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from sqlite3 import Connection
from typing import Any

APPLICATION_ID = 0x50524F43
"""`PROC`, stored in the file's header, so that another program's database is never mistaken for a store."""

MIGRATIONS: list[Callable[[Connection], None]] = []
"""Migration n (from 1) turns version n - 1 into version n."""


@MIGRATIONS.append
def _v1(db: Connection) -> None:
    for statement in (
        """CREATE TABLE suites (
            key INTEGER PRIMARY KEY, digest TEXT NOT NULL, content TEXT NOT NULL UNIQUE,
            name TEXT NOT NULL, body BLOB NOT NULL)""",
        "CREATE TABLE cases (key INTEGER PRIMARY KEY, digest BLOB NOT NULL UNIQUE, body BLOB NOT NULL)",
        """CREATE TABLE suite_cases (
            suite INTEGER NOT NULL, position INTEGER NOT NULL, digest BLOB NOT NULL, sent BLOB NOT NULL,
            PRIMARY KEY (suite, position)) WITHOUT ROWID""",
        # Keys are never reused: a process may still be writing trials of a run that another one deleted.
        """CREATE TABLE runs (
            key INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, started_at TEXT NOT NULL,
            suite TEXT NOT NULL, content TEXT NOT NULL, target TEXT NOT NULL, settings TEXT NOT NULL,
            status TEXT NOT NULL, body BLOB NOT NULL)""",
        "CREATE INDEX runs_by_suite ON runs (suite, target, settings)",
        """CREATE TABLE trials (
            run INTEGER NOT NULL, position INTEGER NOT NULL, repeat INTEGER NOT NULL,
            verdict TEXT, body BLOB NOT NULL, UNIQUE (run, position, repeat))""",
    ):
        db.execute(statement)


@MIGRATIONS.append
def _v2(db: Connection) -> None:
    """Adds versions, the digest of what was sent as a key to earlier answers, and holdout accesses."""
    for statement in (
        """CREATE TABLE versions (
            name TEXT NOT NULL, number INTEGER NOT NULL, digest TEXT NOT NULL, content TEXT,
            saved_at TEXT NOT NULL, turn INTEGER NOT NULL, body BLOB NOT NULL,
            PRIMARY KEY (name, number), UNIQUE (name, digest))""",
        "CREATE TABLE contents (key INTEGER PRIMARY KEY, content TEXT NOT NULL UNIQUE)",
        "INSERT INTO contents SELECT key, content FROM suites",
        "CREATE INDEX suite_cases_by_sent ON suite_cases (sent)",
        "CREATE INDEX runs_by_content ON runs (content, target)",
        "CREATE TABLE looks (key INTEGER PRIMARY KEY, suite TEXT NOT NULL, body BLOB NOT NULL)",
        "CREATE INDEX looks_by_suite ON looks (suite)",
    ):
        db.execute(statement)
    versions = _Versions()
    for content, body in db.execute("SELECT content, body FROM suites ORDER BY key").fetchall():
        header = _decode_object(body)
        if header is not None:
            versions.save(header, content, datetime.now(UTC).isoformat())
    for key, content, started_at, body in db.execute(
        "SELECT key, content, started_at, body FROM runs ORDER BY key"
    ).fetchall():
        run = _decode_object(body)
        if run is not None and isinstance(run.get("suite"), dict):
            versions.save(run["suite"], content, started_at)
            db.execute("UPDATE runs SET body = ? WHERE key = ?", (_encode_object(run), key))
    db.executemany("INSERT INTO versions VALUES (?, ?, ?, ?, ?, ?, ?)", versions.rows.values())
    db.execute("DROP TABLE suites")


@MIGRATIONS.append
def _v3(db: Connection) -> None:
    """Adds a secret for each run, which the salts of its bundle come from, and calibrations of judges."""
    db.execute("CREATE TABLE secrets (run INTEGER PRIMARY KEY, secret BLOB NOT NULL)")
    db.execute("CREATE TABLE calibrations (key INTEGER PRIMARY KEY, judge TEXT NOT NULL, body BLOB NOT NULL)")
    db.execute("CREATE INDEX calibrations_by_judge ON calibrations (judge)")


@MIGRATIONS.append
def _v4(db: Connection) -> None:
    """Adds labels of people; they refer to a run by its id, as they outlive it."""
    db.execute(
        """CREATE TABLE labels (
            number INTEGER PRIMARY KEY AUTOINCREMENT, run TEXT NOT NULL, case_id TEXT NOT NULL,
            repeat INTEGER NOT NULL, by TEXT NOT NULL, held_out INTEGER NOT NULL, at TEXT NOT NULL,
            body BLOB NOT NULL)"""
    )
    db.execute("CREATE INDEX labels_by_answer ON labels (run, case_id, repeat, by)")


_TIERS = {
    "cheap": "sha256:5d0e7c58d1a35159d04110517b0e49ca18394a8e6050ae93e8bae0c5f8e9e88b",
    "moderate": "sha256:5208cf65b07bbbe4ce36c16d136c6308c2770f372b7c0a81c5092a733f2c213d",
    "comprehensive": "sha256:c6ec5926202f9bcb32cbbb85602d55c469cb5dd7db498b09d289ad2c131f6ff9",
}
"""The digests of the built-in suites that stores before version 5 have under these names."""


@MIGRATIONS.append
def _v5(db: Connection) -> None:
    """Adds the files of suite names; renames built-in suites, as in `builtin:cheap`."""
    db.execute("CREATE TABLE origins (name TEXT PRIMARY KEY, path BLOB NOT NULL)")
    db.execute("CREATE INDEX origins_by_path ON origins (path)")
    for tier, digest in _TIERS.items():
        for key, body in db.execute("SELECT key, body FROM runs WHERE suite = ?", (digest,)).fetchall():
            run = _decode_object(body)
            if run is not None and isinstance(run.get("suite"), dict) and run["suite"].get("name") == tier:
                run["suite"]["name"] = f"builtin:{tier}"
                db.execute("UPDATE runs SET body = ? WHERE key = ?", (_encode_object(run), key))
        for name, body in db.execute(
            "SELECT name, body FROM versions WHERE digest = ? AND (name = ? OR name GLOB ?)",
            (digest, tier, f"{tier}@v*"),  # the latter in a store of deleted versions
        ).fetchall():
            header = _decode_object(body)
            new = f"builtin:{name}"
            db.execute(
                "UPDATE versions SET name = ?, body = ? WHERE name = ? AND digest = ?",
                (new, body if header is None else _encode_object({**header, "name": new}), name, digest),
            )


@MIGRATIONS.append
def _v6(db: Connection) -> None:
    """Adds digests of the values of variables in a run, keyed with its secret; neither leaves the store."""
    db.execute(
        """CREATE TABLE variables (
            run INTEGER NOT NULL, name TEXT NOT NULL, digest BLOB NOT NULL,
            PRIMARY KEY (run, name)) WITHOUT ROWID"""
    )


@MIGRATIONS.append
def _v7(db: Connection) -> None:
    """Adds the totals of runs; writing trials of a run empties `body` and adds 1 to `changes`."""
    db.execute("CREATE TABLE totals (run INTEGER PRIMARY KEY, changes INTEGER NOT NULL DEFAULT 0, body BLOB)")


@MIGRATIONS.append
def _v8(db: Connection) -> None:
    """Adds comments on answers; they refer to a run by its id, as they outlive it."""
    db.execute(
        """CREATE TABLE comments (
            number INTEGER PRIMARY KEY AUTOINCREMENT, run TEXT NOT NULL, case_id TEXT NOT NULL,
            repeat INTEGER NOT NULL, at TEXT NOT NULL, body BLOB NOT NULL)"""
    )
    db.execute("CREATE INDEX comments_by_answer ON comments (run, case_id, repeat)")


@MIGRATIONS.append
def _v9(db: Connection) -> None:
    """Adds batches of requests that services answer later; `batch` is NULL until one is accepted."""
    db.execute(
        """CREATE TABLE batches (
            number INTEGER PRIMARY KEY, run INTEGER NOT NULL, key TEXT NOT NULL UNIQUE, batch TEXT,
            state TEXT NOT NULL, at TEXT NOT NULL, body BLOB NOT NULL)"""
    )
    db.execute("CREATE INDEX batches_by_run ON batches (run)")


class _Versions:
    """Numbers the suites of a store without versions; of one name and digest the last content is kept."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str], tuple[object, ...]] = {}
        self._turn = 0
        self._numbers: dict[str, list[str]] = {}

    def save(self, header: dict[str, Any], content: str, saved_at: str) -> None:
        """Gives a suite its version; the version that its file states moves to a field of its own."""
        name, digest = header.get("name"), header.get("digest")
        if not isinstance(name, str) or not isinstance(digest, str):
            return  # damaged: reported when it is read
        digests = self._numbers.setdefault(name, [])
        if digest not in digests:
            digests.append(digest)
        number = digests.index(digest) + 1
        if "version" in header:
            header["declared_version"] = header["version"]
        header["version"] = f"v{number}"
        self._turn += 1
        self.rows[name, digest] = (
            name,
            number,
            digest,
            content,
            saved_at,
            self._turn,
            _encode_object(header),
        )


def _decode_object(body: object) -> dict[str, Any] | None:
    """Returns a record's JSON; None if it is damaged, which the next reader reports."""
    try:
        value = json.loads(body) if isinstance(body, bytes) else None
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _encode_object(noun: dict[str, Any]) -> bytes:
    return json.dumps(noun, separators=(",", ":")).encode("ascii")


def migrate(db: Connection, back_up: Callable[[int], None] = lambda _version: None) -> None:
    """Migrates a store to the current version, all steps or none.

    Args:
        db: a connection to it.
        back_up: called with the version of a store that is not new, while no other process can write to it.
    """
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if version == len(MIGRATIONS):
        return
    db.execute("BEGIN IMMEDIATE")
    try:
        (version,) = db.execute("PRAGMA user_version").fetchone()
        if 0 < version < len(MIGRATIONS):
            back_up(version)
        for step in MIGRATIONS[version:]:
            step(db)
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        db.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
        db.execute("COMMIT")
    except BaseException:
        db.rollback()
        raise

"""The tables of a store, as numbered steps that each bring it one version further.

A row is a few columns to find it by, and the noun's canonical JSON. `trials.verdict` is a cache of
`proctor.verdicts`; it is NULL while a trial waits for its judges.
"""

from __future__ import annotations

from collections.abc import Callable
from sqlite3 import Connection

APPLICATION_ID = 0x50524F43
"""`PROC`; in the file's header, so that another program's database is never taken for a store."""

MIGRATIONS: list[Callable[[Connection], None]] = []
"""Step n (from 1) makes version n out of version n - 1."""


@MIGRATIONS.append
def _first(db: Connection) -> None:
    for statement in (
        """CREATE TABLE suites (
            key INTEGER PRIMARY KEY, digest TEXT NOT NULL, content TEXT NOT NULL UNIQUE,
            name TEXT NOT NULL, body BLOB NOT NULL)""",
        "CREATE TABLE cases (key INTEGER PRIMARY KEY, digest BLOB NOT NULL UNIQUE, body BLOB NOT NULL)",
        """CREATE TABLE suite_cases (
            suite INTEGER NOT NULL, position INTEGER NOT NULL, digest BLOB NOT NULL, sent BLOB NOT NULL,
            PRIMARY KEY (suite, position)) WITHOUT ROWID""",
        # A key is never given twice: a process may still be writing trials of a run that another one deleted.
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


def migrate(db: Connection) -> None:
    """Bring a store to the present version, all steps or none."""
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if version == len(MIGRATIONS):
        return
    db.execute("BEGIN IMMEDIATE")
    try:
        (version,) = db.execute("PRAGMA user_version").fetchone()
        for step in MIGRATIONS[version:]:
            step(db)
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        db.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
        db.execute("COMMIT")
    except BaseException:
        db.rollback()
        raise

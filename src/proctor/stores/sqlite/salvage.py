"""Copies every readable row of a damaged store into a new one; the old file is only read.

A row is recognized by the types of its columns and by its content, so that it is found even if no page refers
to it, and damaged bytes are not mistaken for a row. Lost rows are counted by index entries without a row.
Runs that lost trials become unfinished, and suites that lost cases cannot be used, so that no number is ever
based on fewer trials than it claims.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

from msgspec import DecodeError
from msgspec.structs import replace

from proctor.codec import decode, encode
from proctor.errors import StoreError, UsageError
from proctor.model import Calibration, Case, Comment, HoldoutAccess, Label, Run, Suite, Trial, Verdict
from proctor.plurals import pluralize
from proctor.store_protocol import Progress, StoredBatch
from proctor.stores.location import SalvageResult
from proctor.stores.sql.versions import UNFINISHED_PREFIX
from proctor.stores.sqlite.file_copy import count_rows, new_database
from proctor.stores.sqlite.migrations import APPLICATION_ID, MIGRATIONS, migrate
from proctor.stores.sqlite.page_reader import PageFile, PageRow, PageTrees
from proctor.stores.sqlite.transactions import transaction
from proctor.stores.sqlite.wal_check import is_foreign_log

INCOMPLETE_PREFIX = "incomplete:"
"""Precedes the digest of the content of a suite that lost cases."""
_VERDICTS = {None, *(verdict.value for verdict in Verdict)}
_VERSION_NUMBER = re.compile(r"v([1-9][0-9]{0,8})", re.ASCII)
_TABLES_BY_SHAPE = {
    "NTB": ("looks", "calibrations"),
    "NBB": ("cases",),
    "NTTTTTTTB": ("runs",),
    "IIINB": ("trials",),
    "IIITB": ("trials",),
    "TITTTIB": ("versions",),
    "TITNTIB": ("versions",),
    "NT": ("contents",),
    "NB": ("secrets",),
    "NTTITITB": ("labels",),
    "NTTITB": ("comments",),
    "NITTTTB": ("batches",),
    "NITNTTB": ("batches",),
    "TB": ("origins",),
    "NTTTB": ("suites",),
    "TI": ("sqlite_sequence",),
}
"""The tables whose rows have columns of these types: null, integer, text, blob."""
_TABLES_WITHOUT_ROWID = {"IIBB": "suite_cases", "ITB": "variables"}
_BODY_TYPES: dict[str, type] = {
    "looks": HoldoutAccess,
    "calibrations": Calibration,
    "cases": Case,
    "runs": Run,
    "trials": Trial,
    "labels": Label,
    "comments": Comment,
    "batches": StoredBatch,
}
_TABLE_BY_INDEX = {
    "sqlite_autoindex_cases_1": "cases",
    "sqlite_autoindex_runs_1": "runs",
    "sqlite_autoindex_trials_1": "trials",
    "sqlite_autoindex_versions_1": "versions",
    "sqlite_autoindex_contents_1": "contents",
    "looks_by_suite": "looks",
    "calibrations_by_judge": "calibrations",
    "labels_by_answer": "labels",
    "comments_by_answer": "comments",
    "sqlite_autoindex_batches_1": "batches",
    "batches_by_run": "batches",
    "sqlite_autoindex_origins_1": "origins",
}
"""The tables to whose rows the entries of these indexes point; each entry ends in a rowid."""
_TABLE_BY_ENTRY_SHAPE = {"IIII": "trials", "TTITI": "labels", "TTII": "comments", "TII": "versions"}
"""The tables of index entries whose index is unknown, by the types of their columns."""


def salvage_store(path: Path, to: Path, on_progress: Progress = lambda _count, _total: None) -> SalvageResult:
    """Copies the readable rows of a store into a new one.

    Args:
        path: the damaged store.
        to: the new file.
        on_progress: called with the amount done and the total.

    Raises:
        UsageError: the new file already exists, or cannot be written.
        StoreError: the old file cannot be read, or has nothing of a store.
    """
    if os.path.lexists(to):
        raise UsageError(f"{to} already exists. Remove it, or choose another file.")
    try:
        with (
            new_database(to) as part,
            closing(_open_pages(path)) as pages,
            closing(_create_store(path, pages, part)) as db,
        ):
            before = _stamp(path)
            hints = _copy_rows(pages, db, on_progress)
            if _stamp(path) != before:
                raise StoreError(
                    f"{path} changed while it was being read. Stop the processes that use it, then repair it "
                    f"again."
                )
            if not any(count_rows(db).values()):
                raise StoreError(
                    f"{path} contains no rows of a store: it was not a store, or all of its content is lost. "
                    f"Restore it from a backup."
                )
            migrate(db)
            result = _Restoration(db, hints).finish()
            db.execute("PRAGMA journal_mode = DELETE")
    except FileExistsError:
        raise UsageError(f"{to} already exists. Remove it, or choose another file.") from None
    except (OSError, sqlite3.Error) as error:
        raise UsageError(f"{to} cannot be written: {error}. No file was left behind.") from error
    return result


def _open_pages(path: Path) -> PageFile:
    try:
        if path.exists() and not path.is_file():
            raise StoreError(f"The store {path} is not a file. Choose another store.")
        # A log that would overwrite an intact store belongs to another database.
        return PageFile(path, with_log=not is_foreign_log(path))
    except OSError as error:
        raise StoreError(f"The store {path} cannot be read: {error.strerror}.") from None


def _stamp(path: Path) -> list[tuple[int, int]]:
    """Returns values that change when the file or its log is written to."""
    files = [file for file in (path, Path(f"{path}-wal")) if file.exists()]
    return [(file.stat().st_size, file.stat().st_mtime_ns) for file in files]


def _create_store(path: Path, pages: PageFile, part: Path) -> sqlite3.Connection:
    """Creates an empty store of the old one's version."""
    version = pages.read_header_field(60) or len(MIGRATIONS)
    if pages.read_header_field(68) == APPLICATION_ID and version > len(MIGRATIONS):
        raise StoreError(
            f"{path} was written by a newer version of Proctor (store version {version}; this one reads up "
            f"to {len(MIGRATIONS)}). Run `pip install -U proctor`."
        )
    db = sqlite3.connect(part, isolation_level=None)
    db.execute("PRAGMA synchronous = OFF")  # all of it is synced at the end
    for step in MIGRATIONS[: version if 0 < version <= len(MIGRATIONS) else len(MIGRATIONS)]:
        step(db)
    db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    db.execute(f"PRAGMA user_version = {min(version, len(MIGRATIONS))}")
    return db


# --- reading -----------------------------------------------------------------------------------------------


class _Hints:
    """What indexes and damaged pages show of rows that may be lost."""

    def __init__(self) -> None:
        self.unreadable: Counter[str] = Counter()
        """Rows whose content is damaged, by table."""
        self.sequences: dict[str, int] = {}
        self.contents: dict[int, str] = {}
        self.versions: dict[int, tuple[str, int]] = {}
        self.looks: dict[int, str] = {}


def _copy_rows(pages: PageFile, db: sqlite3.Connection, on_progress: Progress) -> _Hints:
    """Copies every readable row into the new store; returns what indexes show of the others."""
    trees, hints = PageTrees(pages), _Hints()
    db.execute(
        "CREATE TEMP TABLE entries (name TEXT, id INTEGER, run INTEGER, PRIMARY KEY (name, id)) WITHOUT ROWID"
    )
    columns = {
        name: len(db.execute(f"PRAGMA table_info({name})").fetchall())
        for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    }
    with transaction(db):
        for count, number in enumerate(trees.iter_pages()):
            owner = trees.names.get(number)
            for row in trees.read_rows(number):
                _add_record(db, columns, row, owner, hints)
            on_progress(count, pages.page_count)
    return hints


def _add_record(
    db: sqlite3.Connection, columns: dict[str, int], row: PageRow, owner: str | None, hints: _Hints
) -> None:
    """Inserts one record into its table, or records what it shows of another row."""
    shape = "".join(_TYPE_LETTERS.get(type(value), "?") for value in row.values)
    if row.rowid is None:
        if (table := _TABLES_WITHOUT_ROWID.get(shape)) in columns and owner in (None, table):
            _insert(db, str(table), row.values)
        else:
            _note_entry(db, shape, row.values, owner, hints)
        return
    for table in _TABLES_BY_SHAPE.get(shape, ()):
        if table not in columns:
            continue
        if table == "sqlite_sequence":
            hints.sequences[str(row.values[0])] = int(row.values[1] or 0)
            return
        if _is_readable(table, row.values):
            _insert(db, table, row.values, row.rowid)
            return
    if _TABLES_BY_SHAPE.get(shape):
        hints.unreadable[_TABLES_BY_SHAPE[shape][0]] += 1


_TYPE_LETTERS = {type(None): "N", int: "I", str: "T", bytes: "B"}
_ROWID_COLUMNS = {
    "trials": "rowid, run, position, repeat, verdict, body",
    "versions": "rowid, name, number, digest, content, saved_at, turn, body",
    "origins": "rowid, name, path",
}


def _insert(db: sqlite3.Connection, table: str, values: tuple[Any, ...], rowid: int | None = None) -> None:
    if rowid is not None:  # the record has null in the column that is the rowid
        values = (rowid, *(values if table in _ROWID_COLUMNS else values[1:]))
    names = f" ({_ROWID_COLUMNS[table]})" if table in _ROWID_COLUMNS else ""
    marks = ", ".join("?" * len(values))
    # The first one wins: its page is still reachable from the tree.
    db.execute(f"INSERT OR IGNORE INTO {table}{names} VALUES ({marks})", values)  # noqa: S608


def _is_readable(table: str, values: tuple[Any, ...]) -> bool:
    """Returns whether the body of a row can be decoded and matches its columns."""
    kind = _BODY_TYPES.get(table)
    if kind is None:
        return table != "secrets" or len(values[1]) == 32
    try:
        noun: Any = decode(values[-1], kind)
    except (DecodeError, ValueError, TypeError):
        return False
    if table == "cases":
        return bool(sha256(values[-1]).digest() == values[1])
    if table == "runs":
        return bool(noun.id == values[1])
    if table == "trials":
        return (noun.position, noun.repeat) == values[1:3] and values[3] in _VERDICTS
    return True


def _note_entry(
    db: sqlite3.Connection, shape: str, values: tuple[Any, ...], owner: str | None, hints: _Hints
) -> None:
    """Records what an index entry shows of a row."""
    if owner == "suite_cases_by_sent" or (owner is None and shape == "BII"):
        db.execute(
            "INSERT OR IGNORE INTO entries VALUES (?, ?, 0)", ("suite_cases", _position_id(*values[1:]))
        )
        return
    table = _TABLE_BY_INDEX.get(owner) if owner is not None else _TABLE_BY_ENTRY_SHAPE.get(shape)
    if table is None or not isinstance(values[-1], int):
        return
    rowid = values[-1]
    run = values[0] if table == "trials" else 0
    db.execute("INSERT OR IGNORE INTO entries VALUES (?, ?, ?)", (table, rowid, run))
    if table == "contents":
        hints.contents[rowid] = values[0]
    elif table == "versions":
        hints.versions[rowid] = values[:2]
    elif table == "looks":
        hints.looks[rowid] = values[0]


def _position_id(suite: int, position: int) -> int:
    return suite << 32 | position


# --- restoring ---------------------------------------------------------------------------------------------


class _Restoration:
    """Makes a store of the rows that were read consistent."""

    def __init__(self, db: sqlite3.Connection, hints: _Hints) -> None:
        self._db = db
        self._hints = hints

    def finish(self) -> SalvageResult:
        """Makes the store consistent."""
        db = self._db
        with transaction(db):
            for key, content in self._hints.contents.items():  # the index has every column
                db.execute("INSERT OR IGNORE INTO contents VALUES (?, ?)", (key, content))
            lost_rows = self._count_lost()
            kept_rows = count_rows(db)
            self._restore_looks()
            suites = tuple(self._retire_incomplete_suites())
            self._restore_versions()
            db.execute("DELETE FROM variables WHERE run NOT IN (SELECT run FROM secrets)")
            self._restore_sequences()
            runs = tuple(self._mark_runs())
        return SalvageResult(kept=kept_rows, lost=lost_rows, runs=runs, suites=suites)

    def _count_lost(self) -> dict[str, int]:
        lost_rows = Counter(self._hints.unreadable)
        for table in {*_TABLE_BY_INDEX.values(), "suite_cases"}:
            rowid = "suite << 32 | position" if table == "suite_cases" else "rowid"
            (count,) = self._db.execute(
                f"SELECT count(*) FROM entries WHERE name = ? AND id NOT IN (SELECT {rowid} FROM {table})",  # noqa: S608
                (table,),
            ).fetchone()
            lost_rows[table] = max(lost_rows[table], count)
        return {table: count for table, count in lost_rows.items() if count}

    def _restore_looks(self) -> None:
        """Restores holdout accesses whose bodies are lost, without their time and run."""
        for key, suite in self._hints.looks.items():
            access = HoldoutAccess(suite=suite, run="", kind="reveal", at=datetime.fromtimestamp(0, UTC))
            self._db.execute("INSERT OR IGNORE INTO looks VALUES (?, ?, ?)", (key, suite, encode(access)))

    def _retire_incomplete_suites(self) -> Iterator[str]:
        """Keeps the cases of incomplete suites under a content that no suite refers to."""
        db = self._db
        for key, content in db.execute("SELECT key, content FROM contents ORDER BY key").fetchall():
            if content.startswith(UNFINISHED_PREFIX) or _suite_digest(db, key) == content:
                continue
            db.execute("UPDATE contents SET content = ? WHERE key = ?", (INCOMPLETE_PREFIX + content, key))
            select_versions = "SELECT name, number FROM versions WHERE content = ?"
            for name, number in db.execute(select_versions, (content,)).fetchall():
                yield f"{name} v{number}"
            db.execute("UPDATE versions SET content = NULL, body = x'' WHERE content = ?", (content,))
        without_content = (
            "SELECT name, number FROM versions WHERE content NOT IN (SELECT content FROM contents)"
        )
        for name, number in db.execute(without_content).fetchall():
            yield f"{name} v{number}"
        db.execute(
            "UPDATE versions SET content = NULL, body = x'' "
            "WHERE content NOT IN (SELECT content FROM contents)"
        )

    def _restore_versions(self) -> None:
        """Restores versions from their runs; of other versions only the number, so that it is not reused."""
        db = self._db
        for run in self._load_runs():
            number = _VERSION_NUMBER.fullmatch(run.suite.version or "")
            if number is None:
                continue
            content = db.execute("SELECT 1 FROM contents WHERE content = ?", (run.suite.content,)).fetchone()
            body = encode(run.suite) if content else b""
            self._add_version(run.suite, int(number[1]), content is not None, body, run.started_at)
        for name, version in self._hints.versions.values():
            header = Suite(name=name, dialect="", digest=f"lost:{name} v{version}")
            self._add_version(header, version, False, b"", datetime.fromtimestamp(0, UTC))

    def _add_version(
        self, suite: Suite, number: int, has_content: bool, body: bytes, saved_at: datetime
    ) -> None:
        self._db.execute(
            "INSERT OR IGNORE INTO versions (name, number, digest, content, saved_at, turn, body) VALUES "
            "(?, ?, ?, ?, ?, (SELECT coalesce(min(turn), 1) - 1 FROM versions WHERE name = ?), ?)",
            (
                *(suite.name, number, suite.digest, suite.content if has_content else None),
                *(saved_at.isoformat(), suite.name, body),
            ),
        )

    def _restore_sequences(self) -> None:
        """Raises the key sequences, so that a new run does not get the trials of a lost one."""
        for table, keys in _SEQUENCES.items():
            keys_in_use = [self._hints.sequences.get(table, 0)]
            for other, key in keys:
                keys_in_use += self._db.execute(f"SELECT max({key}) FROM {other}").fetchone()  # noqa: S608
            self._db.execute("DELETE FROM sqlite_sequence WHERE name = ?", (table,))
            highest = max(key or 0 for key in keys_in_use)
            self._db.execute("INSERT INTO sqlite_sequence VALUES (?, ?)", (table, highest))

    def _mark_runs(self) -> Iterator[tuple[str, int, int]]:
        """Marks runs that lost trials as unfinished."""
        db = self._db
        missing = dict(
            db.execute(
                "SELECT run, count(*) FROM entries WHERE name = 'trials' "
                "AND id NOT IN (SELECT rowid FROM trials) GROUP BY run"
            ).fetchall()
        )
        counts = dict(
            db.execute("SELECT run, count(*) FROM trials WHERE verdict IS NOT NULL GROUP BY run").fetchall()
        )
        for run in self._load_runs():
            (key,) = db.execute("SELECT key FROM runs WHERE id = ?", (run.id,)).fetchone()
            count = counts.get(key, 0)
            planned_count = max(run.planned, count + missing.get(key, 0))
            if not missing.get(key) and (run.status != "finished" or count >= run.planned):
                continue
            warning = (
                f"{pluralize(planned_count - count, 'trial')} of it were missing when its store was repaired."
            )
            status = "interrupted" if run.status == "finished" else run.status
            run = replace(
                run, status=status, finished_at=None, planned=planned_count, warnings=(*run.warnings, warning)
            )
            db.execute("UPDATE runs SET status = ?, body = ? WHERE key = ?", (status, encode(run), key))
            yield run.id, count, planned_count

    def _load_runs(self) -> Iterable[Run]:
        bodies = self._db.execute("SELECT body FROM runs ORDER BY key DESC").fetchall()
        return [decode(body, Run) for (body,) in bodies]


_SEQUENCES = {
    "runs": (
        ("runs", "key"),
        ("trials", "run"),
        ("secrets", "run"),
        ("variables", "run"),
        ("batches", "run"),
        ("entries", "run"),
    ),
    "labels": (("labels", "number"),),
    "comments": (("comments", "number"),),
}
"""Tables that never reuse a key, each with the columns that hold its keys."""


def _suite_digest(db: sqlite3.Connection, suite: int) -> str | None:
    """Returns the digest of a suite's cases; None if one is missing."""
    digest = sha256(b"proctor/content/1\n")
    places = db.execute(
        "SELECT position, suite_cases.digest, cases.key FROM suite_cases "
        "LEFT JOIN cases ON cases.digest = suite_cases.digest WHERE suite = ? ORDER BY position",
        (suite,),
    )
    for expected, (position, case, key) in enumerate(places):
        if position != expected or key is None:
            return None
        digest.update(case)
    return "sha256:" + digest.hexdigest()

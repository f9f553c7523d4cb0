"""The versions of suites in a store: which content each name has, numbered in order, found by digest."""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from proctor.codec import decode, encode
from proctor.errors import StoreError
from proctor.lazy_pattern import lazy_pattern
from proctor.model import Run, Suite
from proctor.protocols import SavedSuite
from proctor.stores.sql.database import SqlDatabase

_VERSION_NUMBER = lazy_pattern(r"v([1-9][0-9]{0,8})", re.ASCII)
_DIGEST = lazy_pattern(r"(?:sha256:)?([0-9a-f]{6,64})", re.ASCII)
UNFINISHED_PREFIX = "unfinished:"
IS_UNFINISHED = f"content >= '{UNFINISHED_PREFIX}' AND content < '{UNFINISHED_PREFIX[:-1]};'"
"""Selects the contents of suites that are being saved, which nothing reads."""
IS_UNUSED_CASE = "digest IN (SELECT digest FROM cases EXCEPT SELECT digest FROM suite_cases)"
"""Selects the cases of no suite; PostgreSQL compares each row with each other for a large `NOT IN`."""
_INCOMPLETE_PREFIX = "incomplete:"
"""Begins the content of what a repair could save of a suite."""


class SuiteVersions:
    """The versions in one store. A deleted version keeps its row, so that its number is not reused."""

    def __init__(self, database: SqlDatabase, folder: Path) -> None:
        """Stores its arguments; reads nothing.

        Args:
            database: a connection to the store's database.
            folder: the absolute path of the store's folder, to which paths of suites are relative.
        """
        self._database = database
        self._folder = folder

    def save(self, suite: Suite, *, aside: bool = False) -> Suite:
        """Saves a suite's header, with its content as the current one, and returns it with its version.

        Call it inside a transaction, as two processes may be saving at once.

        Args:
            suite: its header.
            aside: an existing version stays as it is, and a new one is ordered before all others.
        """
        known_number, stored_content, highest, turn, first = self._database.fetch_one(
            "SELECT max(CASE WHEN digest = ? THEN number END), "
            "max(CASE WHEN digest = ? AND content IS NOT NULL THEN 1 ELSE 0 END), "
            "coalesce(max(number), 0), coalesce(max(turn), 0), coalesce(min(turn), 1) "
            "FROM versions WHERE name = ?",
            *(suite.digest, suite.digest, suite.name),
        )
        number = known_number or highest + 1
        suite = replace(suite, version=f"v{number}")
        if aside and stored_content:
            return suite
        self._database.execute(
            "INSERT INTO versions (name, number, digest, content, saved_at, turn, body) "
            "VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (name, number) DO UPDATE "
            "SET content = excluded.content, saved_at = excluded.saved_at, turn = excluded.turn, "
            "body = excluded.body",
            *(suite.name, number, suite.digest, suite.content, datetime.now(UTC).isoformat()),
            *(first - 1 if aside else turn + 1, encode(suite)),
        )
        return suite

    def restore(self, suite: Suite) -> Suite | None:
        """Restores a deleted version with its number, time and order; returns None if it was not deleted.

        Call it inside a transaction. A version that has been saved again since stays as it is.
        """
        row = self._database.fetch_one(
            "SELECT number, content FROM versions WHERE name = ? AND digest = ?", suite.name, suite.digest
        )
        if row is None:
            return None
        number, content = row
        suite = replace(suite, version=f"v{number}")
        if content is None:
            self._database.execute(
                "UPDATE versions SET content = ?, body = ? WHERE name = ? AND digest = ?",
                *(suite.content, encode(suite), suite.name, suite.digest),
            )
        return suite

    def find(self, name: str, version: str | None) -> Suite | None:
        """See `Store.suite`.

        Raises:
            StoreError: several versions have a digest that begins like that.
        """
        if version is None:
            bodies = self._select_bodies("ORDER BY turn DESC LIMIT 1", name)
        elif number := _VERSION_NUMBER.fullmatch(version):
            bodies = self._select_bodies("AND number = ?", name, int(number[1]))
        elif digest := _DIGEST.fullmatch(version):
            beginning = f"sha256:{digest[1]}"
            bodies = self._select_bodies("AND substr(digest, 1, ?) = ?", name, len(beginning), beginning)
        else:
            return None
        suites = [self._database.read(partial(decode, body, Suite)) for body in bodies]
        if len(suites) > 1:
            several = ", ".join(f"{suite.version} ({suite.digest[:19]})" for suite in suites)
            raise StoreError(
                f"More than one version of {name!r} has a digest that begins with {version!r}: {several}. "
                "Write more characters of it."
            )
        return suites[0] if suites else None

    def _select_bodies(self, condition: str, *values: object) -> list[bytes]:
        rows = self._database.select(
            f"SELECT body FROM versions WHERE name = ? AND content IS NOT NULL {condition}",  # noqa: S608
            *values,
        )
        return [body for (body,) in rows]

    def list_all(self, name: str | None) -> list[SavedSuite]:
        """See `Store.versions`."""
        condition, values = ("", ()) if name is None else ("AND name = ?", (name,))
        rows = self._database.select(
            "SELECT body, saved_at, turn, max(turn) OVER (PARTITION BY name) FROM versions "  # noqa: S608
            f"WHERE content IS NOT NULL {condition} ORDER BY name, number",
            *values,
        )
        return [self._database.read(partial(_decode_saved_suite, *row)) for row in rows]

    def path_for_name(self, name: str) -> str | None:
        """See `Store.path_for_name`."""
        row = self._database.fetch_one("SELECT path FROM origins WHERE name = ?", name)
        return None if row is None else resolve_path(self._folder, row[0])

    def names_for_path(self, path: str) -> list[str]:
        """See `Store.names_for_path`."""
        rows = self._database.select(
            "SELECT name FROM origins WHERE path = ?", shorten_path(self._folder, path)
        )
        return [name for (name,) in rows]

    def claim_name(self, name: str, path: str) -> None:
        """See `Store.claim_name`."""
        self._database.execute(
            "INSERT INTO origins (name, path) VALUES (?, ?) "
            "ON CONFLICT (name) DO UPDATE SET path = excluded.path",
            *(name, shorten_path(self._folder, path)),
        )

    def delete_version(self, name: str, version: str) -> None:
        """See `Store.delete_version`.

        Raises:
            StoreError: there is no such version, or runs of it are stored.
        """
        with self._database.transaction():
            suite = self.find(name, version)
            if suite is None:
                raise StoreError(
                    f"There is no version {version!r} of a suite {name!r} in {self._database.address}."
                )
            self._refuse_if_run(suite)
            self._database.execute(
                "UPDATE versions SET content = NULL, body = ? WHERE name = ? AND digest = ?",
                *(b"", name, suite.digest),
            )
            delete_unused_contents(self._database)

    def _refuse_if_run(self, suite: Suite) -> None:
        rows = self._database.select("SELECT body FROM runs WHERE suite = ?", suite.digest)
        runs = [self._database.read(partial(decode, body, Run)) for (body,) in rows]
        run_ids = [run.id for run in runs if run.suite.name == suite.name]
        if run_ids:
            of_it = "1 run of it is" if len(run_ids) == 1 else f"{len(run_ids):,} runs of it are"
            raise StoreError(
                f"{suite.version} of {suite.name!r} cannot be forgotten: {of_it} stored, such as "
                f"{run_ids[-1]}. Delete them first with `proctor runs delete`."
            )


def resolve_path(folder: Path, stored: bytes) -> str:
    """Returns the absolute path of what a store in that folder has as a path."""
    return os.path.normpath(folder / os.fsdecode(stored))


def shorten_path(folder: Path, path: str) -> bytes:
    """Returns the path to store for an absolute path: relative to the store's folder, if possible."""
    try:
        return os.fsencode(os.path.relpath(path, folder))
    except ValueError:  # another drive
        return os.fsencode(path)


def delete_unused_contents(database: SqlDatabase) -> None:
    """Deletes contents without a version or run, and cases without a content.

    Suites that are being saved are not touched.
    """
    deleted = database.execute(
        "DELETE FROM contents WHERE content NOT IN (SELECT content FROM runs) AND content NOT IN "  # noqa: S608
        f"(SELECT content FROM versions WHERE content IS NOT NULL) AND NOT ({IS_UNFINISHED}) "
        f"AND substr(content, 1, {len(_INCOMPLETE_PREFIX)}) <> '{_INCOMPLETE_PREFIX}'"
    )
    if not deleted:
        return
    database.execute("DELETE FROM suite_cases WHERE suite NOT IN (SELECT key FROM contents)")
    database.execute(f"DELETE FROM cases WHERE {IS_UNUSED_CASE}")  # noqa: S608  # a constant


def _decode_saved_suite(body: bytes, saved_at: str, turn: int, last_turn: int) -> SavedSuite:
    return SavedSuite(
        suite=decode(body, Suite), saved_at=datetime.fromisoformat(saved_at), current=turn == last_turn
    )

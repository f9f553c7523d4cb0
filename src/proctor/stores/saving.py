"""A suite on its way into a store."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from hashlib import sha256

from msgspec.structs import replace

from proctor.codec import as_written
from proctor.model import Case, Suite
from proctor.stores.opening import as_store_errors
from proctor.stores.versions import Versions, sweep

_BATCH = 1000
"""So many cases gather before any is written."""


class SavingSuite:
    """The `SuiteWriter` port: one transaction, which ends when the whole suite is known to be good."""

    def __init__(
        self,
        path: str,
        db: sqlite3.Connection,
        versions: Versions,
        *,
        aside: bool = False,
        again: bool = False,
        name: Callable[[Suite], str] | None = None,
    ) -> None:
        """Use `SqliteStore.saving`.

        Args:
            path: the store's file, for messages.
            db: a connection to it.
            versions: its versions, over the same connection.
            aside: no version that is there is changed, and none made the current one.
            again: the version was forgotten, and becomes what it was.
            name: chooses the name of the suite, while nobody else can save; None leaves it as it is.
        """
        self._aside = aside
        self._again = again
        self._name = name
        self._path = path
        self._db = db
        self._versions = versions
        self._key: int | None = None
        self._count = 0
        self._content = sha256(b"proctor/content/1\n")
        self._bodies: list[tuple[bytes, bytes]] = []
        self._places: list[tuple[int, bytes, bytes]] = []

    def add(self, case: Case, sent: str) -> None:
        """The next case, in order, with the digest of what is sent for it."""
        body = as_written(case)
        digest = sha256(body).digest()
        self._content.update(digest)
        self._bodies.append((digest, body))
        self._places.append((self._count, digest, bytes.fromhex(sent[7:])))
        self._count += 1
        if len(self._bodies) >= _BATCH:
            with as_store_errors(self._path):
                self._write()

    def _begin(self) -> None:
        """Only when there is something to write, so that others are kept from writing as short as can be."""
        if not self._db.in_transaction:
            self._db.execute("BEGIN IMMEDIATE")

    def _write(self) -> None:
        if self._key is None:
            self._begin()
            self._db.execute("SAVEPOINT added")
            (last,) = self._db.execute("SELECT coalesce(max(key), 0) FROM contents").fetchone()
            self._key = last + 1
        self._db.executemany("INSERT OR IGNORE INTO cases (digest, body) VALUES (?, ?)", self._bodies)
        places = [(self._key, *place) for place in self._places]
        self._db.executemany("INSERT INTO suite_cases VALUES (?, ?, ?, ?)", places)
        self._bodies.clear()
        self._places.clear()

    def keep(self, suite: Suite) -> Suite:
        """Keep the suite with its cases, and give its header back with `content` and `version` filled in."""
        content = "sha256:" + self._content.hexdigest()
        try:
            with as_store_errors(self._path):
                self._begin()
                if (
                    self._db.execute("SELECT 1 FROM contents WHERE content = ?", (content,)).fetchone()
                    is None
                ):
                    self._write()
                    self._db.execute("INSERT INTO contents VALUES (?, ?)", (self._key, content))
                elif self._key is not None:
                    self._db.execute("ROLLBACK TO added")
                name = suite.name if self._name is None else self._name(suite)
                suite = self._versioned(replace(suite, content=content, name=name))
                self._db.execute("COMMIT")
        except BaseException:
            self.drop()
            raise
        return suite

    def _versioned(self, suite: Suite) -> Suite:
        restored = self._versions.restore(suite) if self._again else None
        if restored is None:
            return self._versions.save(suite, aside=self._aside or self._again)
        sweep(self._db)  # what has just been written, where the version is there already with other content
        return restored

    def drop(self) -> None:
        """Forget what was added. Safe to call at any time, also after `keep`."""
        if self._db.in_transaction:
            self._db.rollback()

"""Saves one suite into a store."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable
from hashlib import sha256

from msgspec.structs import replace

from proctor.codec import encode_in_order
from proctor.model import Case, Suite
from proctor.stores.sqlite.connection import as_store_errors
from proctor.stores.sqlite.run_locks import RunLocks
from proctor.stores.sqlite.suite_staging import CaseBody, CasePosition, StagedCases, remove_leftovers
from proctor.stores.sqlite.transactions import transaction
from proctor.stores.sqlite.versions import SuiteVersions, delete_unused_contents

BATCH_CASES = 20_000
"""The number of cases that gather before any is written: smaller batches write index pages more often."""
_BATCH_BYTES = 16 * 2**20


class SqliteSuiteWriter:
    """Implements `SuiteWriter`: the cases are invisible until one transaction makes them a version."""

    def __init__(
        self,
        path: str,
        db: sqlite3.Connection,
        versions: SuiteVersions,
        run_locks: RunLocks,
        *,
        aside: bool = False,
        again: bool = False,
        name: Callable[[Suite], str] | None = None,
    ) -> None:
        """Use `SqliteStore.open_suite_writer`.

        Args:
            path: the store's file, for messages.
            db: a connection to it.
            versions: its versions, over the same connection.
            run_locks: its locks.
            aside: no existing version is changed, and the current version stays the current one.
            again: restores a deleted version.
            name: chooses the name of the suite while no other process can save; None leaves it as it is.
        """
        self._keeps_current = aside
        self._restores = again
        self._name = name
        self._path = path
        self._db = db
        self._versions = versions
        self._run_locks = run_locks
        self._staged_cases = StagedCases(path, db, run_locks)
        self._count = 0
        self._content_hasher = sha256(b"proctor/content/1\n")
        self._bodies: list[CaseBody] = []
        self._places: list[CasePosition] = []
        self._body_bytes = 0

    def add(self, case: Case, sent_digest: str) -> None:
        """Adds the next case, in order, with the digest of what is sent for it."""
        body = encode_in_order(case)
        digest = sha256(body).digest()
        self._content_hasher.update(digest)
        self._bodies.append((digest, body))
        self._places.append((self._count, digest, bytes.fromhex(sent_digest[7:])))
        self._count += 1
        self._body_bytes += len(body)
        if len(self._bodies) >= BATCH_CASES or self._body_bytes >= _BATCH_BYTES:
            with as_store_errors(self._path):
                self._staged_cases.write(self._bodies, self._places)
            self._clear()

    def _clear(self) -> None:
        self._bodies, self._places, self._body_bytes = [], [], 0

    def commit(self, suite: Suite) -> Suite:
        """Saves the suite with its cases, and returns its header with `content` and `version` set.

        The same content is stored once. A new digest becomes the next version under the suite's name; a known
        digest stays its old version, with the content that was saved last.
        """
        content = "sha256:" + self._content_hasher.hexdigest()
        try:
            with as_store_errors(self._path):
                if self._staged_cases.prepare(content, self._bodies, self._places):
                    self._clear()
                remove_leftovers(self._db, self._run_locks)
                with transaction(self._db):
                    is_new = not self._staged_cases.has(content)
                    if is_new:
                        self._staged_cases.publish(content, self._bodies, self._places)
                    name = suite.name if self._name is None else self._name(suite)
                    suite = self._save_version(replace(suite, content=content, name=name))
                if is_new:
                    self._staged_cases.release()
        finally:
            self.discard()
        return suite

    def _save_version(self, suite: Suite) -> Suite:
        restored = self._versions.restore(suite) if self._restores else None
        if restored is None:
            return self._versions.save(suite, aside=self._keeps_current or self._restores)
        delete_unused_contents(
            self._db
        )  # what was just written, if the version already exists with other content
        return restored

    def discard(self) -> None:
        """Discards what was added. Safe to call at any time, also after `commit`.

        After Ctrl-C the rows are left for the next save to remove, as that takes seconds for a million cases.
        """
        self._clear()
        if isinstance(sys.exception(), KeyboardInterrupt):
            self._staged_cases.release()
            return
        with as_store_errors(self._path):
            self._staged_cases.remove()

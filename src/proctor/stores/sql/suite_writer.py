"""Saves one suite into a store."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from hashlib import sha256

from msgspec.structs import replace

from proctor.codec import encode_in_order
from proctor.model import Case, Suite
from proctor.stores.sql.case_staging import CaseBody, CasePosition, CaseStaging
from proctor.stores.sql.database import SqlDatabase
from proctor.stores.sql.saved_cases import SavedCases, fits_memory
from proctor.stores.sql.versions import SuiteVersions, delete_unused_contents

BATCH_CASES = 50_000
"""The number of cases that gather before any is written: smaller batches write index pages more often."""
_BATCH_BYTES = 16 * 2**20
_EMPTY_HASHER = sha256()
"""Copied for each case, as it takes a microsecond to make one."""
_SENT_DIGESTS = """SELECT sent FROM contents JOIN suite_cases ON suite = contents.key
    WHERE content = ? ORDER BY position"""


class SqlSuiteWriter:
    """Implements `SuiteWriter`: the cases are invisible until one transaction makes them a version."""

    def __init__(
        self,
        database: SqlDatabase,
        versions: SuiteVersions,
        staging: CaseStaging,
        saved_cases: SavedCases,
        *,
        aside: bool = False,
        again: bool = False,
        name: Callable[[Suite], str] | None = None,
    ) -> None:
        """Use `Store.open_suite_writer`.

        Args:
            database: a connection to the store's database.
            versions: its versions, over the same connection.
            staging: writes the cases.
            saved_cases: gets the rows of the cases once they are saved.
            aside: no existing version is changed, and the current version stays the current one.
            again: restores a deleted version.
            name: chooses the name of the suite while no other process can save; None leaves it as it is.
        """
        self._keeps_current = aside
        self._restores = again
        self._name = name
        self._database = database
        self._versions = versions
        self._staging = staging
        self._saved_cases = saved_cases
        self._start()
        self._bodies: list[CaseBody] = []
        self._places: list[CasePosition] = []
        self._body_bytes = 0

    def _start(self) -> None:
        self._count = 0
        self._content_hasher = sha256(b"proctor/content/1\n")

    def add(self, case: Case, sent_digest: str) -> None:
        """Adds the next case, in order, with the digest of what is sent for it."""
        body = encode_in_order(case)
        hasher = _EMPTY_HASHER.copy()
        hasher.update(body)
        digest = hasher.digest()
        self._content_hasher.update(digest)
        self._bodies.append((digest, body))
        self._places.append((self._count, digest, bytes.fromhex(sent_digest[7:])))
        self._count += 1
        self._body_bytes += len(body)
        if len(self._bodies) >= BATCH_CASES or self._body_bytes >= _BATCH_BYTES:
            with self._database.as_store_errors():
                self._staging.write(self._bodies, self._places)
            self._clear()

    def _clear(self) -> None:
        self._bodies, self._places, self._body_bytes = [], [], 0

    def commit(self, suite: Suite) -> Suite:
        """Saves the suite with its cases, and returns its header with `content` and `version` set.

        The same content is stored once. A new digest becomes the next version under the suite's name; a known
        digest stays its old version, with the content that was saved last.
        """
        content = "sha256:" + self._content_hasher.hexdigest()
        bodies, places, body_bytes = self._bodies, self._places, self._body_bytes
        try:
            with self._database.as_store_errors():
                if self._staging.prepare(content, self._bodies, self._places):
                    self._clear()
                self._staging.remove_leftovers()
                with self._database.transaction():
                    is_new = not self._staging.has(content)
                    if is_new:
                        self._staging.publish(content, self._bodies, self._places)
                    name = suite.name if self._name is None else self._name(suite)
                    suite = self._save_version(replace(suite, content=content, name=name))
                if is_new:
                    self._staging.release()
            if (
                suite.content == content
                and len(bodies) == self._count
                and fits_memory(self._count, body_bytes)
                and (is_new or self._has_same_digests(content, places))
            ):
                rows = (
                    (body, sent)
                    for (_, body), (_, _, sent) in zip(reversed(bodies), reversed(places), strict=True)
                )
                self._saved_cases.add(content, rows, self._count, body_bytes)
        finally:
            self.discard()
        return suite

    def _save_version(self, suite: Suite) -> Suite:
        restored = self._versions.restore(suite) if self._restores else None
        if restored is None:
            return self._versions.save(suite, aside=self._keeps_current or self._restores)
        delete_unused_contents(self._database)  # what was just written, if the version has other content
        return restored

    def _has_same_digests(self, content: str, places: Sequence[CasePosition]) -> bool:
        """Returns whether the cases of a content were stored with the same digests of what is sent.

        An earlier version of Proctor may have computed others, by which answers are reused.
        """
        stored_digests = [sent for (sent,) in self._database.select(_SENT_DIGESTS, content)]
        return stored_digests == [sent for _, _, sent in places]

    def discard(self) -> None:
        """Discards what was added; the next `add` begins again.

        Safe to call at any time, also after `commit`. After Ctrl-C the rows are left for the next save to
        remove, as that takes seconds for a million cases.
        """
        self._clear()
        self._start()
        if isinstance(sys.exception(), KeyboardInterrupt):
            self._staging.release()
            return
        with self._database.as_store_errors():
            self._staging.remove()

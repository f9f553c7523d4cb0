"""Deleted versions of suites that can be restored, in a second store beside the first.

Each deleted version is a suite of its own there, named like the version: `my_suite@v2`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from proctor.errors import StoreError, UsageError
from proctor.model import Suite
from proctor.protocols import SavedSuite, Store
from proctor.services.suites.overview import check_without_runs, list_saved_versions
from proctor.services.suites.saved_names import split_version

MAX_DELETED: Final = 100
"""The maximum number of deleted versions; beyond it the oldest is removed for good."""


class DeletedVersion(Struct, frozen=True, kw_only=True):
    """A version that was deleted."""

    name: str
    version: str
    saved: SavedSuite
    """The version as saved in the trash."""


class Trash:
    """The deleted versions of one store."""

    def __init__(self, store: Store, trash: Callable[[], AbstractContextManager[Store]]) -> None:
        """Takes both stores; the trash is not opened yet.

        Args:
            store: has the suites.
            trash: opens the store for deleted versions.
        """
        self._store = store
        self._trash = trash

    def discard(self, name: str, version: str | None = None) -> list[Suite]:
        """Deletes one version of a suite, or all of them; returns those that were deleted.

        Raises:
            UsageError: there is none, or one has stored runs; nothing was deleted.
        """
        versions = list_saved_versions(self._store, name)
        entries = [entry for entry in versions if version in (None, entry.saved.suite.version)]
        if not entries:
            what = f"version {version!r} of the suite" if version else "suite"
            raise UsageError(f"There is no {what} {name!r}. Nothing was deleted.")
        check_without_runs(entries)
        with self._trash() as trash:
            for entry in entries:
                self._discard(trash, entry.saved.suite)
            for oldest in _list_deleted(trash)[MAX_DELETED:]:
                trash.delete_version(oldest.saved.suite.name, oldest.saved.suite.digest)
        return [entry.saved.suite for entry in entries]

    def _discard(self, trash: Store, suite: Suite) -> None:
        name = f"{suite.name}@{suite.version}"
        copy = _copy_suite(self._store, suite, trash, replace(suite, name=name))
        try:
            self._store.delete_version(suite.name, suite.digest)
        except StoreError:  # a run of it has started meanwhile, or another process deleted it
            if self._store.suite(suite.name, suite.digest) is not None:
                trash.delete_version(name, copy.digest)
            raise

    def restore(self, name: str, version: str) -> Suite:
        """Restores a deleted version with its number and content; it is current if no later one exists.

        Raises:
            UsageError: it cannot be restored.
        """
        with self._trash() as trash:
            trash_name = f"{name}@{version}"
            suite = trash.suite(trash_name)
            if suite is None:
                raise UsageError(f"{name} {version} can no longer be restored, or is already restored.")
            restored = _copy_suite(trash, suite, self._store, replace(suite, name=name), again=True)
            trash.delete_version(trash_name, suite.digest)
        return restored

    def list_deleted(self) -> list[DeletedVersion]:
        """Returns the deleted versions that can be restored, the last deleted first."""
        with self._trash() as trash:
            deleted = _list_deleted(trash)
        return [
            version
            for version in deleted
            if self._store.suite(version.name, version.saved.suite.digest) is None
        ]


def _list_deleted(trash: Store) -> list[DeletedVersion]:
    deleted = []
    for saved in sorted(trash.versions(), key=lambda saved_suite: saved_suite.saved_at, reverse=True):
        parts = split_version(saved.suite.name)
        if parts is not None and saved.current:
            deleted.append(DeletedVersion(name=parts[0], version=parts[1], saved=saved))
    return deleted


def _copy_suite(source: Store, suite: Suite, to: Store, header: Suite, *, again: bool = False) -> Suite:
    """Copies a suite to another store, under the name of that header."""
    writer = to.open_suite_writer(again=again)
    try:
        for stored_case in source.cases(suite.content):
            writer.add(stored_case.case, stored_case.sent_digest)
        return writer.commit(header)
    finally:
        writer.discard()

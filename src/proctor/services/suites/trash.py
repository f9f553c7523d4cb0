"""Versions of suites that are deleted and can be had back: they lie in a second store beside the first.

What is there is one suite a deleted version, named as the version is: `my_suite@v2`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from proctor.errors import StoreError, UsageError
from proctor.model import Suite
from proctor.plurals import counted
from proctor.protocols import SavedSuite, Store
from proctor.services.suites.overview import kept
from proctor.services.suites.saved_names import versioned

MOST: Final = 100
"""So many deleted versions can be had back; the one that was deleted first goes for good then."""


class Discarded(Struct, frozen=True, kw_only=True):
    """A version that was deleted."""

    name: str
    version: str
    saved: SavedSuite
    """As it lies where deleted versions are."""


class Trash:
    """The deleted versions of one store."""

    def __init__(self, store: Store, trash: Callable[[], AbstractContextManager[Store]]) -> None:
        """Opens nothing yet.

        Args:
            store: whose versions are deleted.
            trash: opens the store that they are put into.
        """
        self._store = store
        self._trash = trash

    def discard(self, name: str, version: str | None = None) -> list[Suite]:
        """Delete one version of a suite, or all of them; gives those that were deleted.

        Raises:
            UsageError: there is none, or runs of one are stored; nothing was deleted.
        """
        versions = kept(self._store, name)
        doomed = [one for one in versions if version in (None, one.saved.suite.version)]
        if not doomed:
            what = f"version {version!r} of a suite" if version else "suite"
            raise UsageError(f"There is no {what} {name!r} any more. Nothing was deleted.")
        held = [f"{one.saved.suite.version} has {counted(one.runs, 'run')}" for one in doomed if one.runs]
        if held:
            raise UsageError(
                f"{name!r} cannot be deleted: {', '.join(held)}. Delete them first with "
                "`proctor runs delete`."
            )
        with self._trash() as trash:
            for one in doomed:
                self._discard(trash, one.saved.suite)
            _make_room(trash)
        return [one.saved.suite for one in doomed]

    def _discard(self, trash: Store, suite: Suite) -> None:
        name = f"{suite.name}@{suite.version}"
        copied = _copied(self._store, suite, trash, replace(suite, name=name))
        try:
            self._store.forget(suite.name, suite.digest)
        except StoreError:  # a run of it has begun meanwhile, or somebody else was faster
            if self._store.suite(suite.name, suite.digest) is not None:
                trash.forget(name, copied.digest)
            raise

    def restore(self, name: str, version: str) -> Suite:
        """Have a deleted version back: with its number, its content, and current if nothing came after it.

        Raises:
            UsageError: it is not there to be had back.
        """
        with self._trash() as trash:
            there = f"{name}@{version}"
            suite = trash.suite(there)
            if suite is None:
                raise UsageError(f"{name} {version} cannot be had back any more, or is back already.")
            restored = _copied(trash, suite, self._store, replace(suite, name=name), again=True)
            trash.forget(there, suite.digest)
        return restored

    def discarded(self) -> list[Discarded]:
        """What can be had back, the version that was deleted last first."""
        with self._trash() as trash:
            there = _discarded(trash)
        return [one for one in there if self._store.suite(one.name, one.saved.suite.digest) is None]


def _discarded(trash: Store) -> list[Discarded]:
    found = []
    for saved in sorted(trash.versions(), key=lambda one: one.saved_at, reverse=True):
        parts = versioned(saved.suite.name)
        if parts is not None and saved.current:
            found.append(Discarded(name=parts[0], version=parts[1], saved=saved))
    return found


def _make_room(trash: Store) -> None:
    for one in _discarded(trash)[MOST:]:
        trash.forget(one.saved.suite.name, one.saved.suite.digest)


def _copied(source: Store, suite: Suite, to: Store, header: Suite, *, again: bool = False) -> Suite:
    """A suite in another store, under the name of that header."""
    writer = to.saving(again=again)
    try:
        for stored in source.cases(suite.content):
            writer.add(stored.case, stored.sent)
        return writer.keep(header)
    finally:
        writer.drop()

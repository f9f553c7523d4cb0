"""`proctor.open_store` and `proctor.load_run`: what is stored."""

from __future__ import annotations

import os
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from proctor.errors import UsageError
from proctor.model import Suite
from proctor.python.options import load_project
from proctor.python.results import RunResult, load_result
from proctor.services.project_store import locate_named_store, locate_project_store, open_existing_store
from proctor.services.runs.config import Config
from proctor.stores import locate_store

if TYPE_CHECKING:
    from types import TracebackType

    from proctor.stores.location import StoreLocation


class _ProjectStore(Enum):
    PROJECT = "the project's store"


PROJECT_STORE: Final = _ProjectStore.PROJECT
"""Stands for the store that `proctor run` would use here."""
StoreLike = str | Path | Literal[_ProjectStore.PROJECT] | None


def locate(store: StoreLike, config: Config) -> StoreLocation:
    """Returns the location of a store, also for a later working directory; None is a new one in memory.

    Raises:
        UsageError: there is no such kind of store.
    """
    if store is None:
        return locate_store(":memory:")
    if isinstance(store, _ProjectStore):
        return _make_absolute(locate_project_store(config.flags.get("store")))
    if not isinstance(store, (str, Path)):
        raise UsageError(
            f"`store` is of type {type(store).__name__}. Pass a path, an address, or None to keep nothing on "
            "disk."
        )
    return _make_absolute(locate_named_store(str(store)))


def _make_absolute(location: StoreLocation) -> StoreLocation:
    if location.is_in_folder:
        return locate_store(str(Path(location.address).absolute()))
    location.folder = Path(os.path.abspath(location.folder))  # noqa: PTH100 - keeps links unresolved
    return location


def open_store(store: StoreLike = PROJECT_STORE) -> OpenStore:
    """Opens a store for reading. Use it in a `with` block, or close it.

    Args:
        store: a path or an address; by default the project's store.

    Returns:
        The open store.

    Raises:
        UsageError: the store does not exist.
        StoreError: the store cannot be read.

    Examples:
        >>> import proctor
        >>> run = proctor.run([{"input": "Lima", "expected": "Lima"}], target="echo", store="runs.db")
        >>> with proctor.open_store("runs.db") as store:
        ...     [(stored.suite.name, stored.pass_rate) for stored in store.runs()]
        [('data', 1.0)]
    """
    return OpenStore(locate(store, load_project()))


def load_run(name: str = "last", *, store: StoreLike = PROJECT_STORE, reveal: bool = False) -> RunResult:
    """Loads a run from a store.

    Args:
        name: the id of the run or the start of its id, `last`, or a tag.
        store: the path or address of the store; by default the project's store.
        reveal: show held-out cases too, which counts as a holdout access.

    Returns:
        The run, with its numbers and trials.

    Raises:
        UsageError: the store does not exist.
        StoreError: no run has the name, or more than one has.

    Examples:
        >>> import proctor
        >>> run = proctor.run([{"input": "Lima", "expected": "Lima"}], target="echo", store="runs.db")
        >>> proctor.load_run("last", store="runs.db").id == run.id
        True
    """
    with open_store(store) as opened:
        return opened.load_run(name, reveal=reveal)


class OpenStore:
    """A store that is open for reading."""

    def __init__(self, location: StoreLocation) -> None:
        """Opens it.

        Raises:
            UsageError: there is none.
            StoreError: it cannot be read.
        """
        self._location = location
        self._store = open_existing_store(location)

    def runs(self) -> Iterator[RunResult]:
        """Yields the stored runs, newest first."""
        for run in self._store.runs():
            yield load_result(self._store, self._location, run)

    def suites(self) -> list[Suite]:
        """Returns the newest version of each suite, by name."""
        return [saved.suite for saved in self._store.versions() if saved.current]

    def load_run(self, name: str = "last", *, reveal: bool = False) -> RunResult:
        """Returns a run by its id, `last` or a tag.

        Raises:
            StoreError: there is no such run, or more than one.
        """
        return load_result(self._store, self._location, self._store.run(name), reveal=reveal)

    def close(self) -> None:
        """Closes it. Safe to call twice."""
        self._store.close()

    def __repr__(self) -> str:
        return f"<store {self._location.address}>"

    def __enter__(self) -> OpenStore:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()

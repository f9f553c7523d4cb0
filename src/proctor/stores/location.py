"""Where a store is: what can be asked before it is opened, and what lies beside it.

`STORES` gives a `StoreLocation` for an address. What concerns the files of a store is in its `files`, which a
store in memory does not have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from proctor.protocols import AnswerCache, Store
from proctor.store_protocol import Progress

if TYPE_CHECKING:
    from proctor.stores.catalogue.database import Catalogue

DEFAULT_FOLDER = ".proctor"


class StoreProblem(Struct, frozen=True, kw_only=True):
    """Something that is wrong with a store."""

    code: str
    """`file`, `row`, `case`, `suite`, `trial` or `run`."""
    message: str
    remedy: str


class StoreReport(Struct, frozen=True, kw_only=True):
    """The result of a check."""

    path: str
    version: int
    problems: tuple[StoreProblem, ...]
    notes: tuple[str, ...]
    """What is no fault, and good to know: runs that were cut short, leftovers."""
    rows: dict[str, int]
    """How many rows each table has; empty where the file cannot be read so far."""
    sizes: dict[str, int]
    """The bytes of each file of the store, by its name."""


class SalvageResult(Struct, frozen=True, kw_only=True):
    """The result of a repair."""

    kept: dict[str, int]
    """How many rows each table of the new store has."""
    lost: dict[str, int]
    """How many rows of each table are known to be lost; there may have been more."""
    runs: tuple[tuple[str, int, int], ...]
    """The runs that lost trials: their ids, the trials that they have, and those that they are to have."""
    suites: tuple[str, ...]
    """The suites that lost cases, and were put out of use."""


class UnusedFile(Struct, frozen=True, kw_only=True):
    """A cache beside a store that can be removed."""

    path: Path
    is_damaged: bool
    remove: Callable[[], None]


class StoreFiles(Protocol):
    """What a store that lies in files offers for them: `proctor store check`, `backup`, `repair` and `gc`."""

    def check(self, on_progress: Progress = ...) -> StoreReport:
        """Checks the file and every row in it.

        Raises:
            StoreError: there is no store, or it cannot be read at all.
        """

    def back_up(self, to: Path, on_progress: Progress = ...) -> dict[str, int]:
        """Copies the store to a new file and checks the copy; returns how many rows each table has.

        Raises:
            UsageError: there is such a file already, or it cannot be written.
            StoreError: the store cannot be read, or is damaged.
        """

    def repair(self, to: Path, on_progress: Progress = ...) -> SalvageResult:
        """Saves what can be read of a damaged store into a new one.

        Raises:
            UsageError: there is a new file already, or it cannot be written.
            StoreError: the old one cannot be read, or nothing of it is a store's.
        """

    def find_unused(self, is_unused: Callable[[Path], bool]) -> Iterator[UnusedFile]:
        """The caches beside the store that are damaged, or are not used any more.

        Args:
            is_unused: whether a file was not changed for so long that it can go; True for a missing one.
        """


class StoreLocation(Protocol):
    """A store by its address; nothing is opened before `open_store`."""

    address: str
    """What `--store` finds the same store by."""
    folder: Path
    """Where files of the same project lie: prices, certificates, what pages have started."""
    is_durable: bool
    """Whether the store is still there when this process has ended."""
    files: StoreFiles | None
    """What can be done with its files; None for a store that has none."""

    def exists(self) -> bool:
        """Whether there is a store, or something in its place."""

    def is_empty(self) -> bool:
        """Whether what is there holds nothing at all, not even the tables of a store."""

    def check_writable(self) -> None:
        """Refuses a store that can only be read.

        Raises:
            StoreError: it cannot be written.
        """

    def open_store(self, notify: Callable[[str], None] = ...) -> Store:
        """The store, made if there is none; `notify` gets a sentence about what brought it up to date.

        Raises:
            StoreError: what is there is no store, is damaged, or was written by a newer version.
        """

    def trash(self) -> StoreLocation:
        """The store of deleted versions of suites, which may not be there yet."""

    def open_catalogue(self) -> Catalogue:
        """The catalogue for lists and searches of this store's runs."""

    def open_answer_cache(self, notify: Callable[[str], None] = ...) -> AnswerCache:
        """The cache of answers beside the store; see `Store.open_answer_cache`."""

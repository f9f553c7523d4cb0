"""The location of a store: everything that works before it is opened, and the files beside it.

`STORES` returns a `StoreLocation` for an address. Its `maintenance` checks, backs up and repairs the store; a
store in memory has none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from proctor.protocols import AnswerCache, Store
from proctor.store_protocol import Progress

if TYPE_CHECKING:
    from proctor.stores.sql.row_access import StoreRows

DEFAULT_FOLDER = ".proctor"


class StoreProblem(Struct, frozen=True, kw_only=True):
    """A problem of a store."""

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
    """Findings that are no problems: unfinished runs, leftovers."""
    rows: dict[str, int]
    """The number of rows in each table; empty if the file is too damaged to read them."""
    sizes: dict[str, int]
    """The bytes of each file or table of the store, by its name."""


class SalvageResult(Struct, frozen=True, kw_only=True):
    """The result of a repair."""

    kept: dict[str, int]
    """The number of rows in each table of the new store."""
    lost: dict[str, int]
    """The number of rows of each table known to be lost; there may be more."""
    runs: tuple[tuple[str, int, int], ...]
    """The runs that lost trials: id, number of trials left, and number of planned trials."""
    suites: tuple[str, ...]
    """The suites that lost cases, and can no longer be used."""


class UnusedFile(Struct, frozen=True, kw_only=True):
    """A cache beside a store that can be removed."""

    path: Path
    is_damaged: bool
    remove: Callable[[], None]


class StoredNames(Struct, frozen=True, kw_only=True):
    """The names in a store, for shell completion."""

    runs: dict[str, str] = {}
    """Descriptions of the newest runs by their ids, the newest first."""
    run_tags: tuple[str, ...] = ()
    prompts: tuple[str, ...] = ()
    """Of the newest runs."""
    groups: tuple[str, ...] = ()
    suites: dict[str, tuple[str, ...]] = {}
    """The versions of each saved suite by its name, the newest first."""


class Grants(Struct, frozen=True, kw_only=True):
    """The roles of a database server that may use a store."""

    write: tuple[str, ...] = ()
    read: tuple[str, ...] = ()


NO_GRANTS = Grants()


class MigrationReport(Struct, frozen=True, kw_only=True):
    """The result of creating or upgrading a store's tables."""

    before: int
    """The version of the tables; 0 if there were none."""
    after: int
    grants: Grants = NO_GRANTS


class StoreMaintenance(Protocol):
    """What `proctor store check`, `backup`, `repair` and `gc` do with a store that outlives its process.

    A store on a server refuses `back_up` and `repair`, and says which of the server's own tools to use.
    """

    def check(self, on_progress: Progress = ...) -> StoreReport:
        """Checks the file, if there is one, and every row.

        Raises:
            StoreError: there is no store, or it cannot be read at all.
        """

    def back_up(self, to: Path, on_progress: Progress = ...) -> dict[str, int]:
        """Copies the store to a new file and checks the copy; returns how many rows each table has.

        Raises:
            UsageError: the file exists already, or cannot be written.
            StoreError: the store cannot be read, or is damaged.
        """

    def repair(self, to: Path, on_progress: Progress = ...) -> SalvageResult:
        """Saves what can be read of a damaged store into a new one.

        Raises:
            UsageError: the new file exists already, or cannot be written.
            StoreError: the old store cannot be read, or contains no rows of a store.
        """

    def find_unused(self, is_unused: Callable[[Path], bool]) -> Iterator[UnusedFile]:
        """Yields the caches beside the store that are damaged or no longer used.

        Args:
            is_unused: returns whether a file has not changed for so long that it can be removed; True for a
                missing one.
        """


class StoreLocation(Protocol):
    """The location of a store; nothing is opened before `open_store`."""

    address: str
    """The address for `--store`; it never has a password."""
    name: str
    """What pages call the store."""
    folder: Path
    """The folder of the project's other files, such as prices and certificates."""
    is_in_folder: bool
    """Whether the store itself is in `folder`; `locate_project_store` sets the folder of all others."""
    is_durable: bool
    """Whether the store outlives this process."""
    maintenance: StoreMaintenance | None
    """Checks, backs up and repairs it; None for a store in memory."""

    @property
    def rows(self) -> StoreRows | None:
        """Access to all of its rows; None for a store that ends with this process."""

    def exists(self) -> bool:
        """Whether there is a store, or anything else in its place."""

    def is_empty(self) -> bool:
        """Whether the store exists but is empty, even without tables."""

    def check_writable(self) -> None:
        """Checks that the store can be written.

        Raises:
            StoreError: it is read-only.
        """

    def open_store(self, notify: Callable[[str], None] = ...) -> Store:
        """Opens the store, or creates it; `notify` is called with a sentence if it was migrated.

        A store on a server is neither created nor migrated: that takes rights which running does not need.

        Raises:
            StoreError: the file is not a store, is damaged, or was written by a newer version.
        """

    def keep_connections(self) -> None:
        """Lets stores that are opened from now on use the connections of those that were closed.

        Called by servers, which open a store for each request.
        """

    def open_to_read(self) -> Store:
        """Opens the store, which must exist, to read it only: nothing is created, migrated or written.

        Raises:
            StoreError: as `open_store`.
        """

    def migrate(self, grants: Grants = ..., notify: Callable[[str], None] = ...) -> MigrationReport:
        """Creates the tables of the store, or upgrades them to this version.

        Args:
            grants: the roles that may use it from now on.
            notify: called with a sentence if the store was backed up first.

        Raises:
            UsageError: there is no such role, or the store has no roles.
            StoreError: the store cannot be migrated.
        """

    def migration_script(self, grants: Grants = ...) -> str:
        """Returns what `migrate` would execute now, in SQL.

        Raises:
            UsageError: the store has no server that could execute it.
            StoreError: the store cannot be read.
        """

    def list_names(self) -> StoredNames:
        """Returns the names in the store; none if it cannot be read at once and without writing anything."""

    def list_case_labels(self, suite: str) -> Iterator[tuple[tuple[str, ...], str | None]]:
        """Yields the tags and the category of cases of a saved suite, as `list_names` does."""

    def trash(self) -> StoreLocation:
        """Returns the location of the store for deleted versions of suites, which may not exist yet."""

    def open_answer_cache(self, notify: Callable[[str], None] = ...) -> AnswerCache:
        """Opens the cache of answers beside the store; see `Store.open_answer_cache`."""

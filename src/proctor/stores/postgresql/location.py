"""The location of a store in a PostgreSQL database, and what can be done with it before it is open."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from proctor.errors import UsageError
from proctor.protocols import AnswerCache
from proctor.store_protocol import Progress
from proctor.stores.location import (
    DEFAULT_FOLDER,
    NO_GRANTS,
    Grants,
    MigrationReport,
    SalvageResult,
    StoredNames,
    StoreMaintenance,
    StoreReport,
    UnusedFile,
)
from proctor.stores.postgresql.address import PostgresAddress, parse_address

if TYPE_CHECKING:
    from proctor.stores.postgresql.connection_pool import ConnectionPool
    from proctor.stores.postgresql.database import PostgresConnector
    from proctor.stores.postgresql.row_access import PostgresRows
    from proctor.stores.postgresql.store import PostgresStore


class PostgresLocation:
    """Implements `StoreLocation` and `StoreMaintenance` for a schema of a database."""

    is_durable = True
    is_in_folder = False

    def __init__(self, address: PostgresAddress) -> None:
        """Stores its argument; connects to nothing.

        Args:
            address: where the database is.
        """
        self.address = address.url
        self.name = address.name
        self.folder = Path(DEFAULT_FOLDER)
        self.maintenance: StoreMaintenance | None = self
        self._parsed_address = address
        self._keeps_connections = False
        self._pool: ConnectionPool | None = None

    @property
    def connector(self) -> PostgresConnector:
        """Opens connections to the database.

        Raises:
            UsageError: psycopg cannot be imported.
        """
        return self._make_connector(lambda _line: None)

    def _make_connector(self, notify: Callable[[str], None]) -> PostgresConnector:
        try:
            from proctor.stores.postgresql.database import PostgresConnector
        except ImportError:  # psycopg is there, but not the library of PostgreSQL that it needs
            raise UsageError(_missing_package()) from None
        return PostgresConnector(self._parsed_address, notify)

    def exists(self) -> bool:
        """Returns True: whether there is a store is known when it is opened."""
        return True

    def is_empty(self) -> bool:
        """Returns False: an open store has its tables."""
        return False

    def check_writable(self) -> None:
        """Checks that the role may write.

        Raises:
            StoreError: it may not, or the store cannot be opened.
        """
        connector = self.connector
        from proctor.stores.postgresql.database import PostgresDatabase
        from proctor.stores.postgresql.rights import check_writable
        from proctor.stores.postgresql.schema import check_version
        from proctor.stores.sql.wait_policy import WaitPolicy

        with closing(PostgresDatabase(connector, WaitPolicy())) as database:
            check_version(database)
            check_writable(database)

    def open_store(self, notify: Callable[[str], None] = lambda _line: None) -> PostgresStore:
        """Opens the store.

        Args:
            notify: called with a sentence if the server is starting.

        Raises:
            StoreError: the database cannot be reached, or does not have the tables of this version.
        """
        connector = self._make_connector(notify)
        from proctor.stores.postgresql.store import PostgresStore

        if self._keeps_connections:
            connector.pool = self._find_pool()
        return PostgresStore(connector, self.folder.absolute())

    def keep_connections(self) -> None:
        """Lets stores that are opened from now on use the connections of those that were closed."""
        self._keeps_connections = True

    def _find_pool(self) -> ConnectionPool:
        from proctor.stores.postgresql.connection_pool import ConnectionPool

        if self._pool is None:
            self._pool = ConnectionPool()
        return self._pool

    def open_to_read(self) -> PostgresStore:
        """Opens the store, which opening does not change; see `open_store`."""
        return self.open_store()

    def migrate(
        self, grants: Grants = NO_GRANTS, notify: Callable[[str], None] = lambda _line: None
    ) -> MigrationReport:
        """Creates or upgrades the tables; see `StoreLocation.migrate`."""
        connector = self._make_connector(notify)
        from proctor.stores.postgresql.migrate import migrate

        return migrate(connector, grants)

    def migration_script(self, grants: Grants = NO_GRANTS) -> str:
        """Returns what `migrate` would execute now, as a script for psql."""
        connector = self.connector
        from proctor.stores.postgresql.migrate import write_script

        return write_script(connector, grants)

    def list_names(self) -> StoredNames:
        """Returns the names in the store; see `stored_names`."""
        connector = self.connector
        from proctor.stores.postgresql.stored_names import list_names

        return list_names(connector)

    def list_case_labels(self, suite: str) -> Iterator[tuple[tuple[str, ...], str | None]]:
        """Yields the tags and the category of cases of a saved suite; see `stored_names`."""
        connector = self.connector
        from proctor.stores.postgresql.stored_names import list_case_labels

        return list_case_labels(connector, suite)

    def trash(self) -> PostgresLocation:
        """Returns the location of the store of deleted versions, another schema of the same database."""
        from proctor.stores.postgresql.schema import trash_schema

        schema = trash_schema(self._parsed_address.schema)
        return PostgresLocation(self._parsed_address.with_schema(schema))

    def open_answer_cache(self, notify: Callable[[str], None] = lambda _message: None) -> AnswerCache:
        """Opens the answer cache, a table of the store."""
        connector = self.connector
        from proctor.stores.postgresql.answer_cache import PostgresAnswerCache

        return PostgresAnswerCache(connector, notify)

    # --- rows ---

    @property
    def rows(self) -> PostgresLocation:
        """Returns the access to all rows."""
        return self

    def read_rows(
        self,
        notify: Callable[[str], None] = lambda _line: None,  # noqa: ARG002
    ) -> AbstractContextManager[PostgresRows]:
        """Opens the rows of the store at this moment; see `StoreRows.read_rows`."""
        connector = self.connector
        from proctor.stores.postgresql.row_access import read_store

        return read_store(connector, self.folder.absolute())

    def write_rows(self) -> AbstractContextManager[PostgresRows]:
        """Opens an empty store to be filled; see `StoreRows.write_rows`."""
        connector = self.connector
        from proctor.stores.postgresql.row_access import fill_store

        return fill_store(connector, self.folder.absolute())

    def read_answers(self) -> AbstractContextManager[PostgresRows]:
        """Opens the answers at this moment; see `StoreRows.read_answers`."""
        return self.read_rows()

    def write_answers(self) -> AbstractContextManager[PostgresRows]:
        """Opens the answers to be extended; see `StoreRows.write_answers`."""
        connector = self.connector
        from proctor.stores.postgresql.row_access import extend_answers

        return extend_answers(connector, self.folder.absolute())

    # --- the tables ---

    def check(self, on_progress: Progress = lambda _count, _total: None) -> StoreReport:
        """Checks every row; see `StoreMaintenance.check`."""
        connector = self.connector
        from proctor.stores.postgresql.check import check_store

        return check_store(connector, on_progress)

    def back_up(
        self,
        to: Path,  # noqa: ARG002
        on_progress: Progress = lambda _count, _total: None,  # noqa: ARG002
    ) -> dict[str, int]:
        """Refuses: PostgreSQL has its own backups.

        Raises:
            UsageError: always.
        """
        raise UsageError(
            f"`proctor store backup` copies files, but {self.address} is in PostgreSQL. Back up its database "
            f"with `pg_dump --schema={self._parsed_address.schema}`, or copy the store into a file with "
            "`proctor store copy`."
        )

    def repair(
        self,
        to: Path,  # noqa: ARG002
        on_progress: Progress = lambda _count, _total: None,  # noqa: ARG002
    ) -> SalvageResult:
        """Refuses: only files are repaired.

        Raises:
            UsageError: always.
        """
        raise UsageError(
            f"`proctor store repair` repairs files, but {self.address} is in PostgreSQL. Restore its "
            "database from a backup, or copy what can be read into a file with `proctor store copy`."
        )

    def find_unused(self, is_unused: Callable[[Path], bool]) -> Iterator[UnusedFile]:  # noqa: ARG002
        """Yields nothing: there are no files."""
        return iter(())


def postgresql_location(rest: str) -> PostgresLocation:
    """Returns the store of a URL.

    Args:
        rest: the part after `postgresql://`.

    Raises:
        UsageError: the URL is malformed or has a password, or psycopg is not installed.
    """
    address = parse_address(rest)
    if find_spec("psycopg") is None:
        raise UsageError(_missing_package())
    return PostgresLocation(address)


def _missing_package() -> str:
    return "A store in PostgreSQL needs the package psycopg. Install it with pip install 'proctor[postgres]'."

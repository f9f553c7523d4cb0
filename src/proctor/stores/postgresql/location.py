"""The location of a store in a PostgreSQL database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from proctor.errors import UsageError
from proctor.protocols import AnswerCache
from proctor.stores.location import DEFAULT_FOLDER, StoredNames, StoreFiles

if TYPE_CHECKING:
    from proctor.stores.postgresql.connection_pool import ConnectionPool
    from proctor.stores.postgresql.database import PostgresConnector
    from proctor.stores.postgresql.store import PostgresStore

DEFAULT_SCHEMA = "proctor"


class PostgresLocation:
    """Implements `StoreLocation` for a schema of a database."""

    is_durable = True
    files: StoreFiles | None = None

    def __init__(self, address: str, conninfo: str, schema: str) -> None:
        """Stores its arguments; connects to nothing.

        Args:
            address: the URL, without a password.
            conninfo: the URL as libpq takes it.
            schema: the schema of the tables.
        """
        self.address = address
        self.folder = Path(DEFAULT_FOLDER)
        self._conninfo = conninfo
        self._schema = schema
        self._keeps_connections = False
        self._pool: ConnectionPool | None = None

    @property
    def connector(self) -> PostgresConnector:
        """Opens connections to the database.

        Raises:
            UsageError: the extra is not installed.
        """
        try:
            from proctor.stores.postgresql.database import PostgresConnector
        except ImportError:
            raise UsageError(
                f"{self.address} needs psycopg. Install it with pip install 'proctor[postgres]'."
            ) from None
        return PostgresConnector(self._conninfo, self.address, self._schema)

    def exists(self) -> bool:
        """Returns True: whether there is a store is known when it is opened."""
        return True

    def is_empty(self) -> bool:
        """Returns False: an open store has its tables."""
        return False

    def check_writable(self) -> None:
        """Does nothing: the server says what may be written."""

    def migrate(self) -> tuple[int, int]:
        """Creates or upgrades the tables; returns the versions before and after."""
        connector = self.connector
        from proctor.stores.postgresql.schema import migrate

        return migrate(connector)

    def open_store(self, notify: Callable[[str], None] = lambda _line: None) -> PostgresStore:  # noqa: ARG002
        """Opens the store.

        Raises:
            StoreError: the database cannot be reached, or has not the tables of this version.
        """
        connector = self.connector
        from proctor.stores.postgresql.store import PostgresStore

        if self._keeps_connections:
            connector.pool = self._find_pool(connector)
        return PostgresStore(connector, self.folder.absolute())

    def keep_connections(self) -> None:
        """Lets stores that are opened from now on use the connections of those that were closed."""
        self._keeps_connections = True

    def _find_pool(self, connector: PostgresConnector) -> ConnectionPool:
        from proctor.stores.postgresql.connection_pool import ConnectionPool

        if self._pool is None:
            self._pool = ConnectionPool(connector.connect)
        return self._pool

    def open_to_read(self) -> PostgresStore:
        """Opens the store, which opening does not change; see `open_store`."""
        return self.open_store()

    def list_names(self) -> StoredNames:
        """Returns no names yet."""
        return StoredNames()

    def list_case_labels(self, suite: str) -> Iterator[tuple[tuple[str, ...], str | None]]:  # noqa: ARG002
        """Yields nothing yet."""
        return iter(())

    def trash(self) -> PostgresLocation:
        """Returns the location of the store of deleted versions, another schema of the same database."""
        raise NotImplementedError

    def open_answer_cache(self, notify: Callable[[str], None] = lambda _message: None) -> AnswerCache:
        """Opens the answer cache of the store."""
        raise NotImplementedError


def postgresql_location(rest: str) -> PostgresLocation:
    """Returns the store of a URL.

    Args:
        rest: the part after `postgresql://`.
    """
    parts = urlsplit(f"postgresql://{rest}")
    options = dict(parse_qsl(parts.query))
    schema = options.pop("schema", DEFAULT_SCHEMA)
    conninfo = urlunsplit(parts._replace(query=urlencode(options)))
    return PostgresLocation(f"postgresql://{rest}", conninfo, schema)

"""A connection to an SQL database, as the stores use it.

Statements are what SQLite and PostgreSQL have in common: `?` marks a value, an upsert is `ON CONFLICT`, and
every subquery has a name. The tables are those of `proctor.stores.sqlite.migrations`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from msgspec import DecodeError

from proctor.errors import StoreError

T = TypeVar("T")

PAGE_BYTES = 2**22
"""The number of bytes of rows that are read at once."""
READ_ERRORS = (DecodeError, ValueError, TypeError, AttributeError)
"""What decoding a damaged row raises."""


class SqlDatabase(ABC):
    """One connection. Every method raises StoreError, which names the store, if the database fails."""

    address: str
    """The store's address for messages, without a password."""
    damage_remedy = ""
    """What to do about a row that cannot be read, as sentences."""

    @abstractmethod
    def select(self, statement: str, *values: object) -> list[Any]:
        """Returns all rows."""

    @abstractmethod
    def select_page(self, statement: str, *values: object, body: int) -> list[Any]:
        """Returns the first rows, up to a total of `PAGE_BYTES`; `body` is the index of the large column."""

    @abstractmethod
    def execute(self, statement: str, *values: object) -> int:
        """Executes a statement, and returns how many rows it changed."""

    @abstractmethod
    def execute_many(self, statement: str, rows: Sequence[Sequence[object]]) -> None:
        """Executes a statement once for each row."""

    @abstractmethod
    def insert(self, statement: str, *values: object, key: str) -> int:
        """Inserts a row, and returns the number that its column `key` got."""

    @abstractmethod
    def as_store_errors(self) -> AbstractContextManager[None]:
        """Raises errors of the database and the system in the block as StoreErrors that name the store."""

    @abstractmethod
    def transaction(self) -> AbstractContextManager[None]:
        """Commits everything that the block writes, or rolls it back; one process at a time is in a block."""

    @abstractmethod
    def close(self) -> None:
        """Closes the connection. Safe to call twice."""

    def fetch_one(self, statement: str, *values: object) -> Any:
        """Returns the first row; None if there is none."""
        rows = self.select(statement, *values)
        return rows[0] if rows else None

    def read(self, make: Callable[[], T]) -> T:
        """Decodes a row that may be damaged in any way.

        Raises:
            StoreError: the row is damaged.
        """
        try:
            return make()
        except READ_ERRORS as error:
            raise self.make_damage_error(error) from error

    def make_damage_error(self, error: Exception) -> StoreError:
        """Returns the error for a row that cannot be decoded."""
        return StoreError(
            f"The store {self.address} is damaged: a row of it cannot be read ({error}). "
            f"{self.damage_remedy}".rstrip()
        )

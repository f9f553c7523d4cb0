"""A store in a PostgreSQL database."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from math import inf
from pathlib import Path
from typing import Any

from proctor.errors import StoreError
from proctor.protocols import AnswerCache
from proctor.stores.postgresql.case_staging import TemporaryCases
from proctor.stores.postgresql.database import PostgresConnector, PostgresDatabase
from proctor.stores.postgresql.run_locks import PostgresRunLocks
from proctor.stores.postgresql.schema import check_version
from proctor.stores.postgresql.trial_writer import PostgresTrialWriter
from proctor.stores.sql.patience import Patience
from proctor.stores.sql.store import SqlStore

_NEWEST_TAGGED = """SELECT body FROM runs WHERE EXISTS (
    SELECT 1 FROM json_array_elements_text(convert_from(body, 'UTF8')::json -> 'tags') AS tags (tag)
    WHERE tag = ?) ORDER BY key DESC LIMIT 1"""


class PostgresStore(SqlStore):
    """Implements `Store`, which says what its methods do; `schema.py` has its tables."""

    def __init__(self, connector: PostgresConnector, folder: Path) -> None:
        """Opens the store.

        Args:
            connector: opens connections.
            folder: the absolute path of the project's folder, to which paths of suites are relative.

        Raises:
            StoreError: the database cannot be reached, or has not the tables of this version.
        """
        self._patience = Patience()
        self._postgres = PostgresDatabase(connector, self._patience)
        try:
            check_version(self._postgres)
        except StoreError:
            self._postgres.close()
            raise
        super().__init__(
            self._postgres,
            folder,
            PostgresTrialWriter(connector, self._patience),
            PostgresRunLocks(self._postgres),
        )

    def _stage_cases(self) -> TemporaryCases:
        return TemporaryCases(self._postgres)

    def _find_newest_tagged(self, tag: str) -> Any:
        return self._fetch_one(_NEWEST_TAGGED, tag)

    def _try_now(self, statement: str, *values: object) -> None:
        with suppress(StoreError):
            self._database.execute(statement, *values)

    def check_can_record_access(self) -> None:
        """Raises StoreError if no holdout access can be saved."""

    def on_wait(self, tell: Callable[[str], None]) -> None:
        """Sets a callback that gets a sentence when a method has waited 2 s."""
        self._patience.notify = lambda: tell(f"Waiting for the store {self._database.address}.")

    def protect(self) -> None:
        """Makes sure from now on that no trial is lost: waits for the database as long as it takes."""
        self._patience.patience_s = inf

    def abandon_lock(self) -> None:
        """Stops waiting."""
        self._patience.abandoned.set()

    def open_answer_cache(self, notify: Callable[[str], None] = lambda _message: None) -> AnswerCache:
        """Opens the answer cache of this store; close it after use."""
        raise NotImplementedError

    def count_unused_rows(self) -> dict[str, int]:
        """Returns the number of unreferenced rows by kind, without kinds that have none."""
        raise NotImplementedError

    def delete_unused_rows(self) -> None:
        """Deletes unreferenced rows, without blocking other processes for long."""
        raise NotImplementedError

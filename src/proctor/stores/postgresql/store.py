"""A store in a PostgreSQL database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

from msgspec import DecodeError

from proctor.codec import decode, encode
from proctor.errors import ReadOnlyStore, StoreError
from proctor.model import Run
from proctor.protocols import AnswerCache
from proctor.stores.postgresql.case_staging import PostgresCaseStaging
from proctor.stores.postgresql.database import PostgresConnector, PostgresDatabase
from proctor.stores.postgresql.page_in_advance import PageInAdvance
from proctor.stores.postgresql.rescue import load_answers, rescue_file
from proctor.stores.postgresql.rights import check_writable
from proctor.stores.postgresql.run_locks import PostgresRunLocks
from proctor.stores.postgresql.schema import check_version
from proctor.stores.postgresql.trial_writer import PostgresTrialWriter
from proctor.stores.sql.store import PAGE_ROWS, SqlStore
from proctor.stores.sql.wait_policy import WaitPolicy

_WITH_TEXT = """SELECT key, body FROM runs WHERE key < ? AND position(? IN body) > 0
    ORDER BY key DESC LIMIT 64"""
_SAVE_S = 1.0
"""How long a stopped run waits until its answers are saved, before it says where."""


class PostgresStore(SqlStore):
    """Implements `Store`, which says what its methods do; `schema.py` has its tables."""

    def __init__(self, connector: PostgresConnector, folder: Path) -> None:
        """Opens the store.

        Args:
            connector: opens connections.
            folder: the absolute path of the project's folder, to which paths of suites are relative.

        Raises:
            StoreError: the database cannot be reached, or does not have the tables of this version.
        """
        self.shared_address = connector.address
        self._wait_policy = WaitPolicy()
        self._postgres = PostgresDatabase(connector, self._wait_policy)
        try:
            check_version(self._postgres)
        except StoreError:
            self._postgres.close()
            raise
        run_locks = PostgresRunLocks(self._postgres)
        self._writer = PostgresTrialWriter(connector, self._wait_policy, run_locks, folder)
        super().__init__(self._postgres, folder, self._writer, run_locks)
        self._folder = folder
        self._writer.run_keys = self._keys
        self._postgres.explain_stop = self._explain_stop

    def _explain_stop(self) -> str:
        self._writer.abandon()
        self._writer.flush(_SAVE_S)
        fault = self._writer.health().fault
        return f"The store {self._postgres.address} does not answer." if fault is None else fault.message

    def _stage_cases(self) -> PostgresCaseStaging:
        return PostgresCaseStaging(self._postgres)

    def _find_newest_tagged(self, tag: str) -> Any:
        # PostgreSQL's JSON functions refuse all rows because of one NUL character or one damaged row.
        last = 2**63 - 1
        while rows := self._select(_WITH_TEXT, last, encode(tag)):
            for _, body in rows:
                with suppress(DecodeError, ValueError):
                    if tag in decode(body, Run).tags:
                        return (body,)
            last = rows[-1][0]
        return None

    def _try_now(self, statement: str, *values: object) -> None:
        self._postgres.try_execute(statement, *values)

    def _case_rows(self, content: str, start: int = 0) -> Iterator[tuple[bytes, bytes]]:
        """Yields rows as the method of the superclass; for a run, a thread reads each page in advance.

        So an event loop never waits for a page: it takes no case while `is_full`.
        """
        if self._wait_policy.patience_s < inf:
            yield from super()._case_rows(content, start)
            return
        rows = self._read_cases(content, start)
        while rows:
            start += PAGE_ROWS
            next_page = PageInAdvance(partial(self._read_cases, content, start))
            yield from rows
            rows = self._postgres.wait_for(next_page.rows)

    def is_full(self) -> bool:
        """Returns whether no more requests should be sent: trials wait, or reading a case would wait."""
        return super().is_full() or (self._wait_policy.patience_s == inf and not self._postgres.is_ready())

    def lock_run(self, run_id: str) -> None:
        """Locks a run for this process, and saves answers that the store could not take before.

        Raises:
            StoreError: another process has locked it.
        """
        super().lock_run(run_id)
        try:
            answers = load_answers(self._folder, run_id)
            if answers:
                key = self._key(run_id)
                for _, position, repeat, verdict, body in answers:
                    self._writer.put((key, position, repeat, verdict, body))
                self._writer.flush()
                rescue_file(self._folder, run_id).unlink(missing_ok=True)
        except OSError as error:
            raise StoreError(
                f"The answers in {error.filename}, which could not be saved to the store earlier, cannot be "
                f"read ({error.strerror}). To request the answers again, move the file elsewhere."
            ) from error

    def check_can_record_access(self) -> None:
        """Raises StoreError if no holdout access can be saved."""
        try:
            check_writable(self._postgres)
        except ReadOnlyStore as error:
            raise ReadOnlyStore(
                "This command shows holdout cases, and the store must count each holdout access, so nothing "
                f"is shown. {error}"
            ) from error

    def on_wait(self, tell: Callable[[str], None]) -> None:
        """Sets a callback that gets a sentence when a method has waited 2 s."""
        self._wait_policy.notify = lambda: tell(f"Waiting for the store {self._database.address}.")

    def protect(self) -> None:
        """Makes sure from now on that no trial is lost: waits for the database as long as it takes."""
        self._wait_policy.patience_s = inf
        self._writer.can_rescue = True

    def abandon_lock(self) -> None:
        """Stops waiting; after `protect`, pending trials are saved in the project's folder."""
        self._writer.abandon()

    def open_answer_cache(self, notify: Callable[[str], None] = lambda _message: None) -> AnswerCache:
        """Opens the answer cache of this store; close it after use."""
        from proctor.stores.postgresql.answer_cache import PostgresAnswerCache

        return PostgresAnswerCache(self._postgres.connector, notify)

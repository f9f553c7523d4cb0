"""Reads the names in a store for shell completion: within half a second, or not at all.

No error is raised: of a store that cannot be read so, there are no names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from threading import Thread
from typing import TypeVar

import psycopg

from proctor.errors import StoreError
from proctor.stores.location import StoredNames
from proctor.stores.postgresql.database import PostgresConnector, PostgresDatabase
from proctor.stores.sql.stored_names import NameCollector, Select, read_case_labels
from proctor.stores.sql.wait_policy import WaitPolicy

DEADLINE_S = 0.5
T = TypeVar("T")
CaseLabels = tuple[tuple[str, ...], str | None]


def list_names(connector: PostgresConnector) -> StoredNames:
    """Returns the names in a store: of its newest runs, and of all saved suites."""

    def read(select: Select) -> StoredNames:
        collector = NameCollector()
        collector.read(select)
        return collector.names()

    return _read_in_time(connector, read) or StoredNames()


def list_case_labels(connector: PostgresConnector, suite: str) -> Iterator[CaseLabels]:
    """Yields the tags and the category of the first cases of a saved suite, `NAME` or `NAME@v2`."""
    yield from _read_in_time(connector, lambda select: list(read_case_labels(select, suite))) or ()


def _read_in_time(connector: PostgresConnector, read: Callable[[Select], T]) -> T | None:
    """Returns what a function reads; None if that fails or takes too long.

    A thread reads, as looking up a host and connecting to it can be ended in no other way.
    """
    results: list[T] = []

    def run() -> None:
        with (
            suppress(StoreError, psycopg.Error, OSError, ValueError),
            closing(PostgresDatabase(connector, WaitPolicy(patience_s=0))) as database,
        ):
            results.append(read(database.select))

    thread = Thread(target=run, daemon=True)
    thread.start()
    thread.join(DEADLINE_S)
    return results[0] if results else None

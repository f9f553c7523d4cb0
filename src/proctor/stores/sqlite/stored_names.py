"""Reads the names in a store for shell completion: in place, in a few milliseconds, whatever its state.

Nothing is locked, migrated or written, and no error is raised: of a store that cannot be read so, there are
no names.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any

from proctor.stores.location import StoredNames
from proctor.stores.sql.stored_names import NameCollector, Select, read_case_labels
from proctor.stores.sqlite.read_only import connect_in_place

_TIMEOUT_S = 0.05


def list_names(path: str) -> StoredNames:
    """Returns the names in the store of a file: of its newest runs, and of all saved suites."""
    collector = NameCollector()
    with _open(path) as select:
        collector.read(select)
    return collector.names()


def list_case_labels(path: str, suite: str) -> Iterator[tuple[tuple[str, ...], str | None]]:
    """Yields the tags and the category of the first cases of a saved suite, `NAME` or `NAME@v2`."""
    labels: list[tuple[tuple[str, ...], str | None]] = []
    with _open(path) as select:
        labels.extend(read_case_labels(select, suite))
    yield from labels


@contextmanager
def _open(path: str) -> Iterator[Select]:
    """Opens a store in place, or else an empty database; ends the block silently where it cannot go on."""
    real = os.path.realpath(path)
    connection = None
    with suppress(sqlite3.Error, OSError, ValueError):
        connection = connect_in_place(real, _connect) if os.path.isfile(real) else None  # noqa: PTH113
    with suppress(sqlite3.Error, ValueError), closing(connection or sqlite3.connect(":memory:")) as db:

        def select(statement: str, *values: object) -> Iterable[Any]:
            return db.execute(statement, values)

        yield select


def _connect(name: str, uri: bool) -> sqlite3.Connection:
    return sqlite3.connect(name, uri=uri, timeout=_TIMEOUT_S)

"""Labels in a store of an earlier version of Proctor, and rows of them that are damaged."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from proctor.errors import StoreError
from proctor.model import Label
from proctor.stores.sqlite.migrations import MIGRATIONS
from proctor.stores.sqlite.store import SqliteStore

Open = Callable[[Path], SqliteStore]
LABEL = Label(run="r1", case_id="c7", passed=True, by="ana")


def test_a_store_of_version_3_takes_labels_and_loses_nothing(kept: Path, opened: Open) -> None:
    with closing(sqlite3.connect(kept)) as db:
        for table in ("labels", "origins", "variables", "totals"):
            db.execute(f"DROP TABLE {table}")
        db.execute("PRAGMA user_version = 3")
        db.commit()
    store = opened(kept)
    assert store.labels() == []
    store.add_label(LABEL)
    again = opened(kept)
    assert [one.label for one in again.labels("r1")] == [LABEL]
    assert sum(1 for _ in again.trials("r1")) == 500
    with closing(sqlite3.connect(kept)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS),)


@pytest.mark.parametrize("change", ["body = '{'", "at = 'noon'", "body = 7"])
def test_a_label_that_cannot_be_read_is_told(kept: Path, opened: Open, change: str) -> None:
    store = opened(kept)
    store.add_label(LABEL)
    with closing(sqlite3.connect(kept)) as db:
        db.execute(f"UPDATE labels SET {change}")
        db.commit()
    with pytest.raises(StoreError, match="is damaged"):
        store.labels()

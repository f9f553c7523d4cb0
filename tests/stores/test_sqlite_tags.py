"""Finding runs by their tags in a damaged file."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from proctor.errors import StoreError
from proctor.stores.sqlite.store import SqliteStore
from support.stores import add_run, save_cases


@pytest.fixture
def begin(tmp_path: Path) -> Callable[..., None]:
    """Saves runs with tags; `body` replaces the stored body of the run."""

    def make(run_id: str, *tags: str, body: object = None) -> None:
        with closing(SqliteStore.open_file(str(tmp_path / "kept.db"))) as store:
            add_run(store, save_cases(store, []), id=run_id, tags=tags)
        if body is not None:
            with closing(sqlite3.connect(tmp_path / "kept.db")) as db, db:
                db.execute("UPDATE runs SET body = ? WHERE id = ?", (body, run_id))

    return make


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"\xff\xfe\x00", b"[]", b'"baseline"', b'{"tags": 3}', b'{"tags": [[]]}', "{}", 7, 1.5],
)
def test_a_damaged_run_hides_no_other(tmp_path: Path, begin: Callable[..., None], body: object) -> None:
    begin("r1", "baseline")
    begin("r2", "baseline", body=body)
    with closing(SqliteStore.open_file(str(tmp_path / "kept.db"))) as store:
        assert store.run("baseline").id == "r1"
        with pytest.raises(StoreError, match="damaged"):
            store.run("r2")


def test_a_damaged_run_with_the_tag_is_an_error(tmp_path: Path, begin: Callable[..., None]) -> None:
    begin("r1", "baseline")
    begin("r2", body=b'{"tags": ["baseline"]}')
    with closing(SqliteStore.open_file(str(tmp_path / "kept.db"))) as store:
        assert isinstance(store, SqliteStore)
        with pytest.raises(StoreError, match="damaged"):
            store.run("baseline")

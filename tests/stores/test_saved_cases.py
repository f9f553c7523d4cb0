"""The cases of suites that were just saved, kept in memory for the first reading."""

from __future__ import annotations

from pathlib import Path

import pytest

from proctor.codec import sent_digest
from proctor.model import Case, Message, Suite
from proctor.protocols import Store
from proctor.stores.sql import saved_cases
from proctor.stores.sql.saved_cases import SavedCases
from proctor.stores.sqlite.store import SqliteStore


def _add(saved: SavedCases, content: str, count: int = 3, body_bytes: int = 30) -> None:
    rows = [(f"{content} {number}".encode(), b"sent") for number in range(count)]
    saved.add(content, reversed(rows), count, body_bytes)


def test_rows_are_taken_once_and_in_order() -> None:
    saved = SavedCases()
    _add(saved, "a")
    assert [body for body, _ in saved.take("a") or ()] == [b"a 0", b"a 1", b"a 2"]
    assert saved.take("a") is None


def test_a_large_suite_leaves_no_rows() -> None:
    saved = SavedCases()
    _add(saved, "many", saved_cases.MAX_CASES + 1)
    _add(saved, "large", body_bytes=saved_cases.MAX_BYTES)
    assert saved.take("many") is None
    assert saved.take("large") is None


def test_the_oldest_of_several_suites_that_are_large_together_is_released() -> None:
    saved = SavedCases()
    for content in ("first", "second", "third"):
        _add(saved, content, body_bytes=saved_cases.MAX_BYTES // 3)
    assert saved.take("first") is None
    assert saved.take("second") is not None
    assert saved.take("third") is not None


def _save(store: Store) -> Suite:
    writer = store.open_suite_writer()
    for number in range(5):
        case = Case(id=f"case {number}", input=(Message(role="user", content="Hi"),))
        writer.add(case, sent_digest(case))
    return writer.commit(Suite(name="greetings", dialect="meridian", case_count=5, digest="sha256:1"))


@pytest.fixture
def store(tmp_path: Path) -> SqliteStore:
    return SqliteStore.open_file(str(tmp_path / "store.db"))


def test_cases_are_the_same_from_memory_and_from_the_database(store: SqliteStore) -> None:
    content = _save(store).content
    in_memory, in_database = list(store.cases(content)), list(store.cases(content))
    assert [stored_case.case.id for stored_case in in_memory] == [f"case {number}" for number in range(5)]
    assert in_memory == in_database
    store.close()


def test_a_suite_that_is_saved_again_comes_from_memory(store: SqliteStore) -> None:
    content = _save(store).content
    from_memory = list(store.cases(content))
    _save(store)
    store._db.execute("DELETE FROM suite_cases")
    assert list(store.cases(content)) == from_memory
    assert list(store.cases(content)) == []
    store.close()


def test_a_suite_that_an_earlier_version_saved_keeps_its_digests(store: SqliteStore) -> None:
    content = _save(store).content
    list(store.cases(content))
    store._db.execute("UPDATE suite_cases SET sent = ? WHERE position = 2", (bytes(32),))
    _save(store)
    assert [stored_case.sent_digest[7:] for stored_case in store.cases(content)][2] == bytes(32).hex()
    store.close()


def test_a_suite_that_was_saved_and_deleted_has_no_cases(store: SqliteStore) -> None:
    suite = _save(store)
    store.delete_version("greetings", suite.version or "")
    assert list(store.cases(suite.content)) == []
    store.close()

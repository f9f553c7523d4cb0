"""The file of answers: shared by processes, and never the end of a run."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from proctor.stores.sqlite.answer_cache import SqliteAnswerCache
from proctor.stores.sqlite.store import SqliteStore
from support.waiting import PATIENCE_S, wait_until

OpenCache = Callable[[], SqliteAnswerCache]


@pytest.fixture
def messages() -> list[str]:
    return []


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "größe" / "cache.db"


@pytest.fixture
def open_cache(path: Path, messages: list[str]) -> Iterator[OpenCache]:
    """Opens the cache, also twice at once, and closes all of them after the test."""
    caches: list[SqliteAnswerCache] = []

    def make() -> SqliteAnswerCache:
        caches.append(SqliteAnswerCache(path, messages.append))
        return caches[-1]

    yield make
    for cache in caches:
        cache.close()


def put_answer(cache: SqliteAnswerCache, number: int, value: bytes | None = b"{}", why_not: str = "") -> None:
    cache.put(_key(number), f"case {number % 3}", b"parts %d" % number, value, why_not)


def _key(number: int) -> bytes:
    return number.to_bytes(32, "big")


def test_closing_twice_is_safe_and_later_answers_are_dropped(
    open_cache: OpenCache, messages: list[str]
) -> None:
    cache = open_cache()
    put_answer(cache, 1)
    for _ in range(2):
        cache.close()
    put_answer(cache, 2)
    assert (cache.get(_key(1)), cache.earlier_parts("case 1"), messages) == (None, [], [])


# --- files that cannot be used -----------------------------------------------------------------------------


def _damage_header(path: Path) -> None:
    path.write_bytes(b"no database at all\n" * 500)


def _damage_pages(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[4096:] = b"\xa5" * (len(data) - 4096)
    path.write_bytes(data)


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:6000])


@pytest.mark.parametrize("damage", [_damage_header, _damage_pages, _truncate])
def test_a_damaged_file_is_moved_aside_and_a_new_one_begun(
    open_cache: OpenCache, path: Path, messages: list[str], damage: Callable[[Path], None]
) -> None:
    cache = open_cache()
    for number in range(500):
        put_answer(cache, number, b"x" * 500)
    cache.close()
    damage(path)
    damaged = path.read_bytes()
    cache = open_cache()
    assert cache.get(_key(1)) is None
    put_answer(cache, 1)
    cache.close()
    assert open_cache().get(_key(1)) == (b"{}", "")
    (damaged_copy,) = path.parent.glob("cache.db.damaged-*")
    assert damaged_copy.read_bytes() == damaged
    assert len(messages) == 1
    assert str(path) in messages[0]
    assert damaged_copy.name in messages[0]


def test_a_cache_that_is_damaged_while_open_is_reported_once_and_works_when_opened_again(
    open_cache: OpenCache, path: Path, messages: list[str]
) -> None:
    cache = open_cache()
    for number in range(500):
        put_answer(cache, number, b"x" * 500)
    cache.close()
    cache = open_cache()
    _damage_pages(path)
    for number in range(500, 800):
        put_answer(cache, number)
        cache.get(_key(number - 400))
    assert len(messages) == 1
    put_answer(cache, 900)
    cache.close()
    assert open_cache().get(_key(900)) == (b"{}", "")


def test_the_log_of_a_damaged_file_is_not_read_into_the_new_one(
    open_cache: OpenCache, path: Path, tmp_path: Path, messages: list[str]
) -> None:
    cache = open_cache()
    for number in range(100):
        put_answer(cache, number, b"x" * 500)
    cache.close()
    put_answer(open_cache(), 1, b"y" * 500)
    folder = tmp_path / "copy"
    folder.mkdir()
    for ending in ("", "-wal"):
        (folder / f"cache.db{ending}").write_bytes(path.with_name(f"cache.db{ending}").read_bytes())
    _damage_header(folder / "cache.db")
    cache_copy = SqliteAnswerCache(folder / "cache.db", messages.append)
    assert (cache_copy.get(_key(1)), len(messages)) == (None, 1)
    put_answer(cache_copy, 1)
    cache_copy.close()
    assert len(list(folder.iterdir())) == 2


def _make_foreign_database(path: Path) -> None:
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE mine (x)")
    db.commit()
    db.close()


def _make_store(path: Path) -> None:
    SqliteStore.open_file(str(path)).close()


def _make_newer_cache(path: Path) -> None:
    SqliteAnswerCache(path).close()
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version = 99")
    db.close()


@pytest.mark.parametrize("make", [_make_foreign_database, _make_store, _make_newer_cache, Path.mkdir])
def test_a_file_that_is_no_cache_is_reported_and_left_alone(
    open_cache: OpenCache, path: Path, messages: list[str], make: Callable[[Path], None]
) -> None:
    path.parent.mkdir(parents=True)
    make(path)
    before = path.read_bytes() if path.is_file() else None
    cache = open_cache()
    put_answer(cache, 1)
    cache.close()
    assert open_cache().get(_key(1)) is None
    assert (path.read_bytes() if path.is_file() else None) == before
    assert {sentence.endswith(".") and str(path) in sentence for sentence in messages} == {True}
    assert len(messages) == 2


def test_a_folder_that_cannot_be_created_is_reported(tmp_path: Path, messages: list[str]) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    cache = SqliteAnswerCache(tmp_path / "file" / "cache.db", messages.append)
    put_answer(cache, 1)
    cache.close()
    assert len(messages) == 1


# --- several processes, and speed --------------------------------------------------------------------------

_WRITE_SCRIPT = """
import sys
from pathlib import Path
from proctor.stores.sqlite.answer_cache import SqliteAnswerCache

path, first, count = sys.argv[1:]
cache = SqliteAnswerCache(Path(path), lambda message: print(message, flush=True))
for number in range(int(first), int(first) + int(count)):
    cache.put(number.to_bytes(32, "big"), "c", b"p", b"v" * 300, "")
    assert cache.get(number.to_bytes(32, "big"))
cache.close()
"""


@pytest.mark.slow
def test_several_processes_fill_one_new_file(path: Path, open_cache: OpenCache) -> None:
    arguments = [[str(path), str(first), "1000"] for first in (0, 500, 1000)]
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", _WRITE_SCRIPT, *process_arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        for process_arguments in arguments
    ]
    assert [(process.communicate(timeout=PATIENCE_S)[0], process.returncode) for process in processes] == [
        (b"", 0)
    ] * 3
    cache = open_cache()
    assert all(cache.get(_key(number)) == (b"v" * 300, "") for number in range(2000))


@pytest.mark.slow
def test_a_killed_process_leaves_a_file_that_can_be_read(
    path: Path, open_cache: OpenCache, messages: list[str]
) -> None:
    process = subprocess.Popen([sys.executable, "-c", _WRITE_SCRIPT, str(path), "0", "100000000"])
    try:
        wait_until(lambda: path.is_file() and open_cache().get(_key(0)))
    finally:
        process.kill()
        process.wait()
    cache = open_cache()
    put_answer(cache, 0, b"new")
    assert cache.get(_key(0)) == (b"new", "")
    assert messages == []

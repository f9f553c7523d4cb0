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

Open = Callable[[], SqliteAnswerCache]


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "größe" / "cache.db"


@pytest.fixture
def opened(path: Path, told: list[str]) -> Iterator[Open]:
    """Opens the cache, also twice at once, and closes all of them after the test."""
    caches: list[SqliteAnswerCache] = []

    def make() -> SqliteAnswerCache:
        caches.append(SqliteAnswerCache(path, told.append))
        return caches[-1]

    yield make
    for cache in caches:
        cache.close()


def keep(cache: SqliteAnswerCache, number: int, value: bytes | None = b"{}", why_not: str = "") -> None:
    cache.put(_key(number), f"case {number % 3}", b"parts %d" % number, value, why_not)


def _key(number: int) -> bytes:
    return number.to_bytes(32, "big")


def test_closing_twice_is_safe_and_what_comes_later_is_dropped(opened: Open, told: list[str]) -> None:
    cache = opened()
    keep(cache, 1)
    for _ in range(2):
        cache.close()
    keep(cache, 2)
    assert (cache.get(_key(1)), cache.earlier_parts("case 1"), told) == (None, [], [])


# --- files that cannot be used -----------------------------------------------------------------------------


def _damage_header(path: Path) -> None:
    path.write_bytes(b"no database at all\n" * 500)


def _damage_pages(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[4096:] = b"\xa5" * (len(data) - 4096)
    path.write_bytes(data)


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:6000])


@pytest.mark.parametrize("damage", [_damage_header, _damage_pages, _cut])
def test_a_damaged_file_is_put_aside_and_a_new_one_begun(
    opened: Open, path: Path, told: list[str], damage: Callable[[Path], None]
) -> None:
    cache = opened()
    for number in range(500):
        keep(cache, number, b"x" * 500)
    cache.close()
    damage(path)
    damaged = path.read_bytes()
    cache = opened()
    assert cache.get(_key(1)) is None
    keep(cache, 1)
    cache.close()
    assert opened().get(_key(1)) == (b"{}", "")
    (aside,) = path.parent.glob("cache.db.damaged-*")
    assert aside.read_bytes() == damaged
    assert len(told) == 1
    assert str(path) in told[0]
    assert aside.name in told[0]


def test_damage_that_comes_while_it_is_open_ends_nothing(opened: Open, path: Path, told: list[str]) -> None:
    cache = opened()
    for number in range(500):
        keep(cache, number, b"x" * 500)
    cache.close()
    cache = opened()
    _damage_pages(path)
    for number in range(500, 800):
        keep(cache, number)
        cache.get(_key(number - 400))
    assert len(told) == 1
    keep(cache, 900)
    cache.close()
    assert opened().get(_key(900)) == (b"{}", "")


def test_a_log_that_a_damaged_file_left_behind_is_not_read_into_the_new_one(
    opened: Open, path: Path, tmp_path: Path, told: list[str]
) -> None:
    cache = opened()
    for number in range(100):
        keep(cache, number, b"x" * 500)
    cache.close()
    keep(opened(), 1, b"y" * 500)
    folder = tmp_path / "copy"
    folder.mkdir()
    for ending in ("", "-wal"):
        (folder / f"cache.db{ending}").write_bytes(path.with_name(f"cache.db{ending}").read_bytes())
    _damage_header(folder / "cache.db")
    again = SqliteAnswerCache(folder / "cache.db", told.append)
    assert (again.get(_key(1)), len(told)) == (None, 1)
    keep(again, 1)
    again.close()
    assert len(list(folder.iterdir())) == 2


def _foreign(path: Path) -> None:
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE mine (x)")
    db.commit()
    db.close()


def _store(path: Path) -> None:
    SqliteStore.open_file(str(path)).close()


def _newer(path: Path) -> None:
    SqliteAnswerCache(path).close()
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version = 99")
    db.close()


@pytest.mark.parametrize("make", [_foreign, _store, _newer, Path.mkdir])
def test_what_is_no_cache_is_left_alone_and_done_without(
    opened: Open, path: Path, told: list[str], make: Callable[[Path], None]
) -> None:
    path.parent.mkdir(parents=True)
    make(path)
    before = path.read_bytes() if path.is_file() else None
    cache = opened()
    keep(cache, 1)
    cache.close()
    assert opened().get(_key(1)) is None
    assert (path.read_bytes() if path.is_file() else None) == before
    assert {sentence.endswith(".") and str(path) in sentence for sentence in told} == {True}
    assert len(told) == 2


def test_a_folder_that_cannot_be_made_is_done_without(tmp_path: Path, told: list[str]) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    cache = SqliteAnswerCache(tmp_path / "file" / "cache.db", told.append)
    keep(cache, 1)
    cache.close()
    assert len(told) == 1


# --- several processes, and speed --------------------------------------------------------------------------

_WRITES = """
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
def test_several_processes_fill_one_new_file(path: Path, opened: Open) -> None:
    words = [[str(path), str(first), "1000"] for first in (0, 500, 1000)]
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", _WRITES, *each], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        for each in words
    ]
    assert [(process.communicate(timeout=PATIENCE_S)[0], process.returncode) for process in processes] == [
        (b"", 0)
    ] * 3
    cache = opened()
    assert all(cache.get(_key(number)) == (b"v" * 300, "") for number in range(2000))


@pytest.mark.slow
def test_a_killed_process_leaves_a_file_that_can_be_read(path: Path, opened: Open, told: list[str]) -> None:
    process = subprocess.Popen([sys.executable, "-c", _WRITES, str(path), "0", "100000000"])
    try:
        wait_until(lambda: path.is_file() and opened().get(_key(0)))
    finally:
        process.kill()
        process.wait()
    cache = opened()
    keep(cache, 0, b"new")
    assert cache.get(_key(0)) == (b"new", "")
    assert told == []

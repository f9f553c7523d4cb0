"""Caches of answers in every kind of store: found again, shared, and never the end of a run."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from time import monotonic, sleep
from typing import TYPE_CHECKING

import pytest

from proctor.protocols import AnswerCache
from proctor.stores import locate_store
from proctor.stores.location import StoreLocation
from proctor.stores.sql.tables import ANSWERS
from support.waiting import PATIENCE_S, wait_until

if TYPE_CHECKING:
    from support.postgresql import PostgresServer

Open = Callable[[], AnswerCache]


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def opened(location: StoreLocation, told: list[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Open]:
    """Opens the cache, also twice at once, and closes all of them after the test."""
    if location.address.startswith("postgresql"):
        monkeypatch.setattr("proctor.stores.postgresql.answer_cache.MAX_WAIT_S", PATIENCE_S)
    caches: list[AnswerCache] = []

    def make() -> AnswerCache:
        caches.append(location.open_answer_cache(told.append))
        return caches[-1]

    yield make
    for cache in caches:
        cache.close()


def keep(cache: AnswerCache, number: int, value: bytes | None = b"{}", why_not: str = "") -> None:
    cache.put(_key(number), f"case {number % 3}", b"parts %d" % number, value, why_not)


def _key(number: int) -> bytes:
    return number.to_bytes(32, "big")


def test_an_answer_is_had_at_once_and_by_whoever_opens_the_cache_later(opened: Open, told: list[str]) -> None:
    cache = opened()
    for number in range(200):
        keep(cache, number, b"answer %d" % number)
        assert cache.get(_key(number)) == (b"answer %d" % number, "")
    cache.close()
    assert [opened().get(_key(number)) for number in (0, 199, 200)] == [
        (b"answer 0", ""),
        (b"answer 199", ""),
        None,
    ]
    assert told == []


def test_an_answer_takes_the_place_of_a_failure_and_never_the_other_way_round(opened: Open) -> None:
    first = opened()
    keep(first, 1, None, "failed")
    assert first.get(_key(1)) == (None, "failed")
    for value, why_not in ((b"4", ""), (None, "failed again")):
        keep(first, 1, value, why_not)
        assert first.get(_key(1)) == (b"4", "")
    first.close()
    second = opened()
    keep(second, 1, None, "failed again")
    second.close()
    assert opened().get(_key(1)) == (b"4", "")


def test_what_earlier_commands_asked_about_a_case_comes_newest_first(opened: Open) -> None:
    first = opened()
    for number in range(9):
        keep(first, number)
        sleep(0.001)
    assert first.earlier_parts("case 0") == []
    first.close()
    second = opened()
    keep(second, 9)
    assert second.earlier_parts("case 0") == [b"parts 6", b"parts 3", b"parts 0"]
    assert second.earlier_parts("case 7") == []


def test_text_and_bytes_of_any_kind_are_kept(opened: Open) -> None:
    cache = opened()
    cache.put(b"\x00\xff", "größe \ud800 日本", b"\x00", "größe 日本 \x00".encode(), "größe")
    cache.close()
    again = opened()
    assert again.get(b"\x00\xff") == ("größe 日本 \x00".encode(), "größe")
    assert again.earlier_parts("größe \ud800 日本") == [b"\x00"]


def test_every_one_of_many_answers_is_found_when_a_cache_is_opened_again(opened: Open) -> None:
    cache = opened()
    for number in range(2000):
        cache.put(_key(number), f"case {number}", b"p" * 600, b"v%d" % number, "")
    cache.close()
    cache = opened()
    assert [cache.get(_key(number)) for number in range(2000)] == [
        (b"v%d" % number, "") for number in range(2000)
    ]


# --- PostgreSQL --------------------------------------------------------------------------------------------

_WRITES = """
import sys
from proctor.stores import locate_store

address, first, count = sys.argv[1:]
cache = locate_store(address).open_answer_cache(lambda message: print(message, flush=True))
for number in range(int(first), int(first) + int(count)):
    about = "c" if number % 2 else "long " * 3000
    cache.put(number.to_bytes(32, "big"), about, b"p", b"v" * 300 if number % 3 else None, "")
cache.close()
"""


@pytest.mark.slow
def test_several_processes_fill_one_table(postgres_location: StoreLocation) -> None:
    words = [[postgres_location.address, str(first), "1000"] for first in (0, 500, 1000)]
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", _WRITES, *each], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        for each in words
    ]
    assert [(process.communicate(timeout=PATIENCE_S)[0], process.returncode) for process in processes] == [
        (b"", 0)
    ] * 3
    assert postgres_location.rows is not None
    with postgres_location.rows.read_answers() as reader:
        assert reader is not None
        assert sum(len(page) for page in reader.iter_pages(ANSWERS)) == 2000


@pytest.mark.slow
def test_a_store_without_the_table_is_done_without(postgres_server: PostgresServer, told: list[str]) -> None:
    location = locate_store(postgres_server.address(schema="nothing_here"))
    cache = location.open_answer_cache(told.append)
    keep(cache, 1)
    cache.close()
    assert cache.get(_key(1)) is None
    (sentence,) = told
    assert location.address in sentence
    assert "cannot be used" in sentence


@pytest.mark.slow
def test_a_server_that_ends_and_comes_back_stops_nothing(
    monkeypatch: pytest.MonkeyPatch, told: list[str]
) -> None:
    from proctor.stores.postgresql import answer_cache
    from proctor.stores.postgresql.location import postgresql_location
    from support.postgresql import PostgresServer

    monkeypatch.setattr(answer_cache, "_RETRY_S", 0.05)
    server = PostgresServer(options=("fsync=off",))
    server.start()
    try:
        location = postgresql_location(server.address().removeprefix("postgresql://"))
        location.migrate()
        cache = location.open_answer_cache(told.append)
        keep(cache, 1, b"first")
        server.kill()
        started_at = monotonic()
        keep(cache, 2, b"second")
        assert cache.get(_key(3)) is None
        assert monotonic() - started_at < PATIENCE_S
        server.start()
        wait_until(lambda: _stored(location) >= {_key(2)})
        assert cache.get(_key(2)) == (b"second", "")
        cache.close()
        assert told == []
        server.kill()
        cache = location.open_answer_cache(told.append)
        assert (cache.get(_key(1)), len(told)) == (None, 1)
        cache.close()
        assert "cannot be used" in told[0]
    finally:
        server.stop()


def _stored(location: StoreLocation) -> set[bytes]:
    assert location.rows is not None
    with location.rows.read_answers() as reader:
        return {row[0] for page in reader.iter_pages(ANSWERS) for row in page} if reader else set()

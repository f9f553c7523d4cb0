"""Answer caches in every kind of store: they persist, can be shared, and never fail a run."""

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

OpenCache = Callable[[], AnswerCache]


@pytest.fixture
def messages() -> list[str]:
    return []


@pytest.fixture
def open_cache(
    location: StoreLocation, messages: list[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[OpenCache]:
    """Opens the cache as often as it is called, and closes all of them after the test."""
    if location.address.startswith("postgresql"):
        monkeypatch.setattr("proctor.stores.postgresql.answer_cache.MAX_WAIT_S", PATIENCE_S)
    caches: list[AnswerCache] = []

    def make() -> AnswerCache:
        caches.append(location.open_answer_cache(messages.append))
        return caches[-1]

    yield make
    for cache in caches:
        cache.close()


def put_answer(cache: AnswerCache, number: int, value: bytes | None = b"{}", why_not: str = "") -> None:
    cache.put(_key(number), f"case {number % 3}", b"parts %d" % number, value, why_not)


def _key(number: int) -> bytes:
    return number.to_bytes(32, "big")


def test_an_answer_can_be_read_at_once_and_after_the_cache_is_opened_again(
    open_cache: OpenCache, messages: list[str]
) -> None:
    cache = open_cache()
    for number in range(200):
        put_answer(cache, number, b"answer %d" % number)
        assert cache.get(_key(number)) == (b"answer %d" % number, "")
    cache.close()
    assert [open_cache().get(_key(number)) for number in (0, 199, 200)] == [
        (b"answer 0", ""),
        (b"answer 199", ""),
        None,
    ]
    assert messages == []


def test_an_answer_replaces_a_failure_and_a_failure_replaces_no_answer(open_cache: OpenCache) -> None:
    first = open_cache()
    put_answer(first, 1, None, "failed")
    assert first.get(_key(1)) == (None, "failed")
    for value, why_not in ((b"4", ""), (None, "failed again")):
        put_answer(first, 1, value, why_not)
        assert first.get(_key(1)) == (b"4", "")
    first.close()
    second = open_cache()
    put_answer(second, 1, None, "failed again")
    second.close()
    assert open_cache().get(_key(1)) == (b"4", "")


def test_earlier_parts_of_a_case_come_newest_first(open_cache: OpenCache) -> None:
    first = open_cache()
    for number in range(9):
        put_answer(first, number)
        sleep(0.001)
    assert first.earlier_parts("case 0") == []
    first.close()
    second = open_cache()
    put_answer(second, 9)
    assert second.earlier_parts("case 0") == [b"parts 6", b"parts 3", b"parts 0"]
    assert second.earlier_parts("case 7") == []


def test_text_and_bytes_of_any_kind_are_kept(open_cache: OpenCache) -> None:
    cache = open_cache()
    cache.put(b"\x00\xff", "größe \ud800 日本", b"\x00", "größe 日本 \x00".encode(), "größe")
    cache.close()
    again = open_cache()
    assert again.get(b"\x00\xff") == ("größe 日本 \x00".encode(), "größe")
    assert again.earlier_parts("größe \ud800 日本") == [b"\x00"]


def test_2000_answers_can_be_read_when_the_cache_is_opened_again(open_cache: OpenCache) -> None:
    cache = open_cache()
    for number in range(2000):
        cache.put(_key(number), f"case {number}", b"p" * 600, b"v%d" % number, "")
    cache.close()
    cache = open_cache()
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
    arguments = [[postgres_location.address, str(first), "1000"] for first in (0, 500, 1000)]
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", _WRITES, *process_arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        for process_arguments in arguments
    ]
    assert [(process.communicate(timeout=PATIENCE_S)[0], process.returncode) for process in processes] == [
        (b"", 0)
    ] * 3
    assert postgres_location.rows is not None
    with postgres_location.rows.read_answers() as reader:
        assert reader is not None
        assert sum(len(page) for page in reader.iter_pages(ANSWERS)) == 2000


@pytest.mark.slow
def test_a_missing_table_is_reported_and_nothing_is_cached(
    postgres_server: PostgresServer, messages: list[str]
) -> None:
    location = locate_store(postgres_server.address(schema="nothing_here"))
    cache = location.open_answer_cache(messages.append)
    put_answer(cache, 1)
    cache.close()
    assert cache.get(_key(1)) is None
    (sentence,) = messages
    assert location.address in sentence
    assert "cannot be used" in sentence


@pytest.mark.slow
def test_a_restart_of_the_server_fails_no_call(monkeypatch: pytest.MonkeyPatch, messages: list[str]) -> None:
    from proctor.stores.postgresql import answer_cache
    from proctor.stores.postgresql.location import postgresql_location
    from support.postgresql import PostgresServer

    monkeypatch.setattr(answer_cache, "_RETRY_S", 0.05)
    server = PostgresServer(options=("fsync=off",))
    server.start()
    try:
        location = postgresql_location(server.address().removeprefix("postgresql://"))
        location.migrate()
        cache = location.open_answer_cache(messages.append)
        put_answer(cache, 1, b"first")
        server.kill()
        started_at = monotonic()
        put_answer(cache, 2, b"second")
        assert cache.get(_key(3)) is None
        assert monotonic() - started_at < PATIENCE_S
        server.start()
        wait_until(lambda: _read_stored_keys(location) >= {_key(2)})
        assert cache.get(_key(2)) == (b"second", "")
        cache.close()
        assert messages == []
        server.kill()
        cache = location.open_answer_cache(messages.append)
        assert (cache.get(_key(1)), len(messages)) == (None, 1)
        cache.close()
        assert "cannot be used" in messages[0]
    finally:
        server.stop()


def _read_stored_keys(location: StoreLocation) -> set[bytes]:
    assert location.rows is not None
    with location.rows.read_answers() as reader:
        return {row[0] for page in reader.iter_pages(ANSWERS) for row in page} if reader else set()

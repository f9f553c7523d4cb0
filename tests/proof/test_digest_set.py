"""Sets of salts and of ids, which verify fills with two entries for each case."""

from __future__ import annotations

import os
import tracemalloc

import pytest

from proctor.proof import digest_set
from proctor.proof.digest_set import DigestSet, TextSet


def test_a_digest_is_new_once() -> None:
    digests = DigestSet()
    assert [digests.add(digest) for digest in (b"ab", b"cd", b"ab", b"cd", b"ef")] == [
        *(True, True, False, False, True),
    ]


def test_the_end_of_one_and_the_beginning_of_the_next_is_no_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digest_set, "_BUCKETS", 1)
    digests = DigestSet()
    assert [digests.add(digest) for digest in (b"ab", b"cd", b"bc", b"bc", b"da")] == [
        *(True, True, True, False, True),
    ]


def test_texts_are_equal_only_if_each_letter_is() -> None:
    texts = TextSet()
    assert [texts.add(text) for text in ("a", "A", "", "a", "\ud800", "", "\ud800")] == [
        *(True, True, True, False, True, False, False),
    ]


def test_a_digest_takes_little_more_than_its_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digest_set, "_BUCKETS", 16)
    tracemalloc.start()
    try:
        digests = DigestSet()
        for _ in range(10_000):
            digests.add(os.urandom(32))
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert size < 45 * 10_000

"""Patterns that are compiled when they are used."""

from __future__ import annotations

import re

import pytest

from proctor.lazy_pattern import lazy_pattern


def test_a_lazy_pattern_matches_as_a_compiled_one_does() -> None:
    lazy, compiled = lazy_pattern("a(b+)", re.IGNORECASE), re.compile("a(b+)", re.IGNORECASE)
    for text in ("ABB", "xabx", "", "a"):
        for name in ("search", "match", "fullmatch"):
            first, second = getattr(lazy, name)(text), getattr(compiled, name)(text)
            assert (first and first.groups()) == (second and second.groups())
    assert lazy.sub(r"\1", "xAbx") == "xbx"
    assert lazy_pattern(rb"\d").findall(b"1 2") == [b"1", b"2"]


def test_a_lazy_pattern_is_compiled_at_its_first_use() -> None:
    broken = lazy_pattern("(")
    with pytest.raises(re.error, match="unterminated"):
        broken.search("")

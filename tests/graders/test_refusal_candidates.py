"""Of the catalogue of refusals, only patterns that a text may have are searched for in it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import product
from pathlib import Path
from random import Random
from re import _constants, _parser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.graders.lexicons.matcher import (
    KINDS,
    LANGUAGES,
    Kind,
    find_candidates,
    load_catalogue,
    load_telltales,
    normalize_apostrophes,
)
from support.necessary_parts import contains_part

SENTENCES = [
    json.loads(line)["text"]
    for line in (Path(__file__).parent.parent / "data" / "refusals.jsonl").read_text("utf-8").splitlines()
]


def assert_none_is_left_out(text: str) -> None:
    text = normalize_apostrophes(text.lower())
    searched = set(find_candidates(text))
    for kind, name in product(KINDS, LANGUAGES):
        for refusal in load_catalogue(kind, name).patterns:
            assert refusal in searched or not refusal.pattern.search(text), (refusal, text)


def write_text(parts: Iterable[Any], random: Random) -> str:
    """A text that a parsed regular expression is likely to match; lookarounds are ignored."""
    return "".join(_write_part(kind, value, random) for kind, value in parts)


def _write_part(kind: Any, value: Any, random: Random) -> str:
    if kind is _constants.LITERAL:
        return chr(value)
    if kind is _constants.BRANCH:
        return write_text(random.choice(value[1]), random)
    if kind is _constants.SUBPATTERN:
        return write_text(value[3], random)
    if kind in (_constants.MAX_REPEAT, _constants.MIN_REPEAT, _constants.POSSESSIVE_REPEAT):
        least, most, part = value
        return "".join(write_text(part, random) for _ in range(random.randint(least, min(most, least + 2))))
    if kind is _constants.IN and value[0][0] is not _constants.NEGATE:
        part, of = random.choice(value)
        return _write_part(part, of, random)
    if kind is _constants.RANGE:
        return chr(value[0])
    if kind is _constants.CATEGORY:
        return {_constants.CATEGORY_SPACE: " ", _constants.CATEGORY_NOT_WORD: "-"}.get(value, "x")
    return "x" if kind in (_constants.ANY, _constants.IN, _constants.NOT_LITERAL) else ""


@pytest.mark.slow
@pytest.mark.parametrize("name", LANGUAGES)
@pytest.mark.parametrize("kind", KINDS)
def test_every_pattern_is_searched_for_in_what_it_matches(kind: Kind, name: str) -> None:
    random = Random(7)
    patterns = load_catalogue(kind, name).patterns
    n_matches = 0
    for refusal in patterns:
        parts = _parser.parse(refusal.pattern.pattern)
        for text in {write_text(parts, random).lower() for _ in range(20)}:
            for around in (text, f"so {text} it", f"Well. {text}. ok", f"a{text}b"):
                plain = normalize_apostrophes(around.lower())
                if refusal.pattern.search(plain):
                    n_matches += 1
                    assert refusal in set(find_candidates(plain)), plain
    assert n_matches > 15 * len(patterns)


@pytest.mark.slow
@pytest.mark.parametrize("name", LANGUAGES)
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_that_a_pattern_matches_lacks_all_telltales(kind: Kind, name: str) -> None:
    for refusal in load_catalogue(kind, name).patterns:
        assert contains_part(refusal.pattern.pattern, load_telltales(name)), refusal


@pytest.mark.parametrize(
    ("pattern", "part", "has"),
    [
        ("cannot say", "not ", True),
        ("cannot say", " not", False),
        (r"\bno(?:ne|body)?\b", " no ", False),
        (r"\bno(?:ne|body)?\b", " no", True),
        (r"(?:no|nil)(?: \w+)*", "no", False),
        ("i(?<!\\wi) (?:do|did)? ?know", " i ", True),
        ("i know", " i ", False),
        (r"a\w*b", "ab", False),
        (r"x(?= no\b)", " no ", True),
        (r"x(?! no\b)", " no ", False),
        ("x?", "x", False),
    ],
)
def test_parts_that_all_matches_have(pattern: str, part: str, has: bool) -> None:
    assert contains_part(pattern, [part]) is has


@pytest.mark.parametrize("texts", [SENTENCES[start::8] for start in range(8)])
def test_no_pattern_is_left_out_of_labelled_sentences(texts: list[str]) -> None:
    for text in texts:
        assert_none_is_left_out(text)


WORDS = sorted({word for text in SENTENCES for word in text.split()})


@given(st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join) | st.text(max_size=20))
def test_no_pattern_is_left_out_of_any_text(text: str) -> None:
    assert_none_is_left_out(text)


@pytest.mark.parametrize("text", ["", "42", "-7:40 (3.5 %)", "B", "Paris", "Four euros."])
def test_few_patterns_are_searched_for_in_an_ordinary_short_answer(text: str) -> None:
    assert len(list(find_candidates(text.lower()))) <= 12

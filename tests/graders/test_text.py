from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.graders import text as text_graders
from proctor.graders.fuzzy_match import normalize_words
from proctor.graders.text import clip, quote
from support.grading import grade_answer


@given(st.text(), st.booleans(), st.booleans())
def test_exact_passes_on_its_own_value(text: str, ignore_case: bool, trim: bool) -> None:
    assert grade_answer("exact", {"value": text, "ignore_case": ignore_case, "trim": trim}, text).passed


@given(st.text(min_size=1), st.data(), st.booleans())
def test_contains_finds_every_slice_of_a_text(text: str, data: st.DataObject, ignore_case: bool) -> None:
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))
    assert grade_answer("contains", {"value": text[start:end], "ignore_case": ignore_case}, text).passed


@given(st.text(), st.text(min_size=1), st.text())
def test_what_stands_at_an_end_is_found_there(before: str, value: str, after: str) -> None:
    assert grade_answer("starts_with", {"value": value, "trim": False}, value + after).passed
    assert grade_answer("ends_with", {"value": value, "trim": False}, before + value).passed


def test_long_texts_are_shortened_in_reasons() -> None:
    reason = grade_answer("exact", {"value": "x" * 500}, "y" * 500).reason
    assert len(reason) < 300
    assert clip("a" * 120) == "a" * 120
    assert quote("a\nb") == r"'a\nb'"


@given(st.text("aA ß\tİ", min_size=1, max_size=30), st.text("aA ß\tİ", min_size=1, max_size=4), st.booleans())
def test_a_large_answer_gets_the_mark_of_one_search(answer: str, value: str, ignore_case: bool) -> None:
    checks: list[tuple[str, dict[str, Any]]] = [
        ("exact", {"value": value, "ignore_case": ignore_case, "any_space": True}),
        ("exact", {"value": answer, "ignore_case": ignore_case, "trim": False}),
        ("exact", {"value": " ".join(answer.split()), "any_space": True}),
        ("contains", {"value": value, "ignore_case": ignore_case}),
        ("contains_any", {"values": [value], "ignore_case": ignore_case}),
        ("contains_all", {"values": [value], "ignore_case": ignore_case}),
    ]
    if value.strip():
        checks += [("starts_with", {"value": value}), ("ends_with", {"value": value})]
    at_once = [grade_answer(*check, answer) for check in checks]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_graders, "MAX_STEP_LENGTH", 3)
        assert [grade_answer(*check, answer) for check in checks] == at_once


@pytest.mark.slow
@given(st.text())
def test_words_have_no_capitals_or_double_spaces(text: str) -> None:
    words = normalize_words(text)
    assert words == " ".join(words.split())
    assert normalize_words(words) == words or any(char != char.lower() for char in words)

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.errors import CannotScore
from proctor.graders import text as text_graders
from proctor.graders.required_words import ForbiddenWords, RequiredWords
from proctor.graders.text import (
    Contains,
    ContainsAll,
    ContainsAny,
    EndsWith,
    Exact,
    Regex,
    StartsWith,
    clip,
    quote,
)
from support.grading import grade_text


@pytest.mark.parametrize(
    ("params", "answer", "passed"),
    [
        ({"value": "Lima"}, "Lima", True),
        ({"value": "Lima"}, "  Lima\n", True),
        ({"value": " Lima "}, "Lima", True),
        ({"value": "Lima", "trim": False}, "Lima\n", False),
        ({"value": "Lima"}, "lima", False),
        ({"value": "Lima", "ignore_case": True}, "LIMA", True),
        ({"value": "straße", "ignore_case": True}, "STRASSE", True),
        ({"value": "Lima"}, "Lima.", False),
        ({"value": "not  relevant", "any_space": True}, "not\n relevant ", True),
        ({"value": "not relevant"}, "not  relevant", False),
        ({"value": "a b", "any_space": True, "trim": False}, "a\tb ", False),
        ({"value": "it's"}, "it’s", False),
        ({"value": "Lima"}, "", False),
    ],
)
def test_exact_compares_the_whole_text(params: dict[str, Any], answer: str, passed: bool) -> None:
    mark = grade_text(Exact(**params), answer)
    assert (mark.passed, mark.value) == (passed, float(passed))


@given(st.text(), st.booleans(), st.booleans())
def test_exact_passes_on_its_own_value(text: str, ignore_case: bool, trim: bool) -> None:
    assert grade_text(Exact(value=text, ignore_case=ignore_case, trim=trim), text).passed


@pytest.mark.parametrize(
    ("params", "answer", "passed"),
    [
        ({"value": "pear"}, "two pears", True),
        ({"value": "Pear"}, "two pears", False),
        ({"value": "Pear", "ignore_case": True}, "two pears", True),
        ({"value": "don't"}, "I don’t", False),
        ({"value": " "}, "a b", True),
        ({"value": "pear"}, "", False),
    ],
)
def test_contains_looks_for_a_part(params: dict[str, Any], answer: str, passed: bool) -> None:
    assert grade_text(Contains(**params), answer).passed is passed


@given(st.text(min_size=1), st.data(), st.booleans())
def test_contains_finds_every_slice_of_a_text(text: str, data: st.DataObject, ignore_case: bool) -> None:
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))
    assert grade_text(Contains(value=text[start:end], ignore_case=ignore_case), text).passed


@pytest.mark.parametrize(
    ("params", "answer", "passed"),
    [
        ({"values": ["red", "blue"]}, "a blue door", True),
        ({"values": ["red", "Blue"]}, "a blue door", False),
        ({"values": ["red", "Blue"], "ignore_case": True}, "a blue door", True),
        ({"values": ["red"]}, "", False),
    ],
)
def test_contains_any_is_content_with_one(params: dict[str, Any], answer: str, passed: bool) -> None:
    assert grade_text(msgspec.convert(params, ContainsAny), answer).passed is passed


def test_contains_any_names_the_first_listed_text_that_it_finds() -> None:
    mark = grade_text(ContainsAny(values=("green", "blue", "red")), "red and blue")
    assert mark.reason == "The answer contains 'blue'."


@pytest.mark.parametrize(
    ("params", "answer", "passed"),
    [
        ({"values": ["red", "blue"]}, "a blue and a red door", True),
        ({"values": ["red", "blue"]}, "a blue door", False),
        ({"values": ["Red", "blue"]}, "a blue and a red door", False),
        ({"values": ["Red", "STRASSE"], "ignore_case": True}, "die rede auf der Straße", True),
        ({"values": ["re", "red"]}, "red", True),
        ({"values": ["red"]}, "", False),
    ],
)
def test_contains_all_wants_every_one(params: dict[str, Any], answer: str, passed: bool) -> None:
    mark = grade_text(msgspec.convert(params, ContainsAll), answer)
    assert (mark.passed, mark.value) == (passed, float(passed))


def test_contains_all_has_an_entry_a_text_and_names_what_is_missing() -> None:
    mark = grade_text(ContainsAll(values=("one", "two", "three")), "number two\nof them")
    assert mark.reason == "The answer lacks 'one', 'three': 'number two\\nof them'."
    assert [(entry.text, entry.passed, entry.evidence) for entry in mark.entries] == [
        ("one", False, None),
        ("two", True, "number two of them"),
        ("three", False, None),
    ]


@pytest.mark.parametrize(
    ("params", "answer", "starts", "ends"),
    [
        ({"value": "Dear"}, "Dear Sir", True, False),
        ({"value": "Sir"}, "Dear Sir", False, True),
        ({"value": "dear"}, "Dear", False, False),
        ({"value": " Dear\n"}, "\n Dear ", True, True),
        ({"value": "Dear", "trim": False}, " Dear\n", False, False),
        ({"value": "\n", "trim": False}, " Dear\n", False, True),
        ({"value": "Dear Sir"}, "Dear", False, False),
        ({"value": "Dear"}, "", False, False),
    ],
)
def test_starts_with_and_ends_with_look_at_one_end(
    params: dict[str, Any], answer: str, starts: bool, ends: bool
) -> None:
    for kind, passed in ((StartsWith, starts), (EndsWith, ends)):
        mark = grade_text(kind(**params), answer)
        assert (mark.passed, mark.value) == (passed, float(passed))
        assert [entry.passed for entry in mark.entries] == [passed]


@given(st.text(), st.text(min_size=1), st.text())
def test_what_stands_at_an_end_is_found_there(before: str, value: str, after: str) -> None:
    assert grade_text(StartsWith(value=value, trim=False), value + after).passed
    assert grade_text(EndsWith(value=value, trim=False), before + value).passed


def test_the_end_in_question_is_shown() -> None:
    answer = "A" * 200 + "Z" * 200
    assert grade_text(StartsWith(value="x"), answer).reason.endswith("'" + "A" * 119 + "…'.")
    assert grade_text(EndsWith(value="x"), answer).reason.endswith("'…" + "Z" * 119 + "'.")


@pytest.mark.parametrize(
    ("params", "answer", "passed"),
    [
        ({"pattern": r"\d{4}-\d{2}"}, "due 2031-05", True),
        ({"pattern": "^yes$"}, "no\nyes\nno", False),
        ({"pattern": "^yes$", "flags": "m"}, "no\nyes\nno", True),
        ({"pattern": "YES"}, "yes", False),
        ({"pattern": "YES", "flags": "i"}, "yes", True),
        ({"pattern": "a.b"}, "a\nb", False),
        ({"pattern": "a.b", "flags": "s"}, "a\nb", True),
        ({"pattern": "a b # two letters", "flags": "x"}, "ab", True),
        ({"pattern": "ab", "full": True}, "abc", False),
        ({"pattern": "ab|abc", "full": True}, "abc", True),
        ({"pattern": ".+"}, "", False),
        ({"pattern": "a*"}, "", True),
    ],
)
def test_regex_searches_as_python_does(params: dict[str, Any], answer: str, passed: bool) -> None:
    assert grade_text(Regex(**params), answer).passed is passed


@pytest.mark.slow
def test_a_search_that_does_not_end_is_unscored() -> None:
    with pytest.raises(CannotScore, match="did not end within"):
        grade_text(Regex(pattern=r"(?:a|a|aa)+$"), "a" * 60 + "b")


@pytest.mark.parametrize(
    ("grader", "params", "sentence"),
    [
        (Contains, {"value": ""}, "every answer contains that"),
        (ContainsAny, {"values": []}, "at least one text"),
        (ContainsAny, {"values": ["a", ""]}, "every answer contains that"),
        (ContainsAll, {"values": []}, "at least one text"),
        (ContainsAll, {"values": ["a", ""]}, "every answer contains that"),
        (StartsWith, {"value": " "}, "every answer begins and ends with that"),
        (EndsWith, {"value": "", "trim": False}, "every answer begins and ends with that"),
        (RequiredWords, {"words": []}, "at least one text"),
        (RequiredWords, {"words": ["a", " "]}, "blank text ' '"),
        (ForbiddenWords, {"words": []}, "at least one text"),
        (Regex, {"pattern": ""}, "match every answer"),
        (Regex, {"pattern": "(a"}, r"'\(a' is not valid"),
        (Regex, {"pattern": "a", "flags": "iz"}, "only the letters"),
        (Exact, {"value": 4}, "Expected `str`"),
        (Exact, {"value": "a", "case": True}, "unknown field `case`"),
        (Exact, {}, "missing required field `value`"),
    ],
)
def test_a_wrong_parameter_is_found_before_anything_is_asked(
    grader: type[Any], params: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(msgspec.ValidationError, match=sentence):
        msgspec.convert(params, grader)


def test_long_texts_are_shortened_in_reasons() -> None:
    reason = grade_text(Exact(value="x" * 500), "y" * 500).reason
    assert len(reason) < 300
    assert clip("a" * 120) == "a" * 120
    assert quote("a\nb") == r"'a\nb'"


def test_a_negated_hit_can_say_what_was_found() -> None:
    assert grade_text(Contains(value="secret"), "the secret is out").reason == "The answer contains 'secret'."


@given(st.text("aA ß\tİ", min_size=1, max_size=30), st.text("aA ß\tİ", min_size=1, max_size=4), st.booleans())
def test_a_large_answer_gets_the_mark_of_one_search(answer: str, value: str, ignore_case: bool) -> None:
    graders: list[Any] = [
        Exact(value=value, ignore_case=ignore_case, any_space=True),
        Exact(value=answer, ignore_case=ignore_case, trim=False),
        Contains(value=value, ignore_case=ignore_case),
        ContainsAny(values=(value,), ignore_case=ignore_case),
        ContainsAll(values=(value,), ignore_case=ignore_case),
    ]
    if value.strip():
        graders += [StartsWith(value=value), EndsWith(value=value)]
    at_once = [grade_text(grader, answer) for grader in graders]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_graders, "MAX_STEP_LENGTH", 3)
        assert [grade_text(grader, answer) for grader in graders] == at_once

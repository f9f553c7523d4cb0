"""The records of the model: frozen, built by keyword, written without defaults, sharing no containers."""

from __future__ import annotations

import inspect
from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec import convert
from msgspec.structs import fields

from proctor.codec import decode, encode
from proctor.model import Assertion, Case, Message, Problem, Record, Settings, Verdict, suites_and_runs

NOUNS: list[type[Record]] = [
    noun
    for _, noun in inspect.getmembers(suites_and_runs, inspect.isclass)
    if issubclass(noun, Record) and noun is not Record
]
MINIMAL: dict[str, Any] = {
    "str": "x",
    "int": 1,
    "float": 0.5,
    "bool": True,
    "float | None": None,
    "bool | None": None,
    "tuple[Message, ...]": (),
    "Suite": {"name": "s", "dialect": "pramana"},
    "TargetSpec": {"name": "echo", "kind": "echo"},
    "Verdict": "pass",
    "datetime": datetime(2026, 1, 1, tzinfo=UTC),
    "Literal['setup', 'target', 'grading']": "target",
    "AttachmentKind": "file",
    "Literal['rate', 'reveal']": "rate",
    "StopReason": "until",
    "tuple[float, float]": (0.5, 0.5),
    "tuple[float, float] | None": None,
}

for_each_noun = pytest.mark.parametrize("noun", NOUNS, ids=lambda noun: noun.__name__)


def make_minimal(noun: type[Record]) -> Record:
    """A record with its required fields alone."""
    needed = {
        field.name: MINIMAL[noun.__annotations__[field.name]] for field in fields(noun) if field.required
    }
    return convert(needed, noun)


@for_each_noun
def test_a_noun_cannot_be_changed(noun: type[Record]) -> None:
    record = make_minimal(noun)
    for name in noun.__struct_fields__:
        with pytest.raises(AttributeError, match="immutable"):
            setattr(record, name, None)


@for_each_noun
def test_a_noun_is_given_its_fields_by_name(noun: type[Record]) -> None:
    with pytest.raises(TypeError):
        noun("x")


@for_each_noun
def test_a_noun_writes_only_what_it_must_have_and_what_is_not_at_its_default(noun: type[Record]) -> None:
    record = make_minimal(noun)
    values = decode(encode(record), dict)
    assert set(values) == {field.name for field in fields(noun) if field.required}


@for_each_noun
def test_a_noun_says_what_it_is(noun: type[Record]) -> None:
    assert (noun.__doc__ or "").split("\n\n")[0].endswith(".")


def test_two_nouns_do_not_share_what_they_may_hold() -> None:
    first, second = Assertion(grader="g"), Assertion(grader="g")
    first.params["value"] = "x"
    assert second.params == {}


def test_verdicts_are_lower_case_in_json_and_read_back() -> None:
    assert encode(list(Verdict)) == b'["pass","fail","error","unscored"]'
    assert decode(b'"unscored"', Verdict) is Verdict.UNSCORED


@pytest.mark.parametrize(
    ("problem", "text"),
    [
        (Problem(code="c", message="Not so.", path="s.jsonl", line=3), "s.jsonl:3: error: Not so."),
        (Problem(code="c", message="Not so.", path="s.jsonl"), "s.jsonl: error: Not so."),
        (
            Problem(level="warning", code="c", message="Odd.", path="s.jsonl", line=1, field="id", case="a"),
            "s.jsonl:1: warning: Odd.",
        ),
    ],
)
def test_a_problem_reads_as_file_line_level_and_message(problem: Problem, text: str) -> None:
    assert str(problem) == text


def test_a_case_needs_no_more_than_an_id_and_a_message() -> None:
    case = Case(id="a", input=(Message(role="user", content="?"),))
    assert (case.assertions, case.tags, case.metadata) == ((), (), {})
    assert (case.expected, case.criteria, case.category, case.repeats) == (None, None, None, None)


def test_a_run_asks_each_case_once_and_allows_no_errors_unless_told() -> None:
    settings = Settings()
    assert (settings.repeats, settings.allow_errors, settings.threshold) == (None, 0, None)
    assert settings.selection.split == "all"

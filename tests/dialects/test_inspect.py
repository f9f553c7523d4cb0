"""Samples of Inspect: their prompts, and how answers are compared with the target."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from proctor.dialects.inspect.dialect import DIALECT
from proctor.dialects.inspect.samples import SCORERS
from proctor.errors import UsageError
from proctor.graders import GRADERS
from proctor.grading import build_grader
from proctor.model import Attachment, Case, GraderResult, Output
from proctor.protocols import GradingInput
from proctor.services.runs.config import load_config
from proctor.services.suites.load import load_suite
from support.suite_files import list_errors, read_rows

CHOICES = {"input": "Which?", "choices": ["Car", "Apple", "Stone"]}


read = partial(read_rows, DIALECT)


def read_case(row: dict[str, Any], **options: Any) -> Case:
    _, (case,), _ = read(row, **options)
    return case


def passes(case: Case, answer: str) -> bool | None:
    (assertion,) = case.assertions
    mark = build_grader(assertion, GRADERS.get).grade(GradingInput(case=case, output=Output(text=answer)))
    assert isinstance(mark, GraderResult)
    return mark.passed


# --- a target ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scorer", "target", "answer", "passed"),
    [
        ("includes", "Paris", "It is PARIS, of course.", True),
        ("includes", "Paris", "It is Lyon.", False),
        ("includes", ["Lyon", "Paris"], "It is paris.", True),
        ("includes", 4, "2 + 2 = 4.", True),
        ("match", "Paris", "It is **paris**.\n", True),
        ("match", "Paris", "Paris is the capital.", False),
        ("match", ["Lyon", "Paris"], "Of the two: Lyon!", True),
        ("match", "'C#'", "I like C++.", True),
        ("match", "'C'", "I like C.", True),
        ("match", "...", "...", True),
        ("match", "a|b", "It is b", False),
    ],
)
def test_an_answer_is_compared_as_the_scorer_compares_it(
    scorer: str, target: Any, answer: str, passed: bool
) -> None:
    case = read_case({"input": "x", "target": target}, inspect_scorer=scorer)
    assert case.assertions[0].label == scorer
    assert passes(case, answer) is passed


def test_model_graded_fact_shows_every_target_to_the_judge() -> None:
    case = read_case({"input": "x", "target": ["Ada", "Lovelace"]}, inspect_scorer="model_graded_fact")
    (assertion,) = case.assertions
    assert assertion.grader == "llm_judge"
    assert assertion.params["prompt"].endswith("\n\nAda\n\nLovelace")


def test_a_dataset_without_a_scorer_is_warned_about_once() -> None:
    rows = [{"input": "x", "target": "y"}, {"input": "z", "target": "y"}]
    _, (case, _), (warning,) = read(*rows)
    assert (warning.level, warning.code, warning.line) == ("warning", "default-scorer", 1)
    assert "`includes`" in warning.message
    assert case.assertions[0].label == "includes"


def test_a_scorer_or_choices_give_no_warning() -> None:
    assert read({"input": "x", "target": "y"}, inspect_scorer="match")[2] == []
    assert read(CHOICES | {"target": "B"})[2] == []


def test_proctor_toml_sets_the_scorer(tmp_path: Path) -> None:
    (tmp_path / "proctor.toml").write_text('inspect-scorer = "match"\n', encoding="utf-8")
    suite = tmp_path / "s.jsonl"
    suite.write_text('{"input": "x", "target": "y"}\n', encoding="utf-8")
    options = load_config([], tmp_path).source_options(suite)
    assert load_suite(suite, options=options).problems == ()
    assert [problem.code for problem in load_suite(suite).problems] == ["default-scorer"]


@pytest.mark.parametrize("value", ['"pattern"', "3", "[]", '""'])
def test_an_unknown_scorer_is_an_error_that_lists_the_known_ones(value: str, tmp_path: Path) -> None:
    (tmp_path / "proctor.toml").write_text(f"inspect-scorer = {value}\n", encoding="utf-8")
    with pytest.raises(UsageError, match=", ".join(SCORERS)):
        load_config([], tmp_path)


# --- choices -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "passed"),
    [
        ("ANSWER: B", True),
        ("answer: b.", True),
        ("B", True),
        ("ANSWER: A", False),
        ("Apple, I think.", False),
    ],
)
def test_one_right_choice_is_a_letter(answer: str, passed: bool) -> None:
    case = read_case(CHOICES | {"target": "B"})
    assert passes(case, answer) is passed


@pytest.mark.parametrize("answer", ["{prompt}", "A good question! I cannot say.", "", "Neither A nor C."])
@pytest.mark.parametrize("target", ["A", "ABC"])
def test_an_answer_without_a_choice_never_passes(target: str, answer: str) -> None:
    case = read_case(CHOICES | {"target": target})
    assert passes(case, answer.format(prompt=case.input[0].content)) is False


@pytest.mark.parametrize(
    ("answer", "passed"),
    [
        ("ANSWER: B, C", True),
        ("ANSWER: C,B", True),
        ("Answer: BC.", True),
        ("**ANSWER: B and C**", True),
        ("Let me think. A is a car.\nANSWER: B, C\n", True),
        ("ANSWER: A\nNo.\nANSWER:\nB, C\nBoth are right.", True),
        ("ANSWER: B", False),
        ("ANSWER: A, B, C", False),
        ("ANSWER: B, C, D", False),
        ("ANSWER: B, C\nANSWER: A", False),
        ("B, C", False),
        ("ANSWER: both", False),
    ],
)
@pytest.mark.parametrize("target", ["BC", "B,C", ["B", "C"], ["c", "b"]])
def test_all_right_choices_and_no_other_must_be_named(target: Any, answer: str, passed: bool) -> None:
    case = read_case(CHOICES | {"target": target})
    assert passes(case, answer) is passed


@pytest.mark.parametrize(("answer", "passed"), [("ANSWER: B", True), ("ANSWER: B, C", False)])
def test_a_sample_with_one_right_choice_has_the_prompt_of_those_with_several(
    answer: str, passed: bool
) -> None:
    _, (alone, _), _ = read(CHOICES | {"target": "B"}, CHOICES | {"target": "AB"})
    assert "where multiple answers may be correct" in alone.input[0].content
    assert passes(alone, answer) is passed


def test_the_a_in_and_is_no_choice() -> None:
    case = read_case(CHOICES | {"target": "ABC"})
    assert not passes(case, "ANSWER: B and C")


def test_the_choices_are_added_to_the_last_user_message() -> None:
    messages = [{"role": role, "content": role} for role in ("user", "assistant", "user", "assistant")]
    case = read_case(CHOICES | {"input": messages, "target": "A"})
    assert [message.content for message in case.input[:2]] == ["user", "assistant"]
    assert case.input[2].content.endswith("A,B,C.\n\nuser\n\nA) Car\nB) Apple\nC) Stone")


@pytest.mark.parametrize("choices", [["x"], [""], ["x"] * 27, 7, {"A": "x"}])
def test_choices_that_cannot_have_letters_are_refused(choices: Any) -> None:
    row = {"input": "x", "choices": choices, "target": "A"}
    assert list_errors(read(row)[2]) == [("bad-options", "choices")]


# --- unsupported fields ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "value"), [("sandbox", "docker"), ("files", {"a": "b"}), ("setup", "ls")])
def test_fields_that_need_a_sandbox_are_refused_by_name(name: str, value: Any) -> None:
    problems = read({"input": "x", "target": "y", name: value})[2]
    assert list_errors(problems) == [("unsupported", name)]
    error = next(problem for problem in problems if problem.level == "error")
    assert error.message.startswith(f"Case 'sample-1': `{name}` needs a sandbox")


def test_an_image_beside_the_dataset_is_attached(tmp_path: Path) -> None:
    (tmp_path / "cat.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    content = [{"type": "text", "text": "What is it?"}, {"type": "image", "image": "cat.png"}]
    row = {"input": [{"role": "user", "content": content}], "target": "cat"}
    path = tmp_path / "s.jsonl"
    path.write_text(json.dumps(row | {"choices": ["cat", "dog"], "target": "A"}) + "\n", encoding="utf-8")
    cases: list[Case] = []
    assert load_suite(path, inspect=lambda located_case: cases.append(located_case.case)).errors == []
    image, text = cases[0].input[0].parts
    assert isinstance(image, Attachment)
    assert (image.media_type, image.data) == ("image/png", b"\x89PNG\r\n\x1a\n")
    assert text == cases[0].input[0].content


@pytest.mark.parametrize("row", [{"target": ""}, {"target": []}, {"target": None}, {}, {"target": {"a": 1}}])
def test_an_empty_or_missing_target_is_refused(row: dict[str, Any]) -> None:
    assert list_errors(read({"input": "x"} | row)[2]) == [("missing-expected", "target")]

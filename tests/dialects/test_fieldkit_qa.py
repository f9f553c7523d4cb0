"""Dialect fieldkit_qa: the prompt of each form, and which answers pass."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import convert

from proctor.dialects.fieldkit.questions import DIALECT
from proctor.graders import GRADERS
from proctor.model import Case, Output, Problem
from proctor.protocols import CaseAtLine, GradingInput
from support.suite_files import make_source, read_rows, split_items

EVIDENCE = {"evidence": [{"evidence_text": "Sales: 12."}], "doc_name": "TEA_10K"}
PATENT = {"family": "D", "use_case": "bar", "scoring_mode": "closed"}


read = partial(read_rows, DIALECT)


@pytest.mark.parametrize("name", ["choices", "options", "context"])
def test_fields_that_a_plain_question_does_not_show_are_warned_about(name: str) -> None:
    _, _, (problem,) = read({"question": "Red?", name: ["Mars"], "answer": "Mars"})
    assert (problem.level, problem.code, problem.field) == ("warning", "not-shown", name)


def test_fields_that_are_not_shown_are_warned_about_once_per_file() -> None:
    rows = [{"question": f"{n}?", "choices": ["Mars"], "answer": "Mars"} for n in range(3)]
    _, cases, (problem,) = read(*rows, {"question": "4?", "answer": "Mars"})
    assert len(cases) == 4
    assert "`score-choices = true` in proctor.toml" in problem.message
    assert "Inspect" in problem.message
    _, _, problems = read(*rows)
    assert len(problems) == 1, "another file is told again"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("scorer", "contains"),
        ("rubric", "Names Lima."),
        ("tags", "city, south"),
        ("scoring", {"method": "contains_match"}),
        ("num_runs", 3),
        ("vars", {"city": "Lima"}),
    ],
)
def test_a_field_that_only_another_format_uses_is_warned_about_once_per_file(name: str, value: Any) -> None:
    row = {"question": "Capital of Peru?", "answer": "Lima", name: value}
    _, cases, (problem,) = read(row, row | {"question": "And of Chile?"})
    assert len(cases) == 2
    assert (problem.level, problem.code, problem.field) == ("warning", "no-effect", name)
    assert f"`{name}` has no effect" in problem.message
    assert "rename the field of the question to `input`" in problem.message


def test_a_column_that_only_another_format_uses_is_warned_about() -> None:
    table = make_source("question,answer,scorer,lint\nCapital of Peru?,Lima,contains,leak\n", "s.csv")
    _, _, (problem,) = split_items(DIALECT.read(table))
    assert (problem.line, problem.code, problem.field) == (2, "no-effect", "scorer")


def read_case(row: dict[str, Any], **options: Any) -> Case:
    _, (case,), problems = read(row, **options)
    assert problems == []
    return case


MOON = {"question": "What does the moon orbit?", "choices": ["Mars", "the earth", "0"]}


@pytest.mark.parametrize(
    ("answer", "value"),
    [(1, 1), ("1", 1), ("B", 1), ("the earth", "the earth"), ("0", "0"), (0, 0), ("C", 2)],
)
def test_choices_are_scored_if_the_project_sets_the_option(answer: Any, value: Any) -> None:
    case = read_case(MOON | {"answer": answer}, score_choices=True)
    assert case.input[0].content == MOON["question"]
    assert case.form is not None
    assert case.form.choices == ("Mars", "the earth", "0")
    (assertion,) = case.assertions
    assert (assertion.grader, assertion.params) == ("multiple_choice", {"value": value})
    assert case.expected == (value if isinstance(value, str) else case.form.choices[value])
    assert case.metadata == {}


def test_choices_in_a_csv_cell_are_json() -> None:
    case = read_case(MOON | {"choices": '["Mars", "the earth"]', "answer": "A"}, score_choices=True)
    assert case.form is not None
    assert case.form.choices == ("Mars", "the earth")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"answer": "the sun"}, "The right answer is 'the sun'; it must be one of `choices`"),
        ({"answer": 3}, "The right answer is '3'"),
        ({"answer": "9" * 5000}, "The right answer is '9999"),
        ({"answer": -1}, "The right answer is '-1'"),
        ({"answer": "é"}, "The right answer is 'é'"),
        ({"answer": True}, "The right answer is 'true'"),
        ({"answer": "D"}, "The right answer is 'D'"),
        ({"answer": "A", "choices": "Mars, the earth"}, "`choices` must be a list of at least two texts"),
        ({"answer": "A", "choices": ["Mars"]}, "`choices` must be a list of at least two texts"),
        ({"answer": "A", "choices": ["Mars", 2]}, "`choices` must be a list of at least two texts"),
    ],
)
def test_choices_without_a_right_one_are_refused(fields: dict[str, Any], message: str) -> None:
    _, cases, (problem,) = read(MOON | fields, score_choices=True)
    assert (cases, problem.code) == ([], "bad-choices")
    assert message in problem.message


def passes(row: dict[str, Any], answer: str) -> bool | None:
    case = read_case(row)
    (assertion,) = case.assertions
    grader = convert(assertion.params, GRADERS.get(assertion.grader))
    passed: bool | None = grader.grade(GradingInput(case=case, output=Output(text=answer))).passed
    return passed


def make_finance_row(answer: Any) -> dict[str, Any]:
    return {"financebench_id": "f", "question": "How many?", "answer": answer}


@pytest.mark.parametrize(
    ("row", "answer", "passed"),
    [
        (make_finance_row("$1,500.00"), "Sales were $1,490 million in 2021.", True),
        (make_finance_row("$1,500.00"), "1,515", True),
        (make_finance_row("$1,500.00"), "In FY2021 it was 1,515.", False),
        (make_finance_row("$1,500.00"), "1,516", False),
        (make_finance_row("$1,500.00"), "2021: 1,500", False),
        (make_finance_row("$1,500.00"), "I cannot say.", False),
        (make_finance_row("-2.5%"), "-2.51", True),
        (make_finance_row("-2.5%"), "2.5", False),
        (make_finance_row("-2.5"), "(2.5)", False),
        (make_finance_row("4.5B"), "Revenue was $4.54B", True),
        (make_finance_row("100"), "101", True),
        (make_finance_row("100"), "101.1", False),
        (make_finance_row(0), "0", True),
        (make_finance_row(0), "0.01", True),
        (make_finance_row(0), "0.011", False),
        ({"text": "Yes or no?", "answer": "Yes"}, " yes\n", True),
        ({"text": "Yes or no?", "answer": "Not relevant"}, "NOT  \n relevant", True),
        ({"text": "Yes or no?", "answer": "Yes"}, "Yes.", False),
        ({"question": "x", "answer": False}, "False", True),
        ({"question": "x", "answer": 0}, "0", True),
        (PATENT | {"question": "Which?", "gold_label": "B"}, "A is wrong; the answer is B", True),
        (PATENT | {"question": "Which?", "gold_label": "(b)"}, "<think>A?</think>b", True),
        (PATENT | {"question": "Which?", "gold_label": "B"}, "C", False),
    ],
)
def test_each_form_has_its_own_comparison(row: dict[str, Any], answer: str, passed: bool) -> None:
    assert passes(row, answer) is passed


def test_a_financebench_prompt_has_the_evidence_unless_open_book_is_false() -> None:
    row = make_finance_row("12") | EVIDENCE
    prompt = (
        "Context from TEA_10K:\n\nSales: 12.\n\nQuestion: How many?\n\nAnswer with just the numeric value."
    )
    assert read_case(row).input[0].content == prompt
    assert read_case(row, open_book=True).input[0].content == prompt
    assert read_case(row, open_book=False).input[0].content == "How many?"
    assert "evidence" not in read_case(row, open_book=False).metadata
    assert read_case(make_finance_row("12")).input[0].content == "How many?"


@pytest.mark.parametrize(
    ("row", "case_id"),
    [
        (make_finance_row("1"), "f"),
        (make_finance_row("1") | {"financebench_id": None, "gold_standard": "1"}, "fb-1"),
        ({"id": 0, "text": "x", "answer": "y"}, "0"),
        ({"text": "x", "answer": "y"}, "lb-1"),
        (PATENT | {"question": "x", "gold_label": "A", "qid": "p"}, "p"),
        (PATENT | {"question": "x", "gold_label": "A"}, "ps-1"),
        ({"qid": "q", "question": "x", "answer": "y"}, "q"),
        ({"question": "x", "answer": "y"}, "q-1"),
    ],
)
def test_a_row_without_an_id_is_numbered(row: dict[str, Any], case_id: str) -> None:
    assert read_case(row).id == case_id


@pytest.mark.parametrize("mode", [None, "closed", "oracle", "retrieval"])
def test_a_patent_prompt_has_the_context_of_its_mode(mode: str | None) -> None:
    row = PATENT | {"question": "Which?", "gold_label": "A", "context": "Near.", "oracle_context": "Right."}
    context = {"oracle": "Right.", "retrieval": "Near."}.get(mode or "")
    prompt = read_case(row | {"scoring_mode": mode}).input[0].content
    assert prompt == (f"Context:\n\n{context}\n\nQuestion: Which?" if context else "Which?")


def test_oracle_mode_falls_back_to_the_other_context() -> None:
    row = PATENT | {"question": "Which?", "gold_label": "A", "context": "Near."}
    row |= {"scoring_mode": "oracle"}
    assert read_case(row).input[0].content == "Context:\n\nNear.\n\nQuestion: Which?"


@pytest.mark.parametrize(
    "row", [make_finance_row("Yes."), PATENT | {"question": "Draft.", "gold_label": "A claim."}]
)
def test_a_row_that_cannot_be_compared_is_kept_and_unscored(row: dict[str, Any]) -> None:
    _, (case,), (problem,) = read(row)
    assert [assertion.grader for assertion in case.assertions] == ["unscored"]
    assert (problem.level, problem.code) == ("warning", "unscored-type")


@given(
    st.lists(
        st.fixed_dictionaries(
            {},
            optional={
                "question": st.none() | st.text(max_size=3) | st.integers() | st.booleans(),
                "answer": st.none() | st.text(max_size=3) | st.integers() | st.booleans() | st.just([]),
            },
        ),
        max_size=5,
    )
)
def test_every_row_is_a_case_or_an_error(rows: list[dict[str, Any]]) -> None:
    _, cases, problems = read(*rows)
    wrong = {problem.line for problem in problems if problem.level == "error"}
    assert len(wrong) + len(cases) == len(rows)


@pytest.mark.parametrize("name", ["label", "expected", "gold"])
def test_a_second_answer_that_differs_is_warned_about(name: str) -> None:
    _, _, (warning,) = read({"question": "x", "answer": 4, name: "5"})
    assert (warning.level, warning.code) == ("warning", "two-answers")
    assert {"answer", name} <= set(re.findall(r"`(\w+)`", warning.message))
    assert read({"question": "x", "answer": 4, name: "4"})[2] == []


def test_csv_is_read_by_its_columns() -> None:
    items = list(DIALECT.read(make_source("Question,Answer\n\nx,4\n,5\n", "s.csv")))
    assert [(item.case.id, item.line) for item in items if isinstance(item, CaseAtLine)] == [("q-1", 3)]
    assert [(item.code, item.line) for item in items if isinstance(item, Problem)] == [("missing-field", 4)]

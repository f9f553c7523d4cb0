"""Goldens of DeepEval: which files have them, and what is graded."""

from __future__ import annotations

import json
from io import BytesIO
from typing import Any

import pytest

from proctor.dialects.deepeval import DIALECT, UNGRADED_FIELDS
from proctor.model import Case, Problem
from proctor.protocols import CaseAtLine, SuiteSource
from support.suite_files import make_source

GOLDEN = {"input": "How long?", "expected_output": "30 days."}


def read(*rows: dict[str, Any]) -> list[Any]:
    text = "".join(json.dumps(row) + "\n" for row in rows)
    return list(DIALECT.read(make_source(text, "goldens.jsonl")))


def cases(*rows: dict[str, Any]) -> list[Case]:
    return [item.case for item in read(*rows) if isinstance(item, CaseAtLine)]


def codes(*rows: dict[str, Any]) -> list[str]:
    return [item.code for item in read(*rows) if isinstance(item, Problem)]


def test_a_judge_decides_by_the_expected_output_and_one_warning_says_so() -> None:
    first, second = cases(GOLDEN, GOLDEN)
    assert (first.id, second.id) == ("golden-1", "golden-2")
    (assertion,) = first.assertions
    assert assertion.grader == "llm_judge"
    assert assertion.params["prompt"].endswith("\n\n30 days.")
    assert codes(GOLDEN, GOLDEN) == ["default-metric"]


@pytest.mark.parametrize("expected", [None, "", " "])
def test_a_golden_without_an_expected_output_is_kept_and_unscored(expected: str | None) -> None:
    (case,) = cases({"input": "x", "expected_output": expected})
    assert case.assertions[0].grader == "unscored"
    assert "unscored-type" in codes({"input": "x", "expected_output": expected})


@pytest.mark.parametrize("name", UNGRADED_FIELDS)
def test_what_is_not_graded_is_kept_and_told_once(name: str) -> None:
    row = GOLDEN | {name: "x"}
    assert codes(row, row) == ["not-graded", "default-metric"]
    assert cases(row)[0].metadata == {name: "x"}


def test_the_context_is_shown_to_nobody() -> None:
    (case,) = cases(GOLDEN | {"context": ["Secret."], "retrieval_context": None})
    assert case.metadata == {"context": ["Secret."]}
    assert "Secret" not in repr((case.input, case.assertions))


@pytest.mark.parametrize(
    ("row", "field"),
    [
        ({"scenario": "x", "expected_outcome": "y"}, "scenario"),
        (GOLDEN | {"input": "What is [DEEPEVAL:PDF:1]?"}, "input"),
    ],
)
def test_what_only_deepeval_can_do_is_refused_by_its_name(row: dict[str, Any], field: str) -> None:
    errors = [item for item in read(row) if isinstance(item, Problem) and item.level == "error"]
    assert [(error.code, error.field) for error in errors] == [("unsupported", field)]

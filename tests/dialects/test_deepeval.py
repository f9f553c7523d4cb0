"""Goldens of DeepEval: which files have them, and what is graded."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from proctor.dialects.deepeval import DIALECT, UNGRADED_FIELDS
from support.suite_files import list_errors, read_rows

GOLDEN = {"input": "How long?", "expected_output": "30 days."}

read = partial(read_rows, DIALECT)


def test_a_judge_compares_with_the_expected_output_and_one_warning_says_so() -> None:
    _, (first, second), problems = read(GOLDEN, GOLDEN)
    assert (first.id, second.id) == ("golden-1", "golden-2")
    (assertion,) = first.assertions
    assert assertion.grader == "llm_judge"
    assert assertion.params["prompt"].endswith("\n\n30 days.")
    assert [problem.code for problem in problems] == ["default-metric"]


@pytest.mark.parametrize("expected", [None, "", " "])
def test_a_golden_without_an_expected_output_is_kept_and_unscored(expected: str | None) -> None:
    _, (case,), problems = read({"input": "x", "expected_output": expected})
    assert case.assertions[0].grader == "unscored"
    assert "unscored-type" in [problem.code for problem in problems]


@pytest.mark.parametrize("name", UNGRADED_FIELDS)
def test_fields_that_are_not_graded_are_kept_and_reported_once(name: str) -> None:
    row = GOLDEN | {name: "x"}
    _, (case, _), problems = read(row, row)
    assert [problem.code for problem in problems] == ["not-graded", "default-metric"]
    assert case.metadata == {name: "x"}


def test_the_context_is_only_metadata() -> None:
    _, (case,), _ = read(GOLDEN | {"context": ["Secret."], "retrieval_context": None})
    assert case.metadata == {"context": ["Secret."]}
    assert "Secret" not in repr((case.input, case.assertions))


@pytest.mark.parametrize(
    ("row", "field"),
    [
        ({"scenario": "x", "expected_outcome": "y"}, "scenario"),
        (GOLDEN | {"input": "What is [DEEPEVAL:PDF:1]?"}, "input"),
    ],
)
def test_features_that_only_deepeval_has_are_refused_by_name(row: dict[str, Any], field: str) -> None:
    assert list_errors(read(row)[2]) == [("unsupported", field)]

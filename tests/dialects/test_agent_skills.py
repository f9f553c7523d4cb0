"""How the `evals.json` of a skill is read, beyond what the golden file shows."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.dialects import DIALECTS
from proctor.dialects.agent_skills import DIALECT
from proctor.dialects.detection import detect
from proctor.dialects.shared.head import read_head
from proctor.errors import SuiteError
from proctor.model import Case, Problem, Suite
from support.suite_files import make_source, split_items

DIALECTS_BY_NAME = {name: DIALECTS.get(name) for name in DIALECTS.names()}
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)


def read(value: Any) -> tuple[Suite, list[Case], list[Problem]]:
    return split_items(DIALECT.read(make_source(json.dumps(value), "evals.json")))


def detect_dialect(value: Any, path: str = "evals.json", indent: int | None = None) -> str:
    return detect(
        read_head(path, json.dumps(value, indent=indent).encode().splitlines(keepends=True)), DIALECTS_BY_NAME
    )


EVALS = [{"id": 1, "prompt": "x", "expected_output": "y", "assertions": ["z"]}]


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("path", ["evals.json", "reader.evals.json", "skill/evals/evals.json", "checks.json"])
def test_one_object_with_the_evals_of_a_skill_is_recognised(path: str, indent: int | None) -> None:
    assert detect_dialect({"skill_name": "s", "evals": EVALS}, path, indent) == "agent_skills"


def test_without_the_name_of_a_skill_the_name_of_the_file_decides() -> None:
    assert detect_dialect({"evals": EVALS}, "a/evals.json", 2) == "agent_skills"
    with pytest.raises(SuiteError, match="more than one suite format"):
        detect_dialect({"evals": EVALS}, "a/other.json", 2)


@pytest.mark.parametrize(
    ("value", "dialect"),
    [
        ([{"id": "a", "input": "x", "expected": "y", "evals": 3}], "meridian"),
        ({"suite": "s", "prompts": [], "evals": []}, "fieldkit"),
    ],
)
def test_other_json_in_a_file_named_evals_json_is_recognised_by_its_fields(value: Any, dialect: str) -> None:
    assert detect_dialect(value) == dialect


def test_agent_skills_is_not_suggested_for_a_list() -> None:
    with pytest.raises(SuiteError) as caught:
        detect_dialect(EVALS)
    assert "agent_skills" not in str(caught.value).partition("Say which")[0]


def test_each_statement_is_a_rubric_item_and_the_expected_output_is_the_criteria() -> None:
    row = {"id": 7, "prompt": "x", "expected_output": " y ", "assertions": ["a"], "expectations": ["b", "c"]}
    suite, (case,), problems = read({"skill_name": "s", "evals": [row]})
    (check,) = case.assertions
    assert [item["outcome"] for item in check.params["items"]] == ["a", "b", "c"]
    assert (case.id, case.criteria, case.expected) == ("7", "y", "y")
    assert (suite.pass_rule.threshold, problems) == (0.8, [])


def test_should_trigger_is_a_check_and_needs_the_name_of_the_skill() -> None:
    row = {"prompt": "x", "should_trigger": False}
    _, (case,), problems = read({"skill_name": "s", "evals": [row]})
    assert [check.params for check in case.assertions] == [{"skill": "s", "should_trigger": False}]
    assert problems == []
    _, none, (problem,) = read({"evals": [row]})
    assert (none, problem.field) == ([], "should_trigger")


@pytest.mark.parametrize("value", [[], {}, {"evals": []}, {"evals": {}}, {"skill_name": "s"}, None, 3])
def test_a_file_without_evals_is_an_error(value: Any) -> None:
    suite, cases, problems = read(value)
    assert (cases, suite.dialect) == ([], "agent_skills")
    assert [problem.level for problem in problems] == ["error"]


@pytest.mark.slow
@given(st.dictionaries(st.sampled_from(["id", "prompt", "files", "assertions", "should_trigger"]), VALUES))
def test_an_eval_is_a_case_or_an_error(row: dict[str, Any]) -> None:
    _, cases, problems = read({"skill_name": "s", "evals": [row]})
    assert bool(cases) != any(problem.level == "error" for problem in problems)

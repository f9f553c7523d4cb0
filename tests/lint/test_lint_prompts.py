"""Cases without an input are linted by their values, and those of a suite with prompts as they are sent."""

from __future__ import annotations

import json
from pathlib import Path

from proctor.lint.contamination import QuestionIndex
from proctor.lint.findings import CaseLocation
from proctor.services.suites.validate import validate_suite
from support.linting import lint_cases, lint_codes, make_checked_case

LIMA = ("contains", {"value": "Lima"})
OSLO = ("contains", {"value": "Oslo"})


def test_cases_with_the_same_values_are_duplicates() -> None:
    cases = [make_checked_case([], LIMA, vars={"country": name}) for name in ("Peru", "Norway", "Peru")]
    assert lint_codes(*cases) == ["near-duplicate"]


def test_cases_with_the_same_input_and_other_values_or_prompts_are_none() -> None:
    cases = [make_checked_case("Name the capital.", LIMA, vars={"of": name}) for name in ("Peru", "Norway")]
    assert lint_cases(*cases) == []
    cases = [make_checked_case("Name the capital.", LIMA, prompts=(name,)) for name in ("a", "b")]
    assert lint_cases(*cases) == []


def test_a_value_that_no_prompt_may_use_is_no_leak_and_an_empty_input_no_echo() -> None:
    assert lint_codes(make_checked_case([], LIMA, vars={"answer": "Lima"})) == []
    match_all = ("regex", {"pattern": "(?s).*"})
    assert "vacuous-echo" not in lint_codes(make_checked_case([], match_all, vars={"q": "x"}))


def test_the_values_of_a_case_without_an_input_are_searched_for_in_other_text() -> None:
    index = QuestionIndex()
    words = " ".join(f"word{number}" for number in range(30))
    index.add(make_checked_case([], LIMA, vars={"question": words}), CaseLocation("a", "s", 1))
    assert len(index.questions) == 1


def test_a_suite_with_prompts_is_looked_at_as_it_is_sent(tmp_path: Path) -> None:
    path = tmp_path / "promptfooconfig.json"
    tests = [
        {"vars": {"city": "Lima", "unused": "Oslo"}, "assert": [{"type": "contains", "value": "Lima"}]},
        {"vars": {"city": "Bern", "unused": "Oslo"}, "assert": [{"type": "contains", "value": "Oslo"}]},
    ]
    path.write_text(json.dumps({"prompts": ["The answer is {{city}}."], "tests": tests}), encoding="utf-8")
    problems = validate_suite(path).problems
    assert [(problem.code, problem.case) for problem in problems if problem.code == "leak"] == [
        ("leak", "test-1")
    ]

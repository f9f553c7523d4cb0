"""AgentV's rubrics: texts, weighted items and ranges of points become parameters of grader `rubrics`."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.dialects.agentv.read.assertions import parse_assertions
from proctor.dialects.agentv.read.rubrics import parse_test_rubrics
from proctor.graders import GRADERS
from proctor.grading import build_grader
from proctor.model import Assertion, Problem
from proctor.protocols import SuiteSource
from proctor.validation import ProblemLog
from proctor.yaml12 import load

SOURCE = SuiteSource(path="suite.yaml", read_lines=list, environ={"HEAVY": "3", "ID": "accuracy"})


def parse(items: Any) -> tuple[Assertion, list[Problem]]:
    log = ProblemLog("suite.yaml", 1)
    (assertion,) = parse_test_rubrics(
        load(items) if isinstance(items, str) else items, "rubrics", log, SOURCE
    )
    assert log.has_errors == any(problem.level == "error" for problem in log.problems)
    return assertion, log.problems


def read_items(yaml_text: str) -> Any:
    assertion, problems = parse(yaml_text)
    assert not problems
    build_grader(assertion, GRADERS.get)
    assert assertion == Assertion(grader="rubrics", params=assertion.params, pass_at=0.8, label="rubrics")
    assert assertion.params.keys() == {"items"}
    return assertion.params["items"]


def error(yaml_text: Any) -> Problem:
    (problem,) = [problem for problem in parse(yaml_text)[1] if problem.level == "error"]
    return problem


# --- items -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("item", "becomes"),
    [
        ("Is kind", {"id": "rubric-1", "outcome": "Is kind"}),
        ("{outcome: Is kind}", {"id": "rubric-1", "outcome": "Is kind"}),
        ("{id: a, outcome: x, weight: 5.0}", {"id": "a", "outcome": "x", "weight": 5.0}),
        ("{id: a, outcome: x, weight: 1}", {"id": "a", "outcome": "x"}),
        ("{id: a, outcome: x, weight: '${{ HEAVY }}'}", {"id": "a", "outcome": "x", "weight": 3.0}),
        ("{id: '${{ ID }}', outcome: '${{ ID }}'}", {"id": "accuracy", "outcome": "${{ ID }}"}),
        ("{id: a, outcome: x, required: true}", {"id": "a", "outcome": "x", "required": True}),
        ("{id: a, outcome: x, required: false}", {"id": "a", "outcome": "x"}),
        ("{id: a, outcome: x, min_score: 0.4}", {"id": "a", "outcome": "x", "min_score": 0.4}),
        ("{id: a, outcome: x, operator: correctness}", {"id": "a", "outcome": "x"}),
        (
            "{id: a, outcome: x, operator: contradiction}",
            {"id": "a", "outcome": "x", "operator": "contradiction"},
        ),
    ],
)
def test_a_text_is_an_item_with_that_outcome_and_only_required_true_is_required(
    item: str, becomes: dict[str, Any]
) -> None:
    assert read_items(f"- {item}") == [becomes]


def test_an_item_without_id_is_numbered_by_its_place() -> None:
    assert [item["id"] for item in read_items("[a, {id: mine, outcome: b}, {outcome: c}, d]")] == [
        "rubric-1",
        "mine",
        "rubric-3",
        "rubric-4",
    ]


def test_an_item_of_weight_0_is_kept_beside_others() -> None:
    assert read_items("[{outcome: a, weight: 0}, {outcome: b}]")[0]["weight"] == 0.0


@pytest.mark.parametrize(
    ("yaml_text", "code", "field", "message"),
    [
        ("null", "wrong-type", "rubrics", "null"),
        ("Is kind", "wrong-type", "rubrics", "a list of texts"),
        ("[]", "empty-list", "rubrics", "empty"),
        ("[' ']", "empty-value", "rubrics[0]", "blank"),
        ("[a, 7]", "wrong-type", "rubrics[1]", "`outcome`"),
        ("[a, [b]]", "wrong-type", "rubrics[1]", "`outcome`"),
        ("[{id: a}]", "missing-field", "rubrics[0].outcome", "missing"),
        ("[{id: a, outcome: ''}]", "missing-field", "rubrics[0].outcome", "blank"),
        ("[{id: 7, outcome: a}]", "wrong-type", "rubrics[0].id", "text"),
        ("[{id: '', outcome: a}]", "missing-field", "rubrics[0].id", "blank"),
        ("[{outcome: a, weight: -1}]", "bad-number", "rubrics[0].weight", "at least 0"),
        ("[{outcome: a, weight: x}]", "wrong-type", "rubrics[0].weight", "a number"),
        ("[{outcome: a, weight: '${{ NONE }}'}]", "unset-variable", "rubrics[0].weight", "NONE"),
        ("[{outcome: a, required: 0.6}]", "wrong-type", "rubrics[0].required", "true or false"),
        ("[{outcome: a, min_score: 0}]", "bad-number", "rubrics[0].min_score", "more than 0"),
        ("[{outcome: a, min_score: 7}]", "bad-number", "rubrics[0].min_score", "at most 1"),
        *(
            (
                f"[{{outcome: a, required_min_score: {points}}}]",
                "bad-number",
                "rubrics[0].required_min_score",
                "10",
            )
            for points in ("-1", "11", "6.5")
        ),
        ("[{outcome: a, operator: contradicts}]", "unknown-value", "rubrics[0].operator", "contradiction"),
        ("[{outcome: a, operator: 7}]", "wrong-type", "rubrics[0].operator", "contradiction"),
        ("[{outcome: a, wieght: 7}]", "unknown-field", "rubrics[0].wieght", "'weight'"),
        ("[{outcome: a, weight: 0}]", "bad-number", "rubrics", "weight 0"),
        ("[{id: a, outcome: a}, {id: a, outcome: b}]", "duplicate-id", "rubrics", "'a'"),
        ("[{id: rubric-2, outcome: a}, b]", "duplicate-id", "rubrics", "'rubric-2'"),
    ],
)
def test_an_item_that_is_wrong_is_an_error(yaml_text: str, code: str, field: str, message: str) -> None:
    problem = error(yaml_text)
    assert (problem.code, problem.field) == (code, field)
    assert message in problem.message


def test_an_error_of_an_item_has_its_line() -> None:
    assert error("- a\n- outcome: b\n  weight: -1\n").line == 3


# --- ranges ------------------------------------------------------------------------------------------------

THREE = [
    {"low": 0, "high": 4, "outcome": "bad"},
    {"low": 5, "high": 7, "outcome": "ok"},
    {"low": 8, "high": 10, "outcome": "good"},
]


@pytest.mark.parametrize(
    "ranges",
    [
        "{0: bad, 5: ok, 8: good}",
        "{8: good, 0: bad, 5: ok}",
        """[{score_range: [0, 4], outcome: bad}, {score_range: [5, 7], outcome: ok},
        {score_range: [8, 10], outcome: good}]""",
        """[{score_range: [8, 10], outcome: good}, {score_range: [0, 4], outcome: bad},
        {score_range: [5, 7], outcome: ok}]""",
    ],
)
def test_ranges_are_a_list_or_an_object_by_least_points(ranges: str) -> None:
    assert read_items(f"[{{id: a, score_ranges: {ranges}}}]") == [{"id": "a", "score_ranges": THREE}]


def test_an_item_may_have_an_outcome_beside_its_ranges() -> None:
    (item,) = read_items("[{id: a, outcome: How good it is, score_ranges: {0: all}}]")
    assert item["outcome"] == "How good it is"
    assert item["score_ranges"] == [{"low": 0, "high": 10, "outcome": "all"}]


@pytest.mark.parametrize(
    ("ranges", "code", "field", "message"),
    [
        ("null", "wrong-type", "", "a list of objects"),
        ("5", "wrong-type", "", "a list of objects"),
        ("[]", "empty-list", "", "empty"),
        ("{}", "bad-range", "", "empty"),
        ("{1: low}", "bad-range", "", "have no range for 0 points"),
        ("{0: low, 11: high}", "bad-range", ".11", "is not a number of points"),
        ("{0: low, high: high}", "bad-range", ".high", "is not a number of points"),
        ("{0: ' '}", "missing-field", ".0", "blank"),
        ("{0: 3}", "wrong-type", ".0", "text"),
        ("[x]", "wrong-type", "[0]", "an object"),
        ("[{outcome: a}]", "wrong-type", "[0].score_range", "missing"),
        ("[{score_range: [0, 10]}]", "missing-field", "[0].outcome", "missing"),
        ("[{score_range: [0, 10], outcome: ''}]", "missing-field", "[0].outcome", "blank"),
        ("[{score_range: [0, 10], outcome: a, color: b}]", "unknown-field", "[0].color", "score_range"),
        ("[{score_range: 0-10, outcome: a}]", "wrong-type", "[0].score_range", "two whole numbers"),
        ("[{score_range: [0, 5, 10], outcome: a}]", "wrong-type", "[0].score_range", "two whole numbers"),
        ("[{score_range: [0, 9.5], outcome: a}]", "wrong-type", "[0].score_range", "two whole numbers"),
        ("[{score_range: [10, 0], outcome: a}]", "bad-range", "[0].score_range", "lower number first"),
        ("[{score_range: [0, 11], outcome: a}]", "bad-range", "[0].score_range", "both from 0 to 10"),
        ("[{score_range: [0, 9], outcome: a}]", "bad-range", "", "have no range for 10 points"),
        (
            "[{score_range: [0, 4], outcome: a}, {score_range: [6, 10], outcome: b}]",
            "bad-range",
            "",
            "have no range for 5 points",
        ),
        (
            "[{score_range: [0, 5], outcome: a}, {score_range: [5, 10], outcome: b}]",
            "bad-range",
            "",
            "5 points are in two",
        ),
    ],
)
def test_ranges_that_do_not_cover_0_to_10_once_are_an_error(
    ranges: str, code: str, field: str, message: str
) -> None:
    problem = error(f"[{{id: a, score_ranges: {ranges}}}]")
    assert (problem.code, problem.field) == (code, f"rubrics[0].score_ranges{field}")
    assert message in problem.message


@pytest.mark.slow
@given(st.sets(st.integers(1, 10)), st.randoms())
def test_every_set_of_least_points_covers_0_to_10_once(bounds: set[int], randoms: Any) -> None:
    lows = [0, *bounds]
    randoms.shuffle(lows)
    assertion, problems = parse([{"id": "a", "score_ranges": {str(low): f"from {low}" for low in lows}}])
    assert not problems
    ranges = assertion.params["items"][0]["score_ranges"]
    points = [point for score_range in ranges for point in range(score_range["low"], score_range["high"] + 1)]
    assert points == list(range(11))
    build_grader(assertion, GRADERS.get)


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(-1, 11), st.integers(-1, 11)), min_size=1, max_size=4))
def test_ranges_are_accepted_only_if_they_cover_0_to_10_once(pairs: list[tuple[int, int]]) -> None:
    _, problems = parse(
        [{"id": "a", "score_ranges": [{"score_range": list(pair), "outcome": "x"} for pair in pairs]}]
    )
    points = [point for low, high in pairs for point in range(low, high + 1)]
    whole = sorted(points) == list(range(11)) and all(low <= high for low, high in pairs)
    assert (not problems) == whole


# --- older spellings ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("yaml_text", "least"),
    [
        ("required_min_score: 7", 0.7),
        ("required_min_score: 10", 1.0),
        ("required_min_score: 0", None),
        ("required_min_score: 7, min_score: 0.5", 0.5),
    ],
)
def test_a_gate_in_points_is_read_with_a_warning(yaml_text: str, least: float | None) -> None:
    assertion, problems = parse(f"[{{id: a, outcome: x, {yaml_text}}}]")
    assert [(problem.level, problem.code) for problem in problems] == [("warning", "deprecated")]
    assert assertion.params["items"][0].get("min_score") == least


# --- as an assertion ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("yaml_text", "label"),
    [
        ("{type: rubrics, criteria: [Is kind]}", "rubrics"),
        ("{type: rubrics, rubrics: [Is kind]}", "rubrics"),
        ("{type: rubric, rubrics: [Is kind]}", "rubric"),
        ("{type: llm-grader, rubrics: [Is kind]}", "llm-grader"),
        ("{type: rubrics, name: manners, criteria: [Is kind]}", "manners"),
    ],
)
def test_a_checklist_can_be_given_in_several_ways(yaml_text: str, label: str) -> None:
    log = ProblemLog("suite.yaml", 1)
    (assertion,) = parse_assertions(load(f"- {yaml_text}"), "assertions", log, SOURCE)
    assert not log.problems
    items = [{"id": "rubric-1", "outcome": "Is kind"}]
    assert assertion == Assertion(grader="rubrics", params={"items": items}, pass_at=0.8, label=label)

"""Properties that hold for every grader, with any parameters."""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from proctor.errors import CannotScore
from proctor.graders import GRADERS
from proctor.model import Case, GraderResult, Message, Output, Prompt
from proctor.protocols import BaseGrader, GradingInput, JudgeTarget, TextGrader

FOUR = {"name": "says", "assertion": {"grader": "contains", "params": {"value": "four"}}}
PARAMS: dict[str, list[dict[str, Any]]] = {
    "choice": [{"value": "B"}, {"value": "F", "options": "ABCDEF", "anywhere": False}],
    "classification": [
        {"prompt": "Is {{ output }} four?", "choices": {"Yes": 1.0, "Unsure": 0.5, "No": 0.0}}
    ],
    "composite": [
        {"members": [FOUR], "aggregator": {"type": "weighted_average", "weights": {"says": 2}}},
        {"members": [FOUR], "aggregator": {"type": "threshold", "threshold": 0.5}},
        {"members": [FOUR], "aggregator": {"type": "program", "command": ["./sum"], "timeout_s": 5}},
        {"members": [FOUR], "aggregator": {"type": "llm_grader", "prompt": "Weigh.", "judge": "big"}},
    ],
    "consistency": [{}, {"expected": "four", "match": "contains"}],
    "contains": [{"value": "four"}, {"value": "FOUR", "ignore_case": True}],
    "contains_all": [{"values": ["fo", "our"]}, {"values": ["FOUR"], "ignore_case": True}],
    "contains_any": [{"values": ["four", "4"]}],
    "contains_json": [{}, {"keys": ["a"], "which": "last"}, {"schema": {"type": "object"}}],
    "cost": [{"budget_usd": 0.5}],
    "ends_with": [{"value": "four"}, {"value": "four\n", "trim": False}],
    "exact": [{"value": "four"}, {"value": "two  plus two", "any_space": True}],
    "execution_metrics": [{"max_tool_calls": 3, "target_exploration_ratio": 0.5}, {"max_llm_calls": 1}],
    "field_accuracy": [{"fields": [{"path": "a[0].b", "match": "date", "formats": ["DD/MM/YYYY"]}]}],
    "forbidden_words": [{"words": ["sorry", "50%"]}],
    "fuzzy_match": [{"values": ["The four.", "4"]}],
    "hedges": [{}, {"phrases": ["no idea"]}],
    "instructions": [
        {},
        {
            "evaluators": [{"id": "strict", "system": "By {{ instructions }}.", "user": "{{ answer }}"}],
            "judge": "big",
            "temperature": 0.5,
        },
    ],
    "is_json": [{}],
    "json_array": [{}, {"min_items": 1, "schema": {"type": "string"}}],
    "json_keys": [{"keys": ["a"]}],
    "json_schema": [
        {"schema": {"type": "object", "patternProperties": {"^a": {"pattern": "b+"}}}},
        {"schema": {"format": "date"}, "formats": True},
    ],
    "latency": [{"threshold_ms": 5000}],
    "length": [{"min_words": 1, "max_sentences": 2}, {"max_words": 5}],
    "llm_grader": [
        {},
        {"prompt": "Is {{ output }} four?", "judge": "big", "temperature": 0.5, "config": {"a": 1}},
    ],
    "llm_judge": [{"prompt": "Is it four?"}],
    "multiple_choice": [{"value": "four"}, {"value": ["four", 1], "metric": "acc_norm"}, {}],
    "number": [{"value": 4}, {"value": -4.5, "tolerance": 0.01, "relative": True, "which": "first"}],
    "numeric_equal": [{"value": "4"}, {"value": "$4.5B", "rel_tolerance": 0.0}],
    "numeric_match": [{"value": "4"}, {"value": "about 4", "rel_tolerance": 0.5}],
    "program": [
        {"command": ["./check"]},
        {"command": ["python", "a.py"], "cwd": "b", "config": {"c": 1}, "max_calls": 2, "judge": "d"},
    ],
    "abstention": [{}],
    "refusal": [{}, {"expected": False}],
    "regex": [{"pattern": "fo+"}, {"pattern": "x*"}],
    "required_words": [{"words": ["four", "C++"]}],
    "rubric": [{"rubric": "It is four."}],
    "rubrics": [
        {"items": [{"id": "four", "outcome": "It is four.", "weight": 2, "required": True}]},
        {
            "items": [{"id": "four", "score_ranges": [{"low": 0, "high": 10, "outcome": "any"}]}],
            "judge": "big",
        },
        {"items": [{"id": "four", "outcome": "It is four.", "operator": "contradiction"}]},
    ],
    "semantic_similarity": [{"value": ["four", "4"]}],
    "skill_trigger": [{"skill": "csv"}, {"skill": "csv", "should_trigger": False}],
    "starts_with": [{"value": "four"}],
    "token_usage": [{"max_total": 100}, {"max_input": 10, "max_output": 10}],
    "tokens_per_second": [{"min": 20}],
    "tool_trajectory": [
        {"mode": "any_order", "minimums": {"search": 1}},
        {"mode": "in_order", "expected": [{"tool": "search", "args": {"q": "x"}, "max_duration_ms": 5}]},
        {"mode": "exact", "expected": []},
        {"mode": "superset", "expected": [{"tool": "search", "args": "any"}], "args_match": "subset"},
        {"mode": "subset", "expected": [{"tool": "search", "args": {"q": "x"}, "args_match": ["q"]}]},
    ],
    "ttft": [{"max_ms": 500}],
    "unscored": [{"reason": "Nothing measures this."}],
}
GRADER_PARAMS = [(name, params) for name in GRADERS.names() for params in PARAMS.get(name, [])]
PASS_EMPTY: list[tuple[str, dict[str, Any]]] = [
    ("forbidden_words", {"words": ["sorry", "50%"]}),
    ("length", {"max_words": 5}),
    ("refusal", {"expected": False}),
    ("regex", {"pattern": "x*"}),
]
UNREPORTED: list[tuple[str, dict[str, Any]]] = [
    ("cost", {"budget_usd": 0.5}),
    ("execution_metrics", {"max_tool_calls": 3, "target_exploration_ratio": 0.5}),
    ("latency", {"threshold_ms": 5000}),
    ("multiple_choice", {"value": "four"}),
    ("skill_trigger", {"skill": "csv"}),
    ("skill_trigger", {"skill": "csv", "should_trigger": False}),
    ("token_usage", {"max_total": 100}),
    ("tokens_per_second", {"min": 20}),
    ("tool_trajectory", {"mode": "exact", "expected": []}),
    ("ttft", {"max_ms": 500}),
]


class Agreeable:
    """A judge that agrees to everything, in a form that every judging grader can read."""

    async def answer(self, prompt: Prompt) -> Output:
        assert prompt.response_schema is not None
        properties = prompt.response_schema["properties"]
        score = properties.get("score", {}).get("maximum")
        checks = [{"id": "four", "satisfied": True, "score": 10, "reasoning": "Agreed."}]
        reply = {"verdict": "YES", "pass": True, "score": score, "reason": "Agreed.", "checks": checks}
        if "choice" in properties:
            reply["choice"] = properties["choice"]["enum"][0]
        return Output(text=json.dumps(reply))


class Flat:
    """Gives every text the same vector."""

    name = "flat"

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [[1.0, 2.0] for _ in texts]


async def grade_answer(name: str, params: dict[str, Any], answer: str) -> GraderResult | None:
    output = Output(text=answer)
    grading_input = GradingInput(
        case=Case(
            id="c",
            input=(Message(role="user", content="2 + 2?"),),
            expected="four",
            criteria="Says four.",
        ),
        output=output,
        outputs=(output, output),
        judges=(JudgeTarget(name="agreeable", target=Agreeable()),),
        embedder=Flat,
    )
    try:
        mark = msgspec.convert(params, GRADERS.get(name)).grade(grading_input)
        mark = await mark if inspect.isawaitable(mark) else mark
    except CannotScore:
        return None
    assert isinstance(mark, GraderResult)
    return mark


def test_every_grader_has_parameters_here() -> None:
    assert sorted(PARAMS) == GRADERS.names()


@pytest.mark.parametrize("name", GRADERS.names())
def test_a_grader_is_a_frozen_grading_with_documentation(name: str) -> None:
    kind: Any = GRADERS.get(name)
    assert BaseGrader in kind.__mro__
    assert kind.__struct_config__.frozen
    assert kind.__doc__
    assert kind.grade.__doc__
    assert kind.needs in (None, "judge", "embedder")
    assert isinstance(kind.grades_repeats, bool)
    assert isinstance(kind.all_or_nothing, bool)


@pytest.mark.parametrize(("name", "params"), GRADER_PARAMS)
def test_an_unknown_parameter_is_refused(name: str, params: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError, match="unknown field `no_such_thing`"):
        msgspec.convert({**params, "no_such_thing": 1}, GRADERS.get(name))


@pytest.mark.parametrize(("name", "params"), GRADER_PARAMS)
def test_parameters_survive_being_written_as_json(name: str, params: dict[str, Any]) -> None:
    kind = GRADERS.get(name)
    grader = msgspec.convert(params, kind)
    assert msgspec.json.decode(msgspec.json.encode(grader), type=kind) == grader


@pytest.mark.parametrize("answer", ["", " ", "\n\t\n"])
@pytest.mark.parametrize(("name", "params"), GRADER_PARAMS)
async def test_an_empty_answer_passes_only_where_that_is_intended(
    name: str, params: dict[str, Any], answer: str
) -> None:
    mark = await grade_answer(name, params, answer)
    passed = mark is not None and bool(mark.passed)
    assert passed == ((name, params) in PASS_EMPTY)


@pytest.mark.parametrize(("name", "params"), UNREPORTED)
async def test_a_grader_whose_measurement_is_missing_cannot_score(name: str, params: dict[str, Any]) -> None:
    assert (name, params) in GRADER_PARAMS
    assert await grade_answer(name, params, "four") is None


@pytest.mark.parametrize(("name", "params"), GRADER_PARAMS)
@settings(suppress_health_check=[HealthCheck.too_slow])
@given(
    answer=st.text(st.characters()) | st.sampled_from(["four", "4", "[]", '{"a": "b"}', "\ud800", "a\x00b"])
)
async def test_any_answer_gets_a_mark_in_range_or_none(
    name: str, params: dict[str, Any], answer: str
) -> None:
    mark = await grade_answer(name, params, answer)
    if mark is None:
        return
    if mark.value is None:
        assert mark.passed is None
    else:
        assert 0 <= mark.value <= 1
        assert not math.isnan(mark.value)
        assert isinstance(mark.passed, bool)
        kind = GRADERS.get(name)
        if issubclass(kind, TextGrader):
            assert msgspec.convert(params, kind).accepts(answer) == mark.passed
        if kind.all_or_nothing:
            assert mark.value == mark.passed
    assert mark.reason
    assert "\n" not in mark.reason
    assert len(mark.reason) < 600

"""The slowest known input for each grader, up to the largest answer that is graded."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from proctor.model import Case, ChoiceLikelihood, Message, Output, ToolCall

MAX_ANSWER = 16 * 2**20


class Worst(NamedTuple):
    """One grader's parameters, and an answer for it."""

    grader: str
    params: dict[str, Any]
    what: str
    answer: Callable[[], Output]
    reply: Callable[[str], str] | None = None
    """What a judge replies to the answer."""
    expected: Any = None


def text(piece: str, size: int = MAX_ANSWER, end: str = "") -> Callable[[], Output]:
    """An answer that repeats one piece."""
    return lambda: Output(text=piece * ((size - len(end)) // len(piece)) + end)


def nested_schema(pairs: int = 26) -> dict[str, Any]:
    """A schema that is twice as long to check with each pair."""
    schemas: dict[str, Any] = {"0": {"type": "object"}}
    for n in range(1, pairs + 1):
        below = {"$ref": f"#/$defs/{n - 1}"}
        schemas[str(n)] = {"allOf": [below, below]}
    return {"$defs": schemas, "$ref": f"#/$defs/{pairs}"}


def _objects(count: int) -> Callable[[], Output]:
    return lambda: Output(text=json.dumps([{"a": n} for n in range(count)]))


def _calls(count: int) -> Callable[[], Output]:
    return lambda: Output(
        text="", tool_calls=tuple(ToolCall(name="search", arguments={"q": n}) for n in range(count))
    )


def _choices(count: int) -> Callable[[], Output]:
    choice = ChoiceLikelihood(text="é" * 100, logprob=-1.0, tokens=1)
    return lambda: Output(text="", choices=(choice,) * count)


def _read(path: str) -> Callable[[], Output]:
    call = ToolCall(name="Read", arguments={"path": path * (MAX_ANSWER // len(path))}, output="x" * 1000)
    return lambda: Output(text="", tool_calls=(call,))


def _quoting(answer: str) -> str:
    """A reply that cannot be read and quotes pieces of the answer, each broken off by one letter."""
    return "\n".join(answer[at : at + 50] + "#" for at in range(0, 90_000, 50))


def _decide_items(_answer: str) -> str:
    checks = [{"id": f"c{n}", "satisfied": True, "reasoning": "It does."} for n in range(10_000)]
    return json.dumps({"checks": checks})


SEARCH = {"tool": "search", "args": {"q": -1}}
ANSWER_AND_QUOTES = text("I am fairly sure it is 4, \"yes\", and so {'verdict'} on. ", 1_000_000)
JUDGED = ("an unreadable reply that quotes 1,800 pieces of 1 MB", ANSWER_AND_QUOTES, _quoting)

WORST: tuple[Worst, ...] = (
    Worst("abstention", {}, "16 MiB of hedges and answers", text("I don't know if it is 4. ")),
    Worst("abstention", {}, "16 MiB of quotation marks", text("\"I can't 'say \u201c")),
    Worst("choice", {"value": "B"}, "16 MiB of letters with brackets", text("(A) or B) ")),
    Worst("classification", {"prompt": "{{ output }}", "choices": {"Yes": 1.0, "No": 0.0}}, *JUDGED),
    Worst(
        "composite",
        {
            "members": [
                {"name": "a", "assertion": {"grader": "json_schema", "params": {"schema": nested_schema()}}}
            ],
            "aggregator": {"type": "threshold", "threshold": 0.5},
        },
        "a member with 26 nested pairs of `allOf`",
        text("{}", 2),
    ),
    Worst("consistency", {"expected": "4"}, "two answers of 16 MiB", text("A \u00df. ")),
    Worst(
        "contains",
        {"value": "a" * 4000 + "b" + "a" * 4000, "ignore_case": True},
        "16 MiB that nearly match",
        text("a"),
    ),
    Worst(
        "contains_all",
        {"values": [f"{'a' * n}b" for n in range(900, 1000)]},
        "100 texts that 16 MiB nearly match",
        text("a"),
    ),
    Worst(
        "contains_any",
        {"values": [f"{'a' * n}b" for n in range(900, 1000)]},
        "100 texts that 16 MiB nearly match",
        text("a"),
    ),
    Worst("contains_json", {}, "16 MiB of braces that begin no object", text('{"')),
    Worst("contains_json", {"schema": nested_schema()}, "26 nested pairs of `allOf`", text("{}", 2)),
    Worst("cost", {"budget_usd": 0.5}, "the text does not count", text("a")),
    Worst("ends_with", {"value": "a"}, "16 MiB of white space", text(" ")),
    Worst(
        "exact", {"value": "a", "any_space": True, "ignore_case": True}, "16 MiB of white space", text(" a")
    ),
    Worst("execution_metrics", {"max_tool_calls": 3}, "100,000 tool calls", _calls(100_000)),
    Worst(
        "field_accuracy",
        {"fields": [{"path": "a"}]},
        "16 MiB of JSON with text around it",
        text('"a", ', end=']} "'),
        expected={"a": 1},
    ),
    Worst(
        "field_accuracy",
        {"fields": [{"path": "[0]"}]},
        "16 MiB of JSON",
        lambda: Output(text="[" + "[1]," * (MAX_ANSWER // 4 - 1) + "1]"),
        expected=[1],
    ),
    Worst(
        "forbidden_words",
        {"words": ["a b", "1.5", "$5"]},
        "16 MiB of numbers and words",
        text("1.50 $51 a bc "),
    ),
    Worst("fuzzy_match", {"values": ["x y"]}, "16 MiB of articles and punctuation", text("the, a! An ")),
    Worst("hedges", {}, "16 MiB of hedges in conditions", text("if I don't know, ")),
    Worst("hedges", {"phrases": ["a b"] * 200}, "16 MiB that nearly match", text("a ")),
    Worst("instructions", {}, *JUDGED),
    Worst(
        "is_json", {}, "16 MiB of JSON", lambda: Output(text="[" + '{"a":1},' * (MAX_ANSWER // 8 - 1) + "1]")
    ),
    Worst(
        "json_array",
        {"schema": {"allOf": [{"type": "object"}] * 50}},
        "200,000 items under 50 schemas",
        lambda: Output(text="[" + "1," * 200_000 + "1]"),
    ),
    Worst(
        "json_keys",
        {"keys": ["a"]},
        "16 MiB of JSON",
        lambda: Output(text='{"a":[' + "1," * (MAX_ANSWER // 2 - 8) + "1]}"),
    ),
    Worst("json_schema", {"schema": nested_schema()}, "26 nested pairs of `allOf`", text("{}", 2)),
    Worst(
        "json_schema", {"schema": {"uniqueItems": True}}, "6,000 objects under `uniqueItems`", _objects(6000)
    ),
    Worst(
        "json_schema",
        {"schema": {"uniqueItems": True}},
        "500,000 objects under `uniqueItems`",
        _objects(500_000),
    ),
    Worst(
        "json_schema",
        {"schema": {"items": {"pattern": "^(a|aa)+$"}}},
        "10,000 texts under a pattern of nested repeats",
        lambda: Output(text=json.dumps(["a" * 60 + "!"] * 10_000)),
    ),
    Worst("latency", {"threshold_ms": 5000}, "the text does not count", text("a")),
    Worst("length", {"min_words": 1, "max_sentences": 2}, "16 MiB of sentences", text("a. ")),
    Worst("llm_grader", {}, *JUDGED),
    Worst("llm_judge", {"prompt": "Is it four?"}, *JUDGED),
    Worst("multiple_choice", {"value": 9_999}, "10,000 choices", _choices(10_000)),
    Worst("number", {"value": 4}, "16 MiB of numbers", text("= 1,000 x 10^3 ")),
    Worst("number", {"value": 4}, "16 MiB of brackets after `=`", text("(", end="= 4")),
    Worst("numeric_equal", {"value": "$4.5B"}, "16 MiB of quantities", text("$4.5 million, 1/2 of 3% ")),
    Worst("numeric_match", {"value": "4"}, "a number of 16 MiB", text("4")),
    Worst("program", {"command": ["true"]}, "an answer of 16 MiB as its input", text("\u00e9")),
    Worst("refusal", {}, "16 MiB of beginnings of refusals", text("I'm sorry, but I can ")),
    Worst("refusal", {"not_knowing": True}, "16 MiB of quotation marks", text("\"I can't 'say \u201c")),
    Worst("regex", {"pattern": "(a|aa)+$"}, "nested repeats", text("a", 100_000, "!")),
    Worst("regex", {"pattern": ".*a.*b.*c"}, "16 MiB that nearly match", text("ab")),
    Worst(
        "required_words",
        {"words": ["a b", "1.5", "$5"]},
        "16 MiB of numbers and words",
        text("1.50 $51 a bc "),
    ),
    Worst("rubric", {"rubric": "It is four."}, *JUDGED),
    Worst("rubrics", {"items": [{"id": "four", "outcome": "It is four."}]}, *JUDGED),
    Worst(
        "rubrics",
        {"items": [{"id": f"c{n}", "outcome": f"It says {n}."} for n in range(10_000)]},
        "10,000 items, and a judge that decides each",
        text("It is four. ", 12),
        _decide_items,
    ),
    Worst("semantic_similarity", {"value": "four"}, "an answer of 16 MiB for the embedder", text("four ")),
    Worst("skill_trigger", {"skill": "csv"}, "a path of 16 MiB", _read("csv-")),
    Worst("starts_with", {"value": "a"}, "16 MiB of white space", text(" ")),
    Worst("token_usage", {"max_total": 100}, "the text does not count", text("a")),
    Worst("tokens_per_second", {"min": 20}, "the text does not count", text("a")),
    Worst(
        "tool_trajectory",
        {"mode": "superset", "expected": [SEARCH] * 300},
        "300 steps in 100,000 calls, `superset`",
        _calls(100_000),
    ),
    Worst(
        "tool_trajectory",
        {"mode": "subset", "expected": [SEARCH] * 300},
        "300 steps in 100,000 calls, `subset`",
        _calls(100_000),
    ),
    Worst("ttft", {"max_ms": 500}, "the text does not count", text("a")),
    Worst("unscored", {"reason": "Nothing measures this."}, "the text does not count", text("a")),
)


def make_case(worst: Worst) -> Case:
    """The case that is graded."""
    return Case(
        id="worst",
        input=(Message(role="user", content="2 + 2?"),),
        expected=worst.expected if worst.expected is not None else "four",
        criteria="Says four.",
    )


def names() -> Iterator[str]:
    """The graders of the table."""
    return iter(dict.fromkeys(worst.grader for worst in WORST))

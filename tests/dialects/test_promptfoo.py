"""Dialect promptfoo: templates, tests in CSV, providers, and types of assertions."""

from __future__ import annotations

import asyncio
import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.dialects.promptfoo.assertions import CODE_TYPES, TYPES, UNMEASURED_TYPES
from proctor.dialects.promptfoo.csv import parse_assertion
from proctor.dialects.promptfoo.dialect import DIALECT
from proctor.dialects.promptfoo.providers import parse_target_name
from proctor.graders import GRADERS
from proctor.grading import GradingContext, grade
from proctor.model import Attachment, Case, Output, Params, PassRule, Problem, Suite, Trial, Verdict
from proctor.prompts.fill import fill_prompt
from proctor.prompts.templates import BadTemplate, as_text, fill_template, resolve_values
from proctor.services.suites.file_source import source_from_path
from proctor.targets.parse import parse_target
from proctor.verdicts import decide_verdict
from support import media
from support.suite_files import list_errors, split_items, write_files

FOLDER = Path(__file__).parent / "promptfoo"


def read(folder: Path, configuration: dict[str, Any]) -> tuple[Suite, list[Case], list[Problem]]:
    path = folder / "promptfooconfig.json"
    path.write_text(json.dumps(configuration), encoding="utf-8")
    return split_items(DIALECT.read(source_from_path(path)))


# --- assertions --------------------------------------------------------------------------------------------


ANSWERS: list[tuple[dict[str, Any], str, bool]] = [
    ({"type": "equals", "value": "Tea"}, "Tea", True),
    ({"type": "equals", "value": "Tea"}, "Tea\n", False),
    ({"type": "equals", "value": 4.0}, "4", True),
    ({"type": "equals", "value": {"a": [1, "x"]}}, '{"a": [1, "x"]}', True),
    ({"type": "equals", "value": {"a": 1}}, '{"a": 1, "b": 2}', False),
    ({"type": "equals", "value": {"a": 1}}, "a", False),
    ({"type": "not-equals", "value": {"a": 1}}, "a", True),
    ({"type": "contains", "value": "tea"}, "Green tea", True),
    ({"type": "contains", "value": "tea"}, "Green Tea", False),
    ({"type": "icontains", "value": "tea"}, "Green TEA", True),
    ({"type": "contains", "value": 0}, "10", True),
    ({"type": "contains-any", "value": "tea, mate"}, "mate", True),
    ({"type": "contains-any", "value": '"tea, mate"'}, "mate", False),
    ({"type": "icontains-any", "value": ["tea", "mate"]}, "MATE", True),
    ({"type": "contains-all", "value": ["tea", 2]}, "2 teas", True),
    ({"type": "icontains-all", "value": ["tea", "mate"]}, "Tea", False),
    ({"type": "not-contains-all", "value": ["tea", "mate"]}, "tea", True),
    ({"type": "regex", "value": "^t.a$"}, "tea", True),
    ({"type": "regex", "value": "(?<a>t)ea$"}, "green tea", True),
    ({"type": "regex", "value": "^tea$"}, "tea\n", False),
    ({"type": "regex", "value": r"^\d+$"}, "٤٢", False),
    ({"type": "regex", "value": r"\bve\b"}, "naïve", True),
    ({"type": "regex", "value": r"tea\Z"}, "tea", False),
    ({"type": "starts-with", "value": "Tea"}, "Tea for two", True),
    ({"type": "starts-with", "value": "Tea"}, " Tea for two", False),
    ({"type": "ends-with", "value": "two"}, "Tea for two", True),
    ({"type": "is-json"}, "[1]", True),
    ({"type": "is-json"}, "```json\n[1]\n```", False),
    ({"type": "is-json", "value": {"type": "object"}}, "[1]", False),
    ({"type": "is-json", "value": "type: array"}, "[1]", True),
    ({"type": "is-json", "value": {"properties": {"on": {"format": "date"}}}}, '{"on": "soon"}', False),
    ({"type": "is-json", "value": {"properties": {"on": {"format": "date"}}}}, '{"on": "2024-02-29"}', True),
    (
        {"type": "contains-json", "value": {"additionalProperties": {"format": "email"}}},
        'So: {"a": "b"} {"a": "b@c.de"}',
        True,
    ),
    ({"type": "contains-json", "value": {"additionalProperties": {"format": "email"}}}, '{"a": "b"}', False),
    ({"type": "contains-json"}, 'So: {"a": 1}!', True),
    ({"type": "contains-json", "value": {"required": ["a"]}}, '{"b": 1} {"a": 1}', True),
    ({"type": "not-contains-json"}, "So: none", True),
    ({"type": "is-refusal"}, "I can't help with that.", True),
    ({"type": "not-is-refusal"}, "Tea.", True),
    ({"type": "latency", "threshold": 100}, "Tea.", True),
    ({"type": "latency", "threshold": 10}, "Tea.", False),
    ({"type": "cost", "threshold": 0.01}, "Tea.", False),
    ({"type": "numeric-match", "value": "12 cups"}, "12.1, or 3", True),
    ({"type": "numeric-match", "value": 12, "threshold": 0}, "12.1", False),
    ({"type": "numeric-equal", "value": "£1.5m"}, "It cost 1,500 thousand pounds.", True),
    ({"type": "not-numeric-equal", "value": "£1.5m"}, "$1.5m", True),
    ({"type": "numeric-equal", "value": "100 kg", "threshold": 0.1}, "It is 91 kg.", True),
    ({"type": "word-count", "value": 3}, "Tea for two", True),
    ({"type": "word-count", "value": {"max": 2}}, "Tea for two", False),
    ({"type": "word-count", "value": {"min": 2}}, "Tea for two", True),
]


async def outcome(case: Case, answer: str) -> Verdict:
    output = Output(text=answer, latency_ms=50, cost_usd=0.02)
    (score,) = await grade(case, output, GRADERS.get, GradingContext())
    return score.outcome


@pytest.mark.parametrize(("assertion", "answer", "passed"), ANSWERS)
def test_an_assertion_passes_as_in_promptfoo(
    tmp_path: Path, assertion: dict[str, Any], answer: str, passed: bool
) -> None:
    _, (case,), problems = read(tmp_path, {"prompts": ["x"], "tests": [{"assert": [assertion]}]})
    assert problems == []
    assert asyncio.run(outcome(case, answer)) is (Verdict.PASS if passed else Verdict.FAIL)


TEA, MILK = {"type": "contains", "value": "tea"}, {"type": "contains", "value": "milk"}


@pytest.mark.parametrize(
    ("more", "answer", "passed"),
    [
        ({}, "tea with milk", True),
        ({}, "tea", False),
        ({"threshold": 0.5}, "tea", True),
        ({"threshold": 0.6}, "tea", False),
        ({"assert": [{**TEA, "weight": 3}, MILK], "threshold": 0.7}, "tea", True),
        ({"assert": [TEA, {**MILK, "weight": 0}]}, "tea", True),
        ({"assert": [TEA, {**MILK, "type": "not-contains"}]}, "tea", True),
    ],
)
def test_a_set_passes_as_a_whole(tmp_path: Path, more: dict[str, Any], answer: str, passed: bool) -> None:
    assert_set = {"type": "assert-set", "assert": [TEA, MILK], **more}
    _, (case,), problems = read(tmp_path, {"prompts": ["x"], "tests": [{"assert": [assert_set]}]})
    assert problems == []
    assert asyncio.run(outcome(case, answer)) is (Verdict.PASS if passed else Verdict.FAIL)


NEVER = {"type": "contains", "value": "zzz"}


@pytest.mark.parametrize(
    ("test", "passed"),
    [
        ({"assert": [{**NEVER, "weight": 0}]}, Verdict.PASS),
        ({"assert": [{**TEA, "weight": 0}, {**NEVER, "weight": 0}]}, Verdict.PASS),
        ({"assert": [{**TEA, "type": "not-contains", "weight": 0}]}, Verdict.PASS),
        ({"assert": [{**NEVER, "weight": 0}], "threshold": 0}, Verdict.PASS),
        ({"assert": [{**NEVER, "weight": 0}, TEA]}, Verdict.PASS),
        ({"assert": [{**TEA, "weight": 0}, NEVER]}, Verdict.FAIL),
        ({"assert": [NEVER], "threshold": 0}, Verdict.PASS),
        ({"assert": [NEVER, TEA], "threshold": 0}, Verdict.PASS),
        ({"assert": [NEVER, TEA], "threshold": 0.5}, Verdict.PASS),
        ({"assert": [NEVER, TEA], "threshold": 0.6}, Verdict.FAIL),
        ({"assert": [{"type": "assert-set", "threshold": 0, "assert": [NEVER]}]}, Verdict.PASS),
        ({"assert": [{"type": "assert-set", "assert": [{**NEVER, "weight": 0}]}]}, Verdict.PASS),
        ({"assert": [{"type": "assert-set", "assert": [{**NEVER, "weight": 0}, NEVER]}]}, Verdict.FAIL),
        ({"assert": [{"type": "assert-set", "weight": 0, "assert": [NEVER]}]}, Verdict.FAIL),
        ({"assert": [{"type": "assert-set", "weight": 0, "assert": [NEVER]}, TEA]}, Verdict.FAIL),
        ({"assert": [{"type": "assert-set", "weight": 0, "assert": [TEA]}, TEA]}, Verdict.PASS),
        (
            {"assert": [{"type": "assert-set", "weight": 0, "threshold": 0.5, "assert": [TEA, NEVER]}]},
            Verdict.PASS,
        ),
        (
            {"assert": [{"type": "assert-set", "weight": 0, "assert": [NEVER]}, TEA], "threshold": 0.5},
            Verdict.PASS,
        ),
        # In promptfoo it always fails; here it is unscored, since nothing has weight.
        ({"assert": [{**TEA, "weight": 0}], "threshold": 0.5}, Verdict.UNSCORED),
    ],
)
def test_weight_0_always_passes_and_threshold_0_is_respected(
    tmp_path: Path, test: dict[str, Any], passed: Verdict
) -> None:
    _, (case,), problems = read(tmp_path, {"prompts": ["x"], "tests": [test]})
    assert problems == []
    output = Output(text="tea")
    scores = asyncio.run(grade(case, output, GRADERS.get, GradingContext()))
    trial = Trial(
        case_id=case.id,
        position=0,
        sent="",
        output=output,
        scores=tuple(scores),
        started_at=datetime(2026, 1, 1, tzinfo=UTC),
    )
    assert decide_verdict(trial, case.pass_rule or PassRule()) is passed


@pytest.mark.parametrize("pattern", ["(?i)tea", "(?P<a>x)", "a++", "(", "[a"])
def test_a_pattern_that_javascript_refuses_is_an_error(tmp_path: Path, pattern: str) -> None:
    test = {"assert": [{"type": "regex", "value": pattern}]}
    _, cases, (problem,) = read(tmp_path, {"prompts": ["x"], "tests": [test]})
    assert cases == []
    assert problem.code == "bad-pattern"
    assert f"is '{pattern}', which is not a valid regular expression: " in problem.message


def test_every_type_has_an_example_in_the_goldens() -> None:
    text = (FOLDER / "types.yaml").read_text(encoding="utf-8")
    types = {kind.removeprefix("not-") for kind in re.findall(r"\btype: '?([\w:-]+)", text)}
    assert set(TYPES) <= types


@pytest.mark.parametrize("negated", ["", "not-"])
@pytest.mark.parametrize("kind", [*CODE_TYPES, *UNMEASURED_TYPES, "promptfoo:redteam:harmful"])
def test_a_type_that_is_not_read_is_refused_by_its_name(tmp_path: Path, kind: str, negated: str) -> None:
    test = {"assert": [{"type": negated + kind, "value": "x", "threshold": 0.5}]}
    _, cases, problems = read(tmp_path, {"prompts": ["x"], "tests": [test]})
    assert cases == []
    errors = [problem for problem in problems if problem.level == "error"]
    assert [(problem.code, problem.field) for problem in errors] == [
        ("code" if kind in CODE_TYPES else "unsupported-type", "assert[0].type")
    ]
    assert repr(kind) in errors[0].message


# --- templates ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("{{ a }} and {{a}}", "one and one"),
        ("{{ b.c }}, {{ b.d.1 }}", "2, y"),
        ("{{ b }}", '{"c":2,"d":["x","y"]}'),
        ("{{ n }}{{ e }}", "3"),
        ("no { tag } }} {{", "no { tag } }} {{"),
        ("{{ tag", "{{ tag"),
        ("", ""),
    ],
)
def test_names_are_filled_in(text: str, result: str) -> None:
    values = {"a": "one", "b": {"c": 2, "d": ["x", "y"]}, "n": 3.0, "e": None}
    assert fill_template(text, values) == result


@pytest.mark.parametrize(
    ("text", "code", "line"),
    [
        ("{{ a | upper }}", "template-code", 0),
        ("x\ny {{ a() }}", "template-code", 1),
        ("{{ 'a' }}", "template-code", 0),
        ("{{- a }}", "template-code", 0),
        ("{{ a + b }}", "template-code", 0),
        ("{{}}", "template-code", 0),
        ("{% for x in a %}", "template-code", 0),
        ("\n\n{# note #}", "template-code", 2),
        ("{{ b }}", "unresolved-placeholder", 0),
        ("{{ a.b }}", "unresolved-placeholder", 0),
        ("{{ env.HOME }}", "unresolved-placeholder", 0),
    ],
)
def test_other_template_code_is_refused_with_its_line(text: str, code: str, line: int) -> None:
    with pytest.raises(BadTemplate) as caught:
        fill_template(text, {"a": "one"})
    assert (caught.value.code, caught.value.line) == (code, line)


@given(st.text(), st.text())
def test_a_value_is_inserted_unchanged(value: str, around: str) -> None:
    around = around.replace("{", "").replace("}", "")
    assert fill_template(f"{around}{{{{ x }}}}{around}", {"x": value}) == around + value + around


@given(st.text(alphabet="{}% #ab\n", max_size=30))
def test_any_text_is_filled_in_or_refused(text: str) -> None:
    line = 0
    try:
        assert "{{ a }}" not in fill_template(text, {"a": "", "b": ""})
    except BadTemplate as error:
        line = error.line
    assert 0 <= line <= text.count("\n")


def test_vars_may_refer_to_each_other_and_other_placeholders_stay() -> None:
    values = {"a": "{{ b }}!", "b": "{{c}}", "c": "see", "d": ["{{ a }}", 1], "e": "{{ x }} {{ c | up }}"}
    assert resolve_values(values) == {
        "a": "see!",
        "b": "see",
        "c": "see",
        "d": ["see!", 1],
        "e": "{{ x }} {{ c | up }}",
    }


@pytest.mark.parametrize("values", [{"a": "{{ a }}"}, {"a": "{{ b }}", "b": ["{{ a }}"]}])
def test_cyclic_vars_are_refused(values: dict[str, Any]) -> None:
    with pytest.raises(BadTemplate, match=r"itself: a names .*a\."):
        resolve_values(values)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "1"),
        (0.5, "0.5"),
        (True, "true"),
        (None, ""),
        ([1, "é"], '[1,"é"]'),
        ("x", "x"),
        (10**17, "1" + "0" * 17),
    ],
)
def test_values_are_written_as_javascript_writes_them(value: Any, text: str) -> None:
    assert as_text(value) == text


# --- cases -------------------------------------------------------------------------------------------------


def list_sent_texts(suite: Suite, case: Case) -> list[str]:
    """The text that each prompt of the suite sends for a case."""
    messages_by_prompt = [fill_prompt(prompt, case) for prompt in suite.defaults.prompts]
    return ["".join(message.content for message in messages) for messages in messages_by_prompt]


def test_each_combination_of_values_makes_a_case_that_each_prompt_fills_in(tmp_path: Path) -> None:
    test = {"vars": {"a": ["x", "y"], "b": ["1", "2"], "c": [1, 2]}, "assert": [TEA]}
    suite, cases, problems = read(tmp_path, {"prompts": ["{{a}}{{b}}{{c}}", "{{b}}"], "tests": [test]})
    assert problems == []
    assert [case.id for case in cases] == [f"test-1[a={a},b={b}]" for a in "xy" for b in "12"]
    assert [prompt.name for prompt in suite.defaults.prompts] == ["prompt-1", "prompt-2"]
    assert [case.input for case in cases] == [()] * 4
    texts = [["x1[1,2]", "1"], ["x2[1,2]", "2"], ["y1[1,2]", "1"], ["y2[1,2]", "2"]]
    assert [list_sent_texts(suite, case) for case in cases] == texts


def test_a_suite_is_the_same_with_other_prompts(tmp_path: Path) -> None:
    tests = [{"vars": {"q": "tea"}, "assert": [TEA]}]
    _, (case,), _ = read(tmp_path, {"prompts": ["{{q}}"], "tests": tests})
    _, (other,), _ = read(tmp_path, {"prompts": ["Say {{q}}.", "Shout {{q}}!"], "tests": tests})
    assert case == other


def test_a_prefix_and_a_suffix_go_around_the_text_of_each_prompt(tmp_path: Path) -> None:
    options = {"prefix": "Dear {{q}}: ", "suffix": " ({{q}})"}
    test = {"vars": {"q": "tea"}, "assert": [TEA], "options": options}
    suite, (case,), problems = read(tmp_path, {"prompts": ["a {{q}}", "b"], "tests": [test]})
    assert problems == []
    assert list_sent_texts(suite, case) == ["Dear tea: a tea (tea)", "Dear tea: b (tea)"]


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["Math"], ("math-terse", "math-long")),
        (["Math:terse"], ("math-terse",)),
        (["*:long", "prompt-3"], ("math-long", "prompt-3")),
    ],
)
def test_a_test_is_only_run_with_the_prompts_that_it_names(
    tmp_path: Path, words: list[str], names: tuple[str, ...]
) -> None:
    prompts = [{"raw": "a {{q}}", "label": "Math:terse"}, {"raw": "b", "label": "Math:long"}, "{{other}}"]
    test: dict[str, Any] = {"vars": {"q": "1", "other": "2"}, "assert": [TEA], "prompts": words}
    _, (case,), problems = read(tmp_path, {"prompts": prompts, "tests": [test]})
    assert (case.prompts, problems) == (names, [])
    del test["vars"]["other"]  # only the third prompt uses it
    _, _, problems = read(tmp_path, {"prompts": prompts, "tests": [test]})
    assert [problem.code for problem in problems] == ["unresolved-placeholder"] * ("prompt-3" in names)


@pytest.mark.parametrize(
    ("words", "code"), [(["Maths"], "unknown-prompt"), ([], "empty-list"), ("a", "wrong-type")]
)
def test_a_test_that_names_no_prompt_is_an_error(tmp_path: Path, words: Any, code: str) -> None:
    prompts = [{"raw": "a", "label": "Math"}]
    configuration = {"prompts": prompts, "tests": [{"assert": [TEA], "prompts": words}]}
    _, cases, (problem,) = read(tmp_path, configuration)
    assert (cases, problem.code) == ([], code)


@pytest.mark.parametrize("shared", [True, False])
def test_lists_are_not_expanded_if_that_is_disabled(tmp_path: Path, shared: bool) -> None:
    option = {"options": {"disableVarExpansion": True}}
    test = {"vars": {"a": ["x", "y"]}, "assert": [TEA], **({} if shared else option)}
    configuration = {"prompts": ["{{a}}"], "tests": [test], **({"defaultTest": option} if shared else {})}
    suite, (case,), problems = read(tmp_path, configuration)
    assert (case.id, list_sent_texts(suite, case), problems) == ("test-1", ['["x","y"]'], [])


def test_default_test_comes_first_and_each_test_overrides_it(tmp_path: Path) -> None:
    default = {"vars": {"a": "x", "b": "y"}, "assert": [TEA], "threshold": 0.5, "metadata": {"m": 1, "n": 2}}
    tests = [
        {"vars": {"b": "z"}, "assert": [MILK], "threshold": 0.9, "metadata": {"n": 3}},
        {"options": {"disableDefaultAsserts": True}, "assert": [MILK]},
    ]
    suite, (first, second), problems = read(
        tmp_path, {"prompts": ["{{a}}{{b}}"], "defaultTest": default, "tests": tests}
    )
    assert problems == []
    assert list_sent_texts(suite, first) == ["xz"]
    assert [assertion.params["value"] for assertion in first.assertions] == ["tea", "milk"]
    assert [assertion.params["value"] for assertion in second.assertions] == ["milk"]
    assert first.pass_rule is not None
    assert second.pass_rule is not None
    assert (first.pass_rule.threshold, second.pass_rule.threshold) == (0.9, 0.5)
    assert (first.metadata, second.metadata) == ({"m": 1, "n": 3}, {"m": 1, "n": 2})


def test_an_error_in_the_default_test_is_reported_once_and_those_of_tests_each_time(tmp_path: Path) -> None:
    default = {"assert": [{"type": "python", "value": "x"}]}
    tests = [{"assert": [{"type": "ruby", "value": "x"}]} for _ in range(3)]
    _, cases, problems = read(tmp_path, {"prompts": ["x"], "defaultTest": default, "tests": tests})
    assert cases == []
    unrepeated = [problem for problem in problems if not problem.repeated]
    assert [problem.field for problem in unrepeated] == [
        "defaultTest.assert[0].type",
        *["assert[0].type"] * 3,
    ]
    assert len({id(problem.row) for problem in problems}) == len(tests)


def test_a_file_that_is_one_test_is_read_as_one(tmp_path: Path) -> None:
    (tmp_path / "one.yaml").write_text("vars: {q: tea}\nassert:\n- {type: contains, value: tea}\n")
    suite, (case,), problems = read(tmp_path, {"prompts": ["{{q}}"], "tests": "file://one.yaml"})
    assert (list_sent_texts(suite, case), case.assertions[0].grader, problems) == (["tea"], "contains", [])


def test_providers_that_are_one_object_are_one_provider(tmp_path: Path) -> None:
    tests = [{"assert": [{"type": "contains", "value": "tea"}]}]
    provider = {"id": "openai:gpt-5.2", "label": "big"}
    suite, _, problems = read(tmp_path, {"prompts": ["Hi"], "providers": provider, "tests": tests})
    assert (suite.defaults.targets, problems) == (("openai:gpt-5.2",), [])


def test_a_suite_in_promptfooconfig_is_named_after_its_folder(tmp_path: Path) -> None:
    suite, _, _ = read(tmp_path, {"prompts": ["x"], "tests": [{"assert": [TEA]}]})
    assert suite.name == tmp_path.name


# --- CSV and providers -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cell", "assertion"),
    [
        ("tea", {"type": "equals", "value": "tea"}),
        (" tea ", {"type": "equals", "value": " tea "}),
        ("note: tea", {"type": "equals", "value": "note: tea"}),
        ("contains: tea", {"type": "contains", "value": "tea"}),
        ("contains-any:tea, milk", {"type": "contains-any", "value": "tea, milk"}),
        ("not-icontains:tea", {"type": "not-icontains", "value": "tea"}),
        ("is-json", {"type": "is-json"}),
        ("similar:tea", {"type": "similar", "value": "tea", "threshold": 0.8}),
        ("similar(0.6):tea", {"type": "similar", "value": "tea", "threshold": 0.6}),
        ("latency(500)", {"type": "latency", "threshold": 500.0}),
        ("grade: is kind", {"type": "llm-rubric", "value": "is kind"}),
        ("llm-rubric: is kind", {"type": "llm-rubric", "value": "is kind"}),
        ("fn: output.length", {"type": "javascript", "value": "output.length"}),
        ("javascript: a\nb", {"type": "javascript", "value": "a\nb"}),
        ("python:x", {"type": "python", "value": "x"}),
        ("model-graded-closedqa: x: y", {"type": "model-graded-closedqa", "value": "x: y"}),
        ("levenshtein(3): x", {"type": "levenshtein", "value": "x", "threshold": 3.0}),
    ],
)
def test_an_expectation_in_csv_is_an_assertion(cell: str, assertion: dict[str, Any]) -> None:
    assert parse_assertion(cell) == assertion


@pytest.mark.parametrize(
    ("provider", "target"),
    [
        ("openai:gpt-5.2", "openai:gpt-5.2"),
        ("openai:chat:gpt-5.2", "openai:gpt-5.2"),
        ("anthropic:messages:claude-haiku-4-5", "anthropic:claude-haiku-4-5"),
        ("ollama:chat:llama3:8b", "ollama:llama3:8b"),
        ("google:gemini-2.5-pro", "google:gemini-2.5-pro"),
        ("vertex:gemini-2.5-pro", "vertex:gemini-2.5-pro"),
        ("togetherai:meta/llama", "together:meta/llama"),
        ("echo", "echo"),
        ({"id": "openai:gpt-5.2", "label": "x"}, "openai:gpt-5.2"),
        ("openai:embedding:x", None),
        ("openai:responses:gpt-5.2", None),
        ("openai:{{ model }}", None),
        ("openai:", None),
        ("ollama:completion:x", None),
        ("file://provider.py", None),
        ("python:provider.py", None),
        ("https://example.org/ask", None),
        ({"label": "x"}, None),
        (3, None),
    ],
)
def test_a_provider_becomes_a_target_if_there_is_one(provider: Any, target: str | None) -> None:
    assert parse_target_name(provider) == target
    if target is not None:
        assert parse_target(target, Params(), {}).name == target


# --- parameters --------------------------------------------------------------------------------------------


def test_options_of_a_test_that_a_provider_reads_are_its_parameters(tmp_path: Path) -> None:
    options = {"temperature": 0.7, "max_completion_tokens": 5, "stop": ["END"], "passthrough": {"min_p": 0.1}}
    tests = [{"vars": {"a": "1"}, "options": options}, {"vars": {"a": "2"}}]
    default = {"options": {"top_p": 0.5}}
    _, cases, problems = read(tmp_path, {"prompts": ["{{a}}"], "tests": tests, "defaultTest": default})
    assert not [problem for problem in problems if problem.level == "error"]
    forms = [case.form and case.form.params for case in cases]
    assert forms == [
        {
            "temperature": 0.7,
            "max_tokens": 5,
            "top_p": 0.5,
            "stop": ("END",),
            "extra_body": {"min_p": 0.1},
        },
        {"top_p": 0.5},
    ]


def test_an_option_with_a_value_that_cannot_be_used_is_an_error(tmp_path: Path) -> None:
    tests = [{"vars": {"a": "1"}, "options": {"top_p": 7}}]
    _, _, problems = read(tmp_path, {"prompts": ["{{a}}"], "tests": tests})
    assert [problem.code for problem in problems if problem.level == "error"] == ["bad-parameter"]


# --- prompts with files ------------------------------------------------------------------------------------


def file_prompt(*parts: Any) -> list[Any]:
    text = {"type": "text", "text": "What {{what}} is it?"}
    return [{"role": "system", "content": "Be brief."}, {"role": "user", "content": [text, *parts]}]


def image(url: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


IS_X: list[Any] = [{"type": "contains", "value": "x"}]


def test_a_prompt_with_files_becomes_the_input_of_each_case(tmp_path: Path) -> None:
    write_files(tmp_path, {"a.png": media.PNG, "b.png": media.PNG + b"b", "s.wav": media.WAV})
    parts = [
        image("{{picture}}"),
        {"type": "input_audio", "input_audio": {"data": "{{sound}}", "format": "wav"}},
    ]
    values = {"what": "bird", "picture": "file://*.png", "sound": "file://s.wav"}
    suite, cases, problems = read(
        tmp_path, {"prompts": [file_prompt(*parts)], "tests": [{"vars": values, "assert": IS_X}]}
    )
    assert list_errors(problems) == []
    assert suite.defaults.prompts == ()
    assert [(case.vars, case.prompts, case.input[0].content) for case in cases] == [
        ({}, None, "Be brief.")
    ] * 2
    assert [case.input[1].parts for case in cases] == [
        (
            "What bird is it?",
            Attachment(kind="image", path="image.png", media_type="image/png", data=data),
            Attachment(kind="audio", path="audio.wav", media_type="audio/wav", data=media.WAV),
        )
        for data in (media.PNG, media.PNG + b"b")
    ]


def test_a_data_url_around_a_value_is_filled_in(tmp_path: Path) -> None:
    write_files(tmp_path, {"a.jpg": b"\xff\xd8\xff"})
    prompt = file_prompt(image("data:image/jpeg;base64,{{picture}}"))
    values = {"what": "bird", "picture": "file://a.jpg"}
    _, (case,), _ = read(tmp_path, {"prompts": [prompt], "tests": [{"vars": values, "assert": IS_X}]})
    assert case.input[1].parts[1:] == (
        Attachment(kind="image", path="image.jpeg", media_type="image/jpeg", data=b"\xff\xd8\xff"),
    )


@pytest.mark.parametrize(
    ("prompts", "errors"),
    [
        ([file_prompt(image("https://x.org/{{what}}.png"))], ["not-fetched"]),
        ([file_prompt(image("{{picture}}"))], ["unresolved-placeholder"]),
        ([file_prompt(image("{{what}}"))], ["bad-data-url"]),
        ([file_prompt(image("{{what}}")), "And {{what}}?"], ["unsupported"]),
        ([file_prompt(image("{% if what %}"))], ["template-code"]),
    ],
)
def test_a_prompt_whose_files_cannot_be_sent_is_an_error(
    tmp_path: Path, prompts: list[Any], errors: list[str]
) -> None:
    tests = [{"vars": {"what": "bird!"}, "assert": IS_X}]
    _, _, problems = read(tmp_path, {"prompts": prompts, "tests": tests})
    assert [code for code, _ in list_errors(problems)][:1] == errors

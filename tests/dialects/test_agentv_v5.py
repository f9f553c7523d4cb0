"""Suites of AgentV 5: told apart from promptfoo's, read like version 4, or refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from proctor.dialects import DIALECTS
from proctor.dialects.agentv.dialect import DIALECT
from proctor.dialects.agentv.read.assertions import REFUSED_TYPES
from proctor.dialects.detection import detect
from proctor.dialects.shared.head import read_head
from proctor.env_substitution import substitute_in_case
from proctor.graders import GRADERS
from proctor.grading import build_grader
from proctor.model import Case, Problem, Suite
from proctor.prompts.fill import fill_prompt
from support.suite_files import find_in, make_source, split_items

DIALECTS_BY_NAME = {name: DIALECTS.get(name) for name in DIALECTS.names()}
TESTS = "tests:\n- id: a\n  vars: {q: Why?}\n  assert: [Says why]\n"


def read(text: str, **files: str) -> tuple[Suite, list[Case], list[Problem]]:
    """The header, the cases and the problems; in names of files a `_` stands for a dot."""
    around = {name.replace("_", "."): data for name, data in files.items()}
    return split_items(DIALECT.read(make_source(text, "s.eval.yaml", find_file=find_in(around))))


def errors(text: str, **files: str) -> list[tuple[str, str | None, int | None]]:
    problems = read(text, **files)[2]
    return [
        (problem.code, problem.field, problem.line)
        for problem in problems
        if problem.level == "error" and not problem.repeated
    ]


def read_sent_texts(text: str, **files: str) -> list[str]:
    """The texts that are sent for each case and each of its prompts; checks that there is no error."""
    suite, cases, problems = read(text, **files)
    assert [str(problem) for problem in problems if problem.level == "error"] == []
    conversations = [
        messages
        for case in cases
        for messages in (
            [fill_prompt(prompt, case) for prompt in suite.defaults.prompts]
            if case.prompts is None and suite.defaults.prompts
            else [case.input]
        )
    ]
    return [
        " | ".join(f"{message.role}: {message.content}" for message in messages) for messages in conversations
    ]


# --- detection ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "path", "dialect"),
    [
        (f"prompts: ['{{{{ q }}}}']\n{TESTS}", "evals/suite.yaml", "agentv"),
        ("prompts: [x]\ntests:\n# Ours.\n\n  - id: a\n", "suite.yaml", "agentv"),
        ("prompts: [x]\ntarget: echo\ntests: cases.yaml\n", "suite.yaml", "agentv"),
        ("prompts: [x]\ndefault_test: {vars: {a: 1}}\ntests: []\n", "suite.yaml", "agentv"),
        ("prompts: [x]\ntests:\n- vars: {q: 1}\n", "desk.eval.yaml", "agentv"),
        ("prompts: [x]\ntests:\n- vars: {q: 1}\n", "EVAL.yaml", "agentv"),
        ("prompts: [x]\ntests:\n- vars: {q: 1}\n", "suite.yaml", "promptfoo"),
        ("prompts: [x]\ntargets: [echo]\ntests:\n- vars: {q: 1}\n", "suite.yaml", "promptfoo"),
        ("prompts: [x]\nproviders: [echo]\ntests:\n- id: a\n", "desk.eval.yaml", "promptfoo"),
        ("prompts: [x]\ndefaultTest: {}\nname: x\ntests: []\n", "suite.yaml", "promptfoo"),
        ("prompts: [x]\nname: x\ntests:\n- id: a\n", "promptfooconfig.yaml", "promptfoo"),
        ('{"prompts": ["x"], "name": "y", "tests": []}', "suite.json", "promptfoo"),
    ],
)
def test_a_suite_of_version_5_is_distinguished_from_a_promptfoo_configuration(
    text: str, path: str, dialect: str
) -> None:
    assert detect(read_head(path, text.encode().splitlines(keepends=True)), DIALECTS_BY_NAME) == dialect


# --- prompts and vars --------------------------------------------------------------------------------------


def test_a_prompt_is_filled_in_with_the_vars_of_each_test() -> None:
    text = """prompts: ["{{ q }} Be {{ vars.tone }}, {{ person.name }}."]
default_test: {vars: {tone: kind, q: What?}}
tests:
- {id: a, vars: {q: Why?, person: {name: Ada}}, assert: [x]}
- {id: b, vars: {tone: brief, person: {name: Bo}}, assert: [x]}
"""
    assert read_sent_texts(text) == ["user: Why? Be kind, Ada.", "user: What? Be brief, Bo."]


def test_a_prompt_that_is_one_name_takes_messages_and_objects_as_they_are() -> None:
    text = """prompts: ["{{ input }}"]
tests:
- id: a
  vars:
    who: Ada
    input: [{role: system, content: Be kind.}, {role: user, content: "Hi {{ who }}"}]
  assert: [x]
- {id: b, vars: {input: {ticket: 7}}, assert: [x]}
"""
    assert read_sent_texts(text) == ["system: Be kind. | user: Hi Ada", 'user: {\n  "ticket": 7\n}']


def test_prompts_of_texts_are_those_of_the_suite_and_a_test_is_one_case() -> None:
    text = (
        f"prompts: [{{id: long, prompt: 'A {{{{ q }}}}'}}, {{label: short, raw: 'B {{{{ q }}}}'}}]\n{TESTS}"
        "- {id: own, input: Hi, assert: [x]}\n"
    )
    suite, cases, problems = read(text)
    assert [prompt.name for prompt in suite.defaults.prompts] == ["long", "short"]
    assert [(case.id, case.prompts, len(case.input)) for case in cases] == [("a", None, 0), ("own", (), 1)]
    assert problems == []
    assert read_sent_texts(text) == ["user: A Why?", "user: B Why?", "user: Hi"]


@pytest.mark.parametrize(
    ("value", "text"), [("3", "3"), ("[a, 1]", '["a", 1]'), ("true", "true"), ("1.5", "1.5")]
)
def test_values_are_sent_as_agentv_writes_them(value: str, text: str) -> None:
    suite = f"prompts: ['A {{{{ q }}}}', 'B {{{{ vars.q }}}}']\n{TESTS.replace('Why?', value)}"
    assert read_sent_texts(suite) == [f"user: A {text}", f"user: B {text}"]
    assert read(suite)[1][0].id == "a"


@pytest.mark.parametrize(
    ("prompts", "tests"),
    [
        ("['A {{ q }}', [{role: user, content: [{type: text, value: B}]}]]", TESTS),
        ("['A {{ q }}', 'B ${{ TONE }}']", TESTS),
        ("['A {{ q }}', B]\ninput: Before", TESTS),
        ("['A {{ q }}', '{{ q }}']", TESTS.replace("Why?", "[{role: user, content: B}]")),
        ("['A {{ q }}', 'B {{ q }}']", TESTS.replace("Why?", "{c: [1, 2]}")),
    ],
)
def test_prompts_that_are_not_only_texts_become_a_case_for_each_prompt(prompts: str, tests: str) -> None:
    source = make_source(f"prompts: {prompts}\n{tests}", "s.eval.yaml", environ={"TONE": "kind"})
    suite, cases, problems = split_items(DIALECT.read(source))
    assert problems == []
    assert [case.id for case in cases] == ["a~prompt-1", "a~prompt-2"]
    assert all(case.input for case in cases)
    assert {case.prompts for case in cases} == {() if suite.defaults.prompts else None}


def test_a_value_may_name_an_environment_variable() -> None:
    tests = TESTS.replace("Why?", "'${{ TONE }}, {{ env.TONE }}'")
    text = f"prompts: ['A {{{{ q }}}}']\n{tests}"
    source = make_source(text, "s.eval.yaml", environ={"TONE": "kind"})
    suite, (case,), problems = split_items(DIALECT.read(source))
    assert (case.variables, case.input, problems) == (("TONE",), (), [])
    filled_case = replace(case, input=fill_prompt(suite.defaults.prompts[0], case))
    assert substitute_in_case(filled_case, {"TONE": "kind"}).input[0].content == "A kind, kind"


def test_prompts_may_be_files() -> None:
    text = f"prompts: ['file://one.txt', {{id: chat, file: two.json}}]\n{TESTS}"
    files = {"one_txt": "Ask {{ q }}", "two_json": '[{"role": "user", "content": "{{ q }}"}]'}
    assert read_sent_texts(text, **files) == ["user: Ask Why?", "user: Why?"]


@pytest.mark.parametrize(
    ("prompt", "field"),
    [("{{ missing }}", "vars"), ("{{ q | upper }}", "prompts[0]"), ("{% if q %}x{% endif %}", "prompts[0]")],
)
def test_a_prompt_that_cannot_be_filled_in_is_an_error(prompt: str, field: str) -> None:
    assert [error[1] for error in errors(f"prompts: ['{prompt}']\n{TESTS}")] == [field]


def test_an_error_of_a_test_with_several_prompts_is_reported_once() -> None:
    text = f"prompts: [x, y]\n{TESTS.replace('[Says why]', '[{type: javascript, value: x}]')}"
    problems = read(text)[2]
    assert [(problem.case, problem.repeated) for problem in problems] == [("a", False)]


# --- other fields of a suite -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version_5", "version_4"),
    [
        ("threshold: 0.5", "execution: {threshold: 0.5}"),
        ("default_test: {threshold: 0.5}", "execution: {threshold: 0.5}"),
        ("targets: [a, b]", "execution: {targets: [a, b]}"),
        ("evaluate_options: {max_concurrency: 3, budget_usd: 2}", "execution: {workers: 3, budget_usd: 2}"),
        ("evaluate_options: {repeat: 3}", "execution: {trials: {count: 3, strategy: pass_at_k}}"),
        (
            "evaluate_options: {repeat: {count: 3, strategy: mean}}",
            "execution: {trials: {count: 3, strategy: mean}}",
        ),
        ("workspace: {scope: attempt}", "workspace: {isolation: per_test}"),
        ("default_test: {metadata: {a: 1}}\nmetadata: {b: 2}", "metadata: {a: 1, b: 2}"),
        ("default_test: {assert: [{type: is-json}]}", "assertions: [{type: is-json}]"),
        ("assert: [{type: is-json, metric: j}]", "assertions: [{type: is-json, name: j}]"),
    ],
)
def test_a_field_has_the_meaning_of_its_version_4_equivalent(version_5: str, version_4: str) -> None:
    tests = "tests:\n- {id: a, input: i, criteria: c, assert: [{type: contains, value: x}]}\n"
    new, cases, problems = read(f"{version_5}\nprompts: [x]\n{tests}")
    old, same, _ = read(f"{version_4}\n{tests}")
    assert [problem.code for problem in problems if problem.level == "error"] == []
    assert replace(new, defaults=replace(new.defaults, prompts=())) == old
    assert [replace(case, prompts=None) for case in cases] == same


def test_assertions_of_the_suite_name_the_vars_of_each_test() -> None:
    text = """prompts: ["{{ q }}"]
assert: [{type: equals, value: "{{ expected_output }}"}]
tests:
- {id: a, vars: {q: x, expected_output: "4"}}
- {id: b, vars: {q: y, expected_output: [{role: assistant, content: "5"}]}}
- {id: c, vars: {q: z}, execution: {skip_defaults: true}, assert: [x]}
"""
    _, cases, problems = read(text)
    assert problems == []
    assert [case.expected for case in cases] == ["4", "5", None]
    assert [check.params.get("value") for case in cases for check in case.assertions] == ["4", "5", None]


def test_an_assertion_with_an_unknown_variable_is_an_error() -> None:
    text = f"prompts: [x]\nassert: [{{type: equals, value: '{{{{ answer }}}}'}}]\n{TESTS}"
    assert errors(text) == [("missing-variable", "vars", 4)]


@pytest.mark.parametrize(
    "field",
    ["environment", "extensions", "scenarios", "env", "nunjucks_filters"],
)
def test_a_field_of_a_suite_that_means_something_else_names_the_version(field: str) -> None:
    problem = read(f"prompts: [x]\n{field}: {{a: b}}\n{TESTS}")[2][0]
    assert (problem.code, problem.field, problem.line) == ("not-supported", field, 2)
    assert problem.message.startswith(f"`{field}` is an AgentV 5 field that Proctor does not support. ")


@pytest.mark.parametrize("field", ["provider", "prompts", "provider_output", "options", "environment"])
def test_a_field_of_a_test_that_means_something_else_names_the_version(field: str) -> None:
    assert errors(f"prompts: [x]\ntests:\n- id: a\n  assert: [x]\n  {field}: b\n") == [
        ("not-supported", field, 5)
    ]
    assert errors(f"prompts: [x]\ndefault_test:\n  {field}: b\n{TESTS}")[0][:2] == (
        "not-supported",
        f"default_test.{field}",
    )


@pytest.mark.parametrize("version", ["prompts: [x]\n", ""])
def test_a_conversation_of_turns_is_refused_in_every_version(version: str) -> None:
    test = "- id: a\n  input: x\n  criteria: c\n  mode: conversation\n  turns: [{input: y}]\n"
    text = f"{version}tests:\n{test}"
    assert errors(text) == [("not-supported", "turns", 6 + len(version.splitlines()))]


# --- assertions --------------------------------------------------------------------------------------------


def checks(assertions: str) -> list[Any]:
    _, (case,), problems = read(f"tests:\n- id: a\n  input: i\n  assert: {assertions}\n")
    assert [problem.code for problem in problems if problem.level == "error"] == []
    for check in case.assertions:
        build_grader(check, GRADERS.get)
    return list(case.assertions)


@pytest.mark.parametrize(
    ("new", "old"),
    [
        ("{type: not-contains, value: x}", "{type: contains, value: x, negate: true, name: n}"),
        ("{type: not-is-json, negate: true}", "{type: is-json, negate: true, name: n}"),
        (
            "{type: llm-rubric, prompt: 'Is it {{ output }}?'}",
            "{type: llm-grader, prompt: 'Is it {{ output }}?'}",
        ),
        (
            "{type: llm-rubric, value: [{outcome: x, weight: 2}]}",
            "{type: rubrics, criteria: [{outcome: x, weight: 2}]}",
        ),
        ("{type: skill-used, value: s}", "{type: skill-trigger, skill: s}"),
        ("{type: equals, value: x, metric: m, weight: 2}", "{type: equals, value: x, name: m, weight: 2}"),
    ],
)
def test_a_type_has_the_meaning_of_its_version_4_equivalent(new: str, old: str) -> None:
    (new_check,), (old_check,) = checks(f"[{new}]"), checks(f"[{old}]")
    assert (new_check.grader, new_check.params, new_check.negated, new_check.weight, new_check.pass_at) == (
        old_check.grader,
        old_check.params,
        old_check.negated,
        old_check.weight,
        old_check.pass_at,
    )


def test_the_weight_of_texts_in_version_5_is_their_number() -> None:
    text = "prompts: [x]\ntests:\n- id: a\n  assert: [One, {type: is-json}, Two, Three]\n"
    _, (case,), _ = read(text)
    assert [(check.grader, check.weight) for check in case.assertions] == [("rubrics", 3), ("is_json", 1)]


def test_an_assert_set_is_the_weighted_mean_of_its_members_and_nests() -> None:
    (outer,) = checks(
        "[{type: assert-set, threshold: 0.6, assert: [{type: contains, value: x, weight: 3}, "
        "{type: assert-set, assert: [{type: contains, value: y}, {type: contains, value: y}]}]}]"
    )
    assert (outer.grader, outer.pass_at) == ("composite", 0.6)
    assert outer.params["aggregator"]["weights"] == {"contains-x": 3, "assert-set": 1}
    inner = outer.params["members"][1]["assertion"]
    assert [member["name"] for member in inner["params"]["members"]] == ["contains-y", "contains-y-2"]
    assert inner["pass_at"] == 1.0


@pytest.mark.parametrize("kind", sorted(REFUSED_TYPES))
@pytest.mark.parametrize("prefix", ["", "not-"])
def test_a_type_that_means_something_else_names_the_version(kind: str, prefix: str) -> None:
    (problem,) = [
        item
        for item in read(f"tests:\n- id: a\n  input: i\n  assert: [{{type: '{prefix}{kind}', value: x}}]\n")[
            2
        ]
        if item.level == "error"
    ]
    assert (problem.code, problem.line) == ("not-supported", 4)
    assert "an AgentV 5 type" in problem.message


NAMES = st.sampled_from(
    ["prompts", "default_test", "evaluate_options", "target", "targets", "assert", "tags", "workspace", "env"]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 9) | st.sampled_from(["x", "{{ q }}", "file://a.txt", "0.5"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["id", "prompt", "vars", "assert", "repeat", "scope", "role"]), inner
        )
    ),
)


@pytest.mark.slow
@given(st.dictionaries(NAMES, VALUES), st.dictionaries(st.sampled_from(["vars", "assert", "run"]), VALUES))
def test_any_values_are_read_or_refused(row: dict[str, Any], test: dict[str, Any]) -> None:
    text = json.dumps({"threshold": 0.5, **row, "tests": [{"id": "a", "input": "i", **test}]})
    _, cases, problems = read(text)
    wrong = [problem for problem in problems if problem.level == "error"]
    assert cases or wrong
    assert all(problem.message.endswith((".", "?")) for problem in problems)


@pytest.mark.parametrize(
    ("field", "value"),
    [("target", "7"), ("target", "[]"), ("assert", "7"), ("assert", "{}"), ("assert", "x")],
)
def test_a_target_or_list_of_another_type_is_an_error(field: str, value: str) -> None:
    text = f"prompts: [x]\n{field}: {value}\ntests: [{{id: a}}]\n"
    assert ("wrong-type", field, 2) in errors(text)

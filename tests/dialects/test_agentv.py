"""How suites of the dialect agentv are read, beyond what the golden files show."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.dialects.agentv.read.assertions import DEFAULT_ASSERTION
from proctor.dialects.agentv.read.tests import deep_merge
from proctor.dialects.agentv.shared import to_snake_case
from proctor.model import Case, Message, PassRule
from proctor.yaml12 import load
from support.agentv import indent_test, list_codes, read_agentv, read_test


@pytest.mark.parametrize("name", ["assertions", "assert"])
def test_errors_in_the_assertions_of_a_suite_are_reported_once_and_all_tests_are_read(name: str) -> None:
    text = f"""{name}:
- {{type: contians, value: x}}
- {{type: contains}}
- {{type: regex, value: "("}}
tests:
- {{id: a, input: i}}
- {{id: b, input: i, criteria: c}}
- {{id: c, criteria: c}}
"""
    suite, cases, problems = read_agentv(text)
    errors = [(problem.code, problem.line) for problem in problems if problem.level == "error"]
    assert errors == [("unknown-type", 2), ("missing-field", 3), ("bad-regex", 4), ("missing-field", 8)]
    assert [read_labels(case) for case in cases.values()] == [["llm-grader"], ["llm-grader"]]
    assert suite.name == "s"


def test_a_wrong_content_block_is_not_reported_as_blank_input_as_well() -> None:
    text = (
        "tests:\n- id: a\n  criteria: c\n  input:\n  - {role: user, content: [{type: file, value: no.txt}]}\n"
    )
    assert list_codes(text) == [("missing-file", 5)]


# --- assertions of a test ----------------------------------------------------------------------------------


def read_labels(case: Case) -> list[str | None]:
    return [assertion.label for assertion in case.assertions]


SHARED = "assertions: [{type: contains, value: x, name: shared}]"
OWN = "assertions: [{type: llm-grader, name: own}]"


@pytest.mark.parametrize(
    ("above", "test", "expected"),
    [
        ("", "", ["llm-grader"]),
        ("", "assertions: []", ["llm-grader"]),
        ("assertions: []", "", ["llm-grader"]),
        ("", OWN, ["own"]),
        (SHARED, "", ["shared"]),
        (SHARED, "assertions: []", ["shared"]),
        (SHARED, OWN, ["own", "shared"]),
        (SHARED, f"{OWN}\nexecution: {{skip_defaults: true}}", ["own"]),
        (SHARED, "execution: {skip_defaults: true}", ["llm-grader"]),
        (SHARED, f"{OWN}\nexecution: {{skip_defaults: false}}", ["own", "shared"]),
        (SHARED, f"{OWN}\nrubrics: [Is kind]", ["rubrics", "own", "shared"]),
        ("", "rubrics: [Is kind]", ["rubrics"]),
    ],
)
def test_a_test_has_its_own_assertions_then_those_of_its_suite_or_else_the_default(
    above: str, test: str, expected: list[str]
) -> None:
    case = read_test(f"criteria: c\n{test}", above)
    assert read_labels(case) == expected
    assert (case.assertions == (DEFAULT_ASSERTION,)) == (expected == ["llm-grader"])


def test_skipping_defaults_drops_the_suites_messages_and_files_as_well() -> None:
    above = "input: Be brief.\ninput_files: [notes.md]"
    whole = read_test("criteria: c", above, notes_md="n")
    bare = read_test("criteria: c\nexecution: {skip_defaults: true}", above, notes_md="n")
    assert [message.content for message in whole.input] == ["Be brief.", "i"]
    assert len(whole.input[1].parts) == 2
    assert bare.input == (Message(role="user", content="i"),)


def test_a_file_of_targets_is_not_taken_for_a_suite() -> None:
    (problem,) = read_agentv("targets: [{name: a, provider: mock}]", "targets.yaml")[2]
    assert (problem.level, problem.code) == ("error", "not-a-suite")
    assert "`proctor targets list`" in problem.message


def test_criteria_that_no_assertion_reads_are_reported_as_agentv_does() -> None:
    text = "tests:\n  - {id: my-test, criteria: c, input: i, assertions: [{type: contains, value: x}]}"
    (problem,) = read_agentv(text)[2]
    assert problem.message == (
        "Test 'my-test': criteria is defined but no evaluator in assertions will evaluate it. "
        "Add 'type: llm-grader' to assertions, or remove criteria if it is documentation-only."
    )
    assert (problem.level, problem.code) == ("warning", "unused-criteria")


@pytest.mark.parametrize(
    ("test", "code"),
    [
        ("criteria: c", None),
        ("expected_output: o", "missing-criteria"),
        ("assertions: [Is kind]", "missing-criteria"),
        ("rubrics: [Is kind]", "missing-criteria"),
        ("criteria: '  '\nexpected_output: o", "missing-criteria"),
        ("criteria: '  '", "missing-field"),
        ("assertions: []", "missing-field"),
        ("", "missing-field"),
    ],
)
def test_criteria_may_be_absent_if_something_else_says_what_is_right(test: str, code: str | None) -> None:
    problems = list_codes(f"tests:\n  - id: a\n    input: i\n{indent_test(test)}")
    assert [problem_code for problem_code, _ in problems] == ([] if code is None else [code])


# --- YAML and JSON Lines -----------------------------------------------------------------------------------

TEXTS = st.text("abc é{}$", min_size=1, max_size=8).filter(str.strip)
TESTS = st.fixed_dictionaries(
    {"criteria": TEXTS, "input": TEXTS | st.just([{"role": "user", "content": "q"}]) | st.just({"a": 1})},
    optional={
        "expected_output": TEXTS | st.integers(-9, 9) | st.just({"n": [1, True]}),
        "metadata": st.dictionaries(st.sampled_from("kl"), st.lists(st.integers(0, 3)) | TEXTS),
        "assertions": st.just([{"type": "contains", "value": 4}, "Is kind"]) | st.just([]),
        "rubrics": st.just(["Is short"]),
        "execution": st.fixed_dictionaries(
            {}, optional={"skip_defaults": st.booleans(), "target": TEXTS, "threshold": st.just(0.5)}
        ),
        "workspace": st.just({"isolation": "per_test", "hooks": {"after_each": {"reset": "fast"}}}),
        "note": TEXTS,
    },
)
ABOVE: dict[str, Any] = {
    "name": "n",
    "input": "Be brief.",
    "metadata": {"k": [1]},
    "assertions": [{"type": "starts-with", "value": "A"}],
    "workspace": {"hooks": {"before_all": {"command": "sh x.sh"}}},
    "execution": {"threshold": 0.7, "trials": {"count": 2}},
}


@pytest.mark.slow
@given(st.lists(TESTS, min_size=1, max_size=3), st.sampled_from(["s_yaml", "s_eval_yaml"]))
def test_json_lines_with_a_sidecar_are_read_like_the_same_suite_in_yaml(
    tests: list[dict[str, Any]], sidecar: str
) -> None:
    tests = [{"id": f"t{number}", **test} for number, test in enumerate(tests)]
    yaml = read_agentv(json.dumps({**ABOVE, "tests": tests}))
    lines = "".join(json.dumps(test) + "\n" for test in tests)
    rows = read_agentv(lines, "suites/s.jsonl", **{sidecar: json.dumps(ABOVE)})
    assert yaml[:2] == rows[:2]
    assert [(problem.code, problem.case, problem.message) for problem in yaml[2]] == [
        (problem.code, problem.case, problem.message) for problem in rows[2]
    ]


@pytest.mark.parametrize("path", ["s", "s.json", "-"])
def test_without_an_ending_the_first_line_decides_between_yaml_and_json_lines(path: str) -> None:
    row = {"id": "a", "criteria": "c", "input": "i"}
    assert list(read_agentv(json.dumps(row) + "\n", path)[1]) == ["a"]
    assert list(read_agentv(json.dumps({"tests": [row]}), path)[1]) == ["a"]
    assert list(read_agentv(json.dumps({"tests": [row]}, indent=2), path)[1]) == ["a"]
    assert list(read_agentv("tests:\n  - {id: a, criteria: c, input: i}\n", path)[1]) == ["a"]


def test_two_sidecars_are_an_error() -> None:
    row = '{"id": "a", "criteria": "c", "input": "i"}\n'
    (problem,) = read_agentv(row, "s.jsonl", s_yaml="name: x", s_eval_yaml="name: y")[2]
    assert problem.code == "two-sidecars"
    assert "s.yaml and s.eval.yaml" in problem.message


@pytest.mark.parametrize(("sidecar", "code"), [("- a", "not-a-suite"), ("a: [", "bad-yaml")])
def test_an_error_in_a_sidecar_has_the_path_of_the_sidecar(sidecar: str, code: str) -> None:
    row = '{"id": "a", "criteria": "c", "input": "i"}\n'
    (problem,) = read_agentv(row, "folder/s.jsonl", s_yaml=sidecar)[2]
    assert (problem.path, problem.code) == ("folder/s.yaml", code)


@pytest.mark.parametrize(
    ("path", "name"),
    [("a/b.yaml", "b"), ("b.eval.yaml", "b"), ("b.yml", "b"), ("b.jsonl", "b"), ("c\\b.eval.yml", "b")],
)
def test_a_suite_without_a_name_has_that_of_its_file(path: str, name: str) -> None:
    assert read_agentv("tests: []" if not path.endswith("jsonl") else "", path)[0].name == name


# --- settings of runs --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("trials", "rule", "repeats"),
    [
        ("", "each", None),
        ("trials: {count: 3}", "any", 3),
        ("trials: {count: 3, strategy: pass_at_k}", "any", 3),
        ("trials: {count: 2, strategy: mean}", "mean", 2),
        ("trials: {count: 1, strategy: confidence_interval}", "lower_bound", 1),
    ],
)
def test_trials_become_repeats_and_their_rule(trials: str, rule: str, repeats: int | None) -> None:
    text = f"execution: {{{trials}}}\ntests: [{{id: a, criteria: c, input: i}}]"
    suite, cases, problems = read_agentv(text)
    assert (suite.repeats_rule, cases["a"].repeats, problems) == (rule, repeats, [])


@pytest.mark.parametrize(
    ("above", "targets"),
    [
        ("", ()),
        ("target: a", ("a",)),
        ("execution: {target: b}", ("b",)),
        ("target: a\nexecution: {target: b}", ("b",)),
        ("target: a\nexecution: {target: b, targets: [c, d]}", ("c", "d")),
    ],
)
def test_targets_takes_precedence_over_target_and_that_over_the_old_field(
    above: str, targets: tuple[str, ...]
) -> None:
    assert read_agentv(f"{above}\ntests: []")[0].defaults.targets == targets


def test_a_test_may_have_a_target_or_targets_and_a_threshold_of_its_own() -> None:
    case = read_test("criteria: c\nexecution: {target: big, threshold: 0.9}", "execution: {target: small}")
    assert (case.target, case.only_targets, case.pass_rule) == ("big", (), PassRule(threshold=0.9))
    case = read_test("criteria: c\nexecution: {targets: [a, b]}")
    assert (case.target, case.only_targets, case.pass_rule) == (None, ("a", "b"), None)


def test_the_suite_passes_by_the_weighted_mean() -> None:
    assert read_agentv("tests: []")[0].pass_rule == PassRule(threshold=0.8)
    assert read_agentv("execution: {threshold: 0}\ntests: []")[0].pass_rule == PassRule(threshold=0.0)


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("skipDefaults", "skip_defaults"),
        ("totalBudgetUsd", "total_budget_usd"),
        ("workers", "workers"),
        ("Name", "Name"),
    ],
)
def test_names_in_camel_case_are_read_as_snake_case(spelling: str, name: str) -> None:
    row = load(f"\n{spelling}: 1")
    assert to_snake_case(row) == {name: 1}
    assert to_snake_case(row).lines == {name: 2}  # type: ignore[attr-defined]


def test_one_setting_under_two_spellings_is_an_error() -> None:
    text = "execution: {cache_path: a, cachePath: b}\ntests: [{id: a, criteria: c, input: i}]"
    assert ("unknown-field", 1) in list_codes(text)


# --- what all tests share ----------------------------------------------------------------------------------


def test_values_that_all_tests_share_are_the_same_objects() -> None:
    above = "assertions: [Is kind]\nworkspace: {isolation: per_test}\nmetadata: {a: 1}"
    tests = "".join(f"  - {{id: t{at}, criteria: c, input: i}}\n" for at in range(3))
    first, *others = read_agentv(f"{above}\ntests:\n{tests}")[1].values()
    for other in others:
        assert other.assertions[0] is first.assertions[0]
        assert other.workspace is first.workspace
        assert other.metadata is first.metadata


VALUES = st.recursive(
    st.integers(0, 3) | st.booleans() | st.sampled_from("xy"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3)


@given(OBJECTS, OBJECTS)
def test_merging_metadata_keeps_every_field_and_prefers_the_test(
    suite: dict[str, Any], test: dict[str, Any]
) -> None:
    merged = deep_merge(suite, test)
    assert set(merged) == {*suite, *test}
    assert (deep_merge({}, test), deep_merge(suite, {})) == (test, suite)
    for name, value in test.items():
        if not isinstance(value, dict | list):
            assert merged[name] is value
        elif isinstance(value, list) and isinstance(suite.get(name), list):
            items = [json.dumps(item, sort_keys=True) for item in (*suite[name], *value)]
            merged_items = [json.dumps(item, sort_keys=True) for item in merged[name]]
            assert merged_items == list(dict.fromkeys(items))


def test_merging_does_not_take_true_for_1() -> None:
    assert deep_merge({"a": [1]}, {"a": [True, 1]}) == {"a": [1, True]}
    assert type(deep_merge({"a": [1]}, {"a": [True]})["a"][1]) is bool

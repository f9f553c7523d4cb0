"""Workspaces, environment variables, other files and problems of the dialect agentv."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from msgspec.structs import replace

from proctor.dialects.agentv.dialect import DIALECT
from proctor.env_substitution import substitute_in_case
from proctor.model import Attachment, Hook, Problem, SplitRule
from proctor.protocols import CaseAtLine
from support.agentv import list_codes, make_agentv, read_agentv, read_test


@pytest.mark.parametrize(
    ("value", "rule"), [("0", None), ("false", None), ("0.3", SplitRule(ratio=0.3)), ("null", None)]
)
def test_holdout_sets_the_split_rule(value: str, rule: SplitRule | None) -> None:
    suite, _, problems = read_agentv(f"holdout: {value}\ntests: [{{id: a, criteria: c, input: i}}]\n")
    assert (suite.split_rule, suite.no_holdout) == (rule, value in ("0", "false"))
    assert [problem for problem in problems if problem.level == "error"] == []


def test_a_holdout_that_is_not_a_share_is_an_error_at_its_line() -> None:
    _, _, problems = read_agentv("tests: [{id: a, criteria: c, input: i}]\nholdout: a fifth\n")
    assert [(problem.code, problem.line) for problem in problems if problem.level == "error"] == [
        ("bad-holdout", 2)
    ]


# --- workspaces --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("folder", ["", "/srv/team/suites"])
@pytest.mark.parametrize(
    ("path", "is_refused"),
    [
        *((path, True) for path in (".", "./", "x/..", "..", "../..", "/", "//", "/.")),
        *((path, False) for path in ("work", "../work", "/srv/work", "/srv/team/suit", "..work")),
    ],
)
def test_a_workspace_that_is_or_holds_the_suites_folder_is_an_error_with_its_line(
    folder: str, path: str, is_refused: bool
) -> None:
    text = f"workspace:\n  isolation: shared\n  path: {path}\ntests: [{{id: a, criteria: c, input: i}}]\n"
    items = list(DIALECT.read(replace(make_agentv(text), folder=folder)))
    problems = [(item.line, item.code, item.field) for item in items if isinstance(item, Problem)]
    assert problems == ([(3, "bad-path", "workspace.path")] if is_refused else [])


def test_a_workspace_above_the_suites_folder_is_an_error() -> None:
    text = "workspace: {path: /srv/team}\ntests: [{id: a, criteria: c, input: i}]\n"
    (problem,) = (
        item
        for item in DIALECT.read(replace(make_agentv(text), folder="/srv/team/suites"))
        if isinstance(item, Problem)
    )
    assert "is '/srv/team'" in problem.message


def test_equivalent_spellings_give_the_same_workspace() -> None:
    plain = read_test("criteria: c\nworkspace: {path: desk, repos: [{path: ./a, repo: o/n}]}")
    wordy = read_test(
        "criteria: c\nworkspace: {path: ./desk/, isolation: shared, hooks: {enabled: true},\n"
        "  repos: [{path: a/., repo: https://github.com/o/n.git, commit: HEAD, ancestor: 0}]}"
    )
    assert plain.workspace == wordy.workspace


@pytest.mark.parametrize("field", ["path: P", "template: P", "hooks: {before_all: {command: x, cwd: P}}"])
def test_a_path_with_a_nul_character_is_an_error(field: str) -> None:
    text = f"tests:\n  - {{id: a, criteria: c, input: i, workspace: {{{field}}}}}\n"
    assert list_codes(text) == []
    assert list_codes(text.replace("P}", '"P\\0"}')) == [("bad-path", 2)]


def test_an_empty_workspace_is_none() -> None:
    assert read_test("criteria: c\nworkspace: {isolation: shared, repos: []}").workspace is None
    assert (
        read_test(
            "criteria: c\nworkspace: {hooks: {enabled: false}}",
            "workspace: {hooks: {before_all: {command: x}}}",
        ).workspace
        is None
    )


def test_a_hook_from_another_file_runs_in_the_folder_of_that_file() -> None:
    files = {"env__box_yaml": "hooks: {before_all: {command: sh x.sh, timeout_ms: 5}}"}
    above = "workspace: env/box.yaml"
    inherited = read_test("criteria: c", above, **files).workspace
    replaced = read_test(
        "criteria: c\nworkspace: {hooks: {before_all: {command: sh y.sh}}}", above, **files
    ).workspace
    assert inherited is not None
    assert replaced is not None
    assert inherited.hooks.before_all == Hook(command=("sh", "x.sh"), timeout_s=0.005, cwd="env")
    assert replaced.hooks.before_all == Hook(command=("sh", "y.sh"), timeout_s=0.005)


# --- environment variables ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reference", "value", "concurrency"),
    [("${{ X }}", "7", 7), ("${{X}}", "50", 50), (" ${{ X }}", "3", None), ("1${{ X }}", "2", None)],
)
def test_a_number_may_come_from_the_environment(reference: str, value: str, concurrency: int | None) -> None:
    suite, _, problems = read_agentv(
        f"execution: {{workers: '{reference}'}}\ntests: []", environ={"X": value}
    )
    assert suite.defaults.concurrency == concurrency
    assert (problems == []) == (concurrency is not None)


def test_texts_that_are_sent_or_judged_keep_references_to_variables_and_list_them() -> None:
    text = """tests:
  - id: ${{ ID }}
    criteria: c ${{ KEY }}
    input: [{role: user, content: 'Use ${{ KEY }}.'}]
    metadata: {m: '${{ M }}'}
"""
    _, cases, problems = read_agentv(text, environ={"ID": "7", "KEY": "k", "M": ""})
    assert problems == []
    assert cases["7"].input[0].content == "Use ${{ KEY }}."
    assert cases["7"].variables == ("KEY", "M")


def test_a_variable_that_is_not_set_is_an_error_with_its_name_line_and_field() -> None:
    text = "tests:\n  - id: a\n    criteria: c\n    input:\n      - role: user\n        content: ${{ NO }}\n"
    (problem,) = read_agentv(text)[2]
    assert (problem.code, problem.line, problem.field) == ("unset-variable", 6, "input[0].content")
    assert "variable NO," in problem.message


def test_a_variable_of_the_suite_that_is_not_set_is_reported_once() -> None:
    tests = "".join(f"  - {{id: t{at}, criteria: c, input: i}}\n" for at in range(5))
    text = f"metadata:\n  key: ${{{{ NOT_SET }}}}\ntests:\n{tests}"
    assert list_codes(text) == [("unset-variable", 2)]


PROSE = """description: Write ${{ NO }} for a variable.
workspace: {description: 'w ${{ NO }}'}
assertions: [{type: contains, value: x, description: 'a ${{ NO }}'}]
tests:
- {id: a, input: 'i ${{ SET }}', criteria: c, description: 't ${{ NO }}', note: 'n ${{ NO }}'}
"""


def test_a_reference_in_a_description_is_text() -> None:
    suite, cases, problems = read_agentv(PROSE, environ={"SET": "s"})
    assert [problem for problem in problems if problem.level == "error"] == []
    assert suite.description == "Write ${{ NO }} for a variable."
    assert cases["a"].variables == ("SET",)
    filled_case = substitute_in_case(cases["a"], {"SET": "s"})
    assert filled_case.input[0].content == "i s"
    assert filled_case.notes == {"note": "n ${{ NO }}", "description": "t ${{ NO }}"}


DESCRIPTIONS = """description: d
execution: {description: d, trials: {count: 2, description: d}}
workspace:
  description: d
  hooks: {description: d, before_all: {command: make, description: d}}
  repos: [{path: r, repo: o/r, description: d, checkout: {ref: x, description: d}}]
tests:
- id: a
  description: d
  criteria: c
  input: [{role: user, description: d, content: [{type: text, value: i, description: d}]}]
  execution: {description: d}
  workspace: {description: d}
  rubrics: [{outcome: o, description: d, score_ranges: [{score_range: [0, 10], outcome: o, description: d}]}]
  assertions:
  - {type: contains, value: x, description: d}
  - {type: latency, threshold: 9, description: d}
  - {type: field-accuracy, description: d, fields: [{path: p, match: exact, description: d}]}
  - {type: tool-trajectory, mode: exact, description: d, expected: [{tool: t, description: d}]}
  - type: composite
    description: d
    aggregator: {type: weighted_average, description: d}
    assertions: [{name: m, type: contains, value: x, description: d}]
"""


def test_every_object_may_have_a_description_which_changes_nothing() -> None:
    suite, cases, problems = read_agentv(DESCRIPTIONS)
    plain = re.sub(
        r", description: d|^ *description: d\n|description: d(, )?", "", DESCRIPTIONS, flags=re.MULTILINE
    )
    assert problems == []
    _, same, _ = read_agentv(plain)
    assert replace(cases["a"], notes={}) == same["a"]
    assert (suite.description, cases["a"].notes) == ("d", {"description": "d"})


@pytest.mark.parametrize("place", ["tests: []", "tests: [{id: a, input: i, criteria: c, description: 1}]"])
def test_a_description_is_text(place: str) -> None:
    _, _, problems = read_agentv(f"description: [1]\n{place}" if place == "tests: []" else place)
    assert [(problem.code, problem.field) for problem in problems] == [("wrong-type", "description")]


# --- problems ----------------------------------------------------------------------------------------------


def test_a_field_without_effect_is_kept_in_every_case_and_reported_once_per_file() -> None:
    tests = "".join(
        f"  - {{id: t{at}, criteria: c, input: i, note: n{at}, depends_on: [x]}}\n" for at in range(3)
    )
    _, cases, problems = read_agentv(f"tests:\n{tests}")
    assert [case.notes["note"] for case in cases.values()] == ["n0", "n1", "n2"]
    assert [(problem.code, problem.field, problem.line) for problem in problems] == [
        ("no-effect", "note", 2),
        ("no-effect", "depends_on", 2),
    ]


def test_a_case_of_another_file_and_its_problems_have_the_path_of_that_file() -> None:
    text = "tests: lists/more.yaml"
    more = "- {id: a, criteria: c, input: i}\n- {id: b, criteria: c, input: i, wrong: 1}\n"
    items = list(DIALECT.read(make_agentv(text, "suites/s.yaml", lists__more_yaml=more)))
    (located_case,) = [item for item in items if isinstance(item, CaseAtLine)]
    (problem,) = [item for item in items if isinstance(item, Problem)]
    assert (located_case.path, located_case.line) == ("suites/lists/more.yaml", 1)
    assert (problem.path, problem.line, problem.case) == ("suites/lists/more.yaml", 2, "b")


def test_files_are_looked_for_beside_the_test_that_names_them_first() -> None:
    more = "- {id: a, criteria: c, input: i, input_files: [notes.md]}"
    near = read_agentv(
        "tests: lists/more.yaml", lists__more_yaml=more, lists__notes_md="near", notes_md="far"
    )
    far = read_agentv("tests: lists/more.yaml", lists__more_yaml=more, notes_md="far")
    for (_, cases, _), text in ((near, "near"), (far, "far")):
        attachment = cases["a"].input[0].parts[0]
        assert isinstance(attachment, Attachment)
        assert attachment.text == text


@pytest.mark.slow
def test_a_value_of_a_wrong_type_is_an_error_and_never_a_crash() -> None:
    wrong: list[Any] = [
        None,
        1,
        1.5,
        True,
        "",
        " ",
        "x",
        [],
        [1],
        [None],
        {},
        {"a": 1},
        [{"role": "user"}],
        [[]],
    ]
    names = [
        *("id", "criteria", "input", "input_files", "expected_output", "execution", "workspace", "metadata"),
        *("rubrics", "assertions", "category", "vars", "note", "assert", "expected_messages"),
    ]
    for name in names:
        for value in wrong:
            test = {"id": "a", "criteria": "c", "input": "i", name: value}
            _, cases, problems = read_agentv(json.dumps({"tests": [test]}))
            errors = [problem for problem in problems if problem.level == "error"]
            assert bool(cases) != bool(errors), test
            assert all(re.search(r"[.?]$", problem.message) for problem in problems), test
    above = ["name", "description", "version", "tags", "metadata", "input", "input_files", "tests", "target"]
    for name in [*above, "execution", "assertions", "workspace", "category", "license", "evalcases"]:
        for value in wrong:
            read_agentv(json.dumps({"tests": [], name: value}))

"""`proctor validate`: rules of the linter, how to silence them, and cases found in other text."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.cli import Proctor

QUESTION = "When the ferry leaves the northern harbour at dawn, which lighthouse does its captain pass first?"
GUID = "5f0c9a3e-1b7d-4c55-9e0a-d2b1c7f6a984"


def codes(result: Any) -> list[str]:
    (file,) = result.json["files"]
    return [warning["code"] for warning in file["warnings"]]


@pytest.fixture
def ferry(suite: Callable[..., str]) -> str:
    """One case with a canary, and one whose answer leaks."""
    ferry_case = {"id": "ferry", "input": QUESTION, "expected": "Grey Light", "metadata": {"canary": GUID}}
    return suite(ferry_case, ("sum", "Is 4 + 5 = 9?", "9"))


def test_the_name_of_a_saved_suite_is_told_from_a_file(proctor: Proctor, ferry: str) -> None:
    assert proctor("suites", "save", ferry, "--name", "ferries").code == 0
    result = proctor("validate", "ferries")
    assert result.code == 4
    assert "'ferries' is a suite in the store, not a file. Name its file." in result.err


@pytest.mark.parametrize("words", ["run ferris -t echo", "validate ferris", "hash ferris", "plan ferris"])
def test_a_wrong_name_is_told_with_a_near_name_in_the_store(proctor: Proctor, ferry: str, words: str) -> None:
    assert proctor("suites", "save", ferry, "--name", "ferries").code == 0
    result = proctor(*words.split())
    assert (result.code, result.err.count("Did you mean 'ferries'?")) == (4, 1)


@pytest.mark.parametrize("words", ["run ferris -t echo", "validate ferris", "hash ferris", "plan ferris"])
def test_a_wrong_name_makes_no_store(proctor: Proctor, words: str, folder: Path) -> None:
    assert proctor(*words.split()).code == 4
    assert list(folder.iterdir()) == []


# --- rules -------------------------------------------------------------------------------------------------


def test_a_leak_is_a_warning_with_its_file_and_line(proctor: Proctor, ferry: str) -> None:
    result = proctor("validate", ferry)
    assert result.code == 0
    begins = "s.jsonl:2: warning: LEAK WARNING: Test 'sum' input contains expected answer"
    assert any(line.startswith(begins) for line in result.err.splitlines())
    assert "s.jsonl: 2 cases in format meridian, 0 errors, 1 warning" in result.out


def test_a_judge_without_a_rubric_is_an_error_of_this_dialect_and_told_once(
    proctor: Proctor, folder: Path
) -> None:
    row = {"id": "essay_5", "input": "Write of the sea.", "scorer": "llm_judge"}
    (folder / "s.jsonl").write_text(json.dumps(row), encoding="utf-8")
    result = proctor("validate", "s.jsonl")
    assert result.code == 4
    (line,) = result.err.splitlines()
    assert line.startswith("s.jsonl:1: error: Test 'essay_5' uses llm_judge but missing 'rubric'")


def test_a_missing_answer_suggests_a_judge_and_json_a_schema(proctor: Proctor, folder: Path) -> None:
    rows = [
        {"id": "poem", "input": "Write of the sea.", "expected": ""},
        {"id": "row", "input": "Give the harbour as an object.", "expected": '{"name": "Skagen"}'},
    ]
    (folder / "s.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    first, second = proctor("validate", "s.jsonl").err.splitlines()
    assert "no expected value - consider using scorer='llm_judge' with a rubric" in first
    assert "expected looks like JSON - consider scorer='json_schema'" in second


def test_problems_of_reading_and_of_rules_come_in_file_order(proctor: Proctor, suite: Proctor) -> None:
    name = suite(
        ("a", "Is 4 + 5 = 9?", "9"),
        {"id": "b", "input": "Which year?", "expected": 1814},
        ("c", "Is 3 + 5 = 8?", "8"),
    )
    result = proctor("validate", name, "--json")
    assert codes(result) == ["leak", "not-text", "leak"]
    assert [warning["line"] for warning in result.json["files"][0]["warnings"]] == [1, 2, 3]


def test_warnings_of_rules_count_under_strict(proctor: Proctor, ferry: str) -> None:
    assert proctor("validate", ferry, "--strict").code == 4
    result = proctor("validate", ferry, "--strict", "--ignore", "leak")
    assert (result.code, result.err) == (0, "")


def test_a_rule_to_ignore_must_be_known(proctor: Proctor, ferry: str) -> None:
    result = proctor("validate", ferry, "--ignore", "leek")
    assert result.code == 4
    assert "'leak'" in result.err


@pytest.mark.parametrize("lint", ["ignore", ["leak"], ["leak", "tokens-est"], "leak"])
def test_a_row_silences_a_rule_with_lint(proctor: Proctor, suite: Proctor, lint: Any) -> None:
    name = suite({"id": "a", "input": "Is 4 + 5 = 9?", "expected": "9", "lint": lint})
    assert "leak" not in codes(proctor("validate", name, "--json"))


def test_a_column_silences_a_rule_too(proctor: Proctor, folder: Path) -> None:
    rows = ["id,input,expected,lint", 'a,"Is 4 + 5 = 9?",9,leak', 'b,"Is 4 + 4 = 8?",8,']
    (folder / "s.csv").write_text("\n".join(rows), encoding="utf-8")
    result = proctor("validate", "s.csv", "--json")
    assert [warning["case"] for warning in result.json["files"][0]["warnings"]] == ["b"]


def test_a_row_of_dialect_pramana_may_have_lint(proctor: Proctor, folder: Path) -> None:
    row = {
        "id": "a",
        "category": "factual",
        "input": "Is 4 + 5 = 9?",
        "ideal": "9",
        "assertion": {"type": "exact_match"},
        "metadata": {"difficulty": "easy", "tokens_est": 5},
    }
    for lint_row, expected in ((None, ["leak"]), (["leak"], [])):
        case_row = row if lint_row is None else {**row, "lint": lint_row}
        (folder / "s.jsonl").write_text(json.dumps(case_row), encoding="utf-8")
        assert sorted(codes(proctor("validate", "s.jsonl", "--json"))) == sorted(expected)


def test_a_test_of_dialect_agentv_may_have_lint(proctor: Proctor, folder: Path) -> None:
    suite = """
tests:
  - id: sum
    criteria: Says 9
    input: Is 4 + 5 = 9?
    expected_output: '9'
"""
    for lint, expected in (("", True), ("    lint: [leak]\n", False), ("    lint: ignore\n", False)):
        (folder / "s.eval.yaml").write_text(suite + lint, encoding="utf-8")
        assert ("leak" in codes(proctor("validate", "s.eval.yaml", "--json"))) is expected


def test_a_field_lint_changes_nothing_of_what_is_asked_and_judged(proctor: Proctor, suite: Proctor) -> None:
    row = {"id": "a", "input": "Is 4 + 5 = 9?", "expected": "9"}
    plain = proctor("hash", suite(row)).out.split()[0]
    assert proctor("hash", suite({**row, "lint": "ignore"})).out.split()[0] == plain


CODE_GRADERS = """
tests:
  - id: a
    criteria: x
    input: Hi
    assertions: [{type: code-grader, command: [python, grade.py]}]
  - id: b
    criteria: x
    input: Which river crosses Vienna?
    assertions:
      - {type: code-grader, command: [python, grade.py]}
      - type: composite
        assertions: [{name: m, type: script, command: [./grade.sh]}]
        aggregator: {type: code-grader, command: [node, weigh.js]}
"""


def test_a_missing_program_of_a_grader_is_told_before_a_run(proctor: Proctor, folder: Path) -> None:
    (folder / "s.eval.yaml").write_text(CODE_GRADERS, encoding="utf-8")
    result = proctor("validate", "s.eval.yaml", "--json")
    assert result.code == 0
    warnings = result.json["files"][0]["warnings"]
    assert [(warning["code"], warning["case"], warning["line"]) for warning in warnings] == [
        ("missing-program", "a", 3),
        *[("missing-program", "b", 7)] * 2,
    ]
    message = (
        "s.eval.yaml:3: warning: Case 'a': The program 'python grade.py' cannot grade its answers, which "
        "would be UNSCORED. There is no file 'grade.py'; its path is relative to the folder of the suite. "
        "Correct the command or the file."
    )
    assert message in proctor("validate", "s.eval.yaml").err
    assert message in proctor("run", "s.eval.yaml", "--target", "echo").err
    assert proctor("validate", "s.eval.yaml", "--strict").code == 4
    for name in ("grade.py", "grade.sh", "weigh.js"):
        (folder / name).write_text("#!/bin/sh", encoding="utf-8")
        (folder / name).chmod(0o755)
    assert codes(proctor("validate", "s.eval.yaml", "--json")) == []


def test_a_program_that_a_hook_may_write_is_not_missed(proctor: Proctor, folder: Path) -> None:
    hooks = "workspace: {hooks: {before_all: {command: [python, write.py]}}}"
    (folder / "s.eval.yaml").write_text(f"{hooks}{CODE_GRADERS}", encoding="utf-8")
    assert codes(proctor("validate", "s.eval.yaml", "--json")) == []


def test_a_suite_that_cannot_be_told_apart_is_told_as_before(proctor: Proctor, folder: Path) -> None:
    (folder / "s.jsonl").write_text('{"colour": "red"}\n', encoding="utf-8")
    result = proctor("validate", "s.jsonl", "--against", "s.jsonl")
    assert result.code == 4
    assert "s.jsonl: 1 error, 0 warnings" in result.out


def test_a_suite_that_is_named_twice_is_told_once(proctor: Proctor, ferry: str) -> None:
    result = proctor("validate", ferry, ".", f"./{ferry}")
    assert result.out.splitlines() == ["s.jsonl: 2 cases in format meridian, 0 errors, 1 warning"]


def test_a_problem_of_a_folder_names_no_line(proctor: Proctor, folder: Path) -> None:
    (folder / "tests").mkdir()
    (folder / "tests" / "sum.md").write_text("# 👤\n\nWhat is 4 + 5?\n\n---\n\nSays nine.\n", "utf-8")
    (folder / "proctor.toml").write_text('evaluators = ["strict"]\n', encoding="utf-8")
    (line,) = proctor("validate", "tests").err.splitlines()
    assert line.startswith("tests: error: `evaluators` of proctor.toml names 'strict'")


# --- other text --------------------------------------------------------------------------------------------


def test_a_case_that_stands_in_another_file_is_told_with_its_place(
    proctor: Proctor, folder: Path, ferry: str
) -> None:
    (folder / "prompt.md").write_text(f"# Be brief\n\nAn example: {QUESTION}\n", encoding="utf-8")
    (folder / "clean.md").write_text("# Be brief\n", encoding="utf-8")
    result = proctor("validate", ferry, "--against", "clean.md", "prompt.md", "--json")
    (warning,) = [
        problem for problem in result.json["files"][0]["warnings"] if problem["code"] == "contaminated"
    ]
    assert (warning["case"], warning["line"]) == ("ferry", 1)
    assert "stands in prompt.md, line 3: 100%" in warning["message"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1"])
def test_other_text_may_be_utf_8_or_latin_1(
    proctor: Proctor, folder: Path, suite: Proctor, encoding: str
) -> None:
    question = "Où est passé le café que la vieille gardienne préparait près du phare?"
    name = suite(("café", question, "au port"))
    (folder / "text").write_bytes(f"Voilà: {question}".encode(encoding))
    assert "contaminated" in codes(proctor("validate", name, "--json", "--against", "text"))


@pytest.mark.slow
def test_a_large_file_is_looked_through_in_pieces(proctor: Proctor, folder: Path, ferry: str) -> None:
    filler = "the tide comes and the tide goes, and nobody counts the waves\n" * 10_000
    (folder / "large.txt").write_text(f"{filler}{QUESTION}\n{filler}{GUID}", encoding="utf-8")
    (folder / "one_line.txt").write_text("x" * 3_000_000 + " " + QUESTION, encoding="utf-8")
    result = proctor("validate", ferry, "--json", "--against", "large.txt", "one_line.txt")
    warnings = [
        warning
        for warning in result.json["files"][0]["warnings"]
        if warning["code"] in ("contaminated", "canary")
    ]
    places = [warning["message"].partition(":")[0].rpartition(" stands in ")[2] for warning in warnings]
    assert sorted(places) == ["large.txt, line 10001", "large.txt, line 20002", "one_line.txt, line 1"]


def test_the_suite_itself_is_no_other_text(proctor: Proctor, folder: Path, ferry: str) -> None:
    other = folder / "other.jsonl"
    other.write_text(json.dumps({"question": QUESTION}), encoding="utf-8")
    result = proctor("validate", ferry, "--json", "--against", "s.jsonl", "other.jsonl")
    assert [code for code in codes(result) if code == "contaminated"] == ["contaminated"]


def test_a_folder_stands_for_the_files_in_it(proctor: Proctor, folder: Path, ferry: str) -> None:
    (folder / "texts" / "deep").mkdir(parents=True)
    (folder / "texts" / "deep" / "a.txt").write_text(QUESTION, encoding="utf-8")
    (folder / "texts" / ".hidden").write_text(QUESTION, encoding="utf-8")
    assert codes(proctor("validate", ferry, "--json", "--against", "texts")).count("contaminated") == 1


def test_files_end_at_the_next_flag(proctor: Proctor, folder: Path, ferry: str) -> None:
    for name in ("a.txt", "b.txt"):
        (folder / name).write_text(QUESTION, encoding="utf-8")
    result = proctor("validate", ferry, "--against", "a.txt", "b.txt", "--strict", "--json")
    assert codes(result).count("contaminated") == 2
    assert result.code == 4
    apart = proctor("validate", ferry, "--against=a.txt", "--against", "b.txt", "--json")
    assert codes(apart) == codes(result)
    assert proctor("validate", "--ignore", "leak", ferry, "--json").code == 0


def test_a_folder_without_files_is_refused(proctor: Proctor, folder: Path, ferry: str) -> None:
    (folder / "texts" / ".hidden").mkdir(parents=True)
    (folder / "texts" / ".hidden" / "page.txt").write_text(QUESTION, encoding="utf-8")
    result = proctor("validate", ferry, "--against", "texts")
    assert result.code == 4
    assert "The folder 'texts' contains no file to search for cases." in result.err


def test_a_file_that_is_not_there_is_refused(proctor: Proctor, ferry: str) -> None:
    result = proctor("validate", ferry, "--against", "nowhere.txt")
    assert result.code == 4
    assert "'nowhere.txt'" in result.err


def test_a_small_suite_is_no_reason_for_a_warning(proctor: Proctor, suite: Proctor) -> None:
    result = proctor("validate", suite(("a", "What is 4 + 5?", "nine")), "--strict")
    assert (result.code, result.err) == (0, "")
    assert proctor("validate", "s.jsonl", "--ignore", "too-few-cases").code == 0


# --- prompts that are still missing ------------------------------------------------------------------------


def test_cases_that_need_a_prompt_to_be_run_are_noted(proctor: Proctor, folder: Path) -> None:
    (folder / "s.csv").write_text("review,expected\nLovely.,positive\nDull.,negative\n", encoding="utf-8")
    result = proctor("validate", "s.csv", "--strict")
    assert result.code == 0
    assert result.out.splitlines() == [
        "s.csv: 2 cases in format meridian, 0 errors, 0 warnings",
        (
            "s.csv: note for `proctor run`: 2 cases, such as 'test_1', have no input. Pass a prompt that "
            "uses `review` with --prompt FILE."
        ),
    ]
    (folder / "p.md").write_text("Positive or negative? {{ review }}", encoding="utf-8")
    (folder / "proctor.toml").write_text('prompt = ["p.md"]\n', encoding="utf-8")
    assert "note" not in proctor("validate", "s.csv").out


def test_a_suite_with_prompts_of_its_own_needs_no_other(proctor: Proctor, folder: Path) -> None:
    test = "{vars: {word: hello}, assert: [{type: equals, value: hello}]}"
    text = f"prompts: ['Say {{{{ word }}}}']\ntests: [{test}]\n"
    (folder / "promptfooconfig.yaml").write_text(text, encoding="utf-8")
    result = proctor("validate", "promptfooconfig.yaml")
    assert "1 case in format promptfoo" in result.out
    assert "note" not in result.out

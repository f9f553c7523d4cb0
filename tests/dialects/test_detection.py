"""Detection of dialects, and the errors for files that are not suites."""

from __future__ import annotations

import json
from itertools import repeat
from pathlib import Path
from typing import Any

import pytest

from proctor.dialects import DIALECTS
from proctor.dialects.detection import detect
from proctor.dialects.shared.head import read_head
from proctor.errors import SuiteError

FOLDER = Path(__file__).parent
DIALECTS_BY_NAME = {name: DIALECTS.get(name) for name in DIALECTS.names()}
MESSAGES = [{"role": "user", "content": "x"}]
PRAMANA: dict[str, Any] = {
    "id": "a-1",
    "category": "factual",
    "input": "x",
    "ideal": "y",
    "assertion": {"type": "contains"},
}
AMBIGUOUS_FILES = (
    *(
        "a_list",
        "no_list",
        "no_json",
        "errors",
        "no_utf8",
        "empty",
        "no_prompt",
        "table_errors",
        "field_errors",
    ),
    *("json_errors", "utf_16"),
)
"""Files whose beginning does not show their dialect, or shows another."""
GOLDEN_FILES = [
    path
    for name, dialect in DIALECTS.load_all().items()
    for path in sorted((FOLDER / name).glob("*.*"))
    if path.suffix in dialect.endings
    and not path.name.endswith(".suite.json")
    and path.stem not in AMBIGUOUS_FILES
]


def detect_dialect(text: str, path: str = "suite.jsonl") -> str:
    return detect(
        read_head(path, text.encode("utf-8", "surrogateescape").splitlines(keepends=True)), DIALECTS_BY_NAME
    )


def read_error_message(text: str, path: str = "a/other.yaml") -> str:
    with pytest.raises(SuiteError) as caught:
        detect_dialect(text, path)
    (problem,) = caught.value.problems
    assert (problem.code, problem.line) == ("unknown-dialect", 1)
    return problem.message


@pytest.mark.parametrize("path", GOLDEN_FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_the_dialect_of_a_golden_file_is_detected(path: Path) -> None:
    assert detect_dialect(path.read_text(encoding="utf-8"), path.name) == path.parent.name


@pytest.mark.parametrize(
    ("row", "dialect"),
    [
        ({"input": MESSAGES, "ideal": "y"}, "openai_evals"),
        ({"id": "a", "input": MESSAGES, "ideal": ["y"], "source": "z"}, "openai_evals"),
        ({"input": "x", "ideal": "y"}, "openai_evals"),
        (PRAMANA, "pramana"),
        ({"id": "a", "input": "x", "ideal": "y"}, "pramana"),
        ({"id": "a", "input": "x", "assertion": {"type": "is_json"}}, "pramana"),
        ({"id": "a", "input": MESSAGES, "ideal": "y", "category": "factual"}, "pramana"),
        ({"input": MESSAGES, "ideal": "y", "assertion": {"type": "contains"}}, "pramana"),
        ({"input": MESSAGES, "ideal": "y", "metadata": {"difficulty": "easy"}}, "pramana"),
        ({"question": "x", "answer": "y"}, "fieldkit_qa"),
        ({"id": "a", "question": "x", "expected": 0}, "fieldkit_qa"),
        ({"question": "x", "gold": "y", "rubric": "z"}, "fieldkit_qa"),
        ({"text": "x", "answer": "y"}, "fieldkit_qa"),
        ({"input": "x", "label": "y"}, "fieldkit_qa"),
        ({"financebench_id": "a", "question": "x", "answer": "y", "evidence": []}, "fieldkit_qa"),
        ({"family": "A", "use_case": "b", "scoring_mode": "c", "question": "x"}, "fieldkit_qa"),
        ({"id": "a", "input": "x", "answer": "y", "question": "z"}, "meridian"),
        ({"id": "a", "prompt": "x", "answer": "y", "text": "z"}, "meridian"),
        ({"id": "a", "input": "x", "expected": "y"}, "meridian"),
        ({"id": "a", "input": "x", "answer": "y"}, "meridian"),
        ({"id": "a", "input": "x", "scorer": "llm_judge", "rubric": "z"}, "meridian"),
        ({"id": "a", "prompt": "x"}, "meridian"),
        ({"suite_name": "s"}, "meridian"),
        ({"id": "a", "input": "x", "scoring": "exact_match"}, "meridian"),
        ({"input": "x", "target": "y"}, "inspect"),
        ({"id": 1, "input": MESSAGES, "target": ["y"], "metadata": {"label": "z"}}, "inspect"),
        ({"input": "x", "choices": ["y", "z"]}, "inspect"),
        ({"input": "x", "target": "y", "category": "z", "tags": []}, "inspect"),
        ({"id": "a", "input": "x", "target": "y", "criteria": "z"}, "agentv"),
        ({"input": "x", "expected_output": "y"}, "deepeval"),
        ({"id": "a", "input": "x", "expected_output": "y", "context": ["z"]}, "deepeval"),
        ({"input": "x", "actual_output": None}, "deepeval"),
        ({"scenario": "x", "expected_outcome": "y", "turns": None}, "deepeval"),
        ({"id": "a", "input": "x", "expected_output": "y"}, "agentv"),
        ({"id": "a", "input": "x", "expected_outcome": "y"}, "agentv"),
        ({"input": "x", "expected_output": "y", "criteria": "z"}, "agentv"),
        ({"id": "a", "input": "x", "criteria": "c"}, "agentv"),
        ({"id": "a", "input": "x", "input_files": ["y"]}, "agentv"),
        ({"id": "a", "input": "x", "assertions": [{"type": "is-json"}]}, "agentv"),
        ({"id": "a", "input": "x", "rubrics": ["y"], "metadata": {}}, "agentv"),
        ({"id": "a", "input_messages": [], "expected_outcome": "c"}, "agentv"),
        ({"suite": "s", "prompts": []}, "fieldkit"),
        ({"prompts": [], "check": {}}, "fieldkit"),
        ({"prompts": ["x"], "tests": []}, "promptfoo"),
        ({"skill_name": "s", "evals": [{"id": 1, "prompt": "x", "expected_output": "y"}]}, "agent_skills"),
        ({"prompts": ["x"], "providers": ["echo"]}, "promptfoo"),
    ],
)
def test_the_dialect_is_detected_by_fields_and_not_by_the_ending(row: dict[str, Any], dialect: str) -> None:
    for path in ("suite.jsonl", "suite.csv", "-"):
        assert detect_dialect(json.dumps(row) + "\n", path) == dialect
    if dialect not in ("agent_skills", "fieldkit", "promptfoo"):  # their files are one object
        assert detect_dialect(json.dumps([row, row], indent=1), "suite.json") == dialect
    if not any(
        isinstance(value, list | dict) for value in row.values()
    ):  # its nested fields look like fields of a suite
        assert detect_dialect(json.dumps(row, indent=1), "suite.json") == dialect


@pytest.mark.parametrize(
    ("header", "dialect"),
    [
        ("input,expected", "meridian"),
        ("prompt;answer;tags", "meridian"),
        ("Input\tScorer", "meridian"),
        ("\ufeffID; Prompt ;answer\r", "meridian"),
        ('"input","expected"', "meridian"),
        ("input,target", "inspect"),
        ("id;Input;Target;choices", "inspect"),
        ("input,expected_output", "deepeval"),
        ("input,actual_output,expected_output,retrieval_context,context,name", "deepeval"),
        ("question,answer", "fieldkit_qa"),
        ("\ufeffQuestion;Expected;category", "fieldkit_qa"),
    ],
)
@pytest.mark.parametrize("ending", [".csv", ""])
def test_the_dialect_is_detected_by_columns(header: str, dialect: str, ending: str) -> None:
    assert detect_dialect(f"{header}\na,b\n", f"suite{ending}") == dialect


@pytest.mark.parametrize(
    ("fields", "dialects"),
    [
        (("input", "target", "label"), "fieldkit_qa .* inspect"),
        (("input", "target", "expected"), "inspect .* meridian"),
        (("input", "target", "ideal"), "inspect .* openai_evals"),
        (("input", "target", "expected_output"), "deepeval .* inspect"),
        (("input", "expected", "expected_output"), "deepeval .* meridian"),
    ],
)
def test_two_fields_with_a_right_answer_are_ambiguous(fields: tuple[str, ...], dialects: str) -> None:
    row = json.dumps(dict.fromkeys(fields, "x"))
    for text in (row, f"[{row}]"):
        with pytest.raises(SuiteError, match=f"more than one suite format: {dialects} .*--dialect"):
            detect_dialect(text)


@pytest.mark.parametrize(("first", "second"), [("target", "expected"), ("target", "expected_output")])
def test_two_columns_with_a_right_answer_are_ambiguous(first: str, second: str) -> None:
    with pytest.raises(SuiteError, match="more than one suite format"):
        detect_dialect(f"input,{first},{second}\nx,y,z\n", "suite.csv")


@pytest.mark.parametrize(
    ("text", "dialect"),
    [
        ("prompts: [x]\ntests: []\n", "promptfoo"),
        ("prompts:\n- x\nproviders: [echo]\n", "promptfoo"),
        ("providers: [echo]\ntests:\n- vars: {a: 1}\n", "promptfoo"),
        ("providers: [echo]\nscenarios: []\n", "promptfoo"),
        ("prompts: [x]\ntargets: [echo]\n", "promptfoo"),
        ("prompts:\n- |\n" + "  Long.\n" * 200 + "providers: [echo]\n", "promptfoo"),
        ("description: x\ntests:\n- input: x\n", "agentv"),
        ("name: x\ndescription: y\n", "agentv"),
        ("description: x\ntset:\n- id: a\n", "agentv"),
        ("tests:\n- vars: {a: 1}\n", "agentv"),
    ],
)
@pytest.mark.parametrize("path", ["suite.yaml", "a/b/suite.yml"])
def test_yaml_with_two_fields_of_promptfoo_is_promptfoo(text: str, dialect: str, path: str) -> None:
    assert detect_dialect(text, path) == dialect


@pytest.mark.parametrize("path", ["promptfooconfig.yaml", "a\\promptfooconfig.yml", "b/promptfooconfig.json"])
@pytest.mark.parametrize("text", ["", "prompts: [x]\n", "tests: []\n", "# nothing\n"])
def test_a_file_named_promptfooconfig_is_promptfoo(path: str, text: str) -> None:
    assert detect_dialect(text, path) == "promptfoo"


# --- any file ----------------------------------------------------------------------------------------------


def test_broken_lines_do_not_prevent_detection() -> None:
    assert detect_dialect(f'oops\n\udcff\n{json.dumps(PRAMANA)}\n{{"id": \n') == "pramana"


@pytest.mark.parametrize(
    "text", [json.dumps(PRAMANA, indent=2), json.dumps([PRAMANA]), json.dumps([PRAMANA] * 9, indent=1)]
)
def test_a_file_with_one_json_value_is_detected_by_its_keys(text: str) -> None:
    assert detect_dialect(text) == "pramana"


def test_only_the_beginning_of_a_file_is_read() -> None:
    assert detect(read_head("x", repeat(json.dumps(PRAMANA).encode() + b"\n")), DIALECTS_BY_NAME) == "pramana"


@pytest.mark.parametrize(
    ("header", "advice"),
    [
        ("question,anwser", "Did you mean `answer` by 'anwser'?"),
        ("question;Expectd", "Did you mean `expected` by 'expectd'?"),
        ("question,expected_output", "Rename the column of the prompt to `input`"),
        ("question,note", "Rename the column of the prompt to `input`"),
        ("ticket,anwser", "Rename the column of the prompt to `input`"),
        ("input\r,expected", "It has a carriage return (`\\r`) inside it. Save the file"),
        ("input,expected\rx,y\rz,y", "It has a carriage return (`\\r`) inside it. Save the file"),
    ],
)
def test_a_header_without_the_columns_of_a_suite_is_an_error_that_says_what_to_change(
    header: str, advice: str
) -> None:
    assert f"{header!r}. {advice}" in read_error_message(f"{header}\nx,y\n", "s.csv")


def test_a_file_of_two_dialects_is_ambiguous_and_quotes_both() -> None:
    rows = [PRAMANA, {"id": "b", "input": "x", "expected": "y"}]
    with pytest.raises(SuiteError, match=r"meridian because .*; pramana because .*--dialect") as caught:
        detect_dialect("\n".join(map(json.dumps, rows)))
    assert [problem.code for problem in caught.value.problems] == ["ambiguous-dialect"]


@pytest.mark.parametrize(
    ("row", "code", "advice"),
    [
        ({"id": "a", "input": "x"}, "ambiguous-dialect", "Add `expected` to each line."),
        ({"input": "x"}, "ambiguous-dialect", "Add `expected` to each line."),
        (
            {"id": "a", "input": "x", "expcted": "y"},
            "unknown-dialect",
            "Did you mean `expected` by 'expcted'?",
        ),
        ({"input": "x", "idael": "y"}, "unknown-dialect", "Did you mean `ideal` by 'idael'?"),
    ],
)
def test_lines_without_an_expected_answer_are_an_error_that_names_the_missing_field(
    row: dict[str, str], code: str, advice: str
) -> None:
    with pytest.raises(SuiteError) as caught:
        detect_dialect(json.dumps(row))
    (problem,) = caught.value.problems
    assert (problem.code, problem.line) == (code, 1)
    assert problem.message == f"No line has an expected answer, so the file is not a suite. {advice}"


@pytest.mark.parametrize(
    "text",
    [
        *("", "\n\n", " \n" * 49, "# a\n\n" * 24 + "x", "hello\n", "name,age\n", "\0\udcff\n"),
        '{"question": "x"}\n',
    ],
)
def test_a_file_of_no_dialect_says_so_and_names_the_option(text: str) -> None:
    assert f"--dialect: {', '.join(sorted(DIALECTS_BY_NAME))}." in read_error_message(text, "suite.jsonl")


# --- YAML --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "tests:\n  - id: a\n",
        "# What it is.\n\n---\nname: x\ntests: cases.yaml\n",
        "%YAML 1.2\n---\ntests: []\n",
        '"tests":\n- id: a\n',
        "$schema: https://x.example/s.json\nevalcases:\n- id: a\n",
        "\ufefftests: []\r\n",
        "description: x\n" + "# far\n" * 40 + "tests: []\n",
        '{"tests": [{"id": "a", "criteria": "c", "input": "i"}]}\n',
        '{\n "tests": [\n  {"id": "a", "criteria": "c", "input": "i"}]\n}\n',
    ],
)
@pytest.mark.parametrize("path", ["suite.yaml", "suite", "-"])
def test_yaml_with_tests_is_agentv(text: str, path: str) -> None:
    assert detect_dialect(text, path) == "agentv"


@pytest.mark.parametrize("path", ["suite.yaml", "suite.YML"])
@pytest.mark.parametrize("text", ["", "name: x\n", "- a\n", "\0\udcff", "targets:\n  - name: x\n"])
def test_a_file_with_a_yaml_ending_is_agentv_by_default(path: str, text: str) -> None:
    assert detect_dialect(text, path) == "agentv"


@pytest.mark.parametrize(
    "text",
    [
        "tests:\n  - input: |\n      Is this right?\n      {}\n",
        "description: A system prompt, input, expected\ntests:\n  - input: x\n    note: {}\n",
        "tests:\n- input: >\n    {}\n",
    ],
)
@pytest.mark.parametrize("row", [PRAMANA, {"id": "a", "input": "x", "expected": "y"}])
def test_a_text_in_yaml_that_looks_like_another_dialect_is_ignored(text: str, row: dict[str, Any]) -> None:
    assert detect_dialect(text.replace("{}", json.dumps(row))) == "agentv"


# --- files that are not suites -----------------------------------------------------------------------------


LM_EVAL = """\
task: demo
dataset_path: org/demo
output_type: multiple_choice
doc_to_text: "{{question}}"
doc_to_choice: ["a", "b"]
metadata:
  version: 1.0
"""
WORKFLOW = "name: CI\non:\n  push:\njobs:\n  test:\n    runs-on: ubuntu-latest\n"
PROVIDER = "id: openai:chat:gpt-5.2\nlabel: mine\nconfig:\n  temperature: 0\n"
COMPOSE = "services:\n  web:\n    image: nginx\n"
OPENAPI = "openapi: 3.1.0\ninfo:\n  title: x\n  version: '1'\npaths: {}\n"
REGISTRY = "match:\n  id: match.dev.v0\nmatch.dev.v0:\n  class: evals.elsuite.basic.match:Match\n"


@pytest.mark.parametrize(
    ("text", "kind", "instead"),
    [
        (LM_EVAL, "a task of lm-evaluation-harness", "`input`, `choices` and `target`"),
        ("group: x\ntask: [a, b]\n", "a task of lm-evaluation-harness", "pass that file"),
        (PROVIDER, "a promptfoo provider", "--target"),
        ("# Ours.\n- id: echo\n  config: {}\n", "a list of promptfoo providers", "promptfooconfig.yaml"),
        ("- vars:\n    a: 1\n  assert:\n  - type: equals\n", "a list of promptfoo tests", "promptfooconfig"),
        ("prompts: [x]\n", "a part of a promptfoo configuration", "promptfooconfig.yaml"),
        ("---\n- id: a\n  input: x\n  criteria: y\n", "a list of tests for agentv", "`tests:`"),
        ("- id: a\n  vars: {q: x}\n  assert: [Is short]\n", "a list of tests for agentv", "`tests:`"),
        (WORKFLOW, "a GitHub workflow", "Pass a file with cases"),
        (COMPOSE, "a Docker Compose file", "Pass a file with cases"),
        (OPENAPI, "an OpenAPI document", "Pass a file with cases"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {}\nspec: {}\n", "a Kubernetes manifest", "Pass a file"),
    ],
)
@pytest.mark.parametrize("path", ["other.yaml", "OTHER.YML"])
def test_yaml_of_other_tools_is_an_error_that_names_the_kind_of_file(
    text: str, kind: str, instead: str, path: str
) -> None:
    message = read_error_message(text, path)
    assert message.startswith(f"The file looks like {kind} and is not a suite. ")
    assert instead in message


def test_csv_with_other_columns_is_an_error_that_says_how_to_name_them() -> None:
    message = read_error_message("ticket,team\r\nWhere is it?,delivery\r\n", "tickets.csv")
    assert "the first line is 'ticket,team'. Rename the column of the prompt to `input`" in message
    assert "--dialect" not in message


@pytest.mark.parametrize(
    "text", ["a: 1\nb: 2\n", REGISTRY, "site_name: x\nnav: []\n", "name: x\na: 1\nb: 2\n"]
)
def test_other_yaml_is_an_error_that_lists_its_fields(text: str) -> None:
    message = read_error_message(text)
    assert message.startswith("The file does not match any suite format: its fields are '")
    assert "YAML with `tests`" in message
    assert "--dialect" in message


@pytest.mark.parametrize("text", [LM_EVAL, WORKFLOW, PROVIDER, COMPOSE, OPENAPI])
def test_yaml_of_other_tools_with_tests_is_a_suite(text: str) -> None:
    assert detect_dialect(text + "tests: []\n", "s.yaml") == "agentv"


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"assertions": [{"text": "x", "passed": True}]},
        {"assertions": [], "input": [{"role": "user", "content": "x"}], "answer": "y"},
    ],
)
def test_results_of_agentv_are_an_error_that_says_so(more: dict[str, Any]) -> None:
    row = {"timestamp": "2026-01-01T00:00:00Z", "test_id": "a", "score": 0.5, "target": "t", **more}
    message = read_error_message(f"{json.dumps(row)}\n" * 2, "a.baseline.jsonl")
    assert (
        message == "The file contains AgentV results and is not a suite. Pass the suite that produced them."
    )


def test_lines_of_tests_without_prompts_are_an_error_that_says_so() -> None:
    message = read_error_message('{"id": "a", "vars": {"q": "x"}, "assert": ["Is short"]}\n', "cases.jsonl")
    assert message.startswith("The file looks like a list of tests for agentv and is not a suite. ")

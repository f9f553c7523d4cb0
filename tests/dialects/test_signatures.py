"""Which dialect a file is taken for, among all that there are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from proctor.dialects import DIALECTS
from proctor.dialects.detection import detect
from proctor.dialects.shared.head import read_head
from proctor.errors import SuiteError

HERE = Path(__file__).parent
KNOWN = {name: DIALECTS.get(name) for name in DIALECTS.names()}
MESSAGES = [{"role": "user", "content": "x"}]
UNTELLING = ("promptfooconfig", "no_list", "a_list", "no_json", "errors")
"""Files of which a beginning says nothing, or something wrong."""
OWN = [
    path
    for name in ("promptfoo", "openai_evals", "fieldkit", "fieldkit_qa", "inspect", "deepeval", "agent_skills")
    for path in sorted((HERE / name).iterdir())
    if path.is_file() and not path.name.endswith(".suite.json") and path.stem not in UNTELLING[1:]
]


def found(text: str, path: str = "suite.jsonl") -> str:
    return detect(read_head(path, text.encode().splitlines(keepends=True)), KNOWN)


@pytest.mark.parametrize("path", OWN, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_golden_file_is_taken_for_the_dialect_of_its_folder(path: Path) -> None:
    assert found(path.read_text(encoding="utf-8"), path.name) == path.parent.name


@pytest.mark.parametrize(
    ("row", "dialect"),
    [
        ({"input": MESSAGES, "ideal": "y"}, "openai_evals"),
        ({"id": "a", "input": MESSAGES, "ideal": ["y"], "source": "z"}, "openai_evals"),
        ({"input": "x", "ideal": "y"}, "openai_evals"),
        ({"id": "a", "input": "x", "ideal": "y"}, "pramana"),
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
        ({"suite": "s", "prompts": []}, "fieldkit"),
        ({"prompts": [], "check": {}}, "fieldkit"),
        ({"prompts": ["x"], "tests": []}, "promptfoo"),
        ({"skill_name": "s", "evals": [{"id": 1, "prompt": "x", "expected_output": "y"}]}, "agent_skills"),
        ({"prompts": ["x"], "providers": ["echo"]}, "promptfoo"),
    ],
)
def test_the_fields_say_the_dialect(row: dict[str, Any], dialect: str) -> None:
    assert found(json.dumps(row) + "\n") == dialect
    if dialect not in ("agent_skills", "fieldkit", "promptfoo"):  # whose files are one object
        assert found(json.dumps([row, row], indent=1), "suite.json") == dialect
    if not any(isinstance(value, list | dict) for value in row.values()):  # whose fields look like its own
        assert found(json.dumps(row, indent=1), "suite.json") == dialect


@pytest.mark.parametrize(
    ("header", "dialect"),
    [
        ("input,expected", "meridian"),
        ("prompt;answer;tags", "meridian"),
        ("Input\tScorer", "meridian"),
        ("input,target", "inspect"),
        ("id;Input;Target;choices", "inspect"),
        ("input,expected_output", "deepeval"),
        ("input,actual_output,expected_output,retrieval_context,context,name", "deepeval"),
        ("question,answer", "fieldkit_qa"),
        ("\ufeffQuestion;Expected;category", "fieldkit_qa"),
    ],
)
@pytest.mark.parametrize("ending", [".csv", ""])
def test_the_columns_say_the_dialect(header: str, dialect: str, ending: str) -> None:
    assert found(f"{header}\na,b\n", f"suite{ending}") == dialect


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
def test_two_columns_with_a_right_answer_are_not_guessed_between(
    fields: tuple[str, ...], dialects: str
) -> None:
    row = json.dumps(dict.fromkeys(fields, "x"))
    for text in (row, f"[{row}]"):
        with pytest.raises(SuiteError, match=f"more than one dialect: {dialects} .*--dialect"):
            found(text)


@pytest.mark.parametrize(("first", "second"), [("target", "expected"), ("target", "expected_output")])
def test_nor_between_two_columns_of_csv(first: str, second: str) -> None:
    with pytest.raises(SuiteError, match="more than one dialect"):
        found(f"input,{first},{second}\nx,y,z\n", "suite.csv")


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
def test_yaml_is_of_promptfoo_where_two_of_its_fields_are_there(text: str, dialect: str, path: str) -> None:
    assert found(text, path) == dialect


@pytest.mark.parametrize("path", ["promptfooconfig.yaml", "a\\promptfooconfig.yml", "b/promptfooconfig.json"])
@pytest.mark.parametrize("text", ["", "prompts: [x]\n", "tests: []\n", "# nothing\n"])
def test_a_file_with_promptfoos_own_name_is_of_promptfoo(path: str, text: str) -> None:
    assert found(text, path) == "promptfoo"

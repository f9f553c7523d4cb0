"""Which dialect a file is taken for, among all that there are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from proctor.dialects import DIALECTS
from proctor.dialects.detection import detect, head

HERE = Path(__file__).parent
KNOWN = {name: DIALECTS.get(name) for name in DIALECTS.names()}
MESSAGES = [{"role": "user", "content": "x"}]
UNTELLING = ("promptfooconfig", "no_list", "a_list", "no_json", "errors")
"""Files of which a beginning says nothing, or something wrong."""
OWN = [
    path
    for name in ("promptfoo", "openai_evals", "fieldkit", "fieldkit_qa")
    for path in sorted((HERE / name).iterdir())
    if path.is_file() and not path.name.endswith(".suite.json") and path.stem not in UNTELLING[1:]
]


def found(text: str, path: str = "suite.jsonl") -> str:
    return detect(head(path, text.encode().splitlines(keepends=True)), KNOWN)


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
        ({"suite": "s", "prompts": []}, "fieldkit"),
        ({"prompts": [], "check": {}}, "fieldkit"),
        ({"prompts": ["x"], "tests": []}, "promptfoo"),
        ({"prompts": ["x"], "providers": ["echo"]}, "promptfoo"),
    ],
)
def test_the_fields_say_the_dialect(row: dict[str, Any], dialect: str) -> None:
    assert found(json.dumps(row) + "\n") == dialect
    assert found(json.dumps(row, indent=1), "suite.json") == dialect or isinstance(row.get("input"), list)


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
        ("prompts: [x]\n", "agentv"),
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

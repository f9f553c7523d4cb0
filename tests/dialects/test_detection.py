"""Which dialect a file is taken for."""

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
from proctor.protocols import Dialect

KNOWN: dict[str, Dialect] = {name: DIALECTS.get(name) for name in ("agentv", "meridian", "pramana")}
HERE = Path(__file__).parent

PRAMANA: dict[str, Any] = {
    "id": "a-1",
    "category": "factual",
    "input": "x",
    "ideal": "y",
    "assertion": {"type": "contains"},
}


def found(*lines: bytes, path: str = "suite.jsonl") -> str:
    return detect(read_head(path, lines), KNOWN)


def line(row: object) -> bytes:
    return json.dumps(row).encode() + b"\n"


@pytest.mark.parametrize(
    ("row", "dialect"),
    [
        (PRAMANA, "pramana"),
        ({"id": "a", "input": "x", "ideal": "y"}, "pramana"),
        ({"id": "a", "input": "x", "assertion": {"type": "is_json"}}, "pramana"),
        ({"id": "a", "input": "x", "expected": "y"}, "meridian"),
        ({"id": "a", "input": "x", "answer": "y"}, "meridian"),
        ({"id": "a", "input": "x", "scorer": "llm_judge", "rubric": "z"}, "meridian"),
        ({"id": "a", "prompt": "x"}, "meridian"),
        ({"suite_name": "s"}, "meridian"),
        ({"id": "a", "input": "x", "scoring": "exact_match"}, "meridian"),
        ({"id": "a", "input": "x", "criteria": "c"}, "agentv"),
        ({"id": "a", "input": "x", "expected_output": "y"}, "agentv"),
        ({"id": "a", "input": "x", "input_files": ["y"]}, "agentv"),
        ({"id": "a", "input": "x", "assertions": [{"type": "is-json"}]}, "agentv"),
        ({"id": "a", "input": "x", "rubrics": ["y"], "metadata": {}}, "agentv"),
        ({"id": "a", "input_messages": [], "expected_outcome": "c"}, "agentv"),
    ],
)
@pytest.mark.parametrize("path", ["suite.jsonl", "suite.csv", "-"])
def test_the_fields_of_the_lines_say_the_dialect_and_not_the_ending(
    row: dict[str, Any], dialect: str, path: str
) -> None:
    assert found(line(row), path=path) == dialect


@pytest.mark.parametrize(
    "header",
    [b"input,expected\n", b"\xef\xbb\xbfID; Prompt ;answer\r\n", b"id\tinput\n", b'"input","expected"\n'],
)
def test_a_csv_header_that_names_the_prompt_is_meridian(header: bytes) -> None:
    assert found(header, b"a,b\n", path="suite.jsonl") == "meridian"


def test_broken_lines_do_not_hide_what_the_others_say() -> None:
    assert found(b"oops\n", b"\xff\n", line(PRAMANA), b'{"id": \n') == "pramana"


@pytest.mark.parametrize(
    "text", [json.dumps(PRAMANA, indent=2), json.dumps([PRAMANA]), json.dumps([PRAMANA] * 9, indent=1)]
)
def test_a_file_that_is_one_value_is_known_by_its_keys(text: str) -> None:
    assert found(*(row.encode() + b"\n" for row in text.splitlines())) == "pramana"


def test_only_the_beginning_of_a_file_is_looked_at() -> None:
    assert detect(read_head("x", repeat(line(PRAMANA))), KNOWN) == "pramana"


@pytest.mark.parametrize(
    "rows", [[{"id": "a", "input": "x"}], [PRAMANA, {"id": "b", "input": "x", "expected": "y"}]]
)
def test_a_file_of_two_dialects_is_ambiguous_and_quotes_both(rows: list[dict[str, Any]]) -> None:
    with pytest.raises(SuiteError, match=r"meridian because .*; pramana because .*--dialect") as caught:
        found(*map(line, rows))
    assert [problem.code for problem in caught.value.problems] == ["ambiguous-dialect"]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n\n",
        b" \n" * 49,
        b"# a\n\n" * 24 + b"x",
        b"hello\n",
        b"name,age\n",
        line({"question": "x"}),
        b"\x00\xff\n",
    ],
)
def test_a_file_of_no_dialect_says_so_and_names_the_option(data: bytes) -> None:
    with pytest.raises(SuiteError, match="--dialect; known are: agentv, meridian, pramana") as caught:
        found(data)
    assert [problem.code for problem in caught.value.problems] == ["unknown-dialect"]


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
    assert found(*text.encode().splitlines(keepends=True), path=path) == "agentv"


@pytest.mark.parametrize("path", ["suite.yaml", "suite.YML"])
@pytest.mark.parametrize("data", [b"", b"name: x\n", b"- a\n", b"\x00\xff", b"targets:\n  - name: x\n"])
def test_a_name_that_ends_as_yamls_does_is_agentv_whatever_is_in_it(path: str, data: bytes) -> None:
    assert found(data, path=path) == "agentv"


@pytest.mark.parametrize(
    "text",
    [
        "tests:\n  - input: |\n      Is this right?\n      {}\n",
        "description: A system prompt, input, expected\ntests:\n  - input: x\n    note: {}\n",
        "tests:\n- input: >\n    {}\n",
    ],
)
@pytest.mark.parametrize("row", [PRAMANA, {"id": "a", "input": "x", "expected": "y"}])
def test_a_text_inside_yaml_that_looks_like_another_dialect_is_a_text(text: str, row: dict[str, Any]) -> None:
    assert found(*(text.replace("{}", json.dumps(row)).encode().splitlines(keepends=True))) == "agentv"


ALL = sorted(
    path
    for ending in ("jsonl", "csv", "yaml")
    for path in HERE.glob(f"*/*.{ending}")
    if path.name != "empty.jsonl"
)


@pytest.mark.parametrize("path", ALL, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_no_golden_file_is_taken_for_another_dialects(path: Path) -> None:
    with path.open("rb") as file:
        beginning = read_head(path.name, file)
    reasons = {name for name, dialect in KNOWN.items() if dialect.recognises(beginning)}
    assert ("agentv" in reasons) == (path.parent.name == "agentv")
    assert path.parent.name != "agentv" or reasons == {"agentv"}

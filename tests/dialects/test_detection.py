"""Which dialect a file is taken for."""

from __future__ import annotations

import json
from itertools import repeat
from typing import Any

import pytest

from proctor.dialects import DIALECTS
from proctor.dialects.detection import detect, head
from proctor.errors import SuiteError
from proctor.ports import Dialect

KNOWN: dict[str, Dialect] = {name: DIALECTS.get(name) for name in ("meridian", "pramana")}

PRAMANA: dict[str, Any] = {
    "id": "a-1",
    "category": "factual",
    "input": "x",
    "ideal": "y",
    "assertion": {"type": "contains"},
}


def found(*lines: bytes, path: str = "suite.jsonl") -> str:
    return detect(head(path, lines), KNOWN)


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
    assert detect(head("x", repeat(line(PRAMANA))), KNOWN) == "pramana"


@pytest.mark.parametrize(
    "rows", [[{"id": "a", "input": "x"}], [PRAMANA, {"id": "b", "input": "x", "expected": "y"}]]
)
def test_a_file_of_two_dialects_is_ambiguous_and_quotes_both(rows: list[dict[str, Any]]) -> None:
    with pytest.raises(SuiteError, match=r"meridian because .*; pramana because .*--dialect") as caught:
        found(*map(line, rows))
    assert [problem.code for problem in caught.value.problems] == ["ambiguous-dialect"]


@pytest.mark.parametrize(
    "data", [b"", b"\n\n", b"hello\n", b"name,age\n", line({"question": "x"}), b"\x00\xff\n"]
)
def test_a_file_of_no_dialect_says_so_and_names_the_option(data: bytes) -> None:
    with pytest.raises(SuiteError, match="--dialect; known are: meridian, pramana") as caught:
        found(data)
    assert [problem.code for problem in caught.value.problems] == ["unknown-dialect"]

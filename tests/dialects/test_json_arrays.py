"""JSON arrays of cases, which are read like JSON Lines of the same objects."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.dialects import DIALECTS
from proctor.dialects.detection import detect
from proctor.dialects.shared.head import read_head
from proctor.dialects.shared.json_arrays import read_lines, read_suite
from proctor.errors import SuiteError
from proctor.model import Problem
from proctor.protocols import CaseAtLine, SuiteSource
from proctor.services.suites.load import load_suite
from support.suite_files import make_source

DIALECTS_BY_NAME = {name: DIALECTS.get(name) for name in DIALECTS.names()}
MESSAGES = [{"role": "user", "content": "x"}]
PRAMANA = {
    "id": "a",
    "category": "coding",
    "input": "x",
    "ideal": ["y"],
    "assertion": {"type": "contains_any"},
    "metadata": {"difficulty": "easy", "tokens_est": 1},
}
ROWS: dict[str, list[dict[str, Any]]] = {
    "agentv": [{"id": "a", "input": "x", "criteria": "c"}, {"id": "b", "input": "y", "expected_output": "z"}],
    "fieldkit_qa": [{"question": "x", "answer": "y"}, {"question": "z", "answer": 0}],
    "meridian": [{"input": "x", "expected": "y"}, {"input": "z", "expected": {"type": "refusal"}}],
    "openai_evals": [{"input": "x", "ideal": "y"}, {"input": MESSAGES, "ideal": "y"}],
    "pramana": [PRAMANA, PRAMANA | {"id": "b", "input": "z"}],
    "proctor": [
        {"proctor": 1, "name": "suite"},
        {"id": "a", "input": MESSAGES, "assertions": [{"grader": "contains", "params": {"value": "y"}}]},
    ],
}
"""Rows of every suite format that has one case a line."""
LAYOUTS: tuple[dict[str, Any], ...] = (
    {"indent": 1},
    {"indent": 4, "ensure_ascii": False},
    {},
    {"separators": (",", ":")},
)


def make_array_source(text: str) -> SuiteSource:
    return make_source(
        text.encode("utf-8", "surrogateescape"), "suite.json", options={"evals_class": "Match"}
    )


def read_items(name: str, text: str) -> list[Any]:
    return list(read_suite(DIALECTS.get(name), make_array_source(text)))


def list_problems(name: str, text: str) -> list[tuple[int | None, str]]:
    return [(item.line, item.code) for item in read_items(name, text) if isinstance(item, Problem)]


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("name", ROWS)
def test_an_array_gives_the_same_suite_as_json_lines(
    name: str, layout: dict[str, Any], tmp_path: Path
) -> None:
    array, lines = tmp_path / "suite.json", tmp_path / "suite.jsonl"
    array.write_text(json.dumps(ROWS[name], **layout), encoding="utf-8")
    lines.write_text("".join(json.dumps(row) + "\n" for row in ROWS[name]), encoding="utf-8")
    of_array, of_lines = (load_suite(path, options={"evals_class": "Match"}) for path in (array, lines))
    assert of_lines.errors == []
    assert of_array.suite == of_lines.suite
    assert of_array.suite.dialect == name
    assert of_array.suite.case_count == len(ROWS[name]) - (name == "proctor")


@pytest.mark.slow
@given(
    rows=st.lists(st.dictionaries(st.text(), st.text() | st.integers(0, 9) | st.none()), min_size=1),
    layout=st.sampled_from(LAYOUTS),
    around=st.sampled_from(["", " ", "\n", "\r\n\t"]),
)
def test_each_object_is_one_line_with_the_same_value(
    rows: list[dict[str, Any]], layout: dict[str, Any], around: str
) -> None:
    lines = list(read_lines(make_array_source(around + json.dumps(rows, **layout) + around)))
    assert [json.loads(line) for line in lines] == rows
    assert all(line.count(b"\n") == 1 for line in lines)


@pytest.mark.parametrize("name", DIALECTS.names())
@given(data=st.binary())
def test_a_damaged_array_never_raises(name: str, data: bytes) -> None:
    text = (b'[{"input": "x", "expected": "y"}, ' + data).decode("utf-8", "surrogateescape")
    problems = [item for item in read_items(name, text) if isinstance(item, Problem)]
    assert all(1 <= (problem.line or 0) <= data.count(b"\n") + 1 for problem in problems)


PRETTY = """
[
  {
    "id": "a",
    "input": "x", "expected": "y"
  },
  {
    "id": "b",
    "input": "x",
    "expected": {
      "type": "contains",
      "required_words": [
        "y",
        {}
      ]
    }
  },
  {"id": "c", "input": "x", "scorer": "exact"},
  {
    "id": "d",
    "input": "{\\"id\\": [",
    "expected": "y",
    "colour": "red"
  }
]
"""


def test_cases_have_the_line_where_they_begin_and_problems_that_of_their_field() -> None:
    items = read_items("meridian", PRETTY)
    assert [item.line for item in items if isinstance(item, CaseAtLine)] == [3]
    assert [(item.line, item.field) for item in items if isinstance(item, Problem)] == [
        (14, "expected.required_words[1]"),
        (18, "expected"),
        (23, "colour"),
    ]


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ('[\n {"input": "x", "expected": "y"},\n 7\n]', [(3, "not-an-object")]),
        ('[\n {"input": "x", "expected": "y"}\n {"input": "z"}\n]', [(3, "bad-array")]),
        ('[\n {"input": "x", "expected": "y"},\n\n]', [(4, "bad-array")]),
        ('[\n {"input": "x", "expected": "y"},\n {"input": "z",\n  "expected"', [(4, "bad-array")]),
        ('[\n {"input": "x", "expected": "y"}\n]\n{}', [(4, "bad-array")]),
        ('[\n {"input": "x", "expected": "y"},\n {"input": "z", "expected": NaN}\n]', [(3, "bad-number")]),
        ('[\n {"input": "x", "expected": "y"},\n {"input": "z", "input": "z"}\n]', [(3, "duplicate-key")]),
        ('[\n {"input": "x", "expected": "y"},\n {"input": "\udcff"}\n]', [(3, "bad-encoding")]),
        ('[\n {"input": "x", "expected": "y"},\n ' + "[" * 100_000, [(2, "too-deep")]),
    ],
)
def test_an_error_in_an_array_has_its_line(text: str, where: list[tuple[int, str]]) -> None:
    assert list_problems("meridian", text) == where


def test_a_truncated_array_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "suite.json"
    path.write_text('[{"input": "x", "expected": "y"},\n{"input": "z"', encoding="utf-8")
    (error,) = load_suite(path).errors
    assert (error.line, error.code) == (2, "bad-array")
    assert error.message == "The array is not JSON: Expecting ',' delimiter (column 14). Correct it there."


def test_cases_without_ids_on_one_line_get_different_ids() -> None:
    text = json.dumps([{"question": "x", "answer": "y"}, {"question": "z", "answer": "y"}])
    cases = [item for item in read_items("fieldkit_qa", text) if isinstance(item, CaseAtLine)]
    assert [(item.case.id, item.line) for item in cases] == [("q-1", 1), ("q-2", 1)]


@pytest.mark.parametrize("size", [1, 200])
def test_an_array_of_long_objects_is_detected_by_their_top_level_fields(size: int) -> None:
    row = {"input": "x", "expected": "y", "metadata": {"ideal": "z", "notes": ["long"] * size}}
    text = json.dumps([row, row], indent=1)
    assert (
        detect(read_head("suite.json", text.encode().splitlines(keepends=True)), DIALECTS_BY_NAME)
        == "meridian"
    )


@pytest.mark.parametrize("text", ["[]", "[1, 2]", '["a"]', "[", '[["a"]]'])
def test_an_array_without_objects_is_no_suite(text: str) -> None:
    with pytest.raises(SuiteError, match="The file does not match any suite format"):
        detect(read_head("suite.json", [text.encode()]), DIALECTS_BY_NAME)

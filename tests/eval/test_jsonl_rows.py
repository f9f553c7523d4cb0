"""Reading JSON Lines: which rows are read, and which are listed as dropped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from proctor.eval import DroppedRow
from proctor.eval.jsonl_rows import read_object_rows, read_rows, read_single_object


def read(folder: Path, data: bytes) -> tuple[list[tuple[int, Any]], list[DroppedRow]]:
    path = folder / "rows.jsonl"
    path.write_bytes(data)
    dropped_rows: list[DroppedRow] = []
    return list(read_rows(path, dropped_rows)), dropped_rows


@pytest.mark.parametrize(
    ("data", "values"),
    [
        (b'{"a": 1}\n[2]\n"three"\n4\nnull\n', [(1, {"a": 1}), (2, [2]), (3, "three"), (4, 4), (5, None)]),
        (b'\xef\xbb\xbf{"a": 1}\r\n\r\n{"a": 2}', [(1, {"a": 1}), (3, {"a": 2})]),
        ('{"a": "x\u2028y"}\n'.encode(), [(1, {"a": "x\u2028y"})]),
        (b'[{"a": 1},\n {"a": 2}]\n', [(1, {"a": 1}), (2, {"a": 2})]),
        (b'[{"a": 1}, {"a": 2}]', [(1, {"a": 1}), (2, {"a": 2})]),
        (b"[1, 2]\n[3, 4]\n", [(1, [1, 2]), (2, [3, 4])]),
        (b"", []),
        (b"\n \n", []),
    ],
)  # fmt: skip
def test_a_file_is_read(tmp_path: Path, data: bytes, values: list[tuple[int, Any]]) -> None:
    assert read(tmp_path, data) == (values, [])


@pytest.mark.parametrize(
    ("data", "line", "reason"),
    [
        (b'{"a": 1}\n{"a": \n{"a": 2}\n', 2, "not JSON: Expecting value"),
        (b'{"a": 1}\n{"a": "\xff"}\n{"a": 2}', 2, "not UTF-8"),
        (b'{"a": 1}\n' + b"[" * 200_000 + b'\n{"a": 2}', 2, "not JSON"),
        (b'{"a": 1}\nplain words\n{"a": 2}', 2, "not JSON"),
    ],
)
def test_a_line_that_cannot_be_read_is_named_and_the_rest_is_kept(
    tmp_path: Path, data: bytes, line: int, reason: str
) -> None:
    values, dropped_rows = read(tmp_path, data)
    assert [value for _, value in values] == [{"a": 1}, {"a": 2}]
    assert [row.line for row in dropped_rows] == [line]
    assert reason in dropped_rows[0].reason


def test_a_broken_list_is_named_as_a_whole(tmp_path: Path) -> None:
    values, dropped_rows = read(tmp_path, b'[{"a": 1},\n{"a": 2}\n')
    assert values == []
    assert [row.line for row in dropped_rows] == [1]
    assert "starts like a JSON list" in dropped_rows[0].reason


def test_what_is_no_object_is_left_out_of_objects(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"a": 1}\n3\n{"a": 2}\n', encoding="utf-8")
    dropped_rows: list[DroppedRow] = []
    assert [row for _, row in read_object_rows(path, dropped_rows)] == [{"a": 1}, {"a": 2}]
    assert dropped_rows == [DroppedRow(2, "The line is JSON, but not an object.")]


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        list(read_rows(tmp_path / "none.jsonl", []))


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b'{"a": 1}', {"a": 1}),
        (b'\xef\xbb\xbf\n{\n"a": 1\n}\n\n', {"a": 1}),
        (b'{"a": 1}\n{"a": 2}\n', None),
        (b'[{"a": 1}]', None),
        (b'{"a": "\xff"}', None),
        (b'{"a": 1', None),
        (b"", None),
    ],
)
def test_a_file_of_one_object_is_that_object(tmp_path: Path, content: bytes, expected: object) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(content)
    assert read_single_object(path) == expected

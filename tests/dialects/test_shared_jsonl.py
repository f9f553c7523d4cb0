"""Parsing of JSON Lines, which several dialects share."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.dialects.shared.jsonl import file_name, parse_object, peek, read_rows
from proctor.model import Problem
from proctor.validation import quote_value

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


def parse_lines(*lines: bytes) -> list[str | dict[str, Any]]:
    items = read_rows(lines, "suite.jsonl")
    return [item.code if isinstance(item, Problem) else item[1] for item in items]


@pytest.mark.slow
@given(st.dictionaries(st.text(max_size=8), JSON, max_size=5), st.booleans())
def test_a_line_is_parsed_as_json(row: dict[str, Any], escaped: bool) -> None:
    assert parse_object(json.dumps(row, ensure_ascii=escaped).encode()) == row


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": "), (",\r", "\t: "), (" ,", " :")])
@given(row=st.dictionaries(st.text(max_size=8), JSON, max_size=3), key=st.text(max_size=3))
def test_a_duplicate_key_is_refused_in_every_spelling(
    separators: tuple[str, str], row: dict[str, Any], key: str
) -> None:
    text = json.dumps({**row, key: None}, separators=separators)
    text_with_duplicate = f"{{{json.dumps(key)}{separators[1]}1{separators[0]}{text[1:]}"
    assert isinstance(parse_object(text.encode()), dict)
    problem = parse_object(text_with_duplicate.encode())
    assert isinstance(problem, Problem)
    assert problem.code == "duplicate-key"


@given(st.binary())
def test_any_bytes_give_an_object_or_a_problem(line: bytes) -> None:
    result = parse_object(line)
    assert isinstance(result, dict) or result.message.endswith(".")


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"{", "bad-json"),
        (b'{"a": 1} {"b": 2}', "bad-json"),
        (b'{"a": 1},', "bad-json"),
        (b"{'a': 1}", "bad-json"),
        (b"[]", "not-an-object"),
        (b"3", "not-an-object"),
        (b"NaN", "bad-number"),
        (b'{"a": Infinity}', "bad-number"),
        (b'{"a": 1e400}', "bad-number"),
        (b'{"a": 18446744073709551616}', "bad-number"),
        (b'{"a": ' + b"9" * 5000 + b"}", "bad-number"),
        (b'{"a": 1, "a": 1}', "duplicate-key"),
        (b'{"a": {"b": 1, "b": 2}}', "duplicate-key"),
        (b'{"a": ' + b"[" * 64 + b"]" * 64 + b', "a": "x"}', "duplicate-key"),
        (b'{"a": "\xff"}', "bad-encoding"),
        (b'{"a": "\\udc00"}', "bad-encoding"),
        (b'{"a": ' * 100_000, "too-deep"),
        (b'{"a": ' + b"[" * 64 + b"]" * 64 + b"}", "too-deep"),
    ],
)
def test_an_invalid_line_is_refused(line: bytes, code: str) -> None:
    problem = parse_object(line)
    assert isinstance(problem, Problem)
    assert problem.code == code


@pytest.mark.parametrize(
    "line",
    [
        b'{"a": 18446744073709551615, "b": -9223372036854775808}',
        b'{"a": ' + b"[" * 63 + b"]" * 63 + b"}",
        b'{"a": "' + b"[" * 500 + b'"}',
        b'{"a": "\\ud83d\\ude00"}',
    ],
)
def test_a_line_at_a_limit_is_read(line: bytes) -> None:
    assert parse_object(line) == json.loads(line)


def test_every_bad_line_is_reported_and_blank_lines_are_counted() -> None:
    items = list(read_rows([b'{"a": 1}\n', b"\n", b"oops\n", b"  \r\n", b"[1]\n", b'{"a": 2}'], "x.jsonl"))
    lines = [item.line if isinstance(item, Problem) else item[0] for item in items]
    assert lines == [1, 3, 5, 6]


def test_a_byte_order_mark_and_crlf_are_accepted() -> None:
    assert parse_lines(b'\xef\xbb\xbf{"a": 1}\r\n', b'{"a": 2}\r\n') == [{"a": 1}, {"a": 2}]


@pytest.mark.parametrize(
    "lines",
    [
        [b"[\n", b'{"a": 1}\n', b"]\n"],
        [b'[{"a": 1}, {"a": 2}]\n'],
        [b"{\n", b'  "a": 1\n', b"}\n"],
        [b'{"a": {\n', b'"b": 1}}\n'],
        [b'{"a": 1,\n', b'"b": 1}\n'],
    ],
)
def test_a_file_that_is_one_value_gives_one_problem(lines: list[bytes]) -> None:
    (problem,) = read_rows(lines, "x.jsonl")
    assert isinstance(problem, Problem)
    assert problem.code == "not-json-lines"
    assert "one object per line" in problem.message


@pytest.mark.parametrize("first", [b'{"a": 1},\n', b"[1, 2]\n", b'{"a": "tru\n', b"oops\n"])
def test_a_bad_first_line_does_not_hide_the_rest(first: bytes) -> None:
    results = parse_lines(first, b'{"a": 2}\n')
    assert len(results) == 2
    assert results[1] == {"a": 2}


def test_a_file_in_utf_16_gives_one_problem() -> None:
    assert parse_lines(*'{"a": 1}\n{"a": 2}\n'.encode("utf-16").splitlines(keepends=True)) == ["bad-encoding"]


@given(st.lists(st.sampled_from([b"\n", b" \r\n", b"x\n", b"y\n"])))
def test_peeking_gives_the_first_line_with_text_and_loses_none(lines: list[bytes]) -> None:
    first, all_lines = peek(lines)
    assert list(all_lines) == lines
    assert first == next((text for line in lines if (text := line.strip())), b"")


@pytest.mark.parametrize("path", ["suites/v1/cheap.jsonl", "C:\\suites\\cheap.jsonl", "cheap.jsonl"])
def test_a_file_name_is_found_behind_either_separator(path: str) -> None:
    assert file_name(path).stem == "cheap"


@given(JSON)
def test_a_value_in_a_message_stays_short(value: object) -> None:
    assert len(quote_value(value)) <= 250

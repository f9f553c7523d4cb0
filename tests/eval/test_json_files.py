"""Values as strict JSON, and files that are written whole or not at all."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.eval.json_files import append_lines, copy_data, to_plain, write_atomic
from proctor.model import Message


@dataclass
class Answer:
    text: str
    parts: list[Any]


class Client:
    def __init__(self) -> None:
        self.host = "a"


class Mute:
    __slots__ = ()

    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (float("nan"), None),
        (float("-inf"), None),
        (1.5, 1.5),
        (True, True),
        (Fraction(1, 4), 0.25),
        (Decimal("1.5"), "1.5"),
        ({3, 1, 20}, [1, 3, 20]),
        ({"b", 1, "a"}, [1, "a", "b"]),
        ((1, (2,)), [1, [2]]),
        ({2: "x", None: "y", True: "z"}, {"2": "x", "null": "y", "true": "z"}),
        ({1: "x", "1": "y"}, {"1": "x", "1 (str)": "y"}),
        ({(1, 2): "x"}, {"(1, 2)": "x"}),
        (MappingProxyType({"a": {2}}), {"a": [2]}),
        (Answer("t", [float("nan")]), {"text": "t", "parts": [None]}),
        (Client(), {"host": "a"}),
        (Path("a/b"), "a/b"),
        (b"x", "b'x'"),
        (ValueError("odd"), "odd"),
        (Mute(), "… (Mute)"),
        (int, "<class 'int'>"),
    ],
)
def test_each_value_has_a_form(value: Any, plain: Any) -> None:
    assert to_plain(value) == plain


def test_records_of_the_model_are_their_fields() -> None:
    assert to_plain(Message(role="user", content="hi"))["content"] == "hi"


def test_what_holds_itself_is_named() -> None:
    ring: list[Any] = [1]
    ring.append(ring)
    assert to_plain(ring) == [1, "… (list)"]
    assert to_plain([ring, ring]) == [[1, "… (list)"]] * 2


def test_what_is_nested_without_end_can_be_written() -> None:
    deep: list[Any] = []
    for _ in range(5000):
        deep = [deep]
    json.dumps(to_plain(copy_data(deep)))


@pytest.mark.slow
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
        lambda inner: (
            st.lists(inner) | st.dictionaries(st.text() | st.integers() | st.none(), inner) | st.tuples(inner)
        ),
        max_leaves=8,
    )
)
def test_anything_becomes_strict_json(value: Any) -> None:
    json.dumps(to_plain(value), allow_nan=False)


def test_copies_share_no_container_and_hand_on_the_rest() -> None:
    lock = threading.Lock()
    value = {"a": [1, {"b": lock}], "c": Answer("t", [2])}
    copy = copy_data(value)
    assert copy == {"a": [1, {"b": lock}], "c": {"text": "t", "parts": [2]}}
    assert copy["a"] is not value["a"]
    assert copy["a"][1]["b"] is lock


def test_a_file_is_replaced_whole_and_its_folder_made(tmp_path: Path) -> None:
    path = tmp_path / "new" / "a.txt"
    assert write_atomic(path, "é") == path
    assert write_atomic(str(path), "ö") == path
    assert path.read_text(encoding="utf-8") == "ö"
    assert list(path.parent.iterdir()) == [path]


def test_a_file_that_cannot_be_written_is_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old", encoding="utf-8")
    with pytest.raises(UnicodeEncodeError):
        write_atomic(path, "new \ud800")
    assert path.read_text(encoding="utf-8") == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_stays_one(tmp_path: Path) -> None:
    real, link = tmp_path / "real.txt", tmp_path / "link.txt"
    real.write_text("old", encoding="utf-8")
    link.symlink_to(real)
    write_atomic(link, "new")
    assert link.is_symlink()
    assert real.read_text(encoding="utf-8") == "new"


def test_lines_are_added_after_one_that_was_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "a" / "rows.jsonl"
    append_lines(path, [{"a": 1}, {"b": float("nan")}])
    with path.open("a", encoding="utf-8") as file:
        file.write('{"c": ')
    append_lines(path, [{"d": "\ud800"}])
    assert path.read_text(encoding="utf-8").splitlines() == [
        '{"a": 1}',
        '{"b": null}',
        '{"c": ',
        '{"d": "\\ud800"}',
    ]

"""YAML that is written is read as the same data by YAML 1.1 and by YAML 1.2."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from proctor.dialects.shared.yaml_writer import dump_yaml
from proctor.yaml12 import load

TRAPS = (
    *("yes", "No", "ON", "y", "n", "~", "null", "True", ".inf", ".nan", "=", "<<", "012", "0o7", "1_000"),
    *("1e3", ".5", "12:30", "2024-01-01", "a: b", "a:", "- a", "# a", "a #b", "? a", "---", "...", "*a"),
    *("'a'", '"a"', "|", ">", "%a", "@a", "`a`", "{a}", "[a]", ",", " a", "a ", "", " ", "\t", "\n", "a\n"),
    *("\na", " a\nb", "\ta\nb", "a\n b", "a \nb", "a\n\n b\n", "a\r\nb", "a\rb", "--- a\n---\nb", "a\n# b"),
    *("a\x85b", "a\u2028b\nc", "\ufeffa", "a\x00", "é", "日本\n語", "👤\n", "\xa0", "\ufffd", "\U0010ffff"),
    *("\U000f0000\x85\U000f0001\u2028\u2029", "\U000f0085", "a\n\n", "0x1f", "&a", "!a"),
)
CHARACTERS = st.characters(exclude_categories=["Cs"])
TEXTS = st.text(CHARACTERS, max_size=20) | st.sampled_from(TRAPS)
KEYS = TEXTS | st.text(st.characters(codec="ascii"), min_size=190, max_size=1200)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 64) - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=10,
)


def is_same_json(first: Any, second: Any) -> bool:
    """Whether two values are the same JSON, with the same types in the same order."""
    return json.dumps(first) == json.dumps(second)


@pytest.mark.slow
@given(value=VALUES, indent=st.sampled_from([0, 2, 5]))
def test_any_data_is_read_unchanged_by_either_version_of_yaml(value: Any, indent: int) -> None:
    text = dump_yaml(value, indent)
    assert is_same_json(load(text), value)
    assert is_same_json(yaml.load(text, yaml.CSafeLoader), value)


@pytest.mark.parametrize("text", TRAPS)
def test_a_text_stays_a_text_as_a_value_and_as_a_key(text: str) -> None:
    value = {text: text, "more": [text, {text: [text]}]}
    assert is_same_json(load(dump_yaml(value)), value)
    assert is_same_json(yaml.safe_load(dump_yaml(value)), value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({}, "{}\n"),
        ([], "[]\n"),
        ({"a": {}, "b": []}, "a: {}\nb: []\n"),
        ({"a": (1, 2.0)}, "a:\n  - 1\n  - 2.0\n"),
        ([{"a": 1, "b": None}, [True, "x"]], "- a: 1\n  b: null\n- - true\n  - x\n"),
        ("Don't say: yes", '"Don\'t say: yes"\n'),
        ({"text": "two\n  lines\n"}, "text: |\n  two\n    lines\n"),
        ({"text": "two\nlines"}, "text: |-\n  two\n  lines\n"),
        ({"text": "two\n\n"}, "text: |+\n  two\n\n"),
        ({"text": "  two\nlines"}, "text: |2-\n    two\n  lines\n"),
        ({"text": "two \nlines"}, 'text: "two \\nlines"\n'),
        ({"text": "What is 2 + 2?"}, "text: What is 2 + 2?\n"),
        ({"yes": "no"}, '"yes": "no"\n'),
        (1e22, "1.0e+22\n"),
        ("a\u2028\x07\U000e0001", '"a\\u2028\\x07\\U000e0001"\n'),
    ],
)
def test_yaml_is_readable(value: Any, expected: str) -> None:
    assert dump_yaml(value) == expected

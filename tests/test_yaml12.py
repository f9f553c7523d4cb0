"""YAML 1.2 texts to plain data with lines, and everything that is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.codec import encode
from proctor.yaml12 import MAX_NESTING, YamlError, YamlList, YamlMap, load


def load_error(text: str) -> YamlError:
    with pytest.raises(YamlError) as caught:
        load(text)
    assert str(caught.value).endswith(".")
    return caught.value


# --- scalars of the core schema ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(("", None), ("~", None), ("null", None), ("Null", None), ("NULL", None), ("nULL", "nULL")),
        *(("true", True), ("True", True), ("TRUE", True), ("tRUE", "tRUE")),
        *(("false", False), ("False", False), ("FALSE", False)),
        *(("yes", "yes"), ("no", "no"), ("on", "on"), ("Off", "Off"), ("y", "y"), ("N", "N")),
        *(("0", 0), ("12", 12), ("-12", -12), ("+12", 12), ("007", 7), ("0777", 777), ("-0", 0)),
        *(("0o17", 15), ("0x1F", 31), ("-0o17", "-0o17"), ("0o8", "0o8"), ("0b11", "0b11")),
        *(("1_000", "1_000"), ("1,000", "1,000"), ("12:30:45", "12:30:45"), ("190:20:30", "190:20:30")),
        *(("1.5", 1.5), (".5", 0.5), ("-.5", -0.5), ("1.", 1.0), ("1e3", 1000.0), ("+1.5E-2", 0.015)),
        *((".", "."), ("-", [None]), ("1e", "1e"), ("e3", "e3"), ("1.2.3", "1.2.3"), ("+", "+")),
        *(("2024-01-01", "2024-01-01"), ("2024-01-01T00:00:00Z", "2024-01-01T00:00:00Z")),
        *(("=", "="), ("<", "<"), ("infinity", "infinity"), ("nan", "nan")),
        *(("'12'", "12"), ('"true"', "true"), ("'null'", "null"), ('""', ""), ("|\n  12\n", "12\n")),
        *(("!!str 12", "12"), ("!!int '3'", 3), ("!!float 3", 3.0), ("!!null ''", None)),
        *(("!!bool 'true'", True), ("!!float 1.5", 1.5), ("!<tag:yaml.org,2002:int> 3", 3)),
        *(("18446744073709551615", 2**64 - 1), ("-9223372036854775808", -(2**63)), ("0" * 99 + "1", 1)),
    ],
)
def test_a_scalar_is_read_by_the_core_schema(text: str, value: Any) -> None:
    result = load(text)
    assert result == value
    assert type(result) is type(value) or isinstance(result, YamlList)


@pytest.mark.parametrize(
    "text",
    [
        *(".nan", ".NaN", ".inf", "-.inf", "+.Inf", "1e999", "-1e999"),
        *("18446744073709551616", "-9223372036854775809", "9" * 5000, "0x1" + "0" * 16, "0x" + "f" * 5000),
    ],
)
def test_a_number_that_cannot_be_written_back_is_refused(text: str) -> None:
    error = load_error(f"a: 1\nb: {text}")
    assert error.line == 2
    assert "quotes" in str(error)
    assert load(f"'{text}'") == text


@pytest.mark.parametrize(
    "text",
    [
        *(
            "!thing 1",
            "!!python/object:os.system x",
            "!!binary aGk=",
            "!!timestamp 2024-01-01",
            "!!set {a, b}",
        ),
        *("!!omap [a: 1]", "!!str [1]", "!!map [1]", "!!seq {a: 1}", "!!int x", "!!int 1.5", "!!bool 1"),
    ],
)
def test_a_tag_that_is_not_of_the_core_schema_or_does_not_fit_is_refused(text: str) -> None:
    assert load_error(f"# one\na: {text}").line == 2


# --- texts -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: |\n  x\n   y\n\n  z\n", "x\n y\n\nz\n"),
        ("a: |-\n  x\n  y\n", "x\ny"),
        ("a: >\n  x\n  y\n\n  z\n", "x y\nz\n"),
        ("a: x\n  y", "x y"),
        ("a: 'it''s'", "it's"),
        ('a: "\\x41\\u00e9\\U0001f600\\t\\n"', "Aé😀\t\n"),
        ("a: x # not this", "x"),
        ("a: x#y", "x#y"),
        ("a: 😀 é", "😀 é"),
        ("a: |\r\n  x\r\n  y\r\n", "x\ny\n"),
    ],
)
def test_texts_are_folded_and_unescaped_as_yaml_says(text: str, value: str) -> None:
    assert load(text) == {"a": value}


@pytest.mark.parametrize("character", ["\u0085", "\u2028", "\u2029"])
def test_a_character_at_which_only_yaml_1_1_broke_lines_stays_and_counts_no_line(character: str) -> None:
    result = load(f'a: "x{character}y"\nb{character}: z{character}z\nc: |\n  1{character}2\nd: 1')
    assert result == {
        "a": f"x{character}y",
        f"b{character}": f"z{character}z",
        "c": f"1{character}2\n",
        "d": 1,
    }
    assert result.lines["d"] == 5


@pytest.mark.parametrize("private", ["\U000f0000", "\U000f0001", "\U000f0085", "\U000f2028", "\U000f2029"])
def test_a_character_for_private_use_stays_also_beside_an_end_of_line(private: str) -> None:
    escaped = f"\\U{ord(private):08X}"
    result = load(f'{private}: x\u2028{private}\na: "\x85{escaped}\u2029{private}"\n')
    assert result == {private: f"x\u2028{private}", "a": f"\x85{private}\u2029{private}"}


@pytest.mark.slow
def test_a_text_of_all_characters_for_private_use_is_refused_where_one_is_needed() -> None:
    every = "".join(map(chr, range(0xF0000, 0x110000)))
    with pytest.raises(YamlError, match="all private-use characters"):
        load(f"a: {every}\x85")


def test_a_byte_order_mark_is_forgiven() -> None:
    assert load("\ufeffa: 1") == {"a": 1}


@pytest.mark.parametrize("text", ["", "\n\n", "# nothing\n", "---\n", "%YAML 1.2\n---\n"])
def test_a_text_without_a_document_is_none(text: str) -> None:
    assert load(text) is None


# --- lines -------------------------------------------------------------------------------------------------


def test_objects_and_lists_know_the_lines_of_all_that_is_in_them() -> None:
    result = load("# one\na: 1\n\nb:\n  - x\n  -\n    c: |\n      y\n      z\n    d: {e: 1,\n      f: 2}\n")
    assert isinstance(result, YamlMap)
    assert (result.line, result.lines) == (2, {"a": 2, "b": 4})
    items = result["b"]
    assert isinstance(items, YamlList)
    assert (items.line, items.lines) == (5, [5, 7])
    assert (items[1].line, items[1].lines) == (7, {"c": 7, "d": 10})
    assert items[1]["d"].lines == {"e": 10, "f": 11}


def test_an_alias_is_the_same_value_again() -> None:
    assert load("a: &x {b: [1]}\nc: *x\nd: &y hi\ne: [*y, *y]") == {
        "a": {"b": [1]},
        "c": {"b": [1]},
        "d": "hi",
        "e": ["hi", "hi"],
    }


def test_what_was_loaded_can_be_written_as_json() -> None:
    assert encode(load("a: [1, {b: null}]\nc: 1.5")) == b'{"a":[1,{"b":null}],"c":1.5}'


# --- fields ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "name"), [("1", "1"), ("yes", "yes"), ("~", "~"), ("'a b'", "a b"), ("1.50", "1.50")]
)
def test_the_name_of_a_field_is_the_text_that_is_written(key: str, name: str) -> None:
    assert load(f"{key}: x") == {name: "x"}


@pytest.mark.parametrize("text", ["a: 1\nb: 2\na: 3", "a: 1\n'a': 2\n\"a\": 3", "a: 1\n\na: 1"])
def test_a_field_that_is_written_twice_is_refused_and_both_lines_are_named(text: str) -> None:
    error = load_error(text)
    assert error.line > 1
    assert "line 1" in str(error)


def test_the_merge_key_adds_missing_fields_with_their_lines() -> None:
    result = load("base: &b {x: 1,\n  y: 1}\nc:\n  <<: *b\n  y: 2")
    assert (result["c"], result["c"].lines) == ({"x": 1, "y": 2}, {"x": 1, "y": 5})
    assert result["base"] == {"x": 1, "y": 1}
    assert load("a: &a {x: 1, z: 3}\nb: &b {x: 2, y: 2}\nc: {<<: [*a, *b]}")["c"] == {"x": 1, "z": 3, "y": 2}


@pytest.mark.parametrize(
    "text", ["a: 1\n<<: x", "a: 1\n<<: [1]", "a: 1\n<<:", "x: &x {}\n<<: *x", "<<: {}\n<<: {}"]
)
def test_a_merge_key_takes_objects_once(text: str) -> None:
    if "&x" in text:
        assert load(text) == {"x": {}}
    else:
        assert (load_error(text).line, "merge key" in str(load_error(text))) == (2, True)


def test_a_field_in_quotes_is_no_merge_key() -> None:
    assert load('"<<": {x: 1}') == {"<<": {"x": 1}}


@pytest.mark.parametrize("text", ["? [1, 2]\n: x", "? {a: 1}\n: x", "{[1]: x}"])
def test_a_field_whose_name_is_no_text_is_refused(text: str) -> None:
    assert "write text" in str(load_error(text))


# --- what is no YAML, or too much of it --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: 1\nb: [1, 2\n", 2),
        ("{", 1),
        ("a: 1\n b: 2", 2),
        ("\ta: 1", 1),
        ("a: b: c", 1),
        ("a: 'x", 1),
        ("a: @x", 1),
        ("a: *none", 1),
        ("--- 1\n--- 2", 2),
        ("é: 1\nb: \x07", 2),
        ("a: 1\nb: 2\rc: 3", 2),
        ("a: 1\nb: \ud800", 2),
        ('a: "\\ud83d\\ude00"', 1),
    ],
)
def test_invalid_yaml_is_refused_at_its_line(text: str, line: int) -> None:
    assert load_error(text).line == line


@pytest.mark.parametrize("text", ["&a [*a]", "&a {b: *a}", "a: &x\n  b:\n    - *x"])
def test_an_alias_inside_what_it_stands_for_is_refused(text: str) -> None:
    assert "alias" in str(load_error(text))


@pytest.mark.slow
def test_aliases_that_stand_for_too_much_are_refused() -> None:
    levels = [f"l{at}: &l{at} [{', '.join([f'*l{at - 1}'] * 10)}]" for at in range(1, 9)]
    bomb = "\n".join(["l0: &l0 [x]", *levels])
    assert "fewer aliases" in str(load_error(bomb))


def nested(levels: int) -> str:
    return "[" * levels + "]" * levels


def test_nesting_is_read_up_to_the_limit_and_refused_above() -> None:
    assert json.dumps(load(nested(MAX_NESTING))) == nested(MAX_NESTING)
    assert str(MAX_NESTING) in str(load_error(nested(MAX_NESTING + 1)))


def test_an_alias_cannot_nest_deeper_than_what_is_written() -> None:
    half = "a: &a " + nested(MAX_NESTING - 10)
    assert str(MAX_NESTING) in str(load_error(f"{half}\nb: {'[' * 20}*a{']' * 20}"))


@pytest.mark.parametrize("opening", ["[", "{a: ", "- ", "[{a: "])
def test_nesting_without_end_is_refused_before_the_stack_is_used_up(opening: str) -> None:
    assert str(MAX_NESTING) in str(load_error(opening * 200_000))


# --- laws --------------------------------------------------------------------------------------------------

TEXTS = st.text(
    st.characters(codec="utf-8", exclude_characters="\x7f", exclude_categories=["Cc", "Cs"]) | st.just("\n")
)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.slow
@given(VALUES)
def test_json_is_yaml_and_means_the_same(value: Any) -> None:
    assert load(json.dumps(value, ensure_ascii=False)) == value
    assert load(json.dumps({"a": [value]}, ensure_ascii=False, indent=2)) == {"a": [value]}


@given(
    st.text()
    | st.lists(
        st.sampled_from(
            [
                "a",
                ":",
                " ",
                "\n",
                "- ",
                "[",
                "]",
                "{",
                "}",
                ",",
                "&a ",
                "*a",
                "'",
                '"',
                "#",
                "|",
                "\r",
                "!!int ",
                "<<",
                "1",
            ]
        )
    ).map("".join)
)
def test_any_text_is_data_that_can_be_written_or_refused_at_one_of_its_lines(text: str) -> None:
    result = load_or_error(text)
    if isinstance(result, YamlError):
        assert 1 <= result.line <= text.count("\n") + 1
        assert str(result).endswith(".")
    else:
        encode(result)


def load_or_error(text: str) -> Any:
    try:
        return load(text)
    except YamlError as error:
        return error

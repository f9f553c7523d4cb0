"""Canonical JSON: RFC 8785's examples, its reference package, and that nothing is lost."""

from __future__ import annotations

import json
import math
import struct
from typing import Any

import msgspec
import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from proctor.errors import UsageError
from proctor.model import Assertion
from proctor.proof.canonical import canonical_json, check_canonical, parse_canonical, parse_json


class Sample(Struct, frozen=True, kw_only=True):
    """A struct with a field of each kind of float."""

    numbers: tuple[float, ...] = ()
    number: float | None = None
    pair: tuple[float, float] | None = None
    value: Any = None
    string: str = ""
    literals: list[Any] = []


# --- the standard's examples -------------------------------------------------------------------------------


def test_the_sample_of_section_3_2_2() -> None:
    sample = Sample(
        numbers=(333333333.33333329, 1e30, 4.50, 2e-3, 0.000000000000000000000000001),
        string='\u20ac$\u000f\nA\'B"\\\\"/',
        literals=[None, True, False],
    )
    assert canonical_json(sample).decode() == (
        '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
        '"string":"\u20ac$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}'
    )


def test_the_order_of_section_3_2_3() -> None:
    names = {
        "\u20ac": "Euro Sign",
        "\r": "Carriage Return",
        "\ufb33": "Hebrew Letter Dalet With Dagesh",
        "1": "One",
        "\U0001f600": "Emoji: Grinning Face",
        "\u0080": "Control",
        "\u00f6": "Latin Small Letter O With Diaeresis",
    }
    assert list(parse_json(canonical_json(names)).values()) == [
        *("Carriage Return", "One", "Control", "Latin Small Letter O With Diaeresis"),
        *("Euro Sign", "Emoji: Grinning Face", "Hebrew Letter Dalet With Dagesh"),
    ]


# Appendix B: the bits of a number, and how it is written.
NUMBERS = """
0000000000000000 0
8000000000000000 0
0000000000000001 5e-324
8000000000000001 -5e-324
7fefffffffffffff 1.7976931348623157e+308
ffefffffffffffff -1.7976931348623157e+308
4340000000000000 9007199254740992
c340000000000000 -9007199254740992
4430000000000000 295147905179352830000
44b52d02c7e14af5 9.999999999999997e+22
44b52d02c7e14af6 1e+23
44b52d02c7e14af7 1.0000000000000001e+23
444b1ae4d6e2ef4e 999999999999999700000
444b1ae4d6e2ef4f 999999999999999900000
444b1ae4d6e2ef50 1e+21
3eb0c6f7a0b5ed8c 9.999999999999997e-7
3eb0c6f7a0b5ed8d 0.000001
41b3de4355555553 333333333.3333332
41b3de4355555554 333333333.33333325
41b3de4355555555 333333333.3333333
41b3de4355555556 333333333.3333334
41b3de4355555557 333333333.33333343
becbf647612f3696 -0.0000033333333333333333
43143ff3c1cb0959 1424953923781206.2
"""


@pytest.mark.parametrize("line", NUMBERS.split("\n")[1:-1])
def test_the_numbers_of_appendix_b(line: str) -> None:
    bits, text = line.split()
    (number,) = struct.unpack(">d", bytes.fromhex(bits))
    assert canonical_json(Sample(numbers=(number,))).decode() == f'{{"numbers":[{text}]}}'


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_is_refused(number: float) -> None:
    for value in (number, Sample(number=number), [number]):
        with pytest.raises(UsageError, match="cannot store"):
            canonical_json(value)


# --- the package of that name ------------------------------------------------------------------------------

texts = st.text(st.characters(exclude_categories=["Cs"]))
keys = texts.filter(lambda key: key != "$number")
plain_floats = st.floats(allow_nan=False, allow_infinity=False).filter(lambda number: not number.is_integer())
plain = st.recursive(
    st.none() | st.booleans() | st.integers(1 - 2**53, 2**53 - 1) | plain_floats | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.slow
@given(plain)
def test_plain_data_are_written_as_the_package_writes_them(data: Any) -> None:
    assert canonical_json(data) == rfc8785.dumps(data)


@given(st.dictionaries(keys, st.none(), min_size=2))
def test_keys_are_sorted_as_the_package_sorts_them(data: dict[str, None]) -> None:
    assert canonical_json(data) == rfc8785.dumps(data)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_whose_type_a_struct_declares_is_written_as_the_package_writes_it(number: float) -> None:
    text = rfc8785.dumps(number).decode()
    assert canonical_json(Sample(numbers=(number,))).decode() == f'{{"numbers":[{text}]}}'


# --- nothing is lost ---------------------------------------------------------------------------------------

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(2**53 - 2, 2**53 + 2)
    | st.sampled_from([10**30, -(10**400), 1.0, 0.0, 1e22, -2.0])
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(texts | st.just("$number"), inner, max_size=3)
        | st.dictionaries(st.just("$number"), inner, min_size=1)
    ),
    max_leaves=12,
)


def exact(data: Any) -> Any:
    """The data with the type of each number beside it, as 1 == 1.0 == True in Python."""
    if isinstance(data, dict):
        return {key: exact(value) for key, value in data.items()}
    if isinstance(data, list):
        return [exact(value) for value in data]
    return type(data), repr(data)


@given(json_values)
def test_whatever_is_written_is_read_back_to_the_type(data: Any) -> None:
    assert exact(parse_canonical(canonical_json(data))) == exact(data)


@given(json_values, json_values)
def test_two_things_are_written_alike_only_when_they_are_the_same(value: Any, other_value: Any) -> None:
    assert (canonical_json(value) == canonical_json(other_value)) == (exact(value) == exact(other_value))


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ({"a": 1, "b": 1.0}, '{"a":1,"b":{"$number":"1.0"}}'),
        (2**53, '{"$number":"9007199254740992"}'),
        (2**53 - 1, "9007199254740991"),
        ({"$number": "1.0"}, '{"$number":{"$number":"1.0"}}'),
        ({"$number": 1, "x": 2}, '{"$number":1,"x":2}'),
    ],
)
def test_what_json_would_mix_up_is_told_apart(data: Any, text: str) -> None:
    assert canonical_json(data).decode() == text
    assert exact(parse_canonical(text.encode())) == exact(data)


def test_a_struct_leaves_out_what_is_at_its_default_however_that_was_given() -> None:
    given_otherwise = msgspec.structs.replace(Assertion(grader="exact"), weight=1, params={})
    assert (
        canonical_json(given_otherwise) == canonical_json(Assertion(grader="exact")) == b'{"grader":"exact"}'
    )


@given(st.tuples(st.floats(0, 1), st.floats(0, 1)) | st.none(), st.floats(-1, 1) | st.none(), json_values)
def test_a_struct_is_read_back_whole(pair: Any, number: float | None, data: Any) -> None:
    sample = Sample(pair=pair, number=number, value=data)
    read = msgspec.convert(parse_json(canonical_json(sample)), Sample)
    assert read == sample
    assert exact(read.value) == exact(data)
    check_canonical(read, canonical_json(sample))


def test_intervals_are_plain_numbers_in_a_struct() -> None:
    assert canonical_json(Sample(pair=(0.0, 1.0))) == b'{"pair":[0,1]}'


# --- what is not the one way -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        '{"b":1,"a":2}',
        '{"a": 1}',
        '{"a":1,"a":1}',
        '{"a":1.0}',
        '{"a":1e2}',
        '{"a":-0}',
        '{"a":01}',
        '"\\u0041"',
        '"\\/"',
        '"\\ud800"',
        '{"$number":"1"}',
        '{"$number":"1.00"}',
        '{"$number":"nan"}',
        '{"$number":"inf"}',
        '{"$number":"1_0.0"}',
        '{"$number":1}',
        '{"\\u0024number":"1.0"}',
        '{"$number":"' + "1" * 5000 + '"}',
        "9007199254740993",
        "1e999",
        "NaN",
        "-Infinity",
        "[1,]",
        "",
        "[" * 100_000,
        "\ufeff1",
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_canonical(text.encode("utf-8", "surrogatepass"))


def test_bytes_that_are_no_utf8_are_refused() -> None:
    for line in (b'"\xff"', '{"a":1}'.encode("utf-16")):
        with pytest.raises(ValueError, match="codec"):
            parse_canonical(line)


@pytest.mark.parametrize(
    "thing", ["\ud800", {"\ud800": 1, "é": 2}, 10**5000], ids=["half a character", "half a key", "too long"]
)
def test_what_no_json_can_hold_is_a_sentence(thing: Any) -> None:
    with pytest.raises(UsageError, match="Leave out its case"):
        canonical_json(thing)


def nested(levels: int, inner: Any = 1) -> Any:
    for level in range(levels):
        inner = [inner] if level % 2 else {"a": inner}
    return inner


@pytest.mark.parametrize("levels", [101, 320, 5000])
def test_what_is_nested_too_deeply_is_a_sentence(levels: int) -> None:
    with pytest.raises(UsageError, match="nested too deeply, in more than 100 levels"):
        canonical_json(nested(levels))


def test_as_many_levels_as_are_written_are_read() -> None:
    deep = nested(98, ["[" * 200, '"[{' * 200, "\\"])
    wide = [nested(99)] * 200
    assert parse_canonical(canonical_json(deep)) == deep
    assert parse_canonical(canonical_json(wide)) == wide
    with pytest.raises(ValueError, match="nested too deeply"):
        parse_canonical(b"[" * 101 + b"]" * 101)


def test_a_text_of_nothing_but_lists_is_refused_before_it_is_read() -> None:
    with pytest.raises(ValueError, match="more than 1,000,000 lists"):
        parse_canonical(b"[" + b",".join([b"[]"] * 1_000_001) + b"]")


@pytest.mark.parametrize("count", [0, 1, 4096, 4097, 8192, 10_000])
def test_a_long_list_is_written_like_a_short_one(count: int) -> None:
    names = [f"case {number}" for number in range(count)]
    assert canonical_json(names) == json.dumps(names, separators=(",", ":")).encode()

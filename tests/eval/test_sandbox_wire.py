"""Values as bytes and back: plain ones arrive as they were, and bytes of any kind make nothing else."""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict, deque
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.eval.sandbox.calls import CallChannel
from proctor.eval.sandbox.wire import MAX_ITEMS, NotPlain, ValueReader, ValueWriter


def pack_value(value: Any) -> bytes:
    writer = ValueWriter(CallChannel(-1, -1))
    writer.write(value)
    return bytes(writer.parts)


def unpack_value(content: bytes) -> Any:
    return ValueReader(content, CallChannel(-1, -1)).read_value()


PLAIN = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary()
    | st.complex_numbers(allow_nan=False) | st.builds(range, st.integers(-9, 9), st.integers(-9, 9))
    | st.decimals(allow_nan=False) | st.fractions() | st.datetimes() | st.dates() | st.timedeltas()
    | st.binary().map(bytearray)
)  # fmt: skip
VALUES = st.recursive(
    PLAIN,
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.lists(inner).map(deque)
        | st.dictionaries(st.text(), inner)
        | st.sets(st.integers() | st.text())
        | st.frozensets(st.text())
        | st.text().map(Counter)
    ),
    max_leaves=20,
)


@pytest.mark.slow
@given(VALUES)
def test_plain_values_arrive_as_they_were(value: object) -> None:
    arrived = unpack_value(pack_value(value))
    assert (arrived, type(arrived)) == (value, type(value))


@pytest.mark.parametrize(
    "value",
    [
        Decimal("1.10"), Fraction(1, 3), date(2026, 3, 1), time(3), timedelta(3, 4, 5), deque([1], maxlen=2),
        datetime(2026, 3, 1, tzinfo=UTC), OrderedDict(b=1, a=2), defaultdict(int, {1: 2}), -0.0, float("inf"),
        -(2**70), "\ud800", {None: 1, (1, 2): [3]}, {"a": 1}.keys(), {"a": 1}.items(), int, ValueError,
    ],
    ids=repr,
)  # fmt: skip
def test_so_do_rarer_ones(value: object) -> None:
    arrived = unpack_value(pack_value(value))
    assert (arrived, type(arrived), repr(arrived)) == (value, type(value), repr(value))


def test_what_stands_in_several_places_is_one_thing_there_too() -> None:
    inner: list[object] = []
    outer = deque([inner])
    inner.append(outer)
    first, second, third = unpack_value(pack_value((inner, outer, {"a": inner})))
    assert first[0] is second
    assert second[0] is third["a"] is first


@pytest.mark.slow
@given(st.binary(max_size=60) | VALUES.map(lambda value: pack_value(value)[:-1]))
def test_bytes_of_a_hostile_writer_make_a_plain_value_or_a_value_error(content: bytes) -> None:
    with suppress(ValueError):
        pack_value(unpack_value(content))


def test_iterators_cross_as_their_items_and_objects_do_not() -> None:
    for value in (object(), [object()], iter([object()])):
        with pytest.raises(NotPlain, match="a value of type object"):
            pack_value(value)
    assert list(unpack_value(pack_value(map(str, [1, 2])))) == ["1", "2"]
    assert list(unpack_value(pack_value({"a": 1}.values()))) == [1]
    with pytest.raises(RuntimeError, match="Only the first 10,000 items"):
        list(unpack_value(pack_value(iter(range(MAX_ITEMS + 1)))))


def test_what_derives_from_a_plain_value_becomes_plain() -> None:
    class Liar(int):
        def __eq__(self, _: object) -> bool:
            return True

        __hash__ = int.__hash__

    class Own(list[int]):
        pass

    assert unpack_value(pack_value(Liar(3))) != 4
    assert type(unpack_value(pack_value(Own([1])))) is list

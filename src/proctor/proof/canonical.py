"""Canonical JSON of records and plain data, the bytes that are signed.

JSON by RFC 8785 (JSON Canonicalization Scheme), https://www.rfc-editor.org/rfc/rfc8785, which distinguishes
neither 1 from 1.0 nor whole numbers beyond 2**53. If no field type tells them apart, ``{"$number": "1.0"}``
is written instead, and an object with `$number` as its only key becomes the value of another such object.
Fields of a record at their defaults are left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache
from json.encoder import encode_basestring as _string
from typing import Any, get_args

import msgspec

from proctor.errors import UsageError

_NUMBER = "$number"
_EXACT_LIMIT = 2**53
_MAX_DIGITS = 4300
"""Python itself refuses to read more digits."""
_MAX_DEPTH = 100
"""The maximum nesting; any stack has room for it, so that every machine can read every bundle."""
_TOO_DEEP = f"it is nested too deeply, in more than {_MAX_DEPTH} levels"
_MAX_CONTAINERS = 1_000_000
"""An empty list takes two bytes in a file and fifty in memory."""
_JOINED_ITEMS = 4096
"""The number of items of a list that are written at once."""
_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"')
_BRACKET = re.compile(r"[\[\]{}]")


def canonical_json(thing: Any) -> bytes:
    """Returns the canonical JSON of a record or plain data, in UTF-8 without a line end.

    Raises:
        UsageError: JSON cannot hold it: it is nested too deeply, or has a lone surrogate, NaN or infinity.
    """
    try:
        return _encode(thing)
    except ValueError as error:
        raise UsageError(f"A bundle cannot store a value of this run: {error}. Leave out its case.") from None


def parse_canonical(line: bytes) -> Any:
    """Parses canonical JSON to plain data.

    Raises:
        ValueError: the bytes are not canonical, as with a duplicate key or a space, or hold more lists and
            objects than any bundle.
    """
    if line.count(b"[") + line.count(b"{") > _MAX_CONTAINERS:
        raise ValueError(f"it has more than {_MAX_CONTAINERS:,} lists and objects")
    data = parse_json(line)
    check_canonical(data, line)
    return data


def parse_json(line: bytes) -> Any:
    """Parses JSON without checking that it is canonical; call `check_canonical` afterwards.

    Raises:
        ValueError: the bytes are not JSON, or contain an invalid number.
    """
    try:
        data = _READER.decode(line.decode("utf-8"))
        # Whoever writes the key in another way has not written it in the one way.
        return _restore_numbers(data) if b'"$number"' in line else data
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None


def check_canonical(thing: Any, line: bytes) -> None:
    """Checks that bytes are the canonical JSON of a record or plain data.

    Raises:
        ValueError: they are not; the text is a clause.
    """
    if _encode(thing) != line:
        raise ValueError("it is not canonical JSON (RFC 8785)")


# --- writing -----------------------------------------------------------------------------------------------


def _encode(thing: Any) -> bytes:
    try:
        text = _write(thing)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    if text.count("[") + text.count("{") > _MAX_DEPTH:
        _check_depth(text)
    return text.encode("utf-8")


def _check_depth(text: str) -> None:
    depth = 0
    for bracket in _BRACKET.findall(_STRING.sub("", text)):
        depth += 1 if bracket in "[{" else -1
        if depth > _MAX_DEPTH:
            raise ValueError(_TOO_DEEP)


def _write(thing: Any) -> str:
    write = _WRITERS.get(type(thing))
    if write is not None:
        return write(thing)
    if isinstance(thing, msgspec.Struct):
        return _write_record(thing)
    return _write(msgspec.to_builtins(thing))


def _write_record(noun: msgspec.Struct) -> str:
    pairs = []
    for name, label, default, write in _fields(type(noun)):
        value = getattr(noun, name)
        if value is default:
            continue
        if value == default and (type(value) is type(default) or write is _write_floats):
            continue
        pairs.append(label + write(value))
    return f"{{{','.join(pairs)}}}"


@cache
def _fields(kind: type[msgspec.Struct]) -> tuple[tuple[str, str, Any, Callable[[Any], str]], ...]:
    """Returns the sorted fields of a record: name, encoded name, default, and the writer of its values."""
    fields = []
    for field in sorted(msgspec.structs.fields(kind), key=lambda field: field.name):
        has_factory = field.default_factory is not msgspec.NODEFAULT
        default = field.default_factory() if has_factory else field.default
        write = _write_floats if _holds_floats(field.type) else _write
        fields.append((field.name, f"{_string(field.name)}:", default, write))
    return tuple(fields)


def _holds_floats(kind: Any) -> bool:
    """Returns whether all numbers in a field of that type are read as floats."""
    return float in _leaf_types(kind) and _leaf_types(kind) <= {float, type(None), ...}


def _leaf_types(kind: Any) -> set[Any]:
    """Returns the innermost types of a union, a tuple or a list."""
    inner = get_args(kind)
    return {kind} if not inner else set().union(*(_leaf_types(argument) for argument in inner))


def _write_floats(value: Any) -> str:
    """Writes a value of a field of floats, in which numbers need no type."""
    if isinstance(value, tuple | list):
        return f"[{','.join(map(_write_floats, value))}]"
    return "null" if value is None else _write_plain_float(float(value))


def _write_plain_float(value: float) -> str:
    """Writes a number as ECMAScript does, as required by RFC 8785, section 3.2.2.3.

    Python chooses the same digits, and writes them in the same way unless there is an exponent.
    """
    text = repr(value)
    if "e" in text or "n" in text:
        import rfc8785

        return rfc8785.dumps(value).decode()
    return text.removesuffix(".0") if value else "0"


def _write_float(value: float) -> str:
    return _write_number_object(repr(value)) if value.is_integer() else _write_plain_float(value)


def _write_int(value: int) -> str:
    if -_EXACT_LIMIT < value < _EXACT_LIMIT:
        return str(value)
    if abs(value) >= 10**_MAX_DIGITS:
        raise ValueError(f"a number has more than {_MAX_DIGITS} digits")
    return _write_number_object(str(value))


def _write_number_object(text: str) -> str:
    return f'{{"{_NUMBER}":"{text}"}}'


def _write_list(values: Any) -> str:
    if len(values) <= _JOINED_ITEMS:
        return f"[{','.join(map(_write, values))}]"
    # `join` holds the texts of all items at once.
    starts = range(0, len(values), _JOINED_ITEMS)
    parts = [",".join(map(_write, values[start : start + _JOINED_ITEMS])) for start in starts]
    return f"[{','.join(parts)}]"


def _write_object(values: dict[str, Any]) -> str:
    """Writes an object with keys sorted by their UTF-16 code units (RFC 8785, section 3.2.3)."""
    keys = sorted(values)
    if not "".join(keys).isascii():
        keys.sort(key=lambda key: key.encode("utf-16-be"))
    text = f"{{{','.join([f'{_string(key)}:{_write(values[key])}' for key in keys])}}}"
    return f'{{"{_NUMBER}":{text}}}' if keys == [_NUMBER] else text


_WRITERS: dict[type, Callable[[Any], str]] = {
    str: _string,
    dict: _write_object,
    list: _write_list,
    tuple: _write_list,
    float: _write_float,
    int: _write_int,
    bool: lambda value: "true" if value else "false",
    type(None): lambda _value: "null",
}


# --- reading -----------------------------------------------------------------------------------------------


def _refuse_constant(constant: str) -> Any:
    raise ValueError(f"{constant} is not a number")


_READER = json.JSONDecoder(parse_constant=_refuse_constant)


def _restore_numbers(data: Any) -> Any:
    if isinstance(data, dict):
        if list(data) != [_NUMBER]:
            return {key: _restore_numbers(value) for key, value in data.items()}
        number = data[_NUMBER]
        if isinstance(number, dict):
            return {key: _restore_numbers(value) for key, value in number.items()}
        return _read_number(number)
    if isinstance(data, list):
        return [_restore_numbers(element) for element in data]
    return data


def _read_number(text: Any) -> int | float:
    if not isinstance(text, str) or len(text) > _MAX_DIGITS + 1:
        raise ValueError(f"{_NUMBER!r} has no number")
    return float(text) if set(text) & set(".en") else int(text)

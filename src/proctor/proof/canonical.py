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
_EXACT = 2**53
_LONGEST_NUMBER = 4300
"""Python itself refuses to read more digits."""
_DEEPEST = 100
"""The maximum nesting; any stack has room for it, so that every machine can read every bundle."""
_NESTED = f"it is nested too deeply, in more than {_DEEPEST} levels"
_MOST_PARTS = 1_000_000
"""An empty list takes two bytes in a file and fifty in memory."""
_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"')
_BRACKET = re.compile(r"[\[\]{}]")


def canonical(thing: Any) -> bytes:
    """Returns the canonical JSON of a record or plain data, in UTF-8 without a line end.

    Raises:
        UsageError: JSON cannot hold it: it is nested too deeply, or has a lone surrogate, NaN or infinity.
    """
    try:
        return _to_plain_data(thing)
    except ValueError as error:
        raise UsageError(f"A bundle cannot hold a value of this run: {error}. Leave its case out.") from None


def parsed(line: bytes) -> Any:
    """Parses canonical JSON to plain data.

    Raises:
        ValueError: the bytes are not canonical, as with a duplicate key or a space, or hold more lists and
            objects than any bundle.
    """
    if line.count(b"[") + line.count(b"{") > _MOST_PARTS:
        raise ValueError(f"it has more than {_MOST_PARTS:,} lists and objects")
    data = data_of(line)
    check_same(data, line)
    return data


def data_of(line: bytes) -> Any:
    """Parses JSON without checking that it is canonical; call `check_same` afterwards.

    Raises:
        ValueError: the bytes are not JSON, or contain an invalid number.
    """
    try:
        data = _READER.decode(line.decode("utf-8"))
        # Whoever writes the key in another way has not written it in the one way.
        return _restored(data) if b'"$number"' in line else data
    except RecursionError:
        raise ValueError(_NESTED) from None


def check_same(thing: Any, line: bytes) -> None:
    """Checks that bytes are the canonical JSON of a record or plain data.

    Raises:
        ValueError: they are not; the text is a clause.
    """
    if _to_plain_data(thing) != line:
        raise ValueError("it is not canonical JSON (RFC 8785) of what it says")


# --- writing -----------------------------------------------------------------------------------------------


def _to_plain_data(thing: Any) -> bytes:
    try:
        text = _text(thing)
    except RecursionError:
        raise ValueError(_NESTED) from None
    if text.count("[") + text.count("{") > _DEEPEST:
        _check_depth(text)
    return text.encode("utf-8")


def _check_depth(text: str) -> None:
    depth = 0
    for bracket in _BRACKET.findall(_STRING.sub("", text)):
        depth += 1 if bracket in "[{" else -1
        if depth > _DEEPEST:
            raise ValueError(_NESTED)


def _text(thing: Any) -> str:
    write = _WRITERS.get(type(thing))
    if write is not None:
        return write(thing)
    if isinstance(thing, msgspec.Struct):
        return _noun(thing)
    return _text(msgspec.to_builtins(thing))


def _noun(noun: msgspec.Struct) -> str:
    pairs = []
    for name, label, default, write in _fields(type(noun)):
        value = getattr(noun, name)
        if value is default:
            continue
        if value == default and (type(value) is type(default) or write is _typed):
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
        write = _typed if _is_of_floats(field.type) else _text
        fields.append((field.name, f"{_string(field.name)}:", default, write))
    return tuple(fields)


def _is_of_floats(kind: Any) -> bool:
    """Returns whether all numbers in a field of that type are read as floats."""
    return float in _leaves(kind) and _leaves(kind) <= {float, type(None), ...}


def _leaves(kind: Any) -> set[Any]:
    """Returns the innermost types of a union, a tuple or a list."""
    inner = get_args(kind)
    return {kind} if not inner else set().union(*(_leaves(argument) for argument in inner))


def _typed(value: Any) -> str:
    """Writes a value of a field of floats, in which numbers need no type."""
    if isinstance(value, tuple | list):
        return f"[{','.join(map(_typed, value))}]"
    return "null" if value is None else _plain_float(float(value))


def _plain_float(value: float) -> str:
    """Writes a number as ECMAScript does, as required by RFC 8785, section 3.2.2.3.

    Python chooses the same digits, and writes them in the same way unless there is an exponent.
    """
    text = repr(value)
    if "e" in text or "n" in text:
        import rfc8785

        return rfc8785.dumps(value).decode()
    return text.removesuffix(".0") if value else "0"


def _float(value: float) -> str:
    return _numbered(repr(value)) if value.is_integer() else _plain_float(value)


def _int(value: int) -> str:
    return str(value) if -_EXACT < value < _EXACT else _numbered(_digits(value))


def _digits(value: int) -> str:
    if abs(value) >= 10**_LONGEST_NUMBER:
        raise ValueError(f"a number has more than {_LONGEST_NUMBER} digits")
    return str(value)


def _numbered(text: str) -> str:
    return f'{{"{_NUMBER}":"{text}"}}'


def _list(values: Any) -> str:
    return f"[{','.join(map(_text, values))}]"


def _object(values: dict[str, Any]) -> str:
    """Writes an object with keys sorted by their UTF-16 code units (RFC 8785, section 3.2.3)."""
    keys = sorted(values)
    if not "".join(keys).isascii():
        keys.sort(key=lambda key: key.encode("utf-16-be"))
    text = f"{{{','.join([f'{_string(key)}:{_text(values[key])}' for key in keys])}}}"
    return f'{{"{_NUMBER}":{text}}}' if keys == [_NUMBER] else text


_WRITERS: dict[type, Callable[[Any], str]] = {
    str: _string,
    dict: _object,
    list: _list,
    tuple: _list,
    float: _float,
    int: _int,
    bool: lambda value: "true" if value else "false",
    type(None): lambda _value: "null",
}


# --- reading -----------------------------------------------------------------------------------------------


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no number")


_READER = json.JSONDecoder(parse_constant=_refuse)


def _restored(data: Any) -> Any:
    if isinstance(data, dict):
        if list(data) != [_NUMBER]:
            return {key: _restored(value) for key, value in data.items()}
        number = data[_NUMBER]
        if isinstance(number, dict):
            return {key: _restored(value) for key, value in number.items()}
        return _number(number)
    if isinstance(data, list):
        return [_restored(element) for element in data]
    return data


def _number(text: Any) -> int | float:
    if not isinstance(text, str) or len(text) > _LONGEST_NUMBER + 1:
        raise ValueError(f"{_NUMBER!r} has no number")
    return float(text) if set(text) & set(".en") else int(text)

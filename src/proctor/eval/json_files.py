"""Converts any values to JSON, and writes files atomically."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from math import isfinite
from numbers import Integral, Real
from pathlib import Path
from typing import Any

_MAX_DEPTH = 200
"""Values nested deeper are replaced by the name of their type; JSON readers fail not far beyond."""


def to_plain(value: Any, _within: tuple[int, ...] = ()) -> Any:
    """Returns the value as JSON can hold it; never raises.

    NaN and infinities become null, sets sorted lists, numpy's numbers and arrays numbers and lists, and
    records (of dataclasses and msgspec, and any object with attributes) objects of their fields; all else
    becomes text. A value that contains itself, or is nested too deep, becomes the name of its type.
    """
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, Real):
        return _to_number(value)
    if id(value) in _within or len(_within) >= _MAX_DEPTH:
        return f"… ({type(value).__name__})"
    within = (*_within, id(value))
    if isinstance(value, Mapping):
        return _to_object(value.items(), within)
    if isinstance(value, list | tuple):
        return [to_plain(item, within) for item in value]
    if isinstance(value, set | frozenset):
        return [to_plain(item, within) for item in _sort_items(value)]
    contents = _get_contents(value)
    if contents is None:
        return to_text(value)
    return _to_object(contents.items(), within) if isinstance(contents, dict) else to_plain(contents, within)


def copy_data(value: Any, _within: tuple[int, ...] = ()) -> Any:
    """Returns the value with lists, tuples and dictionaries copied, and dataclasses as dictionaries.

    NaN and infinities become None, which JSON can hold. All other values stay as they are, so that locks,
    clients and generators do no harm; so do values that contain themselves or are nested too deep.
    """
    if isinstance(value, float) and not isfinite(value):
        return None
    if id(value) in _within or len(_within) >= _MAX_DEPTH:
        return value
    within = (*_within, id(value))
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: copy_data(getattr(value, field.name), within) for field in fields(value)}
    if type(value) is dict:
        return {key: copy_data(item, within) for key, item in value.items()}
    if type(value) is list or type(value) is tuple:
        return type(value)(copy_data(item, within) for item in value)
    return value


def write_atomic(path: str | Path, text: str) -> Path:
    """Writes a UTF-8 file atomically, and returns its path; missing folders are made.

    Raises:
        OSError: the file cannot be written; an older file is then unchanged.
    """
    import os

    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.exists() and not target.is_file():  # a pipe or a device: nothing that could be replaced
        target.write_text(text, encoding="utf-8")
        return target
    real = target.resolve()
    part = real.with_name(f".{os.urandom(6).hex()}.part")
    try:
        with part.open("x", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        part.replace(real)
    finally:
        part.unlink(missing_ok=True)
    return target


def append_lines(path: str | Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Adds rows to a file of JSON Lines, in UTF-8; a last line that a crash cut off is ended first.

    The file is closed again, so that its content outlives this process. Missing folders are made.

    Raises:
        OSError: the file cannot be written.
    """
    import json

    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(to_plain(row), ensure_ascii=True) + "\n" for row in rows)
    with target.open("ab+") as file:
        if file.tell():
            file.seek(-1, 2)
            if file.read(1) != b"\n":
                text = "\n" + text
        file.write(text.encode("ascii"))


def _to_number(value: Real) -> int | float | None:
    if isinstance(value, Integral):
        return int(value)
    try:
        number = float(value)
    except (OverflowError, ValueError):
        return None
    return number if isfinite(number) else None


def _to_object(items: Iterable[tuple[Any, Any]], within: tuple[int, ...]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, item in items:
        name = key if isinstance(key, str) else _to_key(key)
        result[name if name not in result else f"{name} ({type(key).__name__})"] = to_plain(item, within)
    return result


def _to_key(key: Any) -> str:
    """Returns a key that is not a text in the spelling of JSON, if it has one."""
    if key is None or isinstance(key, bool):
        return {None: "null", True: "true", False: "false"}[key]
    return to_text(key)


def _sort_items(values: set[Any] | frozenset[Any]) -> list[Any]:
    try:
        return sorted(values)
    except TypeError:
        return sorted(values, key=lambda value: (type(value).__name__, to_text(value)))


def _get_contents(value: Any) -> Any:
    """Returns the contents of a record or an array; None for a value that has only a text."""
    if isinstance(value, type):
        return None
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    names = getattr(type(value), "__struct_fields__", None)
    if isinstance(names, tuple):
        return {name: getattr(value, name) for name in names}
    if callable(getattr(type(value), "tolist", None)):
        return value.tolist()
    return getattr(value, "__dict__", None) or None


def to_text(value: Any) -> str:
    """Returns the `str` of a value, or the name of its type if `str` fails."""
    try:
        return str(value)
    except Exception:  # noqa: BLE001  # of a foreign __str__; a dump must not fail
        return f"… ({type(value).__name__})"

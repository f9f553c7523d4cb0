"""Records to JSON, to cells and to files: whatever is in them, and whole or not at all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from math import isfinite
from numbers import Integral, Real
from pathlib import Path
from typing import Any

DEEPEST = 200
"""Values nested deeper than this are named and not written; JSON's own readers end not far beyond."""


def plain(value: Any, _within: tuple[int, ...] = ()) -> Any:
    """The value as what JSON can say, and never an error.

    NaN and infinities become null, sets sorted lists, numpy's numbers and arrays numbers and lists, and
    records (of dataclasses and msgspec, and any object with attributes) objects of their fields; all else
    becomes text. Where a value holds itself, or is nested too deep, its kind is named.
    """
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, Real):
        return _number(value)
    if id(value) in _within or len(_within) >= DEEPEST:
        return f"… ({type(value).__name__})"
    within = (*_within, id(value))
    if isinstance(value, Mapping):
        return _object(value.items(), within)
    if isinstance(value, list | tuple):
        return [plain(item, within) for item in value]
    if isinstance(value, set | frozenset):
        return [plain(item, within) for item in _sorted(value)]
    held = _held(value)
    if held is None:
        return text_of(value)
    return _object(held.items(), within) if isinstance(held, dict) else plain(held, within)


def copied(value: Any, _within: tuple[int, ...] = ()) -> Any:
    """The value with its lists, tuples and dictionaries copied and its dataclasses as dictionaries.

    NaN and infinities become None, which JSON can say. Anything else is handed on as it is, so that locks,
    clients and generators are no obstacle; and so is what holds itself, or is nested too deep.
    """
    if isinstance(value, float) and not isfinite(value):
        return None
    if id(value) in _within or len(_within) >= DEEPEST:
        return value
    within = (*_within, id(value))
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: copied(getattr(value, field.name), within) for field in fields(value)}
    if type(value) is dict:
        return {key: copied(item, within) for key, item in value.items()}
    if type(value) is list or type(value) is tuple:
        return type(value)(copied(item, within) for item in value)
    return value


def write_whole(path: str | Path, text: str) -> Path:
    """Write a UTF-8 file that is there whole or not at all, and give its path; missing folders are made.

    Raises:
        OSError: it cannot be written; an older file is then as it was.
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
    """Add rows to a file of JSON Lines, in UTF-8; a last line that a crash cut off is ended first.

    The file is closed again, so that what is written outlives this process. Missing folders are made.

    Raises:
        OSError: it cannot be written.
    """
    import json

    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(plain(row), ensure_ascii=True) + "\n" for row in rows)
    with target.open("ab+") as file:
        if file.tell():
            file.seek(-1, 2)
            if file.read(1) != b"\n":
                text = "\n" + text
        file.write(text.encode("ascii"))


def _number(value: Real) -> int | float | None:
    if isinstance(value, Integral):
        return int(value)
    try:
        number = float(value)
    except (OverflowError, ValueError):
        return None
    return number if isfinite(number) else None


def _object(items: Iterable[tuple[Any, Any]], within: tuple[int, ...]) -> dict[str, Any]:
    written: dict[str, Any] = {}
    for key, item in items:
        name = key if isinstance(key, str) else _key(key)
        written[name if name not in written else f"{name} ({type(key).__name__})"] = plain(item, within)
    return written


def _key(key: Any) -> str:
    """A key that is no text, as JSON writes it where it can."""
    if key is None or isinstance(key, bool):
        return {None: "null", True: "true", False: "false"}[key]
    return text_of(key)


def _sorted(values: set[Any] | frozenset[Any]) -> list[Any]:
    try:
        return sorted(values)
    except TypeError:
        return sorted(values, key=lambda value: (type(value).__name__, text_of(value)))


def _held(value: Any) -> Any:
    """What a record or an array holds; None of what only has a text."""
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


def text_of(value: Any) -> str:
    """What `str` says, or the kind of a value that it fails on."""
    try:
        return str(value)
    except Exception:  # noqa: BLE001  # somebody else's __str__, and a dump must not fail by it
        return f"… ({type(value).__name__})"

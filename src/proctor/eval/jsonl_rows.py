"""Reads files of JSON Lines; lines that cannot be used are left out and listed with their reasons.

Also reads what tools for exported runs of Proctor share.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

Number = TypeVar("Number", int, float)

BOM = "\ufeff"
_UTF_16_MARKS = ("\udcff\udcfe", "\udcfe\udcff")
"""The start of such a file, as `surrogateescape` reads it."""


@dataclass(frozen=True, slots=True)
class DroppedRow:
    """A line that was left out."""

    line: int
    """From 1."""
    reason: str
    """The reason, as a sentence."""


def read_rows(path: str | Path, dropped: list[DroppedRow]) -> Iterator[tuple[int, Any]]:
    """Yields the JSON values of a file with their line numbers; lines that are not JSON go to `dropped`.

    A file that is one JSON list is read as its items, each with its place in the list. A byte order mark,
    CRLF and blank lines are allowed. Memory holds one line at a time, except for a list.

    Args:
        path: the file, in UTF-8.
        dropped: lines that are left out are appended here while the file is read.

    Raises:
        OSError: the file cannot be read.
    """
    with Path(path).open(encoding="utf-8", errors="surrogateescape", newline="\n") as file:
        is_first = True
        for number, text in enumerate(file, 1):
            if number == 1 and text.startswith(_UTF_16_MARKS):
                dropped.append(DroppedRow(1, "The file is UTF-16. Save it as UTF-8."))
                return
            line = (text.removeprefix(BOM) if number == 1 else text).strip()
            if not line:
                continue
            if is_first and _begins_list(line):
                yield from _read_list(line + file.read(), dropped)
                return
            is_first = False
            try:
                line.encode("utf-8")
                yield number, json.loads(line)
            except UnicodeEncodeError:
                dropped.append(DroppedRow(number, "The line is not UTF-8."))
            except (ValueError, RecursionError) as error:
                dropped.append(DroppedRow(number, f"The line is not JSON: {error}."))


def read_object_rows(path: str | Path, dropped: list[DroppedRow]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields the objects of a file as `read_rows`; other values go to `dropped` too."""
    for number, row in read_rows(path, dropped):
        if isinstance(row, dict):
            yield number, row
        else:
            dropped.append(DroppedRow(number, "The line is JSON, but not an object."))


def read_single_object(path: str | Path) -> dict[str, Any] | None:
    """Reads a file that is one object, on one line or several; returns None if it is anything else.

    Raises:
        OSError: the file cannot be read.
    """
    with Path(path).open(encoding="utf-8-sig") as file, suppress(ValueError, RecursionError):
        first = next((line for line in file if line.strip()), "")
        if first.lstrip().startswith("{"):
            try:
                value = json.loads(first)
            except ValueError:
                value = json.loads(first + file.read())
            return None if any(map(str.strip, file)) else value
    return None


def flatten_trials(runs: list[Any]) -> list[Any]:
    """Returns the trials of exported runs, one run after the other."""
    trial_lists = (run.get("trials") for run in runs if isinstance(run, dict))
    return [trial for trials in trial_lists if isinstance(trials, list) for trial in trials]


def register_trial(trial: Mapping[str, Any], trials: set[tuple[str, ...]]) -> None:
    """Adds a trial of an exported run to the known trials; a trial without a repeat number is always new.

    Raises:
        ValueError: the trial is known already.
    """
    if not isinstance(trial.get("repeat"), int):
        return
    key = tuple(str(trial.get(name)) for name in ("run", "target", "case_id", "repeat"))
    if key in trials:
        raise ValueError(
            f"Repeat {key[3]} of case {key[2]!r} of this run appears twice; the first one counts."
        )
    trials.add(key)


def parse_number(value: Any, kind: type[Number]) -> Number | None:
    """Returns a value of a row as a number, also one written as a text; None if it is not a number."""
    try:
        return kind(value)
    except (TypeError, ValueError, OverflowError):
        return None


def describe_value(value: Any) -> str:
    """Describes a value for a message: a list or an object by its kind, anything else by a short repr."""
    if isinstance(value, list | tuple | Mapping):
        return "an object" if isinstance(value, Mapping) else "a list"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def _begins_list(line: str) -> bool:
    """Whether a list of objects begins here; a line with a complete list of other values is a normal row."""
    if not line.startswith("["):
        return False
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return line[1:].lstrip()[:1] in ("", "{")
    return bool(value) and isinstance(value, list) and all(isinstance(item, dict) for item in value)


def _read_list(text: str, dropped: list[DroppedRow]) -> Iterator[tuple[int, Any]]:
    try:
        text.encode("utf-8")
        yield from enumerate(json.loads(text), 1)
    except UnicodeEncodeError:
        dropped.append(DroppedRow(1, "The file is not UTF-8."))
    except (ValueError, RecursionError) as error:
        dropped.append(DroppedRow(1, f"The file starts like a JSON list but is not one: {error}."))

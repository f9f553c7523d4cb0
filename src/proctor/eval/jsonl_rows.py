"""Files of JSON Lines to rows, for tools that go on past a line that they cannot use, and say which.

Also what tools that read exported runs of Proctor share.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BOM = "\ufeff"
_UTF_16 = ("\udcff\udcfe", "\udcfe\udcff")
"""How such a file begins, as `surrogateescape` reads it."""


@dataclass(frozen=True, slots=True)
class DroppedRow:
    """A line that was left out."""

    line: int
    """From 1."""
    reason: str
    """Why, as a sentence."""


def rows_of(path: str | Path, dropped: list[DroppedRow]) -> Iterator[tuple[int, Any]]:
    """The JSON values of a file with their lines, from 1; lines that are not JSON are added to `dropped`.

    A file that is one JSON list is read as its items, each with its place in the list. A byte order mark,
    CRLF and blank lines are forgiven. Memory holds one line at a time, except for a list.

    Args:
        path: the file, in UTF-8.
        dropped: what is left out is appended here while the file is read.

    Raises:
        OSError: the file cannot be read.
    """
    with Path(path).open(encoding="utf-8", errors="surrogateescape", newline="\n") as file:
        first = True
        for number, written in enumerate(file, 1):
            if number == 1 and written.startswith(_UTF_16):
                dropped.append(DroppedRow(1, "The file is UTF-16. Save it as UTF-8."))
                return
            line = (written.removeprefix(BOM) if number == 1 else written).strip()
            if not line:
                continue
            if first and _begins_list(line):
                yield from _listed(line + file.read(), dropped)
                return
            first = False
            try:
                line.encode("utf-8")
                yield number, json.loads(line)
            except UnicodeEncodeError:
                dropped.append(DroppedRow(number, "The line is not UTF-8."))
            except (ValueError, RecursionError) as error:
                dropped.append(DroppedRow(number, f"The line is not JSON: {error}."))


def objects_of(path: str | Path, dropped: list[DroppedRow]) -> Iterator[tuple[int, dict[str, Any]]]:
    """As `rows_of`, with what is not an object dropped too."""
    for number, row in rows_of(path, dropped):
        if isinstance(row, dict):
            yield number, row
        else:
            dropped.append(DroppedRow(number, "The line is JSON, and not an object."))


def object_of(path: str | Path) -> dict[str, Any] | None:
    """The object that a file is as a whole, on one line or several; None where it is anything else.

    Raises:
        OSError: the file cannot be read.
    """
    with Path(path).open(encoding="utf-8-sig") as file, suppress(ValueError, RecursionError):
        first = next((line for line in file if line.strip()), "")
        if first.lstrip().startswith("{"):
            try:
                found = json.loads(first)
            except ValueError:
                found = json.loads(first + file.read())
            return None if any(map(str.strip, file)) else found
    return None


def trials_of(runs: list[Any]) -> list[Any]:
    """The trials of exported runs, one run after the other."""
    there = (run.get("trials") for run in runs if isinstance(run, dict))
    return [trial for trials in there if isinstance(trials, list) for trial in trials]


def check_new(trial: Mapping[str, Any], seen: set[tuple[str, ...]]) -> None:
    """Add a trial of an exported run to those that were seen; one without the number of its repeat is new.

    Raises:
        ValueError: it is one of them.
    """
    if not isinstance(trial.get("repeat"), int):
        return
    one = tuple(str(trial.get(name)) for name in ("run", "target", "case_id", "repeat"))
    if one in seen:
        raise ValueError(f"Repeat {one[3]} of case {one[2]!r} of this run was there before; that one counts.")
    seen.add(one)


def shown(value: Any) -> str:
    """A value of a row for a message: a list or an object by its kind, anything else in few letters."""
    if isinstance(value, list | tuple | Mapping):
        return "an object" if isinstance(value, Mapping) else "a list"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def _begins_list(line: str) -> bool:
    """Whether a list of objects begins here; a line that is a whole list is a row like any other."""
    if not line.startswith("["):
        return False
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return line[1:].lstrip()[:1] in ("", "{")
    return bool(value) and isinstance(value, list) and all(isinstance(item, dict) for item in value)


def _listed(text: str, dropped: list[DroppedRow]) -> Iterator[tuple[int, Any]]:
    try:
        text.encode("utf-8")
        yield from enumerate(json.loads(text), 1)
    except UnicodeEncodeError:
        dropped.append(DroppedRow(1, "The file is not UTF-8."))
    except (ValueError, RecursionError) as error:
        dropped.append(DroppedRow(1, f"The file begins as a JSON list and is none: {error}."))

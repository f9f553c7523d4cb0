"""The names in a store for shell completion: of its newest runs, and of all saved suites."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from proctor.stores.location import StoredNames

Select = Callable[..., Iterable[Any]]
"""Reads the rows that a statement with its values selects."""
_MAX_RUNS = 200
_MAX_CASES = 5_000
_VERSIONED = re.compile(r"(.+)@v([0-9]{1,9})", re.DOTALL | re.ASCII)
_RUNS = "SELECT id, status, body FROM runs ORDER BY key DESC LIMIT ?"
_VERSIONS = "SELECT name, number FROM versions WHERE content IS NOT NULL ORDER BY name, number DESC"
_CONTENT = """SELECT content FROM versions
    WHERE name = ? AND content IS NOT NULL AND (number = ? OR ? = 0) ORDER BY turn DESC LIMIT 1"""
_CASES = """SELECT cases.body FROM contents
    JOIN suite_cases ON suite_cases.suite = contents.key JOIN cases ON cases.digest = suite_cases.digest
    WHERE contents.content = ? ORDER BY suite_cases.position LIMIT ?"""


class NameCollector:
    """Collects names; where a row cannot be read, those before it stay."""

    def __init__(self) -> None:
        """Has no names yet."""
        self._runs: dict[str, str] = {}
        self._tags: dict[str, None] = {}
        self._prompts: dict[str, None] = {}
        self._groups: dict[str, None] = {}
        self._suites: dict[str, list[str]] = {}

    def read(self, select: Select) -> None:
        """Reads the names in a store."""
        for run_id, status, body in select(_RUNS, _MAX_RUNS):
            run = _decode(body)
            self._runs[run_id] = f"{_text(run, 'suite', 'name')} on {_text(run, 'target', 'name')} ({status})"
            self._prompts |= dict.fromkeys([_text(run, "prompt", "name")] if "prompt" in run else [])
            self._groups |= dict.fromkeys([run["group"]] if isinstance(run.get("group"), str) else [])
            self._tags |= dict.fromkeys(tag for tag in run.get("tags") or () if isinstance(tag, str))
        for name, number in select(_VERSIONS):
            self._suites.setdefault(name, []).append(f"v{number}")

    def names(self) -> StoredNames:
        """Returns what was read."""
        return StoredNames(
            runs=self._runs,
            run_tags=tuple(self._tags),
            prompts=tuple(self._prompts),
            groups=tuple(self._groups),
            suites={name: tuple(versions) for name, versions in self._suites.items()},
        )


def read_case_labels(select: Select, suite: str) -> Iterator[tuple[tuple[str, ...], str | None]]:
    """Yields the tags and the category of the first cases of a saved suite, `NAME` or `NAME@v2`."""
    versioned = _VERSIONED.fullmatch(suite)
    name, number = (versioned[1], int(versioned[2])) if versioned else (suite, 0)
    for (content,) in list(select(_CONTENT, name, number, number)):
        for (body,) in select(_CASES, content, _MAX_CASES):
            case = _decode(body)
            category = case.get("category")
            tags = tuple(tag for tag in case.get("tags") or () if isinstance(tag, str))
            yield tags, category if isinstance(category, str) else None


def _decode(body: object) -> dict[str, Any]:
    """Returns the fields of a row; none if it is damaged."""
    try:
        row = json.loads(body) if isinstance(body, bytes) else None
    except ValueError:
        return {}
    return row if isinstance(row, dict) else {}


def _text(row: dict[str, Any], *fields: str) -> str:
    value: Any = row
    for field in fields:
        value = value.get(field) if isinstance(value, dict) else None
    return value if isinstance(value, str) else "?"

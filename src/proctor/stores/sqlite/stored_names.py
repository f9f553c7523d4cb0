"""Reads the names in a store for shell completion: in place, in a few milliseconds, whatever its state.

Nothing is locked, migrated or written, and no error is raised: of a store that cannot be read so, there are
no names.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any

from proctor.stores.location import StoredNames
from proctor.stores.sqlite.read_only import connect_in_place

_MAX_RUNS = 200
_MAX_CASES = 5_000
_TIMEOUT_S = 0.05
_VERSIONED = re.compile(r"(.+)@v([0-9]{1,9})", re.DOTALL | re.ASCII)
_RUNS = "SELECT id, status, CAST(body AS TEXT) FROM runs ORDER BY key DESC LIMIT ?"
_VERSIONS = "SELECT name, number FROM versions WHERE content IS NOT NULL ORDER BY name, number DESC"
_CONTENT = """SELECT content FROM versions
    WHERE name = ? AND content IS NOT NULL AND number = coalesce(?, number) ORDER BY turn DESC LIMIT 1"""
_CASES = """SELECT CAST(cases.body AS TEXT) FROM contents
    JOIN suite_cases ON suite_cases.suite = contents.key JOIN cases ON cases.digest = suite_cases.digest
    WHERE contents.content = ? ORDER BY suite_cases.position LIMIT ?"""


def list_names(path: str) -> StoredNames:
    """Returns the names in the store of a file: of its newest runs, and of all saved suites."""
    runs: dict[str, str] = {}
    tags: dict[str, None] = {}
    prompts: dict[str, None] = {}
    groups: dict[str, None] = {}
    suites: dict[str, list[str]] = {}
    with _open(path) as db:
        for run_id, status, body in db.execute(_RUNS, (_MAX_RUNS,)):
            run = _decode(body)
            runs[run_id] = f"{_text(run, 'suite', 'name')} on {_text(run, 'target', 'name')} ({status})"
            prompts |= dict.fromkeys([_text(run, "prompt", "name")] if "prompt" in run else [])
            groups |= dict.fromkeys([run["group"]] if isinstance(run.get("group"), str) else [])
            tags |= dict.fromkeys(tag for tag in run.get("tags") or () if isinstance(tag, str))
        for name, number in db.execute(_VERSIONS):
            suites.setdefault(name, []).append(f"v{number}")
    return StoredNames(
        runs=runs,
        run_tags=tuple(tags),
        prompts=tuple(prompts),
        groups=tuple(groups),
        suites={name: tuple(versions) for name, versions in suites.items()},
    )


def list_case_labels(path: str, suite: str) -> Iterator[tuple[tuple[str, ...], str | None]]:
    """Yields the tags and the category of the first cases of a saved suite, `NAME` or `NAME@v2`."""
    versioned = _VERSIONED.fullmatch(suite)
    name, number = (versioned[1], int(versioned[2])) if versioned else (suite, None)
    labels: list[tuple[tuple[str, ...], str | None]] = []
    with _open(path) as db:
        for (content,) in db.execute(_CONTENT, (name, number)).fetchall():
            for (body,) in db.execute(_CASES, (content, _MAX_CASES)):
                case = _decode(body)
                category = case.get("category")
                tags = tuple(tag for tag in case.get("tags") or () if isinstance(tag, str))
                labels.append((tags, category if isinstance(category, str) else None))
    yield from labels


@contextmanager
def _open(path: str) -> Iterator[sqlite3.Connection]:
    """Opens a store in place, or else an empty database; ends the block silently where it cannot go on."""
    real = os.path.realpath(path)
    connection = None
    with suppress(sqlite3.Error, OSError, ValueError):
        connection = connect_in_place(real, _connect) if os.path.isfile(real) else None  # noqa: PTH113
    with suppress(sqlite3.Error, ValueError), closing(connection or sqlite3.connect(":memory:")) as db:
        yield db


def _connect(name: str, uri: bool) -> sqlite3.Connection:
    return sqlite3.connect(name, uri=uri, timeout=_TIMEOUT_S)


def _decode(body: str) -> dict[str, Any]:
    """Returns the fields of a row; none if it is damaged."""
    try:
        row = json.loads(body)
    except ValueError:
        return {}
    return row if isinstance(row, dict) else {}


def _text(row: dict[str, Any], *fields: str) -> str:
    value: Any = row
    for field in fields:
        value = value.get(field) if isinstance(value, dict) else None
    return value if isinstance(value, str) else "?"

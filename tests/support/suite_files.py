"""Suite files as texts: read without a disk, and taken apart into header, cases and problems."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

from proctor.model import Case, Problem, Suite
from proctor.protocols import CaseAtLine, Dialect, SourceFile, SuiteSource


def make_source(text: str | bytes, path: str = "s.jsonl", **fields: Any) -> SuiteSource:
    """A suite file that is nowhere on a disk."""
    data = text.encode() if isinstance(text, str) else text
    return SuiteSource(path=path, read_lines=lambda: BytesIO(data), **fields)


def find_in(files: Mapping[str, str | bytes]) -> Callable[[str], SourceFile | None]:
    """Finds files by their paths."""

    def find(path: str) -> SourceFile | None:
        data = files.get(path)
        if data is None:
            return None
        return SourceFile(path=path, data=data.encode() if isinstance(data, str) else data)

    return find


def read_rows(
    dialect: Dialect, *rows: Any, path: str = "s.jsonl", **options: Any
) -> tuple[Suite, list[Case], list[Problem]]:
    """What a dialect reads in JSON Lines of these rows."""
    text = "".join(json.dumps(row) + "\n" for row in rows)
    return split_items(dialect.read(make_source(text, path, options=options)))


def list_errors(problems: Iterable[Problem]) -> list[tuple[str, str | None]]:
    """Code and field of each error."""
    return [(problem.code, problem.field) for problem in problems if problem.level == "error"]


def split_items(items: Iterable[Any]) -> tuple[Suite, list[Case], list[Problem]]:
    """What a dialect reads: the header, the cases and the problems."""
    read = list(items)
    (suite,) = [item for item in read if isinstance(item, Suite)]
    cases = [item.case for item in read if isinstance(item, CaseAtLine)]
    return suite, cases, [item for item in read if isinstance(item, Problem)]


def write_files(folder: Path, files: Mapping[str, str | bytes]) -> None:
    """Writes files and the folders above them."""
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.encode() if isinstance(data, str) else data)

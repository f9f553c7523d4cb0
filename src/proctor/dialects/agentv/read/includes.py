"""Replaces each `include` in a list of assertions by the assertions of the file that it names."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final, NamedTuple

from proctor.dialects.agentv.read.assertion_fields import AssertionFields
from proctor.dialects.agentv.shared import folder_of, inside
from proctor.protocols import Found, Source
from proctor.validation import Notes, kind_of, shown
from proctor.yaml12 import BadYaml, load

MAX_DEPTH: Final = 3
"""How many files may include each other in a chain."""

_FOLDERS: Final = (".proctor/templates", ".agentv/templates")
_ENDINGS: Final = (".yaml", ".yml")
_LISTS: Final = ("assertions", "assert")
_FIELDS: Final = (*_LISTS, "name", "description", "$schema")


class Item(NamedTuple):
    """An object or a text in a list of assertions, with its position."""

    raw: Any
    place: str
    notes: Notes
    line: int | None
    source: Source
    """The suite; files are looked for beside the file with the item first."""


def flat(items: Any, field: str, notes: Notes, source: Source, chain: tuple[str, ...] = ()) -> Iterator[Item]:
    """Yields the objects and texts of a list and of the files it includes; anything else is an error.

    Args:
        items: the list as it was read.
        field: its name in messages.
        notes: takes the problems; those of an included file have its lines.
        source: finds the files.
        chain: the files that led here.
    """
    if not isinstance(items, list):
        actual = f"{shown(items)}, {kind_of(items)}" if items is not None else "null"
        notes.error("wrong-type", f"`{field}` is {actual}; it must be a list of assertions.", field)
        return
    lines = getattr(items, "lines", None)
    for number, raw in enumerate(items):
        place = f"{field}[{number}]"
        line = lines[number] if lines else None
        if isinstance(raw, dict):
            if "include" in raw and "type" not in raw:
                yield from _included(AssertionFields(raw, notes, place + ".", source, ("include",)), chain)
                continue
        elif not isinstance(raw, str):
            actual = "null" if raw is None else f"{shown(raw)}, {kind_of(raw)}"
            message = f"`{place}` is {actual}; it must be an object with `type`, or a text."
            notes.error("wrong-type", message, place, line=line)
            continue
        yield Item(raw, place, notes, line, source)


def _included(fields: AssertionFields, chain: tuple[str, ...]) -> Iterator[Item]:
    name = fields.required_text("include")
    fields.close()
    if not name:
        return
    file = _find(name, fields.source)
    if file is None:
        where = ", ".join(f"`{folder}/{name}.yaml`" for folder in _FOLDERS)
        hint = "Correct the path." if _is_path(name) else f"Write {where}, or a path."
        fields.error("missing-include", "include", f"is {shown(name)}, and there is no such file. {hint}")
        return
    longer = (*chain, file.path)
    shown_chain = " › ".join(longer)
    if file.path in chain:
        fields.error(
            "include-cycle", "include", f"goes round in a circle: {shown_chain}. Remove one of the includes."
        )
        return
    if len(longer) > MAX_DEPTH:
        fields.error(
            "too-deep", "include", f"nests more than {MAX_DEPTH} files: {shown_chain}. Write one of them out."
        )
        return
    yield from _of_file(file, fields, longer)


def _of_file(file: Found, fields: AssertionFields, chain: tuple[str, ...]) -> Iterator[Item]:
    outer = fields.notes
    folder = posixpath.dirname(fields.source.path.replace("\\", "/"))
    notes = Notes(posixpath.normpath(posixpath.join(folder, file.path)), 1)
    notes.subject, notes.case, notes.problems = outer.subject, outer.case, outer.problems
    notes.row = outer.row
    try:
        content = _parse(file.data)
    except BadYaml as error:
        notes.error("bad-yaml", str(error), line=error.line)
    except UnicodeDecodeError as error:
        notes.error("bad-encoding", f"Byte {error.start + 1} of the file is not UTF-8; save it as UTF-8.")
    else:
        if isinstance(content, dict):
            inner = AssertionFields(content, notes, "", fields.source, _FIELDS)
            list_name = next((name for name in _LISTS if name in inner), None)
            if list_name is None:
                inner.missing("assertions", "a list of assertions")
            else:
                near = inside(fields.source, folder_of(file.path))
                yield from flat(inner.take(list_name), list_name, notes, near, chain)
            for name in _FIELDS[len(_LISTS) :]:
                inner.take(name)
            inner.close()
        else:
            notes.error(
                "not-an-object", f"The file is {kind_of(content)}; it must be an object with `assertions`."
            )
    # Parsing the items may have noted errors in between, so this comes last.
    outer.failed = outer.failed or notes.failed


def _find(name: str, source: Source) -> Found | None:
    if _is_path(name):
        return source.find(name)
    for folder in _FOLDERS:
        for ending in _ENDINGS:
            file = source.find(f"{folder}/{name}{ending}")
            if file is not None:
                return file
    return None


def _is_path(name: str) -> bool:
    return "/" in name or name.endswith(_ENDINGS)


@lru_cache(maxsize=32)
def _parse(data: bytes) -> Any:
    """Parses a file that many tests may include. The result is cached: do not change it."""
    return load(data.decode("utf-8-sig"))

"""Replaces each `include` in a list of assertions by the assertions of the file that it names."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final, NamedTuple

from proctor.dialects.agentv.read.assertion_fields import AssertionFields
from proctor.dialects.agentv.shared import search_in_folder
from proctor.dialects.shared.signatures import YAML_ENDINGS
from proctor.protocols import SourceFile, SuiteSource
from proctor.validation import ProblemLog, json_type, quote_value
from proctor.yaml12 import YamlError, load

MAX_DEPTH: Final = 3
"""How many files may include each other in a chain."""

_TEMPLATE_FOLDERS: Final = (".proctor/templates", ".agentv/templates")
_LIST_FIELDS: Final = ("assertions", "assert")
_TEMPLATE_FIELDS: Final = (*_LIST_FIELDS, "name", "description", "$schema")


class AssertionItem(NamedTuple):
    """An object or a text in a list of assertions, with its position."""

    raw: Any
    place: str
    notes: ProblemLog
    line: int | None
    source: SuiteSource
    """The suite; files are looked for beside the file with the item first."""


def expand_includes(
    items: Any, field: str, notes: ProblemLog, source: SuiteSource, chain: tuple[str, ...] = ()
) -> Iterator[AssertionItem]:
    """Yields the objects and texts of a list and of the files it includes; anything else is an error.

    Args:
        items: the list as it was read.
        field: its name in messages.
        notes: takes the problems; those of an included file have its lines.
        source: finds the files.
        chain: the files that led here.
    """
    if not isinstance(items, list):
        actual = f"{quote_value(items)}, {json_type(items)}" if items is not None else "null"
        notes.error("wrong-type", f"`{field}` is {actual}; it must be a list of assertions.", field)
        return
    lines = getattr(items, "lines", None)
    for number, raw in enumerate(items):
        place = f"{field}[{number}]"
        line = lines[number] if lines else None
        if isinstance(raw, dict):
            if "include" in raw and "type" not in raw:
                yield from _expand_include(
                    AssertionFields(raw, notes, place + ".", source, ("include",)), chain
                )
                continue
        elif not isinstance(raw, str):
            actual = "null" if raw is None else f"{quote_value(raw)}, {json_type(raw)}"
            message = f"`{place}` is {actual}; it must be an object with `type`, or a text."
            notes.error("wrong-type", message, place, line=line)
            continue
        yield AssertionItem(raw, place, notes, line, source)


def _expand_include(fields: AssertionFields, chain: tuple[str, ...]) -> Iterator[AssertionItem]:
    name = fields.required_text("include")
    fields.close()
    if not name:
        return
    file = _find_template(name, fields.source)
    if file is None:
        where = ", ".join(f"`{folder}/{name}.yaml`" for folder in _TEMPLATE_FOLDERS)
        hint = "Correct the path." if _is_path(name) else f"Write {where}, or a path."
        fields.error("missing-include", "include", f"is {quote_value(name)}, which does not exist. {hint}")
        return
    longer = (*chain, file.path)
    shown_chain = " › ".join(longer)
    if file.path in chain:
        fields.error(
            "include-cycle", "include", f"includes itself: {shown_chain}. Remove one of the includes."
        )
        return
    if len(longer) > MAX_DEPTH:
        fields.error(
            "too-deep",
            "include",
            f"nests more than {MAX_DEPTH} files: {shown_chain}. Copy the content of one of them into the "
            f"file that includes it.",
        )
        return
    yield from _expand_file(file, fields, longer)


def _expand_file(
    file: SourceFile, fields: AssertionFields, chain: tuple[str, ...]
) -> Iterator[AssertionItem]:
    outer = fields.problem_log
    folder = posixpath.dirname(fields.source.path.replace("\\", "/"))
    notes = ProblemLog(posixpath.normpath(posixpath.join(folder, file.path)), 1)
    notes.subject, notes.case, notes.problems = outer.subject, outer.case, outer.problems
    notes.row = outer.row
    try:
        content = _parse(file.data)
    except YamlError as error:
        notes.error("bad-yaml", str(error), line=error.line)
    except UnicodeDecodeError as error:
        notes.error("bad-encoding", f"Byte {error.start + 1} of the file is not UTF-8; save it as UTF-8.")
    else:
        if isinstance(content, dict):
            inner = AssertionFields(content, notes, "", fields.source, _TEMPLATE_FIELDS)
            list_name = next((name for name in _LIST_FIELDS if name in inner), None)
            if list_name is None:
                inner.report_missing("assertions", "a list of assertions")
            else:
                near = search_in_folder(fields.source, posixpath.dirname(file.path))
                yield from expand_includes(inner.pop(list_name), list_name, notes, near, chain)
            for name in _TEMPLATE_FIELDS[len(_LIST_FIELDS) :]:
                inner.pop(name)
            inner.close()
        else:
            notes.error(
                "not-an-object", f"The file is {json_type(content)}; it must be an object with `assertions`."
            )
    # Parsing the items may have noted errors in between, so this comes last.
    outer.has_errors = outer.has_errors or notes.has_errors


def _find_template(name: str, source: SuiteSource) -> SourceFile | None:
    if _is_path(name):
        return source.find_file(name)
    for folder in _TEMPLATE_FOLDERS:
        for ending in YAML_ENDINGS:
            file = source.find_file(f"{folder}/{name}{ending}")
            if file is not None:
                return file
    return None


def _is_path(name: str) -> bool:
    return "/" in name or name.endswith(YAML_ENDINGS)


@lru_cache(maxsize=32)
def _parse(data: bytes) -> Any:
    """Parses a file that many tests may include. The result is cached: do not change it."""
    return load(data.decode("utf-8-sig"))

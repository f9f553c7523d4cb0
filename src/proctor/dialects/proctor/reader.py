"""Reads a file of dialect proctor line by line, each checked against the schema of its record."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import chain
from typing import Any, Final

from msgspec import convert
from msgspec.structs import replace

from proctor.dialects.proctor.dialect import HEADER_KEY
from proctor.dialects.proctor.schema import SCHEMA_FIELD, VERSION, check_case, check_header
from proctor.dialects.shared.attachments import build_attachment
from proctor.dialects.shared.case_rows import read_cases
from proctor.dialects.shared.jsonl import HOLDOUT_FIELD, file_name, read_rows, with_holdout
from proctor.errors import UsageError
from proctor.model import Attachment, Case, Problem, PromptTemplate, Suite
from proctor.parameters import CASE_PARAMETERS, check_parameters
from proctor.protocols import ORIGIN_NOTES, CaseAtLine, SuiteSource
from proctor.validation import FieldReader, ProblemLog, quote_value

MAX_CASE_NESTING: Final = 96
"""Higher than for other dialects, as a case wraps the same values in more levels."""


def parse_suite(source: SuiteSource) -> Iterator[Suite | CaseAtLine | Problem]:
    """Yields the header, the cases in file order, and each problem where it occurs."""
    items = read_rows(source.read_lines(), source.path, nesting=MAX_CASE_NESTING)
    first = next(items, None)
    if isinstance(first, tuple) and HEADER_KEY in first[1]:
        notes = ProblemLog(source.path, first[0])
        suite = _parse_header(first[1], source, notes)
        yield suite
        yield from notes.problems
    else:
        suite = _make_fallback_suite(source)
        yield suite
        message = (
            f'The first line is no header. Begin the file with {{"{HEADER_KEY}": {VERSION}, "name": "…"}}.'
        )
        line = 1 if first is None else first.line if isinstance(first, Problem) else first[0]
        if not isinstance(first, Problem):
            yield Problem(code="missing-header", message=message, path=source.path, line=line)
        items = items if first is None else chain((first,), items)
    yield from read_cases(items, source.path, partial(_parse_case, source, suite.defaults.prompts))


def _make_fallback_suite(source: SuiteSource) -> Suite:
    return Suite(name=file_name(source.path).stem or "suite", dialect="proctor", folder=source.folder)


def _parse_header(row: dict[str, Any], source: SuiteSource, notes: ProblemLog) -> Suite:
    version = row[HEADER_KEY]
    if type(version) is int and version > VERSION:
        notes.error(
            "newer-version",
            f"`{HEADER_KEY}` is {version}, and this version of Proctor reads {VERSION}. Install a newer one.",
            HEADER_KEY,
        )
        return _make_fallback_suite(source)
    check_header(row, notes)
    fields = FieldReader(row, notes)
    if row.get(HOLDOUT_FIELD) is not None and row.get("split_rule") is not None:
        fields.error("conflicting-fields", HOLDOUT_FIELD, "and `split_rule` both divide the suite; keep one.")
    if notes.has_errors:
        return _make_fallback_suite(source)
    suite_fields = {
        name: value
        for name, value in row.items()
        if name not in (HEADER_KEY, HOLDOUT_FIELD, SCHEMA_FIELD, *ORIGIN_NOTES)
    }
    extras = {name: row[name] for name in ORIGIN_NOTES if row.get(name) is not None}
    suite_fields["notes"] = {**suite_fields.get("notes", {}), **extras}
    suite_fields |= {"dialect": "proctor", "folder": source.folder}
    return with_holdout(convert(suite_fields, Suite), fields)


def _parse_case(
    source: SuiteSource,
    prompts: tuple[PromptTemplate, ...],
    notes: ProblemLog,
    row: dict[str, Any],
    _line: int,
) -> CaseAtLine | None:
    if HEADER_KEY in row:
        notes.error(
            "late-header", f"A header (`{HEADER_KEY}`) must be the first line; move it there.", HEADER_KEY
        )
        return None
    case_id = row.get("id")
    notes.case = case_id if isinstance(case_id, str) and case_id.strip() else None
    check_case(row, notes)
    if notes.has_errors:
        return None
    case = _attach_files(convert({"input": (), **row}, Case), row, source, notes)
    if case is None or not _check_parameters(case, notes):
        return None
    is_blank = not any(message.parts or message.content.strip() for message in case.input)
    if not is_blank or (not case.input and (case.vars or (prompts and case.prompts != ()))):
        return CaseAtLine(case, notes.line)
    message = "`input` is empty; write what is asked, or `vars` for the prompt of a run, without `input`."
    notes.error("missing-prompt", message, "input")
    return None


def _check_parameters(case: Case, notes: ProblemLog) -> bool:
    """Notes a parameter in the form of a case that is unknown or has a value that cannot be used."""
    if case.form is not None and case.form.params:
        try:
            check_parameters(case.form.params, CASE_PARAMETERS)
        except UsageError as error:
            notes.error("bad-parameter", f"`form.params` cannot be used: {error}", "form.params")
    return not notes.has_errors


def _attach_files(case: Case, row: dict[str, Any], source: SuiteSource, notes: ProblemLog) -> Case | None:
    """Adds the content of files that a row names by path alone. Returns None if one is missing."""
    messages = list(case.input)
    for number, message in enumerate(row.get("input", ())):
        parts = list(messages[number].parts)
        for place, part in enumerate(message.get("parts", ())):
            if isinstance(part, dict) and part.get("text") is None and "data" not in part:
                field = f"input[{number}].parts[{place}].path"
                parts[place] = _read_attachment(part, field, source, notes) or parts[place]
        messages[number] = replace(messages[number], parts=tuple(parts))
    return None if notes.has_errors else replace(case, input=tuple(messages))


def _read_attachment(
    part: dict[str, Any], field: str, source: SuiteSource, notes: ProblemLog
) -> Attachment | None:
    path: str = part["path"]
    file = source.find_within(path)
    if file is None:
        message = (
            f"`{field}` is {quote_value(path)}, and there is no such file in the suite's folder, outside of "
            "which none is read. Put it there, or write its content in `text`, or as base64 in `data`."
        )
        notes.error("missing-file", message, field)
        return None
    result = build_attachment(part["kind"], path.replace("\\", "/"), file.data)
    own_type = None if result.text is not None else part.get("media_type")
    return result if own_type is None else replace(result, media_type=own_type)

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
from proctor.dialects.shared.attachments import (
    TEXT_MEDIA_TYPE,
    build_attachment,
    explain_mismatch,
    infer_media_type,
)
from proctor.dialects.shared.case_rows import read_cases
from proctor.dialects.shared.content_parts import parse_content_parts
from proctor.dialects.shared.jsonl import HOLDOUT_FIELD, file_name, read_rows, with_holdout
from proctor.errors import UsageError
from proctor.model import Attachment, Case, Message, Problem, PromptTemplate, Suite
from proctor.parameters import CASE_PARAMETERS, check_parameters
from proctor.protocols import ORIGIN_NOTES, CaseAtLine, SuiteSource
from proctor.validation import FieldReader, ProblemLog, quote_value

MAX_CASE_NESTING: Final = 96
"""Higher than for other dialects, as a case wraps the same values in more levels."""
ChatParts = dict[int, tuple[str | Attachment, ...]]
"""The parts of messages in OpenAI's form, by the positions of the messages."""


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
            f'The first line is not a header. Begin the file with {{"{HEADER_KEY}": {VERSION}, "name": "…"}}.'
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
            f"`{HEADER_KEY}` is {version}, but this version of Proctor reads {VERSION}. Install a newer "
            f"version of Proctor.",
            HEADER_KEY,
        )
        return _make_fallback_suite(source)
    check_header(row, notes)
    fields = FieldReader(row, notes)
    _check_prompts(row, fields)
    if row.get(HOLDOUT_FIELD) is not None and row.get("split_rule") is not None:
        fields.error(
            "conflicting-fields",
            HOLDOUT_FIELD,
            "and `split_rule` both divide the suite; keep only one of them.",
        )
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


def _check_prompts(row: dict[str, Any], fields: FieldReader) -> None:
    """Refuses prompts with files, which only the input of a case can have."""
    if fields.problem_log.has_errors:
        return
    for number, prompt in enumerate((row.get("defaults") or {}).get("prompts", ())):
        for place, message in enumerate(prompt.get("messages", ())):
            if isinstance(message.get("content"), list):
                name = f"defaults.prompts[{number}].messages[{place}].content"
                fields.report_wrong_type(name, message["content"], "text")


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
    row, chat_parts = _parse_chat_content(row, notes)
    check_case(row, notes)
    if notes.has_errors:
        return None
    case = _attach_files(convert({"input": (), **row}, Case), row, chat_parts, source, notes)
    if case is None or not _check_parameters(case, notes):
        return None
    is_blank = not any(message.parts or message.content.strip() for message in case.input)
    if not is_blank or (not case.input and (case.vars or (prompts and case.prompts != ()))):
        return CaseAtLine(case, notes.line)
    message = (
        "`input` is empty; write the prompt. Or remove `input`, and write `vars` for the prompt of a run."
    )
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


def _parse_chat_content(row: dict[str, Any], notes: ProblemLog) -> tuple[dict[str, Any], ChatParts]:
    """Parses messages whose `content` is a list of OpenAI's content parts.

    Returns the row with their texts as `content`, and their parts.
    """
    messages = row.get("input")
    parsed: dict[int, Message] = {}
    for number, message in enumerate(messages if isinstance(messages, list) else ()):
        if isinstance(message, dict) and isinstance(message.get("content"), list):
            fields = FieldReader(message, notes, f"input[{number}].")
            if message.get("parts"):
                fields.error(
                    "conflicting-fields",
                    "parts",
                    "and a list as `content` mean the same; keep only one of them.",
                )
            parsed[number] = parse_content_parts(fields, "")
    if not parsed:
        return row, {}
    contents = [
        {**message, "content": parsed[number].content} if number in parsed else message
        for number, message in enumerate(row["input"])
    ]
    return {**row, "input": contents}, {number: message.parts for number, message in parsed.items()}


def _attach_files(
    case: Case, row: dict[str, Any], chat_parts: ChatParts, source: SuiteSource, notes: ProblemLog
) -> Case | None:
    """Adds the content of files that a row names by path alone, and the media type of those with content.

    Returns None if a file is missing, or is not what its kind says.
    """
    messages = list(case.input)
    for number, message in enumerate(row.get("input", ())):
        parts = list(chat_parts.get(number, messages[number].parts))
        for place, part in enumerate(message.get("parts", ())):
            if not isinstance(part, dict) or part.get("text") is not None:
                continue
            field = f"input[{number}].parts[{place}].path"
            if "data" not in part:
                parts[place] = _read_attachment(part, field, source, notes) or parts[place]
            elif isinstance(attachment := parts[place], Attachment):
                parts[place] = _complete_media_type(attachment, part.get("media_type"), field, notes)
        messages[number] = replace(messages[number], parts=tuple(parts))
    return None if notes.has_errors else replace(case, input=tuple(messages))


def _read_attachment(
    part: dict[str, Any], field: str, source: SuiteSource, notes: ProblemLog
) -> Attachment | None:
    path: str = part["path"]
    file = source.find_within(path)
    if file is None:
        message = (
            f"`{field}` is {quote_value(path)}, and there is no such file in the folder of the suite. "
            f"Files outside of that folder are not read. Put the file there, or write its content in "
            f"`text`, or as base64 in `data`."
        )
        notes.error("missing-file", message, field)
        return None
    result = build_attachment(part["kind"], path.replace("\\", "/"), file.data)
    own_type = None if result.text is not None else part.get("media_type")
    if own_type is not None:
        return replace(result, media_type=own_type)
    return _check_kind(result, field, notes)


def _complete_media_type(
    attachment: Attachment, given_type: str | None, field: str, notes: ProblemLog
) -> Attachment:
    """Returns bytes with the media type that they have if none is given.

    The default type is given only to keep this from happening, and digests leave it out.
    """
    if given_type not in (None, TEXT_MEDIA_TYPE):
        return attachment
    media_type = infer_media_type(attachment)
    if media_type is None:
        return attachment
    if given_type is not None:
        return Attachment(kind=attachment.kind, path=attachment.path, data=attachment.data)
    return _check_kind(replace(attachment, media_type=media_type), field, notes)


def _check_kind(attachment: Attachment, field: str, notes: ProblemLog) -> Attachment:
    """Returns the attachment; notes an error for audio and video that are something else."""
    mismatch = None if attachment.kind == "image" else explain_mismatch(attachment)
    if mismatch is not None:
        message = f"`{field}` is {quote_value(attachment.path)}, {mismatch}"
        notes.error(f"unknown-{attachment.kind}", message, field)
    return attachment

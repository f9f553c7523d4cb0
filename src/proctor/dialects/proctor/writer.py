"""Writes dialect proctor: the header, then each case as JSON. Nothing is lost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import to_builtins

from proctor.codec import encode_in_order
from proctor.dialects.proctor.dialect import HEADER_KEY
from proctor.dialects.proctor.schema import HEADER_FIELDS, VERSION
from proctor.dialects.shared.attachments import TEXT_MEDIA_TYPE, infer_media_type
from proctor.dialects.shared.jsonl import HOLDOUT_FIELD
from proctor.dialects.shared.output_files import to_json_line
from proctor.model import Attachment, Case, Problem, Suite
from proctor.protocols import ORIGIN_NOTES, RenderedFile


def render(suite: Suite, cases: Iterable[Case], *, lossy: bool) -> Iterator[RenderedFile | Problem]:  # noqa: ARG001
    """Yields the suite as one file. See `proctor.protocols.Renderer`; nothing is lost."""
    yield RenderedFile("", to_json_line(_render_header(suite)))
    for case in cases:
        yield RenderedFile("", _render_case(case))


def _render_header(suite: Suite) -> dict[str, Any]:
    plain = to_builtins(suite)
    header = {name: plain[name] for name in HEADER_FIELDS if name in plain} | (
        {HOLDOUT_FIELD: 0} if suite.no_holdout else {}
    )
    if suite.dialect != "proctor":
        return {HEADER_KEY: VERSION, **header, ORIGIN_NOTES[0]: suite.dialect}
    # Its origin is one of the notes, since it has no effect.
    notes = dict(suite.notes)
    extras = {name: notes.pop(name) for name in ORIGIN_NOTES if isinstance(notes.get(name), str)}
    header.pop("notes", None)
    return {HEADER_KEY: VERSION, **header, **({"notes": notes} if notes else {}), **extras}


def _render_case(case: Case) -> bytes:
    """Returns a case as JSON.

    An empty file gets `data`, as a path alone would be read from the folder. Bytes of the default media type
    get it if another one would be inferred.
    """
    files = [part for message in case.input for part in message.parts if isinstance(part, Attachment)]
    if not any(_is_empty(file) or _is_mistyped(file) for file in files):
        return encode_in_order(case) + b"\n"
    row = to_builtins(case)
    for message, written in zip(case.input, row["input"], strict=True):
        for file, part in zip(message.parts, written.get("parts", ()), strict=True):
            if isinstance(file, Attachment) and _is_empty(file):
                part["data"] = ""
            elif isinstance(file, Attachment) and _is_mistyped(file):
                part["media_type"] = TEXT_MEDIA_TYPE
    return to_json_line(row)


def _is_empty(file: Attachment) -> bool:
    return file.text is None and not file.data


def _is_mistyped(file: Attachment) -> bool:
    return file.media_type == TEXT_MEDIA_TYPE and infer_media_type(file) is not None

"""Writes dialect proctor: the header, then each case as JSON. Nothing is lost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import to_builtins

from proctor.codec import encode_in_order
from proctor.dialects.proctor.dialect import HEADER_KEY
from proctor.dialects.proctor.schema import HEADER_FIELDS, VERSION
from proctor.dialects.shared.attachments import TEXT_MEDIA_TYPE
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

    An empty file gets `data`, as a path alone would be read from the folder; and bytes without a media type
    of their own get the default, as one would be detected.
    """
    files = [part for message in case.input for part in message.parts if isinstance(part, Attachment)]
    if all(file.text is not None or (file.data and file.media_type != TEXT_MEDIA_TYPE) for file in files):
        return encode_in_order(case) + b"\n"
    row = to_builtins(case)
    for message in row["input"]:
        for part in message.get("parts", ()):
            if isinstance(part, dict) and "text" not in part:
                part.setdefault("data", "")
                part.setdefault("media_type", TEXT_MEDIA_TYPE)
    return to_json_line(row)

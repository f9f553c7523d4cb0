"""The files that a renderer writes: their names, their lines, and that no two want the same place."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from posixpath import dirname, normpath
from typing import Any, Final

from proctor.model import Attachment, Message

_OUTSIDE: Final = re.compile(r"/|[A-Za-z]:|(.*/)?\.\.(/|$)|(.*/)?\.?$|.*[\\\0]", re.DOTALL)
"""Paths that do not stay in the suite's folder, or name no file there."""
_LONGEST_NAME: Final = 60  # of up to four bytes each; most systems take 255
_NO_FILE_NAME: Final = re.compile(r"[^\w.=,\[\]~-]+")
_RESERVED: Final = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)
_ENCODER = json.JSONEncoder(ensure_ascii=False)


def json_line(row: Mapping[str, Any]) -> bytes:
    """An object as one line of JSON Lines, its fields in the order given."""
    return _ENCODER.encode(row).encode("utf-8") + b"\n"


def file_stem(name: str, used_stems: set[str]) -> str:
    """A name as the stem of a file that every system can have; `/` stays between folders.

    It is another one for each name, told apart by a digest where two would be the same; `taken` holds those
    given before, and the new one afterwards.
    """
    parts = [_NO_FILE_NAME.sub("-", part).strip(" .-") for part in name.split("/")]
    stem = "/".join(f"{part}-" if _RESERVED.fullmatch(part) else part for part in parts if part)[
        :_LONGEST_NAME
    ]
    stem = stem.rstrip(" ./")
    if not stem or stem.lower() in used_stems:  # some systems do not tell capitals apart
        stem = f"{stem or 'case'}-{sha256(name.encode()).hexdigest()[:8]}"
    used_stems.add(stem.lower())
    return stem


class Beside:
    """The files of a suite that have been written so far."""

    def __init__(self) -> None:
        self._digests: dict[str, bytes] = {}
        self._folders: set[str] = set()

    def fitting(self, files: dict[str, bytes] | None) -> dict[str, bytes] | None:
        """Returns the files if none of them has the path of another file, or of a folder; else None."""
        return files if files is not None and all(self._fits(path, files) for path in files) else None

    def _fits(self, path: str, files: Mapping[str, bytes]) -> bool:
        digest = self._digests.get(path)
        if digest is not None:
            return digest == sha256(files[path]).digest()
        folders = set(_folders(path))
        return path not in self._folders and not folders & (self._digests.keys() | files.keys())

    def new(self, files: Mapping[str, bytes]) -> Iterator[tuple[str, bytes]]:
        """Adds the files that are not there yet, and yields them."""
        for path, data in files.items():
            if path not in self._digests:
                self._digests[path] = sha256(data).digest()
                self._folders.update(_folders(path))
                yield path, data


def attached(messages: Iterable[Message]) -> dict[str, bytes] | None:
    """Returns the files that messages attach, by path; None where two differ, or one leaves the folder."""
    files: dict[str, bytes] = {}
    for message in messages:
        for part in message.parts:
            if isinstance(part, Attachment):
                path, data = normpath(part.path), _data(part)
                if _OUTSIDE.match(part.path) or files.setdefault(path, data) != data:
                    return None
    return files


def text_bytes(text: str) -> bytes:
    """Returns bytes that are read as the text; reading drops a byte order mark and the CR of CRLF."""
    mark = "\ufeff" if text.startswith("\ufeff") else ""
    return (mark + text.replace("\r\n", "\r\r\n")).encode("utf-8")


def _data(attachment: Attachment) -> bytes:
    return attachment.data if attachment.text is None else text_bytes(attachment.text)


def _folders(path: str) -> Iterator[str]:
    while path := dirname(path):
        yield path

"""The files that a renderer writes: their names, their lines, and conflicts between them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from posixpath import dirname, normpath
from typing import Any, Final

from proctor.model import Attachment, Message

_OUTSIDE_PATH: Final = re.compile(r"/|[A-Za-z]:|(.*/)?\.\.(/|$)|(.*/)?\.?$|.*[\\\0]", re.DOTALL)
"""Paths that leave the suite's folder, or name no file in it."""
_MAX_NAME_LENGTH: Final = 60  # of up to four bytes each; most systems take 255
_UNSAFE_CHARACTERS: Final = re.compile(r"[^\w.=,\[\]~-]+")
_RESERVED_NAME: Final = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)
_ENCODER = json.JSONEncoder(ensure_ascii=False)


def to_json_line(row: Mapping[str, Any]) -> bytes:
    """Returns an object as one line of JSON Lines, with its fields in order."""
    return _ENCODER.encode(row).encode("utf-8") + b"\n"


def unique_file_stem(name: str, used_stems: set[str]) -> str:
    """Returns a file stem for a name that is valid on every system; `/` separates folders.

    Stems are unique: a digest is added if the stem is already in `used_stems`, to which the new one is added.
    """
    parts = [_UNSAFE_CHARACTERS.sub("-", part).strip(" .-") for part in name.split("/")]
    stem = "/".join(f"{part}-" if _RESERVED_NAME.fullmatch(part) else part for part in parts if part)[
        :_MAX_NAME_LENGTH
    ]
    stem = stem.rstrip(" ./")
    if not stem or stem.lower() in used_stems:  # some file systems ignore case
        stem = f"{stem or 'case'}-{sha256(name.encode()).hexdigest()[:8]}"
    used_stems.add(stem.lower())
    return stem


class SiblingFiles:
    """The files of a suite that have been written so far."""

    def __init__(self) -> None:
        self._digests: dict[str, bytes] = {}
        self._folders: set[str] = set()

    def check_free(self, files: dict[str, bytes] | None) -> dict[str, bytes] | None:
        """Returns the files if none has the path of another file or folder; else None."""
        return files if files is not None and all(self._is_free(path, files) for path in files) else None

    def _is_free(self, path: str, files: Mapping[str, bytes]) -> bool:
        digest = self._digests.get(path)
        if digest is not None:
            return digest == sha256(files[path]).digest()
        folders = set(_iter_parent_folders(path))
        return path not in self._folders and not folders & (self._digests.keys() | files.keys())

    def add(self, files: Mapping[str, bytes]) -> Iterator[tuple[str, bytes]]:
        """Adds files, and yields those that are new."""
        for path, data in files.items():
            if path not in self._digests:
                self._digests[path] = sha256(data).digest()
                self._folders.update(_iter_parent_folders(path))
                yield path, data


def collect_attached_files(messages: Iterable[Message]) -> dict[str, bytes] | None:
    """Returns the files that messages attach, by path; None if two differ, or one leaves the folder."""
    files: dict[str, bytes] = {}
    for message in messages:
        for part in message.parts:
            if isinstance(part, Attachment):
                path = normpath(part.path)
                data = part.data if part.text is None else encode_text(part.text)
                if _OUTSIDE_PATH.match(part.path) or files.setdefault(path, data) != data:
                    return None
    return files


def encode_text(text: str) -> bytes:
    """Encodes a text so that it reads back unchanged; reading drops a byte order mark and the CR of CRLF."""
    mark = "\ufeff" if text.startswith("\ufeff") else ""
    return (mark + text.replace("\r\n", "\r\r\n")).encode("utf-8")


def _iter_parent_folders(path: str) -> Iterator[str]:
    while path := dirname(path):
        yield path

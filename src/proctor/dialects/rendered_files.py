"""The files that a renderer writes: what attachments are read from, and that no two want the same place."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from posixpath import dirname, normpath
from typing import Final

from proctor.model import Attachment, Message

_OUTSIDE: Final = re.compile(r"/|[A-Za-z]:|(.*/)?\.\.(/|$)|(.*/)?\.?$|.*[\\\0]", re.DOTALL)
"""Paths that do not stay in the suite's folder, or name no file there."""


class Beside:
    """The files of a suite that have been written so far."""

    def __init__(self) -> None:
        """None."""
        self._digests: dict[str, bytes] = {}
        self._folders: set[str] = set()

    def fitting(self, files: dict[str, bytes] | None) -> dict[str, bytes] | None:
        """The files, if they can lie beside all others: none is another one, or the folder of one."""
        return files if files is not None and all(self._fits(path, files) for path in files) else None

    def _fits(self, path: str, files: Mapping[str, bytes]) -> bool:
        known = self._digests.get(path)
        if known is not None:
            return known == sha256(files[path]).digest()
        folders = set(_folders(path))
        return path not in self._folders and not folders & (self._digests.keys() | files.keys())

    def new(self, files: Mapping[str, bytes]) -> Iterator[tuple[str, bytes]]:
        """Those of the files that are not there yet, which they then are."""
        for path, data in files.items():
            if path not in self._digests:
                self._digests[path] = sha256(data).digest()
                self._folders.update(_folders(path))
                yield path, data


def attached(messages: Iterable[Message]) -> dict[str, bytes] | None:
    """The files that messages attach, by path; None where two differ, or one is in no suite's folder."""
    files: dict[str, bytes] = {}
    for message in messages:
        for part in message.parts:
            if isinstance(part, Attachment):
                path, data = normpath(part.path), _data(part)
                if _OUTSIDE.match(part.path) or files.setdefault(path, data) != data:
                    return None
    return files


def text_bytes(text: str) -> bytes:
    """The bytes that are read as the text, since a mark at the beginning and CRLF are read away."""
    mark = "\ufeff" if text.startswith("\ufeff") else ""
    return (mark + text.replace("\r\n", "\r\r\n")).encode("utf-8")


def _data(attachment: Attachment) -> bytes:
    return attachment.data if attachment.text is None else text_bytes(attachment.text)


def _folders(path: str) -> Iterator[str]:
    while path := dirname(path):
        yield path

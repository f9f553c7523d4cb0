"""Text in PostgreSQL columns, which cannot hold NUL characters and lone surrogates, as ids of cases may.

They are stored as U+FDD0 and four hexadecimal digits, and so is U+FDD0 itself.
"""

from __future__ import annotations

import re
from typing import Any

from psycopg import Connection
from psycopg.adapt import Buffer
from psycopg.types.string import StrBinaryDumper, StrDumper, TextBinaryLoader, TextLoader

_MARK = "\ufdd0"
_UNSTORABLE = re.compile(f"[\0\ud800-\udfff{_MARK}]")
_ESCAPED = re.compile(f"{_MARK}([0-9a-f]{{4}})")


def escape(text: str) -> str:
    """Returns the text as it is stored."""
    if text.isascii() and "\0" not in text:
        return text
    return _UNSTORABLE.sub(lambda match: f"{_MARK}{ord(match[0]):04x}", text)


def unescape(text: str) -> str:
    """Returns the text that `escape` got."""
    return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), text) if _MARK in text else text


def adapt_text(connection: Connection[Any]) -> None:
    """Makes a connection escape the text that it stores, and unescape what it reads."""
    for dumper in (_Dumper, _BinaryDumper):
        connection.adapters.register_dumper(str, dumper)
    for loader in (_Loader, _BinaryLoader):
        connection.adapters.register_loader("text", loader)


class _Dumper(StrDumper):
    def dump(self, obj: str) -> Buffer | None:
        return super().dump(escape(obj))


class _BinaryDumper(StrBinaryDumper):
    def dump(self, obj: str) -> Buffer | None:
        return super().dump(escape(obj))


class _Loader(TextLoader):
    def load(self, data: Buffer) -> str:
        return unescape(str(super().load(data)))


class _BinaryLoader(TextBinaryLoader):
    def load(self, data: Buffer) -> str:
        return unescape(str(super().load(data)))

"""Unpacks untrusted zip archives in memory, and packs archives.

All names and declared sizes are checked before a byte is unpacked, and the unpacked bytes are checked against
them. Nothing is written to disk.
"""

from __future__ import annotations

import re
import struct
import unicodedata
from collections.abc import Iterable, Mapping
from io import BytesIO
from posixpath import dirname
from stat import S_IFMT, S_IFREG
from typing import Final
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

from proctor.bundles.strict_zip import BadArchive, ZipMember, read_chunks, read_members
from proctor.errors import UsageError
from proctor.validation import quote_value

MAX_FILES: Final = 2_000
"""A folder of Markdown tests has hundreds; every glob of the suite is matched against each file."""
MAX_BYTES: Final = 48 * 2**20
"""All of it is held in memory for every visitor who has not saved yet."""
MAX_RATIO: Final = 200
"""The maximum ratio of unpacked to packed size; tests written by people compress to a tenth, generated ones
to a hundredth."""
_ALWAYS_ALLOWED_BYTES: Final = 2**20
"""Always allowed, whatever the ratio: a few short files of spaces are no attack."""
MAX_PATH_LENGTH: Final = 240
"""Most systems cannot have longer ones."""
MAX_DEPTH: Final = 16

_SIGNATURES: Final = (b"PK\x03\x04", b"PK\x05\x06")
_END: Final = b"PK\x05\x06"
_END_SIZE: Final = 22
_LOCATOR: Final = b"PK\x06\x07"
_LOCATOR_SIZE: Final = 20
_MAX_DIRECTORY_ENTRY_BYTES: Final = 512
"""The maximum size of one file's entry in the archive's directory."""
_SYSTEM_FILES: Final = frozenset(("__macosx", ".ds_store", "thumbs.db", "desktop.ini"))
"""Files that operating systems add to archives, in lower case."""
_OFFICE_SUFFIXES: Final = (".docx", ".xlsx", ".pptx")
"""Files that are zip archives and are attached as they are."""
_FIXED_DATE: Final = (2000, 1, 1, 0, 0, 0)
_DRIVE: Final = re.compile(r"[A-Za-z]:")


def is_zip(data: bytes) -> bool:
    """Whether bytes begin as a zip archive does."""
    return data.startswith(_SIGNATURES)


def unpack(data: bytes) -> dict[str, bytes]:
    """Returns the files of a zip archive by path, without folders and files that systems add.

    Raises:
        UsageError: it is damaged, too large, or has something that no suite needs; says what.
    """
    end, count = _find_end(data)
    file = BytesIO(data[: end + _END_SIZE - 2] + b"\0\0")  # without a comment
    try:
        members = read_members(file, count, exact=False)
        _check_all(members, len(data))
        suite_members = [
            member for member in members if not _is_folder(member) and not _is_system_file(member.name)
        ]
        check_paths([member.name for member in suite_members])
        return {member.name: _read_file(file, member) for member in suite_members}
    except BadArchive as error:
        reason = quote_value(str(error).removeprefix("is damaged: "))
        raise UsageError(f"The zip archive is damaged: {reason}. Create it again.") from None


def _find_end(data: bytes) -> tuple[int, int]:
    """Returns the offset of the end record and the number of entries; refuses a large directory unread."""
    end = data.rfind(_END, max(0, len(data) - _END_SIZE - 0xFFFF))
    if end < 0 or len(data) < end + _END_SIZE:
        raise UsageError("The zip archive is truncated. Create it again.")
    count, size = struct.unpack_from("<HL", data, end + 10)
    if data[max(0, end - _LOCATOR_SIZE) : end].startswith(_LOCATOR):
        raise UsageError("The zip archive is in the format for more than 4 GB. Pack only the suite.")
    if count > MAX_FILES or size > MAX_FILES * _MAX_DIRECTORY_ENTRY_BYTES:
        raise UsageError(
            f"The zip archive has {count:,} files, more than the limit of {MAX_FILES:,}. Pack only the suite."
        )
    return end, count


def pack(files: Mapping[str, bytes]) -> bytes:
    """Packs files into a zip archive; the same files give the same bytes."""
    buffer = BytesIO()
    with ZipFile(buffer, "w", ZIP_DEFLATED) as archive:
        for path, data in sorted(files.items()):
            entry = ZipInfo(path, _FIXED_DATE)
            entry.compress_type = ZIP_DEFLATED
            entry.external_attr = (S_IFREG | 0o644) << 16
            archive.writestr(entry, data)
    return buffer.getvalue()


# --- before it is unpacked ---------------------------------------------------------------------------------


def _check_all(members: list[ZipMember], packed_size: int) -> None:
    for member in members:
        _check_member(member)
    total = sum(member.size for member in members)
    if total > MAX_BYTES:
        raise UsageError(
            f"The zip archive unpacks to {_megabytes(total)}, more than the limit of "
            f"{_megabytes(MAX_BYTES)}. Use the command line instead."
        )
    if total > max(_ALWAYS_ALLOWED_BYTES, packed_size * MAX_RATIO):
        raise UsageError(
            f"The zip archive unpacks to {total // max(packed_size, 1):,} times its size, as no suite does. "
            "Nothing of it was unpacked."
        )


def _check_member(member: ZipMember) -> None:
    name = member.name
    _check_path(name.removesuffix("/"))
    if member.flags & 0x41:
        raise UsageError(
            f"{quote_value(name)} in the zip archive is encrypted. Pack the suite without a password."
        )
    if S_IFMT(member.mode >> 16) not in (0, S_IFREG) and not _is_folder(member):
        raise UsageError(
            f"{quote_value(name)} in the zip archive is a link or a special file. Pack the file that "
            "it points to."
        )
    if member.method not in (ZIP_STORED, ZIP_DEFLATED):
        raise UsageError(
            f"{quote_value(name)} is packed in an unusual way. Pack the suite as a plain zip archive."
        )


def _megabytes(size: int) -> str:
    return f"{size / 2**20:,.0f} MB"


def _is_folder(member: ZipMember) -> bool:
    return member.name.endswith("/")


def _is_system_file(path: str) -> bool:
    return not _SYSTEM_FILES.isdisjoint(path.lower().split("/"))


def _read_file(file: BytesIO, member: ZipMember) -> bytes:
    data = b"".join(read_chunks(file, member))
    if is_zip(data) and not member.name.lower().endswith(_OFFICE_SUFFIXES):
        raise UsageError(f"{quote_value(member.name)} is an archive in the archive. Unpack it first.")
    return data


# --- paths -------------------------------------------------------------------------------------------------


def check_paths(paths: Iterable[str]) -> None:
    """Checks that files with these paths can be in one folder on every operating system.

    Raises:
        UsageError: a path leads out of the folder, or two paths are the same file.
    """
    path_by_key: dict[str, str] = {}
    folders: dict[str, str] = {}
    for path in paths:
        _check_path(path)
        key = _fold(path)
        if key in path_by_key:
            conflict = (
                "is in the archive twice"
                if path_by_key[key] == path
                else f"differs from {quote_value(path_by_key[key])} only in upper and lower case"
            )
            raise UsageError(f"The file {quote_value(path)} {conflict}. Give each file its own name.")
        path_by_key[key] = path
        folder = dirname(key)
        while folder:
            folders.setdefault(folder, path)
            folder = dirname(folder)
    for key, path in path_by_key.items():
        if key in folders:
            raise UsageError(
                f"{quote_value(path)} is a file, and the folder of {quote_value(folders[key])}. Rename one."
            )


def _fold(path: str) -> str:
    """Returns a key that is equal for paths that some systems treat as the same."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFKC", path).casefold())


def _check_path(path: str) -> None:
    parts = path.split("/")
    if not path or len(path) > MAX_PATH_LENGTH or len(parts) > MAX_DEPTH:
        raise UsageError(
            f"The path {quote_value(path)} is empty, too long or too deep. Give the file a shorter one."
        )
    if "\\" in path:
        raise UsageError(f"The path {quote_value(path)} has a backslash. Write `/` between folders.")
    if not path.isprintable():
        raise UsageError(
            f"The path {quote_value(path)} has characters that cannot be shown. Rename the file."
        )
    if path.startswith("/") or _DRIVE.match(path):
        raise UsageError(
            f"The path {quote_value(path)} is absolute. Pack files by paths inside the suite's folder."
        )
    if ".." in parts or "." in parts or "" in parts:
        raise UsageError(f"The path {quote_value(path)} leaves the suite's folder. Pack the folder itself.")

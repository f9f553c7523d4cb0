"""Zip archives from strangers: unpacked whole, or refused with an error."""

from __future__ import annotations

import struct
from contextlib import suppress
from io import BytesIO
from stat import S_IFLNK
from zipfile import ZIP_BZIP2, ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.errors import UsageError
from proctor.services.suites import zip_upload
from proctor.services.suites.zip_upload import check_paths, is_zip, pack, unpack

NAMES = st.text(st.characters(categories=("L", "N"), max_codepoint=0x3FF), min_size=1, max_size=12)
PATHS = st.lists(NAMES, min_size=1, max_size=4).map("/".join)


def make_archive(*entries: tuple[str | ZipInfo, bytes], how: int = ZIP_DEFLATED) -> bytes:
    whole = BytesIO()
    with ZipFile(whole, "w", how) as file:
        for name, data in entries:
            file.writestr(name, data)
    return whole.getvalue()


def link(name: str) -> ZipInfo:
    entry = ZipInfo(name)
    entry.external_attr = (S_IFLNK | 0o777) << 16
    return entry


def patch(data: bytes, old: bytes, new: bytes) -> bytes:
    assert data.count(old) >= 1
    return data.replace(old, new)


def make_encrypted() -> bytes:
    """An archive that says of its only file that it is encrypted."""
    data = bytearray(make_archive(("a.jsonl", b"x")))
    data[6] |= 1
    data[data.index(b"PK\x01\x02") + 8] |= 1
    return bytes(data)


DATA = st.binary(max_size=200).filter(lambda data: not is_zip(data))


@given(st.dictionaries(PATHS, DATA, max_size=6))
def test_what_is_packed_is_unpacked_the_same_or_its_paths_are_refused(files: dict[str, bytes]) -> None:
    data = pack(files)
    assert data == pack(dict(reversed(files.items())))
    try:
        check_paths(files)
    except UsageError:
        with pytest.raises(UsageError):
            unpack(data)
        return
    assert unpack(data) == files


BAD_ARCHIVES = {
    "up": (make_archive(("../a.jsonl", b"x")), "leaves"),
    "up inside": (make_archive(("a/../../b", b"x")), "leaves"),
    "here": (make_archive(("./a", b"x")), "leaves"),
    "empty part": (make_archive(("a//b", b"x")), "leaves"),
    "absolute": (make_archive(("/etc/passwd", b"x")), "absolute"),
    "drive": (make_archive(("C:/a", b"x")), "absolute"),
    "backslash": (make_archive(("a\\b", b"x")), "backslash"),
    "NUL": (patch(make_archive(("aXb", b"x")), b"aXb", b"a\0b"), "cannot be shown"),
    "control": (make_archive(("a\x1b[2J", b"x")), "cannot be shown"),
    "long": (make_archive(("a" * 241, b"x")), "too long"),
    "deep": (make_archive(("/".join("a" * 17), b"x")), "too deep"),
    "link": (make_archive((link("a"), b"/etc/passwd")), "link"),
    "encrypted": (make_encrypted(), "encrypted"),
    "twice": (patch(make_archive(("a1", b"x"), ("a2", b"y")), b"a2", b"a1"), "twice"),
    "case": (make_archive(("Readme.md", b"x"), ("README.md", b"y")), "only in upper and lower case"),
    "forms of a letter": (make_archive(("\u00e9", b"x"), ("e\u0301", b"y")), "only in upper and lower case"),
    "file and folder": (make_archive(("a", b"x"), ("a/b", b"y")), "folder of"),
    "nested": (make_archive(("a.zip", make_archive(("b", b"x")))), "archive in the archive"),
    "nested by another name": (make_archive(("a.txt", make_archive(("b", b"x")))), "archive in the archive"),
    "unusual": (make_archive(("a", b"x"), how=ZIP_BZIP2), "unusual"),
    "checksum": (patch(make_archive(("a", b"hello"), how=ZIP_STORED), b"hello", b"jello"), "damaged"),
    "cut off": (make_archive(("a", b"x"))[:-1], "truncated"),
    "no archive": (b"PK\x03\x04" + b"x" * 100, "truncated"),
}


@pytest.mark.parametrize("what", BAD_ARCHIVES)
def test_what_no_suite_needs_is_refused_with_a_sentence(what: str) -> None:
    data, words = BAD_ARCHIVES[what]
    with pytest.raises(UsageError, match=words) as raised:
        unpack(data)
    assert str(raised.value).endswith(".")


@pytest.mark.parametrize(
    ("files", "size", "words"),
    [
        pytest.param(1, 8 * 2**20, "times its size", id="bomb"),
        pytest.param(1, 9 * 2**20 + 1, "more than the limit", id="too large"),
        pytest.param(201, 0, "more than the limit", id="too many"),
    ],
)
def test_too_much_is_refused_with_a_sentence(
    files: int, size: int, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zip_upload, "MAX_BYTES", 9 * 2**20)
    monkeypatch.setattr(zip_upload, "MAX_FILES", 200)
    data = make_archive(*((f"{number}", b"0" * size) for number in range(files)))
    with pytest.raises(UsageError, match=words) as raised:
        unpack(data)
    assert str(raised.value).endswith(".")


class Pipe(BytesIO):
    """A file that cannot go back, so that sizes follow the data."""

    def seekable(self) -> bool:
        return False

    def tell(self) -> int:
        raise OSError

    def seek(self, *_: int) -> int:
        raise OSError


def test_streamed_entries_comments_and_extra_fields_are_read() -> None:
    streamed = Pipe()
    with ZipFile(streamed, "w", ZIP_DEFLATED) as file:
        entry = ZipInfo("b.md")
        entry.comment, entry.extra = b"of a file", struct.pack("<HH4s", 0xCAFE, 4, b"more")
        file.writestr("a.md", b"1")
        file.writestr(entry, b"2")
        file.comment = b"of all"
    assert streamed.getvalue()[6] & 0x08
    assert unpack(streamed.getvalue()) == {"a.md": b"1", "b.md": b"2"}


def test_a_name_that_is_written_in_two_ways_is_refused() -> None:
    data = bytearray(make_archive(("\u00e9.md", b"x")))
    data[7] ^= 0x08  # the local header no longer says that its name is UTF-8
    with pytest.raises(UsageError, match="described in two ways"):
        unpack(bytes(data))


def test_entries_that_share_their_data_are_refused() -> None:
    data = bytearray(make_archive(("a", b"x"), ("b", b"x")))
    second = data.index(b"PK\x01\x02", data.index(b"PK\x01\x02") + 1)
    struct.pack_into("<L", data, second + 42, 0)
    with pytest.raises(UsageError, match="overlaps another entry"):
        unpack(bytes(data))


def test_a_size_that_lies_is_found() -> None:
    data = bytearray(make_archive(("a", b"x" * 100), how=ZIP_STORED))
    at = data.index(b"PK\x01\x02") + 24
    data[at : at + 4] = struct.pack("<L", 50)
    with pytest.raises(UsageError, match="damaged"):
        unpack(bytes(data))


def test_the_kind_for_4_gigabytes_is_refused_before_its_directory_is_read() -> None:
    data = make_archive(("a", b"x"))
    end = data.rindex(b"PK\x05\x06")
    with pytest.raises(UsageError, match="4 GB"):
        unpack(data[:end] + b"PK\x06\x07" + b"\0" * 16 + data[end:])


def test_what_systems_add_is_left_out_and_office_files_are_files() -> None:
    office = make_archive(("word/document.xml", b"x"))
    data = make_archive(
        *(("suite/", b""), ("suite/a.md", b"1"), ("suite/b.docx", office)),
        *(("__MACOSX/suite/._a.md", b"2"), ("suite/.DS_Store", b"3")),
    )
    assert unpack(data) == {"suite/a.md": b"1", "suite/b.docx": office}


@given(st.binary(max_size=300), st.integers(0, 400), st.booleans())
def test_a_damaged_archive_is_refused_and_never_breaks(noise: bytes, at: int, replaced: bool) -> None:
    data = make_archive(("suite/a.jsonl", b'{"id": "a"}\n' * 20), ("suite/b.md", b"text"))
    broken = data[:at] + noise + data[at + len(noise) * replaced :]
    if not is_zip(broken):
        return
    with suppress(UsageError):  # and nothing else
        check_paths(unpack(broken))

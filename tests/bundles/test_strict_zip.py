"""Archives as bundles: exactly five entries, and no byte that belongs to none of them."""

from __future__ import annotations

import random
import shutil
import struct
import subprocess
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO
from zipfile import ZIP_BZIP2, ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

import pytest

from proctor.bundles import reader, strict_zip
from proctor.bundles.reader import BUNDLE_FILES, open_bundle
from proctor.errors import BundleError, UsageError

TEXTS = {name: f"{name} one\ntwo\n".encode() * 20 for name in BUNDLE_FILES}


def make_info(name: str, *, method: int = ZIP_DEFLATED, mode: int = 0o100644) -> ZipInfo:
    info = ZipInfo(name, (2026, 3, 1, 12, 0, 0))
    info.compress_type = method
    info.external_attr = mode << 16
    return info


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "bundle.zip"


def write(path: Path, texts: dict[str, bytes] = TEXTS, **fields: int) -> Path:
    with ZipFile(path, "w") as archive:
        for name, data in texts.items():
            archive.writestr(make_info(name, **fields), data)
    return path


def read_contents(path: Path) -> dict[str, bytes]:
    with open_bundle(path) as bundle:
        return {name: bundle.read(name) for name in BUNDLE_FILES}


def assert_refused(path: Path, words: str = "") -> None:
    with pytest.raises(BundleError) as caught:
        read_contents(path)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("method", [ZIP_STORED, ZIP_DEFLATED])
def test_five_plain_entries_are_read(path: Path, method: int) -> None:
    assert read_contents(write(path, method=method)) == TEXTS


def test_entries_in_another_order_and_under_another_ending_are_read(tmp_path: Path) -> None:
    path = write(tmp_path / "bundle", dict(reversed(TEXTS.items())))
    assert read_contents(path) == TEXTS


@pytest.mark.skipif(shutil.which("zip") is None, reason="there is no zip")
def test_an_archive_by_another_program_is_read(path: Path, tmp_path: Path) -> None:
    for name, data in TEXTS.items():
        (tmp_path / name).write_bytes(data)
    subprocess.run(["zip", "-q", path.name, *BUNDLE_FILES], cwd=tmp_path, check=True)
    assert read_contents(path) == TEXTS


@pytest.mark.slow
def test_two_entries_are_read_in_step(path: Path) -> None:
    long = {
        name: random.Random(name).randbytes(10**6).replace(b"\n", b" ") + b"\nend\n" for name in BUNDLE_FILES
    }
    with open_bundle(write(path, long)) as bundle:
        pairs = list(zip(bundle.lines("suite.jsonl"), bundle.lines("trials.jsonl"), strict=True))
    assert pairs[1] == (b"end", b"end")
    assert pairs[0] == (long["suite.jsonl"][:-5], long["trials.jsonl"][:-5])


# --- names and kinds ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        *("../suite.jsonl", "/suite.jsonl", "x/suite.jsonl", "./suite.jsonl", "suite.jsonl/"),
        *("C:suite.jsonl", "..\\suite.jsonl", "Suite.jsonl", "suite.jsonl ", "manifest.json", "\x1b[2J"),
    ],
)
def test_an_entry_elsewhere_or_under_another_name_is_refused(path: Path, name: str) -> None:
    texts = {name if key == "suite.jsonl" else key: data for key, data in TEXTS.items()}
    assert_refused(write(path, texts), "not a file of a bundle" if not name.endswith("/") else "")


def test_an_entry_more_less_or_twice_is_refused(path: Path) -> None:
    assert_refused(write(path, {**TEXTS, "responses/manifest.json": b"{}"}), "has 6 entries instead of 5")
    assert_refused(write(path, {"suite.jsonl": b""}), "has 1 entries instead of 5")
    assert_refused(write(path, {}), "has 0 entries instead of 5")
    texts = list(TEXTS.items())[1:]
    with ZipFile(path, "w") as archive:
        for name, data in texts:
            archive.writestr(make_info(name), data)
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr(make_info("trials.jsonl"), b"")
    assert_refused(path, "lacks suite.jsonl")


@pytest.mark.parametrize("mode", [0o120777, 0o040755, 0o010644, 0o060644, 0o140777])
def test_links_folders_and_devices_are_refused(path: Path, mode: int) -> None:
    assert_refused(write(path, mode=mode), "is a link, a folder or a device")


def test_a_folder_by_its_dos_attribute_is_refused(path: Path) -> None:
    with ZipFile(path, "w") as archive:
        for name, data in TEXTS.items():
            info = make_info(name)
            info.create_system, info.external_attr = 0, 0x10
            archive.writestr(info, data)
    assert_refused(path, "is a link, a folder or a device")


# --- packing -----------------------------------------------------------------------------------------------


def test_other_ways_to_pack_are_refused(path: Path) -> None:
    assert_refused(write(path, method=ZIP_BZIP2), "packed by method 12")


def edit_archive(path: Path, change: Callable[[bytearray], bytes | bytearray]) -> Path:
    path.write_bytes(change(bytearray(write(path).read_bytes())))
    return path


def find_central(data: bytearray) -> int:
    return data.index(b"PK\x01\x02")


def set_flags(flags: int) -> Callable[[bytearray], bytearray]:
    def change(data: bytearray) -> bytearray:
        data[6] |= flags
        data[find_central(data) + 8] |= flags
        return data

    return change


def set_sizes(local: int, central: int, value: int) -> Callable[[bytearray], bytearray]:
    def change(data: bytearray) -> bytearray:
        if local:
            struct.pack_into("<I", data, local, value)
        struct.pack_into("<I", data, find_central(data) + central, value)
        return data

    return change


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (set_flags(0x01), "encrypted or streamed"),
        (set_flags(0x08), "encrypted or streamed"),
        (set_flags(0x40), "encrypted or streamed"),
        (set_sizes(22, 24, 3), "is not what its header says"),
        (set_sizes(22, 24, 10**6), "is not what its header says"),
        (set_sizes(0, 24, 10**6), "is described in two ways"),
        (set_sizes(14, 16, 1), "is not what its header says"),
        (set_sizes(18, 20, 5), "hidden bytes before it"),
        (set_sizes(18, 20, 10**6), ""),
        (set_sizes(0, 42, 10), ""),
        (lambda data: data[:40] + b"\x00" + data[41:], ""),
        (lambda data: b"MZ" * 30 + data, "hidden bytes"),
        (lambda data: data + b"\x00", "cut off, or has bytes after its end"),
        (lambda data: data[:-2] + b"\x05\x00hello", "cut off, or has bytes after its end"),
        (lambda data: data[: find_central(data)] + b"hello" + data[find_central(data) :], "hidden bytes"),
        (lambda data: b"PK", "too short"),
    ],
)
def test_a_lie_about_where_or_how_large_something_is_is_found(
    path: Path, change: Callable[[bytearray], bytes], words: str
) -> None:
    assert_refused(edit_archive(path, change), words)


def test_comments_and_extra_fields_are_refused(path: Path) -> None:
    with ZipFile(write(path), "a") as archive:
        archive.comment = b"see here"
    assert_refused(path, "cut off, or has bytes after its end")
    for field, words in (("comment", "has a comment"), ("extra", "has extra fields")):
        with ZipFile(path, "w") as archive:
            for name, data in TEXTS.items():
                info = make_info(name)
                setattr(info, field, struct.pack("<HH4s", 0xCAFE, 4, b"hide"))
                archive.writestr(info, data)
        assert_refused(path, words)


def test_bytes_behind_the_end_of_packed_data_are_found(path: Path) -> None:
    packing = zlib.compressobj(9, zlib.DEFLATED, -15)
    compressed = packing.compress(TEXTS["suite.jsonl"]) + packing.flush() + b"hidden"
    path.write_bytes(make_archive([(name, compressed, TEXTS["suite.jsonl"]) for name in BUNDLE_FILES]))
    assert_refused(path, "has hidden bytes in the entry")


def make_archive(
    entries: list[tuple[str, bytes, bytes]],
    size: int | None = None,
    *,
    method: int = 8,
    extras: tuple[bytes, bytes] = (b"", b""),
    gap: bytes = b"",
    tail: bytes = b"",
    disk: int = 0,
) -> bytes:
    """Makes an archive of compressed entries whose sizes and offsets are consistent.

    `extras` are those of each entry and of its line in the list, `gap` is before that list and `tail` in it.
    """
    body, directory = b"", b""
    for name, compressed, data in entries:
        numbers = (zlib.crc32(data), len(compressed), len(data) if size is None else size, len(name))
        directory += struct.pack("<4s6H3I2H", b"PK\1\2", 20, 20, 0, method, 0, 0, *numbers, len(extras[1]))
        directory += struct.pack("<3H2I", 0, 0, 0, 0, len(body)) + name.encode() + extras[1]
        body += struct.pack("<4s5H3I2H", b"PK\3\4", 20, 0, method, 0, 0, *numbers, len(extras[0]))
        body += name.encode() + extras[0] + compressed
    count, body, directory = len(entries), body + gap, directory + tail
    return (
        body
        + directory
        + struct.pack("<4s4H2IH", b"PK\5\6", disk, disk, count, count, len(directory), len(body), 0)
    )


UNCOMPRESSED_ENTRIES = [(name, data, data) for name, data in TEXTS.items()]
HIDING, TIMES = struct.pack("<HH4s", 0xCAFE, 4, b"hide"), struct.pack("<HHBI", 0x5455, 5, 1, 0)


def test_an_archive_with_consistent_numbers_is_read(path: Path) -> None:
    path.write_bytes(make_archive(UNCOMPRESSED_ENTRIES, method=0, extras=(TIMES, TIMES)))
    assert read_contents(path) == TEXTS


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"gap": b"hidden"}, "has hidden bytes after its last entry"),
        ({"tail": b"hidden"}, "has hidden bytes in its list of entries"),
        ({"extras": (HIDING, b"")}, "has extra fields"),
        ({"extras": (b"", HIDING)}, "has extra fields"),
        ({"extras": (b"", TIMES[:-1])}, "has extra fields"),
        ({"extras": (struct.pack("<HH33s", 0x5455, 33, b"hide"), b"")}, "has extra fields"),
        ({"size": 7}, "has two sizes"),
        ({"disk": 1}, "several parts"),
    ],
)
def test_hidden_bytes_with_consistent_numbers_are_found(
    path: Path, fields: dict[str, Any], words: str
) -> None:
    path.write_bytes(make_archive(UNCOMPRESSED_ENTRIES, method=0, **fields))
    assert_refused(path, words)


def test_packed_data_that_break_off_are_found(path: Path) -> None:
    packing = zlib.compressobj(9, zlib.DEFLATED, -15)
    text = TEXTS["suite.jsonl"]
    compressed = packing.compress(text) + packing.flush(
        zlib.Z_SYNC_FLUSH
    )  # all the data, without an end marker
    path.write_bytes(make_archive([(name, compressed, text) for name in BUNDLE_FILES]))
    assert_refused(path, "break off")


def test_an_entry_that_is_too_large_is_refused_unread(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(reader._MAX_FILE_BYTES, False, 10)
    assert_refused(write(path), "config.json has 400 bytes; a bundle can have at most 10")


# --- bombs and cuts ----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_bomb_is_refused_before_it_is_unpacked(path: Path) -> None:
    packing = zlib.compressobj(9, zlib.DEFLATED, -15)
    compressed = b"".join(packing.compress(bytes(2**20)) for _ in range(40)) + packing.flush()
    entries = [(name, compressed, b"") for name in BUNDLE_FILES]
    path.write_bytes(make_archive(entries, 40 * 2**20))
    assert_refused(path, "times its size (41943040 bytes), which bundles do not do")


@pytest.mark.slow
def test_a_bomb_that_says_it_is_small_is_unpacked_no_further_than_it_says(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packing = zlib.compressobj(9, zlib.DEFLATED, -15)
    compressed = b"".join(packing.compress(bytes(2**20)) for _ in range(40)) + packing.flush()
    path.write_bytes(make_archive([(name, compressed, b"x" * 100) for name in BUNDLE_FILES]))
    sizes: list[int] = []
    inflate = strict_zip._inflate

    def inflate_and_count(file: BinaryIO, member: strict_zip.ZipMember) -> Iterator[bytes]:
        for piece in inflate(file, member):
            sizes.append(len(piece))
            yield piece

    monkeypatch.setattr(strict_zip, "_inflate", inflate_and_count)
    assert_refused(path, "is not what its header says")
    assert sum(sizes) <= 2**18


def test_entries_that_share_their_data_are_refused(path: Path) -> None:
    data = bytearray(write(path).read_bytes())
    first = find_central(data)
    second = data.index(b"PK\x01\x02", first + 1)
    struct.pack_into("<I", data, second + 42, 0)
    path.write_bytes(data)
    assert_refused(path, "overlaps another entry")


def test_an_archive_that_is_cut_off_anywhere_is_refused(path: Path) -> None:
    data = write(path).read_bytes()
    for end in range(0, len(data), 7):
        path.write_bytes(data[:end])
        assert_refused(path)


def test_no_flipped_byte_changes_what_is_read(path: Path) -> None:
    data = write(path).read_bytes()
    chance = random.Random(1)
    for place in range(len(data)):
        flipped = bytearray(data)
        flipped[place] ^= 1 << chance.randrange(8)
        path.write_bytes(flipped)
        with suppress(BundleError, UsageError):
            assert read_contents(path) == TEXTS, place


def test_what_is_called_zip_and_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text.zip").write_bytes(b"hello, this is no archive of anything at all")
    assert_refused(tmp_path / "text.zip", "cut off")
    (tmp_path / "empty.ZIP").write_bytes(b"")
    assert_refused(tmp_path / "empty.ZIP", "too short")

"""Folders as bundles: exactly five plain files, and nothing is opened that is none of them."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from proctor.bundles import reader
from proctor.bundles.reader import BUNDLE_FILES, open_bundle
from proctor.errors import BundleError, UsageError

TEXTS = {name: f"{name} one\ntwo\n".encode() for name in BUNDLE_FILES}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    bundle = tmp_path / "bundle"
    bundle.mkdir()
    for name, data in TEXTS.items():
        (bundle / name).write_bytes(data)
    return bundle


def assert_refused(path: Path, words: str) -> None:
    with pytest.raises(BundleError) as caught, open_bundle(path):
        pass
    assert words in str(caught.value)


def test_the_five_files_are_read_whole_and_line_by_line(folder: Path) -> None:
    with open_bundle(folder) as bundle:
        for name, data in TEXTS.items():
            hasher = sha256()
            assert bundle.read(name) == data
            assert list(bundle.lines(name, hasher)) == data.splitlines()
            assert bundle.sha256(name) == hasher.hexdigest() == sha256(data).hexdigest()


def test_a_file_is_read_twice_at_once(folder: Path) -> None:
    with open_bundle(folder) as bundle:
        first, second = bundle.lines("suite.jsonl"), bundle.lines("suite.jsonl")
        assert [next(first), next(second), next(first), next(second)] == [
            *(b"suite.jsonl one", b"suite.jsonl one"),
            *(b"two", b"two"),
        ]


@pytest.mark.parametrize("size", [1, 2, 7, 64])
def test_lines_are_the_same_however_the_file_is_cut(
    folder: Path, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = b"\n\na\n" + b"b" * 100 + b"\nlast\n"
    (folder / "suite.jsonl").write_bytes(data)
    monkeypatch.setattr(reader, "_CHUNK_BYTES", size)
    with open_bundle(folder) as bundle:
        assert list(bundle.lines("suite.jsonl")) == data.split(b"\n")[:-1]


def test_a_line_that_does_not_end_and_one_that_is_too_long_are_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "MAX_BUNDLE_LINE_BYTES", 64)
    monkeypatch.setattr(reader, "_CHUNK_BYTES", 16)
    for data, words in (
        (b"a\nb", "suite.jsonl:2 is incomplete"),
        (b"a\n" + b"b" * 99, "suite.jsonl:2 is longer"),
    ):
        (folder / "suite.jsonl").write_bytes(data)
        with open_bundle(folder) as bundle, pytest.raises(BundleError, match=words):
            list(bundle.lines("suite.jsonl"))


@pytest.mark.parametrize("name", BUNDLE_FILES)
def test_a_file_that_is_missing_or_called_otherwise_is_refused(folder: Path, name: str) -> None:
    (folder / name).rename(folder / name.upper())
    assert_refused(folder, f"has {name.upper()!r}, which is not a file of a bundle")
    (folder / name.upper()).unlink()
    assert_refused(folder, f"lacks {name}")


@pytest.mark.parametrize("name", ["ﬁle", "trials.jsonl\u200b", "config.json.", "\x1b[2J", ".DS_Store"])
def test_a_name_that_is_hard_to_see_is_refused_and_shown_as_it_is(folder: Path, name: str) -> None:
    (folder / name).write_bytes(b"")
    assert_refused(folder, f"has {name!a}")


@pytest.mark.skipif(os.name != "posix", reason="links, pipes and sockets as Unix has them")
def test_links_pipes_sockets_and_folders_are_no_plain_files(folder: Path, tmp_path: Path) -> None:
    path = folder / "trials.jsonl"
    (tmp_path / "elsewhere").write_bytes(b"secret\n")
    with socket.socket(socket.AF_UNIX) as listening:
        makers: list[Callable[[], object]] = [
            lambda: path.symlink_to(tmp_path / "elsewhere"),
            lambda: path.symlink_to(tmp_path / "nowhere"),
            lambda: path.symlink_to(path),
            path.mkdir,
            lambda: os.mkfifo(path),
            lambda: listening.bind(str(path)),
        ]
        for make in makers:
            path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
            make()
            assert_refused(folder, "trials.jsonl is a link, a folder or a device, not a regular file")


def test_a_link_to_a_whole_bundle_is_one(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(folder)
    with open_bundle(tmp_path / "link") as bundle:
        assert {name: bundle.read(name) for name in BUNDLE_FILES} == TEXTS


def test_files_that_are_far_too_large_are_refused_unread(folder: Path) -> None:
    for name, size in (("envelope.json", 65 * 2**20), ("suite.jsonl", 2**32)):
        with (folder / name).open("r+b") as file:
            file.truncate(size)  # a sparse file
        assert_refused(folder, f"{name} has {size} bytes")
        (folder / name).write_bytes(TEXTS[name])


def test_what_is_no_bundle_at_all_is_a_wrong_word(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_bytes(b"")
    (tmp_path / "text").write_bytes(b"hello\n")
    (tmp_path / "nothing").write_bytes(b"")
    os.mkfifo(tmp_path / "pipe")
    words = ("nowhere", "empty", "other", "text", "nothing", "pipe", "text/inside", "a\0b", "x" * 5000)
    for name in words:
        with pytest.raises(UsageError), open_bundle(tmp_path / name):
            pass


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_cannot_be_read_is_a_wrong_word(folder: Path) -> None:
    (folder / "config.json").chmod(0)
    with pytest.raises(UsageError, match="cannot be read"), open_bundle(folder):
        pass

"""Logs which files a run reads, each as it was just before, for the process that watches them.

The log is a file of JSON: the reader is the parent process, `cli/watch.py`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from msgspec import Struct

_TREE = "**"
_IGNORED_SUFFIXES = ("~", ".swp", ".swx", ".tmp", ".part", ".bak", ".pyc")
"""The endings of files that editors and programs make for a moment."""
_IGNORED_FOLDERS = ("__pycache__", "node_modules")

FileState = tuple[int, int, int, int]
"""When a file and its entry changed, in nanoseconds, its size and its inode."""


class Listing(Struct, frozen=True):
    """Which files a folder had."""

    folder: str
    pattern: str
    """A glob, or `**` for all files of the folder and those below it."""
    names: tuple[str, ...]


class LoggedRun(Struct, frozen=True, kw_only=True):
    """What the watching process says of a run."""

    id: str
    suite: str
    target: str
    content: str
    """The digest of the cases."""
    asked: int
    reused: int


class FileLogContents(Struct, kw_only=True):
    """What is in a log."""

    files: dict[str, FileState | None] = {}
    """The state of each file by its absolute path; None if it was not there."""
    listings: list[Listing] = []
    notes: list[str] = []
    """Sentences about dependencies of the run that are not files."""
    runs: list[LoggedRun] = []
    ignored: list[str] = []
    """Absolute paths that do not count, such as files that the run itself writes."""
    is_refused: bool = False
    """Whether the command itself is wrong, such as an unknown name, independent of the files."""


class FileLog:
    """The files that a run reads. The first state of a file is kept, so that no change is missed."""

    def __init__(self, path: Path) -> None:
        """Reads which files are ignored; the log need not exist.

        Args:
            path: the file of the log.
        """
        self._path = path
        self.contents = FileLogContents(ignored=read_log(path).ignored)

    def add(self, *paths: Path | str) -> None:
        """Adds files that are read now, or looked for and not there."""
        for path in paths:
            name = os.path.abspath(path)  # noqa: PTH100  # resolve() would follow links
            if name not in self.contents.files and name not in self.contents.ignored:
                self.contents.files[name] = file_state(name)

    def add_listing(self, folder: Path | str, pattern: str) -> None:
        """Adds the files of a folder that match a glob; `**` for all below it."""
        name = os.path.abspath(folder)  # noqa: PTH100
        if any((listing.folder, listing.pattern) == (name, pattern) for listing in self.contents.listings):
            return
        self.contents.listings.append(Listing(name, pattern, list_files(name, pattern)))

    def add_tree(self, folder: Path | str) -> None:
        """Adds all files of a folder and those below it, and the files that may come."""
        self.add_listing(folder, _TREE)
        self.add(*self.contents.listings[-1].names)

    def note(self, sentence: str) -> None:
        """Adds a sentence on what is not watched, once."""
        if sentence not in self.contents.notes:
            self.contents.notes.append(sentence)

    def newest_change(self, paths: Iterable[Path | str]) -> datetime | None:
        """Returns when one of the files last changed, as far as it is there and not ignored."""
        states = [
            state
            for path in paths
            if (name := os.path.abspath(path)) not in self.contents.ignored  # noqa: PTH100
            and (state := file_state(name)) is not None
        ]
        newest_ns = max((max(state[:2]) for state in states), default=None)
        return None if newest_ns is None else datetime.fromtimestamp(newest_ns / 1e9, UTC)

    def save(self) -> None:
        """Writes the log; its reader sees the old one or the new one."""
        write_log(self._path, self.contents)


def file_state(path: str) -> FileState | None:
    """Returns the state of a file; None if there is none, or it is a folder."""
    try:
        status = os.stat(path)  # noqa: PTH116  # a suite can be thousands of files
    except (OSError, ValueError):
        return None
    if os.path.isdir(path):  # noqa: PTH112
        return None
    return status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino


def list_files(folder: str, pattern: str) -> tuple[str, ...]:
    """Returns the absolute paths of the files that a listing has now, sorted; hidden ones are left out."""
    if pattern != _TREE:
        try:
            matches = [str(path) for path in Path(folder).glob(pattern)]
        except (OSError, ValueError, NotImplementedError):
            return ()
        return tuple(sorted(match for match in matches if not match.endswith(_IGNORED_SUFFIXES)))
    names: list[str] = []
    for place, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".") and name not in _IGNORED_FOLDERS]
        names += (
            os.path.join(place, name)  # noqa: PTH118
            for name in files
            if not name.startswith(".") and not name.endswith(_IGNORED_SUFFIXES)
        )
    return tuple(sorted(names))


def read_log(path: Path) -> FileLogContents:
    """Returns what is in a log; it is empty if there is none yet."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=FileLogContents)
    except (OSError, msgspec.DecodeError):
        return FileLogContents()


def write_log(path: Path, contents: FileLogContents) -> None:
    """Writes a log in one step."""
    part = path.with_suffix(".part")
    part.write_bytes(msgspec.json.encode(contents))
    part.replace(path)

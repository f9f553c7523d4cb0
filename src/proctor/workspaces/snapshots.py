"""Takes, compares and restores snapshots of a folder.

A file is recognized by its status (mode, size, times, inode), so that only changed files are read again.
Contents are stored once, in an unnamed file that no program can find.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, suppress
from hashlib import blake2b
from io import BytesIO
from pathlib import Path, PurePosixPath
from tempfile import TemporaryFile
from threading import Lock
from typing import BinaryIO, NamedTuple

from proctor.workspaces.copying import GIT_FOLDER, make_writable, remove_tree

MAX_CONTENT_BYTES = 8 * 2**20
"""In bytes; the content of larger files is not stored, only whether they changed."""

_CLOCK_TICK_NS = 50_000_000
"""A file system's clock ticks every few milliseconds, so a younger file may change again without a new
status. Such a file is compared by its content."""
_BLOCK_BYTES = 2**20
_READ_MODE = 0o500


class FileEntry(NamedTuple):
    """One file."""

    mode: str
    """As in git; empty for anything but a file or a link."""
    status_key: tuple[int, ...]
    """Its status: mode, size, times and inode."""
    is_settled: bool
    """Whether the same status means the same content."""
    size: int
    digest: bytes | None
    """Of its content; None if that is not stored."""


class Snapshot(NamedTuple):
    """The state of a folder; paths have `/` between folders."""

    files: Mapping[str, FileEntry]
    folders: Collection[str]


EMPTY_SNAPSHOT = Snapshot({}, frozenset())


class ContentStore:
    """Stores the contents of files, each once. Thread-safe."""

    def __init__(self, folder: Path) -> None:
        """Creates a temporary file on the disk of `folder`."""
        self._file = TemporaryFile(dir=folder)  # noqa: SIM115  # open until `close`
        self._end = 0
        self._offsets: dict[bytes, tuple[int, int]] = {}
        self._lock = Lock()

    def add(self, source: BinaryIO) -> bytes:
        """Stores the content of an open file and returns its digest."""
        hasher, size = blake2b(digest_size=32), 0
        with self._lock:
            self._file.seek(self._end)
            while block := source.read(_BLOCK_BYTES):
                hasher.update(block)
                self._file.write(block)
                size += len(block)
            digest = hasher.digest()
            if digest not in self._offsets:
                self._offsets[digest] = (self._end, size)
                self._end += size
        return digest

    def read_blocks(self, digest: bytes) -> Iterator[bytes]:
        """Yields a content in blocks."""
        begin, size = self._offsets[digest]
        end = begin + size
        while begin < end:
            with self._lock:
                self._file.seek(begin)
                block = self._file.read(min(_BLOCK_BYTES, end - begin))
            yield block
            begin += len(block)

    def close(self) -> None:
        """Deletes all contents."""
        self._file.close()


# --- snapshots ---------------------------------------------------------------------------------------------


def take_snapshot(
    root: Path,
    contents: ContentStore,
    before: Snapshot = EMPTY_SNAPSHOT,
    *,
    limit: int | None = MAX_CONTENT_BYTES,
    git: bool = False,
) -> Snapshot:
    """Takes a snapshot of a folder.

    Args:
        root: the folder.
        contents: stores the contents of its files.
        before: an earlier snapshot of the folder; unchanged files are not read again.
        limit: the maximum size of stored contents in bytes; None stores all.
        git: include every `.git` folder.
    """
    files: dict[str, FileEntry] = {}
    folders: set[str] = set()
    fresh = time.time_ns() - _CLOCK_TICK_NS
    # If the folder was replaced by a link, that leads elsewhere.
    waiting = [] if root.is_symlink() else [""]
    with ExitStack() as stack:
        while waiting:
            folder = waiting.pop()
            _make_readable(root / folder, stack)
            for name, status in _list_folder(root / folder):
                path = f"{folder}/{name}" if folder else name
                if name == GIT_FOLDER and not git:
                    continue
                if stat.S_ISDIR(status.st_mode):
                    folders.add(path)
                    waiting.append(path)
                    continue
                old = before.files.get(path)
                if old is not None and old.is_settled and old.status_key == _status_key(status):
                    files[path] = old
                else:
                    files[path] = _create_entry(root / path, status, contents, fresh, limit)
    return Snapshot(files, folders)


def is_same(old: FileEntry | None, new: FileEntry | None) -> bool:
    """Whether a path has the same content in two snapshots."""
    if old is None or new is None:
        return old is new
    if old.digest is None or new.digest is None:
        return old.status_key == new.status_key
    return old.mode == new.mode and old.digest == new.digest


def _list_folder(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Yields the names in a folder with their status; nothing if it is gone or cannot be read."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):
                yield entry.name, entry.stat(follow_symlinks=False)


def _make_readable(folder: Path, stack: ExitStack) -> None:
    """Lets the owner read a folder until the stack is closed."""
    with suppress(OSError):
        mode = folder.lstat().st_mode
        if stat.S_ISDIR(mode) and mode & _READ_MODE != _READ_MODE:
            folder.chmod(mode | _READ_MODE)
            stack.callback(_restore_mode, folder, mode)


def _restore_mode(folder: Path, mode: int) -> None:
    with suppress(OSError):
        folder.chmod(mode)


def _status_key(status: os.stat_result) -> tuple[int, ...]:
    return (status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)


def _create_entry(
    path: Path, status: os.stat_result, contents: ContentStore, fresh: int, limit: int | None
) -> FileEntry:
    mode = _git_mode(status.st_mode)
    digest = None
    if mode and (limit is None or status.st_size <= limit):
        # A missing or unreadable file is recognized by its status alone.
        with suppress(OSError):
            digest = _add_content(path, mode, contents)
    is_settled = max(status.st_mtime_ns, status.st_ctime_ns) < fresh
    return FileEntry(mode, _status_key(status), is_settled, status.st_size, digest)


def _git_mode(bits: int) -> str:
    if stat.S_ISLNK(bits):
        return "120000"
    if not stat.S_ISREG(bits):
        return ""
    return "100755" if bits & stat.S_IXUSR else "100644"


def _add_content(path: Path, mode: str, contents: ContentStore) -> bytes:
    if mode == "120000":
        return contents.add(BytesIO(os.fsencode(os.readlink(path))))  # noqa: PTH115  # as it is written
    # Unbuffered: it is read in large blocks.
    with path.open("rb", buffering=0) as file:
        return contents.add(file)


# --- restoring ---------------------------------------------------------------------------------------------


def write_entry(path: Path, entry: FileEntry, contents: ContentStore) -> None:
    """Writes a file with its stored content; the path must not exist."""
    assert entry.digest is not None
    if entry.mode == "120000":
        path.symlink_to(os.fsdecode(b"".join(contents.read_blocks(entry.digest))))
        return
    with path.open("xb") as file:
        file.writelines(contents.read_blocks(entry.digest))
    path.chmod(stat.S_IMODE(entry.status_key[0]))


def restore_snapshot(
    root: Path, target: Snapshot, now: Snapshot, contents: ContentStore, ignored_paths: Collection[str] = ()
) -> None:
    """Restores a folder to a snapshot.

    Args:
        root: the folder.
        target: the snapshot to restore, with the content of every file.
        now: the current snapshot.
        contents: has the contents.
        ignored_paths: paths of files that stay as they are.

    Raises:
        OSError: a file cannot be changed.
    """
    try:
        _restore(root, target, now, contents, ignored_paths)
    except PermissionError:
        make_writable(root)
        _restore(root, target, now, contents, ignored_paths)


def _restore(
    root: Path, target: Snapshot, now: Snapshot, contents: ContentStore, ignored_paths: Collection[str]
) -> None:
    if root.is_symlink() or not root.is_dir():
        _clear_path(root).mkdir()
    for path in now.files.keys() - target.files.keys():
        if path not in ignored_paths:
            (root / path).unlink(missing_ok=True)
    # The folders of ignored files stay, too.
    kept_folders = {str(folder) for path in ignored_paths for folder in PurePosixPath(path).parents}
    for folder in sorted({*now.folders} - {*target.folders} - kept_folders):
        remove_tree(root / folder)
    for folder in sorted({*target.folders} - {*now.folders}):
        _clear_path(root / folder).mkdir()
    for path, entry in target.files.items():
        if (
            path not in ignored_paths
            and entry.digest is not None
            and not _is_untouched(now.files.get(path), entry)
        ):
            write_entry(_clear_path(root / path), entry, contents)


def _is_untouched(now: FileEntry | None, entry: FileEntry) -> bool:
    return now is not None and is_same(now, entry) and now.status_key[0] == entry.status_key[0]


def _clear_path(path: Path) -> Path:
    """Removes what is at a path, and returns the path."""
    remove_tree(path)
    return path

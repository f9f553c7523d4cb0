"""Reads files below a root folder so that no path leads out of it, whatever the folder contains.

Where the system can open a name relative to an open folder (every POSIX system), a path is walked one name
at a time, without following links in the kernel: a link is read and walked in the same way, and `..` goes
back to the parent of the walk. So no link can replace a folder between a check and a use. Where it cannot
(Windows), a path is resolved first and compared with the root; a link that is swapped in between is noticed
only if the opened file is another one than the checked file.

A hard link is the file itself, and a mounted folder is a folder: neither can be told from a file of the root.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path
from types import TracebackType

_MAX_LINKS = 40
"""As many as Linux follows."""
_MAX_DEPTH = 200
"""Each folder of a walk has an open handle, and a process has about a thousand."""
_CHUNK_BYTES = 1_048_576
_MISSING_ERRORS = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
_FOLDER_FLAGS = (
    getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
)
_FILE_FLAGS = (
    os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
)
_HAS_DIR_FD = {os.open, os.stat, os.readlink} <= os.supports_dir_fd
_SPECIAL_FILES = (
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


class PathOutsideRoot(Exception):
    """A path leads out of the root."""


class NoRegularFile(Exception):
    """There is no regular file at a path; the text names what is there instead, if anything."""


class FileTooLarge(Exception):
    """A file is larger than may be read; the text has both sizes."""


class SafeRoot:
    """A folder and its files, as a context manager for one thread. The folder may change meanwhile.

    Every method raises `PathOutsideRoot` for a path that leads out, and OSError or ValueError for one that
    cannot be read.
    """

    def __init__(self, folder: str | Path) -> None:
        self._folder = os.path.abspath(folder)  # noqa: PTH100  # resolve() would follow links
        self._real = os.path.realpath(folder)
        self._root_handles: list[int] = []

    def __enter__(self) -> SafeRoot:
        if _HAS_DIR_FD:
            # A root that is not there has nothing in it: every path below it is absent.
            with suppress(FileNotFoundError, NotADirectoryError):
                self._root_handles.append(os.open(self._real, _FOLDER_FLAGS & ~getattr(os, "O_NOFOLLOW", 0)))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while self._root_handles:
            os.close(self._root_handles.pop())

    def exists(self, path: str) -> bool:
        """Whether anything is at the path; a broken link counts as nothing."""
        try:
            return self._get_status(path) is not None
        except OSError as error:
            if error.errno in _MISSING_ERRORS:
                return False
            raise

    def read(self, path: str, max_bytes: int) -> bytes:
        """Reads a regular file.

        Raises:
            NoRegularFile: there is no regular file; a FIFO, a device or a socket is never opened.
            FileTooLarge: the file has more than `max_bytes` bytes.
        """
        try:
            handle, size = self._open(path)
        except OSError as error:
            if error.errno in _MISSING_ERRORS:
                raise NoRegularFile("") from None
            raise
        try:
            content = bytearray()
            # A file may grow while it is read, and those of /proc say that they are empty.
            while len(content) <= max_bytes and (piece := os.read(handle, min(_CHUNK_BYTES, max_bytes + 1))):
                content += piece
            if max(size, len(content)) > max_bytes:
                raise FileTooLarge(
                    f"it has {max(size, len(content)):,} bytes, and {max_bytes:,} are read at most"
                )
            return bytes(content)
        finally:
            os.close(handle)

    def _get_status(self, path: str) -> os.stat_result | None:
        if not _HAS_DIR_FD:
            return os.stat(self._resolve(path))  # noqa: PTH116
        with _PathWalker(self._root_handles, self._folder, self._real) as walk:
            return walk.status(path)

    def _open(self, path: str) -> tuple[int, int]:
        """Opens a regular file; returns its handle and size."""
        if not _HAS_DIR_FD:
            place = self._resolve(path)
            checked_status = os.stat(place)  # noqa: PTH116
            _check_regular(checked_status)
            return _confirm_same_file(os.open(place, _FILE_FLAGS), checked_status)
        with _PathWalker(self._root_handles, self._folder, self._real) as walk:
            checked_status = walk.status(path)
            _check_regular(checked_status)
            return _confirm_same_file(os.open(walk.name, _FILE_FLAGS, dir_fd=walk.folder), checked_status)

    def _resolve(self, path: str) -> str:
        place = os.path.realpath(os.path.join(self._real, path))  # noqa: PTH118  # an absolute path stays one
        if os.path.commonpath([self._real, place]) != self._real:
            raise PathOutsideRoot
        return place


class _PathWalker:
    """One walk from the root to a name, with the open folders on the way."""

    def __init__(self, root: list[int], *spellings: str) -> None:
        self._root = root
        self._spellings = spellings
        self._folders: list[int] = []
        self._links = 0
        self.name = "."

    def __enter__(self) -> _PathWalker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while self._folders:
            os.close(self._folders.pop())

    @property
    def folder(self) -> int:
        """The handle of the folder that contains `name`."""
        return (self._folders or self._root)[-1]

    def status(self, path: str) -> os.stat_result:
        """Returns the status of the file at the path, links followed; sets `name` and `folder`."""
        names = self._names(path)
        while True:
            self.name = names.pop() if names else "."
            if self.name == "..":
                if not self._folders:
                    raise PathOutsideRoot
                os.close(self._folders.pop())
                continue
            if not self._root:
                raise FileNotFoundError(errno.ENOENT, "the root is missing", path)
            status = os.stat(self.name, dir_fd=self.folder, follow_symlinks=False)
            if stat.S_ISLNK(status.st_mode):
                self._count_link(path)
                names += self._names(os.readlink(self.name, dir_fd=self.folder))
            elif not names:
                return status
            elif len(self._folders) == _MAX_DEPTH:
                raise OSError(errno.ENAMETOOLONG, f"more than {_MAX_DEPTH} folders deep", path)
            else:
                self._folders.append(os.open(self.name, _FOLDER_FLAGS, dir_fd=self.folder))

    def _names(self, path: str) -> list[str]:
        """Returns the names of a path, the last first; an absolute path below the root starts at the root."""
        if path.startswith("/"):
            roots = (spelling.rstrip("/") for spelling in self._spellings)
            below = next((root for root in roots if f"{path}/".startswith(f"{root}/")), None)
            if below is None:
                raise PathOutsideRoot
            path = path[len(below) :]
            while self._folders:
                os.close(self._folders.pop())
        return [name for name in reversed(path.split("/")) if name not in ("", ".")]

    def _count_link(self, path: str) -> None:
        self._links += 1
        if self._links > _MAX_LINKS:
            raise OSError(errno.ELOOP, "too many links", path)


def _check_regular(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise NoRegularFile(next((name for is_kind, name in _SPECIAL_FILES if is_kind(status.st_mode)), ""))


def _confirm_same_file(handle: int, checked_status: os.stat_result) -> tuple[int, int]:
    """Returns the handle and size of the opened file; raises OSError if it is not the checked one."""
    status = os.fstat(handle)
    if (status.st_dev, status.st_ino) != (checked_status.st_dev, checked_status.st_ino):
        os.close(handle)
        raise OSError(errno.EAGAIN, "the file was replaced while it was being opened")
    return handle, status.st_size

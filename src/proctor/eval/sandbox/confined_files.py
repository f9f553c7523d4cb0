"""Files below a root folder, read so that no path leads out of it, whatever stands in the folder.

Where the system can open a name relative to an open folder (every POSIX system), a path is walked one name
at a time, without following links in the kernel: a link is read and walked in the same way, and `..` goes
back to the folder that was come from. So there is no moment between a check and a use in which a link could
be put in the place of a folder. Where it cannot (Windows), a path is resolved first and compared with the
root; a link that is swapped in between is noticed only if the file that was opened is another one than the
file that was looked at.

A hard link is the file itself, and a mounted folder is a folder: neither can be told from a file of the root.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path
from types import TracebackType

_LINKS_MOST = 40
"""As many as Linux follows."""
_DEPTH_MOST = 200
"""One handle is open for each folder that was come through, and a process has about a thousand."""
_READ_AT_ONCE = 1_048_576
_ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
_SEARCHED = getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
_READ = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_STEPWISE = {os.open, os.stat, os.readlink} <= os.supports_dir_fd
_KINDS = (
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


class Outside(Exception):
    """A path that leads out of the root."""


class NoFile(Exception):
    """There is no regular file at a path; the text says what there is instead, and is empty for nothing."""


class TooLarge(Exception):
    """A file of more bytes than may be read; the text names both figures."""


class ConfinedRoot:
    """A folder with what is in it, as a context manager. Each use is one thread's; the folder may change.

    Every method raises `Outside` for a path that leads out, and OSError or ValueError for one that cannot be
    looked at.
    """

    def __init__(self, folder: str | Path) -> None:
        self._folder = os.path.abspath(folder)  # noqa: PTH100  # resolve() would follow links
        self._real = os.path.realpath(folder)
        self._opened: list[int] = []

    def __enter__(self) -> ConfinedRoot:
        if _STEPWISE:
            # A root that is not there has nothing in it: every path below it is absent.
            with suppress(FileNotFoundError, NotADirectoryError):
                self._opened.append(os.open(self._real, _SEARCHED & ~getattr(os, "O_NOFOLLOW", 0)))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while self._opened:
            os.close(self._opened.pop())

    def exists(self, path: str) -> bool:
        """Whether there is anything at the path; a link that leads nowhere counts as nothing."""
        try:
            return self._status(path) is not None
        except OSError as error:
            if error.errno in _ABSENT:
                return False
            raise

    def read(self, path: str, most: int) -> bytes:
        """The content of a regular file.

        Raises:
            NoFile: there is none; a FIFO, a device or a socket is never opened.
            TooLarge: it has more than `most` bytes.
        """
        try:
            handle, size = self._open(path)
        except OSError as error:
            if error.errno in _ABSENT:
                raise NoFile("") from None
            raise
        try:
            content = bytearray()
            # A file may grow while it is read, and those of /proc say that they are empty.
            while len(content) <= most and (piece := os.read(handle, min(_READ_AT_ONCE, most + 1))):
                content += piece
            if max(size, len(content)) > most:
                raise TooLarge(f"it has {max(size, len(content)):,} bytes, and {most:,} are read at most")
            return bytes(content)
        finally:
            os.close(handle)

    def _status(self, path: str) -> os.stat_result | None:
        if not _STEPWISE:
            return os.stat(self._resolved(path))  # noqa: PTH116
        with _Walk(self._opened, self._folder, self._real) as walk:
            return walk.status(path)

    def _open(self, path: str) -> tuple[int, int]:
        """A regular file, opened, and how many bytes it says it has."""
        if not _STEPWISE:
            place = self._resolved(path)
            looked_at = os.stat(place)  # noqa: PTH116
            _check_regular(looked_at)
            return _same(os.open(place, _READ), looked_at)
        with _Walk(self._opened, self._folder, self._real) as walk:
            looked_at = walk.status(path)
            _check_regular(looked_at)
            return _same(os.open(walk.name, _READ, dir_fd=walk.folder), looked_at)

    def _resolved(self, path: str) -> str:
        place = os.path.realpath(os.path.join(self._real, path))  # noqa: PTH118  # an absolute path stays one
        if os.path.commonpath([self._real, place]) != self._real:
            raise Outside
        return place


class _Walk:
    """One walk from the root to a name: the folders that were come through, and what is still to go."""

    def __init__(self, root: list[int], *spellings: str) -> None:
        self._root = root
        self._spellings = spellings
        self._came_through: list[int] = []
        self._links = 0
        self.name = "."

    def __enter__(self) -> _Walk:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while self._came_through:
            os.close(self._came_through.pop())

    @property
    def folder(self) -> int:
        """The open folder in which `name` stands."""
        return (self._came_through or self._root)[-1]

    def status(self, path: str) -> os.stat_result:
        """What stands at the path, links followed; sets `name` and `folder`."""
        to_go = self._names(path)
        while True:
            self.name = to_go.pop() if to_go else "."
            if self.name == "..":
                if not self._came_through:
                    raise Outside
                os.close(self._came_through.pop())
                continue
            if not self._root:
                raise FileNotFoundError(errno.ENOENT, "the root is missing", path)
            found = os.stat(self.name, dir_fd=self.folder, follow_symlinks=False)
            if stat.S_ISLNK(found.st_mode):
                self._count_link(path)
                to_go += self._names(os.readlink(self.name, dir_fd=self.folder))
            elif not to_go:
                return found
            elif len(self._came_through) == _DEPTH_MOST:
                raise OSError(errno.ENAMETOOLONG, f"more than {_DEPTH_MOST} folders deep", path)
            else:
                self._came_through.append(os.open(self.name, _SEARCHED, dir_fd=self.folder))

    def _names(self, path: str) -> list[str]:
        """The names of a path, the last one first; an absolute path below the root begins at the root."""
        if path.startswith("/"):
            roots = (spelling.rstrip("/") for spelling in self._spellings)
            below = next((root for root in roots if f"{path}/".startswith(f"{root}/")), None)
            if below is None:
                raise Outside
            path = path[len(below) :]
            while self._came_through:
                os.close(self._came_through.pop())
        return [name for name in reversed(path.split("/")) if name not in ("", ".")]

    def _count_link(self, path: str) -> None:
        self._links += 1
        if self._links > _LINKS_MOST:
            raise OSError(errno.ELOOP, "too many links", path)


def _check_regular(found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise NoFile(next((name for holds, name in _KINDS if holds(found.st_mode)), ""))


def _same(handle: int, looked_at: os.stat_result) -> tuple[int, int]:
    """The opened file with its size, if it is the one that was looked at."""
    opened = os.fstat(handle)
    if (opened.st_dev, opened.st_ino) != (looked_at.st_dev, looked_at.st_ino):
        os.close(handle)
        raise OSError(errno.EAGAIN, "the file was replaced while it was being opened")
    return handle, opened.st_size

"""Which process is making a run: a lock that the system lets go of when the process dies, however it dies.

A system that follows POSIX lets go of all locks that a process has on a file as soon as it closes that file
anywhere. So all stores of a process share one open file, which stays open as long as any of them uses it.
"""

from __future__ import annotations

import os
import struct
import sys
from pathlib import Path
from threading import Lock
from typing import IO

_TOLD = {"linux": ("hhqqi", 4), "darwin": ("qqihh", 2)}
"""How `struct flock` is laid out where it is known, and the place of the process id in it."""


class Claims:
    """Locks single bytes of one file beside the store, the n-th for the run of key n."""

    def __init__(self, store_path: str) -> None:
        """Opens nothing before the first claim.

        Args:
            store_path: the store's file.
        """
        self._path = Path(f"{store_path}-claims")
        self._shared: _Shared | None = None
        self._mine: set[int] = set()

    def claim(self, key: int) -> bool:
        """Take a run for this process; False when another process has it. A second claim is no other.

        Raises:
            OSError: the file beside the store cannot be written.
        """
        with _GUARD:
            shared = self._file(to_claim=True)
            if key in self._mine:
                return True
            if not shared.holders.get(key):
                try:
                    _lock(shared.file, key)
                except (BlockingIOError, PermissionError):
                    return False
            shared.holders[key] = shared.holders.get(key, 0) + 1
            self._mine.add(key)
        return True

    def seize(self, key: int) -> bool:
        """Take what no store has, of this process or of another; False when one does.

        Raises:
            OSError: the file beside the store cannot be written.
        """
        with _GUARD:
            if self._file(to_claim=True).holders.get(key):
                return False
        return self.claim(key)

    def release(self, key: int) -> None:
        """Let go of one claim. Safe to call for what is not claimed."""
        with _GUARD:
            if self._shared is not None and key in self._mine:
                self._mine.remove(key)
                self._let_go(self._shared, key)

    def claimed(self, key: int) -> bool:
        """Whether any process has that run, this one included; True where the system cannot tell."""
        with _GUARD:
            return self._holder(key) is not None

    def maker(self, key: int) -> int | None:
        """The id of the process that has a run; None where none has it, or the system does not tell which."""
        with _GUARD:
            return self._holder(key) or None

    def _holder(self, key: int) -> int | None:
        """The process that has a run; 0 for one that is not known, None when it is certain that none has."""
        if self._shared is None and not self._path.exists():
            return None
        shared = self._file()
        if shared.holders.get(key):
            return os.getpid()
        return holder_of_lock(shared.file, key)

    def close(self) -> None:
        """Let go of every claim. Safe to call twice."""
        with _GUARD:
            shared, self._shared = self._shared, None
            if shared is None:
                return
            for key in self._mine:
                self._let_go(shared, key)
            self._mine.clear()
            shared.users -= 1
            if not shared.users:
                del _SHARED[shared.name]
                shared.file.close()

    @staticmethod
    def _let_go(shared: _Shared, key: int) -> None:
        shared.holders[key] -= 1
        if not shared.holders[key]:
            del shared.holders[key]
            _unlock(shared.file, key)

    def _file(self, *, to_claim: bool = False) -> _Shared:
        if self._shared is None:
            name = (os.getpid(), str(self._path))  # a forked child has none of its parent's locks
            shared = _SHARED.get(name)
            if shared is None:
                shared = _SHARED[name] = _Shared(name, _open(self._path, to_claim=to_claim))
            shared.users += 1
            self._shared = shared
        return self._shared


class _Shared:
    """The open file of one store's claims, in one process."""

    def __init__(self, name: tuple[int, str], file: IO[bytes]) -> None:
        self.name = name
        self.file = file
        self.users = 0
        self.holders: dict[int, int] = {}
        """How many stores of this process have each run."""


def _open(path: Path, *, to_claim: bool) -> IO[bytes]:
    """The file; one that cannot be written can still be asked who has a run."""
    try:
        return path.open("a+b")
    except OSError:
        if to_claim:
            raise
        return path.open("rb")


_SHARED: dict[tuple[int, str], _Shared] = {}
_GUARD = Lock()


def _lock(file: IO[bytes], place: int) -> None:
    if sys.platform == "win32":
        import msvcrt

        file.seek(place)
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)


def _unlock(file: IO[bytes], place: int) -> None:
    if sys.platform == "win32":
        import msvcrt

        file.seek(place)
        msvcrt.locking(file.fileno(), msvcrt.LK_UNLCK, 1)
    else:
        import fcntl

        fcntl.lockf(file, fcntl.LOCK_UN, 1, place)


def holder_of_lock(file: IO[bytes], place: int) -> int | None:
    """Which other process has a lock, without taking it; 0 for one that the system does not name."""
    told = _TOLD.get(sys.platform)
    if told is None or sys.platform == "win32":
        return 0
    import fcntl

    layout, of_process = told
    if sys.platform == "darwin":
        question = struct.pack(layout, place, 1, 0, fcntl.F_WRLCK, os.SEEK_SET)
    else:
        question = struct.pack(layout, fcntl.F_WRLCK, os.SEEK_SET, place, 1, 0)
    answer = struct.unpack(layout, fcntl.fcntl(file, fcntl.F_GETLK, question))
    kind = answer[3 if sys.platform == "darwin" else 0]
    return None if kind == fcntl.F_UNLCK else max(0, answer[of_process])

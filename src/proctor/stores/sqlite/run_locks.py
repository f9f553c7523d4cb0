"""Locks of runs, which the system releases when their process dies, however it dies.

POSIX systems release all of a process's locks on a file as soon as it closes any descriptor of that file. So
all stores of a process share one open file, which stays open as long as any of them uses it.
"""

from __future__ import annotations

import os
import struct
import sys
from collections.abc import Collection
from pathlib import Path
from threading import Lock
from typing import IO

from proctor.protocols import RunOwner

_FLOCK_LAYOUTS = {"linux": ("hhqqi", 4), "darwin": ("qqihh", 2)}
"""The layout of `struct flock` on systems where it is known, and the index of the process id in it."""


class RunLocks:
    """Locks single bytes of one file beside the store: byte n for the run with key n."""

    def __init__(self, store_path: str) -> None:
        """Stores the path; the file is opened for the first lock.

        Args:
            store_path: the store's file.
        """
        self._path = Path(f"{os.path.realpath(store_path)}-claims")
        self._shared: SharedLocks | None = None
        self._own_keys: set[int] = set()

    def lock(self, key: int) -> bool:
        """Locks a run for this process; returns False if another process has locked it. Safe to call twice.

        Raises:
            OSError: the file beside the store cannot be written.
        """
        with _GUARD:
            shared = self._share(writes=True)
            if key in self._own_keys:
                return True
            if not shared.counts.get(key) and not shared.lock(key):
                return False
            shared.counts[key] = shared.counts.get(key, 0) + 1
            self._own_keys.add(key)
        return True

    def lock_if_free(self, key: int) -> bool:
        """Locks a run unless any store, of this process or another, has locked it; returns whether it did.

        Raises:
            OSError: the file beside the store cannot be written.
        """
        with _GUARD:
            if self._share(writes=True).counts.get(key):
                return False
        return self.lock(key)

    def unlock(self, key: int) -> None:
        """Releases one lock. Safe to call for a run that is not locked."""
        with _GUARD:
            if self._shared is not None and key in self._own_keys:
                self._own_keys.remove(key)
                self._shared.release(key)

    def is_locked(self, key: int) -> bool:
        """Returns whether any process, even this one, has locked a run; True if the system cannot tell."""
        with _GUARD:
            return self._find_holder(key) is not None

    def find_unlocked(self, keys: Collection[int]) -> set[int]:
        """Returns those of some runs that certainly no process has locked."""
        return {key for key in keys if not self.is_locked(key)}

    def find_owner(self, key: int) -> RunOwner | None:
        """Returns the process that has locked a run; None if certainly none has."""
        with _GUARD:
            pid = self._find_holder(key)
            return None if pid is None else RunOwner(pid=pid or None)

    def request_stop(self, key: int) -> bool:  # noqa: ARG002
        """Returns False: processes that share a file are stopped by signals."""
        return False

    def is_stop_requested(self, key: int) -> bool:  # noqa: ARG002
        """Returns False, as `request_stop` does."""
        return False

    def _find_holder(self, key: int) -> int | None:
        """Returns the process that has locked a run; 0 for an unknown one, None if certainly none has."""
        shared = self._share_if_there()
        if shared is None:
            return None
        return os.getpid() if shared.counts.get(key) else shared.find_holder(key)

    def close(self) -> None:
        """Releases all locks. Safe to call twice."""
        with _GUARD:
            shared, self._shared = self._shared, None
            if shared is None:
                return
            for key in self._own_keys:
                shared.release(key)
            self._own_keys.clear()
            shared.users -= 1
            if not shared.users:
                shared.close()

    def _share_if_there(self) -> SharedLocks | None:
        """Returns the locks of this process; None if no process has ever locked a run."""
        return self._share() if self._shared is not None or self._path.exists() else None

    def _share(self, *, writes: bool = False) -> SharedLocks:
        if self._shared is None:
            self._shared = self._find_shared(writes=writes)
            self._shared.users += 1
        return self._shared

    def _find_shared(self, *, writes: bool) -> SharedLocks:
        name = (os.getpid(), str(self._path))  # a forked child does not inherit its parent's locks
        shared = _SHARED.get(name)
        if shared is None:
            shared = _SHARED[name] = _FileLocks(name, _open(self._path, writes=writes))
        return shared


class SharedLocks:
    """The locks of one store in memory, which no other process can lock."""

    def __init__(self) -> None:
        """Creates it without locks."""
        self.users = 0
        self.counts: dict[int, int] = {}
        """The number of open stores of this process that have locked each run, by key."""

    def release(self, key: int) -> None:
        """Removes one store from those that have locked a run; after the last one the run is unlocked."""
        self.counts[key] -= 1
        if not self.counts[key]:
            del self.counts[key]
            self.unlock(key)

    def lock(self, key: int) -> bool:  # noqa: ARG002
        """Locks a run against other processes; returns False if one has locked it."""
        return True

    def unlock(self, key: int) -> None:
        """Lets other processes lock a run."""

    def find_holder(self, key: int) -> int | None:  # noqa: ARG002
        """Returns the other process that has locked a run; 0 for an unknown one, None for none."""
        return None

    def close(self) -> None:
        """Releases all locks."""


class _FileLocks(SharedLocks):
    """The open lock file of one store in one process."""

    def __init__(self, name: tuple[int, str], file: IO[bytes]) -> None:
        super().__init__()
        self._name = name
        self._file = file

    def lock(self, key: int) -> bool:
        try:
            _lock(self._file, key)
        except (BlockingIOError, PermissionError):
            return False
        return True

    def unlock(self, key: int) -> None:
        _unlock(self._file, key)

    def find_holder(self, key: int) -> int | None:
        return find_lock_holder(self._file, key)

    def close(self) -> None:
        del _SHARED[self._name]
        self._file.close()


def _open(path: Path, *, writes: bool) -> IO[bytes]:
    """Opens the lock file; one that cannot be written still shows who has locked a run."""
    try:
        return path.open("a+b")
    except OSError:
        if writes:
            raise
        return path.open("rb")


_SHARED: dict[tuple[int, str], _FileLocks] = {}
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


def find_lock_holder(file: IO[bytes], place: int) -> int | None:
    """Returns the other process that has a lock, without taking it; 0 if the system does not name it."""
    flock = _FLOCK_LAYOUTS.get(sys.platform)
    if flock is None or sys.platform == "win32":
        return 0
    import fcntl

    layout, process_field = flock
    if sys.platform == "darwin":
        question = struct.pack(layout, place, 1, 0, fcntl.F_WRLCK, os.SEEK_SET)
    else:
        question = struct.pack(layout, fcntl.F_WRLCK, os.SEEK_SET, place, 1, 0)
    answer = struct.unpack(layout, fcntl.fcntl(file, fcntl.F_GETLK, question))
    kind = answer[3 if sys.platform == "darwin" else 0]
    return None if kind == fcntl.F_UNLCK else max(0, answer[process_field])

"""Which process is making a run: a lock that the system lets go of when the process dies, however it dies."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import IO


class Claims:
    """Locks single bytes of one file beside the store, the n-th for the run of key n."""

    def __init__(self, store_path: str) -> None:
        """Opens nothing before the first claim.

        Args:
            store_path: the store's file.
        """
        self._path = Path(f"{store_path}-claims")
        self._file: IO[bytes] | None = None

    def claim(self, key: int) -> bool:
        """Take a run for this process; False when another process has it. A second claim is no other.

        Raises:
            OSError: the file beside the store cannot be written.
        """
        if self._file is None:
            self._file = self._path.open("ab")
        try:
            _lock(self._file, key)
        except (BlockingIOError, PermissionError):
            return False
        return True

    def close(self) -> None:
        """Let go of every claim. Safe to call twice."""
        if self._file is not None:
            self._file.close()
            self._file = None


def _lock(file: IO[bytes], place: int) -> None:
    if sys.platform == "win32":
        import msvcrt

        file.seek(place)
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)

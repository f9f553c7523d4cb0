"""A file as a lock between processes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def lock_file(path: Path) -> Iterator[None]:
    """Holds an exclusive lock that other processes wait for; the system releases it if this process dies.

    Raises:
        OSError: the file to lock cannot be made.
    """
    with path.open("ab") as file:
        if sys.platform == "win32":
            import msvcrt

            while True:
                try:
                    msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)
                    break
                except OSError:
                    continue  # it gives up after ten seconds
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        yield

"""Checks whether a path still names the file that this process has open."""

from __future__ import annotations

import os
import sys
from time import sleep

_PAUSE_S = 0.05
"""Time before a suspected change is checked again: a rename over a network takes a moment."""


class FileChanged(OSError):
    """A path no longer names the file that is open; its text says what happened, without a full stop."""


class FileIdentity:
    """The device and inode of a file that was just opened.

    On Windows an open file cannot be deleted or replaced, so nothing is checked. If a file system gives a
    file a new number each time, only its absence counts. An error, such as that of a mount that does not
    answer, is not a change.
    """

    def __init__(self, path: str) -> None:
        """Records the file's identity; links on the way to it may change later.

        Args:
            path: the file.
        """
        self._path = os.path.realpath(path)
        self._file_id = _file_id(self._path)
        self._is_stable = self._file_id is not None and self._file_id == _file_id(self._path)

    def check(self) -> None:
        """Checks that the path still names the file.

        Raises:
            FileChanged: it does not.
        """
        if self._find_change() is not None and (change := self._find_change(_PAUSE_S)) is not None:
            raise FileChanged(f"{self._path} was {change}")

    def _find_change(self, pause_s: float = 0.0) -> str | None:
        if pause_s:
            sleep(pause_s)
        try:
            number = _file_id(self._path)
        except OSError:
            return None
        if number is None:
            return "deleted"
        return "replaced by another file" if self._is_stable and number != self._file_id else None


def _file_id(path: str) -> tuple[int, int] | None:
    """Returns the device and inode; None if there is no such file."""
    if sys.platform == "win32":
        return (0, 0)
    try:
        status = os.stat(path)  # noqa: PTH116  # runs after every commit; Path takes three times as long
    except (FileNotFoundError, NotADirectoryError):
        return None
    return status.st_dev, status.st_ino

"""Reads and writes files of keys: atomically, and readable only by their owner."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from shlex import quote
from stat import S_IMODE, S_ISREG

from proctor import file_lock
from proctor.errors import UsageError

_MAX_BYTES = 1 << 20
"""A larger file is no file of keys."""
_OTHERS_READ, _OTHERS_WRITE = 0o077, 0o002


def make_private_folder(folder: Path) -> None:
    """Creates a folder that only its owner can read, if it is missing.

    Raises:
        UsageError: it cannot be created, or is not a folder.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"The key folder {folder} cannot be created: {error.strerror}.") from None


def create_private(path: Path, data: bytes, mode: int) -> bool:
    """Creates a file atomically; returns False if it already exists.

    Raises:
        UsageError: it cannot be written.
    """
    part = _write_part(path, data, mode)
    try:
        try:
            os.link(part, path)  # unlike a rename, it never replaces a file
        except FileExistsError:
            return False
        except OSError:  # a file system without hard links
            _write_new(path, data, mode)
        return True
    except FileExistsError:
        return False
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}.") from None
    finally:
        with suppress(OSError):
            part.unlink()


def write_private(path: Path, data: bytes, mode: int) -> None:
    """Writes or replaces a file atomically.

    Raises:
        UsageError: it cannot be written; an existing file is unchanged.
    """
    path = path.resolve()  # a link stays, and its target is written
    part = _write_part(path, data, mode)
    try:
        part.replace(path)
    except OSError as error:
        with suppress(OSError):
            part.unlink()
        raise UsageError(f"{path} cannot be written: {error.strerror}.") from None


def read_private(path: Path, *, secret: bool = False) -> bytes | None:
    """Returns the content of a file; None if there is none.

    Args:
        path: the file.
        secret: also require that others cannot read it; they may never be able to write it.

    Raises:
        UsageError: it cannot be read, is not a file, is too large, or its permissions are too open.
    """
    try:
        if path.exists() and not path.is_file():  # opening a pipe would wait for its other end
            raise UsageError(f"{path} is not a file. Move it away, or choose another key folder.")
        with path.open("rb") as file:
            _check_mode(path, os.fstat(file.fileno()), secret=secret)
            data = file.read(_MAX_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from None
    if len(data) > _MAX_BYTES:
        raise UsageError(f"{path} is too large to be a key file. Check that it is the right file.")
    return data


@contextmanager
def lock_private(path: Path) -> Iterator[None]:
    """Holds the lock of a file of keys, as `file_lock.locked` does.

    Raises:
        UsageError: the file to lock cannot be made.
    """
    with ExitStack() as stack:
        try:
            stack.enter_context(file_lock.lock_file(path))
        except OSError as error:
            raise UsageError(f"{path} cannot be written: {error.strerror}.") from None
        yield


def _check_mode(path: Path, status: os.stat_result, *, secret: bool) -> None:
    if os.name != "posix" or not S_ISREG(status.st_mode):
        return
    mode = S_IMODE(status.st_mode)
    if secret and mode & _OTHERS_READ:
        raise UsageError(
            f"{path} holds a private key and others may read it (mode {mode:04o}). Nothing was signed. "
            f"If nobody else has seen it: chmod 600 {quote(str(path))}"
        )
    if mode & _OTHERS_WRITE:
        raise UsageError(
            f"Every user can write to {path}. Check that its content is yours, then run: chmod 644 "
            f"{quote(str(path))}"
        )


def _write_part(path: Path, data: bytes, mode: int) -> Path:
    part = path.with_name(f".{token_hex(8)}.part")
    try:
        _write_new(part, data, mode)
    except OSError as error:
        with suppress(OSError):
            part.unlink()
        raise UsageError(f"{path} cannot be written: {error.strerror}.") from None
    return part


def _write_new(path: Path, data: bytes, mode: int) -> None:
    """Creates a file with these permissions from the start, and waits until it is on the disk."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:  # noqa: PTH123  # by descriptor
        file.write(data)
        file.flush()
        os.fsync(file.fileno())

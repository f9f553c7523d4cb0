"""Reads bundles: a folder or an archive with exactly five plain files, never unpacked to disk.

A bundle may be hostile. Only the five files are opened, no link is followed, and no more is read or kept in
memory than the limits here allow.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from proctor.bundles import strict_zip
from proctor.bundles.strict_zip import BadArchive
from proctor.errors import BundleError, UsageError, suggest_file
from proctor.proof.statement import ENVELOPE, FILES

if TYPE_CHECKING:
    from hashlib import _Hash as Hash

BUNDLE_FILES = (*FILES, ENVELOPE)
MAX_BUNDLE_LINE_BYTES = 16 * 2**20
"""The maximum bytes of one line, and so of one case or trial."""
_MAX_FILE_BYTES = {True: 4 * 2**30 - 2, False: 64 * 2**20}
"""The maximum bytes of a file: True for files read line by line, False for others."""
_CHUNK_BYTES = 2**18
_OPEN_FLAGS = (
    os.O_RDONLY
    | getattr(os, "O_NONBLOCK", 0)  # opening a pipe would wait for its other end
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)

ChunkReader = Callable[[str], Iterator[bytes]]
"""Yields the content of a file, given its name."""


class Bundle:
    """The five files of an open bundle. Their content is not checked here."""

    def __init__(self, path: str, pieces: ChunkReader) -> None:
        """Use `open_bundle`.

        Args:
            path: the folder or archive, as the user wrote it.
            pieces: reads a file from its beginning.
        """
        self.path = path
        self._read_chunks = pieces

    def sha256(self, name: str) -> str:
        """Returns the SHA-256 of a file, as 64 hexadecimal digits.

        Raises:
            BundleError: the archive is damaged there.
            UsageError: the disk cannot be read.
        """
        hasher = sha256()
        for piece in self._read(name):
            hasher.update(piece)
        return hasher.hexdigest()

    def read(self, name: str) -> bytes:
        """Returns the content of a file other than `.jsonl`.

        Raises:
            BundleError: the archive is damaged there.
            UsageError: the disk cannot be read.
        """
        return b"".join(self._read(name))

    def lines(self, name: str, hasher: Hash | None = None) -> Iterator[bytes]:
        """Yields the lines of a file without line endings; every call reads the file again in chunks.

        Args:
            name: the file.
            hasher: updated with every byte that is read.

        Raises:
            BundleError: a line is too long or does not end, or the archive is damaged there.
            UsageError: the disk cannot be read.
        """
        partial_line, count = b"", 0
        for piece in self._read(name):
            if hasher is not None:
                hasher.update(piece)
            first, *lines = piece.split(b"\n")
            if len(partial_line) + len(first) > MAX_BUNDLE_LINE_BYTES:
                raise BundleError(
                    f"{self.path}: {name}:{count + 1} is longer than {MAX_BUNDLE_LINE_BYTES} bytes, which is "
                    f"the limit for a line."
                )
            if not lines:
                partial_line += first
                continue
            yield partial_line + first
            yield from lines[:-1]
            partial_line, count = lines[-1], count + len(lines)
        if partial_line:
            raise BundleError(
                f"{self.path}: {name}:{count + 1} is incomplete: it is cut off, or its last newline is "
                f"missing."
            )

    def _read(self, name: str) -> Iterator[bytes]:
        try:
            yield from self._read_chunks(name)
        except BadArchive as error:
            raise BundleError(f"{self.path} {error}.") from None
        except OSError as error:
            raise UsageError(f"{self.path}: {name} cannot be read: {error.strerror}.") from None


@contextmanager
def open_bundle(path: str | Path) -> Iterator[Bundle]:
    """Opens a bundle for the duration of the block.

    Args:
        path: a folder, or a ZIP archive.

    Raises:
        BundleError: it does not have exactly the five files, or one is not a plain file or too large.
        UsageError: it does not exist, is not a bundle, or cannot be read.
    """
    with ExitStack() as stack:
        try:
            status = Path(path).stat()
            if stat.S_ISDIR(status.st_mode):
                bundle = _open_folder(Path(path), str(path), stack)
            elif stat.S_ISREG(status.st_mode):
                bundle = _open_archive(Path(path), str(path), stack)
            else:
                raise UsageError(f"{path} is neither a folder nor a file, so it is not a bundle.")
        except FileNotFoundError:
            raise UsageError(f"There is no bundle at {path}.{suggest_file(str(path))}") from None
        except (OSError, ValueError) as error:  # a name with a null character is a ValueError
            why = getattr(error, "strerror", None) or error
            raise UsageError(f"{path} cannot be read: {why}.") from None
        yield bundle


def _open_folder(folder: Path, path: str, stack: ExitStack) -> Bundle:
    names = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name not in BUNDLE_FILES:
                if not any((folder / name).is_symlink() or (folder / name).exists() for name in BUNDLE_FILES):
                    raise UsageError(
                        f"The folder {path} is not a bundle: it contains none of {', '.join(BUNDLE_FILES)}."
                    )
                raise BundleError(f"{path} has {entry.name!a}, which is not a file of a bundle.")
            names.append(entry.name)
    if not names:
        raise UsageError(f"The folder {path} is not a bundle: it is empty.")
    _check_names(path, names)
    files = {name: _open_plain_file(folder / name, f"{path}: {name}", stack) for name in BUNDLE_FILES}
    sizes = {name: os.fstat(file.fileno()).st_size for name, file in files.items()}
    _check_sizes(path, sizes)
    return Bundle(path, lambda name: _read_chunks(files[name], sizes[name]))


def _open_plain_file(path: Path, called: str, stack: ExitStack) -> BinaryIO:
    wrong = BundleError(f"{called} is a link, a folder or a device, not a regular file.")
    if not stat.S_ISREG(path.lstat().st_mode):
        raise wrong
    file = _open_file(path, _OPEN_FLAGS | getattr(os, "O_NOFOLLOW", 0), stack)
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        raise wrong
    return file


def _open_file(path: Path, flags: int, stack: ExitStack) -> BinaryIO:
    return stack.enter_context(open(os.open(path, flags), "rb", buffering=0))  # noqa: PTH123  # by descriptor


def _read_chunks(file: BinaryIO, size: int) -> Iterator[bytes]:
    """Yields at most `size` bytes from the beginning, without what is appended meanwhile."""
    place = 0
    while place < size:
        file.seek(place)  # each time, as a file may be read twice at once
        piece = file.read(min(_CHUNK_BYTES, size - place))
        if not piece:
            return
        place += len(piece)
        yield piece


def _open_archive(file_path: Path, path: str, stack: ExitStack) -> Bundle:
    file = _open_file(file_path, _OPEN_FLAGS, stack)
    if file.read(2) != strict_zip.MAGIC and file_path.suffix.lower() != ".zip":
        raise UsageError(f"{path} is not a bundle: it is neither a folder nor a ZIP archive.")
    try:
        zip_members = strict_zip.read_members(file, len(BUNDLE_FILES))
    except BadArchive as error:
        raise BundleError(f"{path} {error}.") from None
    for member in zip_members:
        if member.name not in BUNDLE_FILES:
            raise BundleError(f"{path} has the entry {member.name!a}, which is not a file of a bundle.")
    _check_names(path, [member.name for member in zip_members])
    members = {member.name: member for member in zip_members}
    _check_sizes(path, {name: member.size for name, member in members.items()})
    return Bundle(path, lambda name: strict_zip.read_chunks(file, members[name]))


def _check_names(path: str, names: list[str]) -> None:
    """Raises BundleError unless each file of a bundle is there exactly once."""
    for name in BUNDLE_FILES:
        if names.count(name) != 1:
            raise BundleError(f"{path} {'lacks' if name not in names else 'has more than one'} {name}.")


def _check_sizes(path: str, sizes: dict[str, int]) -> None:
    for name, size in sizes.items():
        most = _MAX_FILE_BYTES[name.endswith(".jsonl")]
        if size > most:
            raise BundleError(f"{path}: {name} has {size} bytes; a bundle can have at most {most}.")

"""Writes bundles, as folders or archives: atomically, and never over anything else.

An archive is a ZIP whose entries are stored uncompressed, with a fixed date and order, so that the same
bundle always has the same bytes: compressors differ from version to version.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from filecmp import cmp
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, BinaryIO

from proctor.bundles.reader import BUNDLE_FILES, open_bundle
from proctor.errors import BundleError, UsageError
from proctor.proof.statement import ENVELOPE, FILES

if TYPE_CHECKING:
    from hashlib import _Hash as Hash

ARCHIVE_SUFFIX = ".zip"
_BUFFER_BYTES = 2**18
_ENTRY_DATE = (1980, 1, 1, 0, 0, 0)
"""The earliest date in a ZIP archive."""


class BundleDigests:
    """Computes the digests of a bundle's files from their lines, without keeping them."""

    def __init__(self) -> None:
        """Starts without lines."""
        self._hashers: dict[str, Hash] = {name: sha256() for name in BUNDLE_FILES}

    def add(self, name: str, line: bytes) -> None:
        """The next line of a file, which has no line end yet."""
        self._hashers[name].update(line)
        self._hashers[name].update(b"\n")

    def digests(self) -> dict[str, str]:
        """Returns the SHA-256 of each of `CERTIFICATE_FILES`, over its lines so far."""
        return {name: self._hashers[name].hexdigest() for name in FILES}


class BundleWriter(BundleDigests):
    """Writes a bundle under a temporary name."""

    def __init__(self, folder: Path) -> None:
        """Use `create_bundle`.

        Args:
            folder: the folder for its files until it is complete.
        """
        super().__init__()
        self.folder = folder
        self._open = ExitStack()
        self._files: dict[str, BinaryIO] = {}

    def add(self, name: str, line: bytes) -> None:
        """The next line of a file, which has no line end yet."""
        super().add(name, line)
        if name not in self._files:
            file = open(self.folder / name, "wb", buffering=_BUFFER_BYTES)  # noqa: PTH123, SIM115  # `close` ends it
            self._files[name] = self._open.enter_context(file)
        self._files[name].write(line)
        self._files[name].write(b"\n")

    def close(self) -> None:
        """Closes the files. Safe to call twice."""
        self._open.close()


@contextmanager
def create_bundle(path: Path) -> Iterator[BundleWriter]:
    """Creates a bundle, which appears at its path when the block ends, and not at all if the block fails.

    Args:
        path: a folder, or an archive if it ends in `.zip`. An identical bundle at the path stays; nothing is
            ever replaced.

    Raises:
        UsageError: something else is at the path, or it cannot be written.
    """
    check_bundle_path(path)
    with _as_usage_error(path), _open_writer(path) as draft:
        yield draft
        draft.close()
        part = _pack(draft.folder) if _is_archive(path) else _make_readable(draft.folder)
        try:
            _publish(part, path)
        except FileExistsError:
            raise UsageError(_taken_path_message(path, draft.folder)) from None


def check_bundle_path(path: Path) -> None:
    """Checks that a bundle can be at a path, before any work is done.

    Raises:
        UsageError: its folder does not exist, or something else is at the path.
    """
    if not path.absolute().parent.is_dir():
        raise UsageError(f"The folder of {str(path)!r} does not exist. Create it first.")
    if not os.path.lexists(path):
        return
    folder = path.is_dir()
    if folder == _is_archive(path) or (
        folder and {file.name for file in path.iterdir()} != set(BUNDLE_FILES)
    ):
        raise UsageError(_exists_message(path))


def replace_envelope(path: Path, digests: dict[str, str], before: bytes, envelope: bytes) -> None:
    """Replaces the envelope of a bundle; its other files are unchanged.

    Args:
        path: the bundle.
        digests: the digests of its files in its statement.
        before: the current content of envelope.json.
        envelope: the only line of the new envelope.json.

    Raises:
        BundleError: a file has changed since it was checked, as when somebody else signs it, too.
        UsageError: it cannot be written.
    """
    path = path.resolve()  # a link stays, and its target is signed
    with _as_usage_error(path), _open_writer(path) as draft:
        if path.is_dir():
            draft.add(ENVELOPE, envelope)
            draft.close()
            _make_readable(draft.folder)
            _check_unchanged(path, before)
            (draft.folder / ENVELOPE).replace(path / ENVELOPE)
            return
        with open_bundle(path) as bundle:
            for name in FILES:
                for line in bundle.lines(name):
                    draft.add(name, line)
        if draft.digests() != digests:
            raise _changed_error(path)
        draft.add(ENVELOPE, envelope)
        draft.close()
        archive_path = _pack(draft.folder)
        _check_unchanged(path, before)
        archive_path.replace(path)


def _check_unchanged(path: Path, before: bytes) -> None:
    with open_bundle(path) as bundle:
        if bundle.read(ENVELOPE) != before:
            raise _changed_error(path)


def _changed_error(path: Path) -> BundleError:
    return BundleError(
        f"{path} changed while you signed it, so it does not contain your signature. Try again."
    )


def _is_archive(path: Path) -> bool:
    return path.suffix.lower() == ARCHIVE_SUFFIX


@contextmanager
def _as_usage_error(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UsageError(f"{str(path)!r} cannot be written: {error.strerror or error}.") from None


@contextmanager
def _open_writer(path: Path) -> Iterator[BundleWriter]:
    """Opens a writer in a temporary folder beside a path; removes the folder afterwards."""
    folder = path.absolute().with_name(f".{path.name}.{token_hex(6)}.part")
    folder.mkdir(mode=0o700)
    draft = BundleWriter(folder)
    try:
        yield draft
    finally:
        draft.close()
        shutil.rmtree(folder, ignore_errors=True)


def _make_readable(folder: Path) -> Path:
    for file in folder.iterdir():
        file.chmod(0o644)
    folder.chmod(0o755)
    return folder


def _pack(folder: Path) -> Path:
    """Packs a folder's files into an archive inside the folder and returns its path.

    Raises:
        UsageError: it would exceed the size limit of archives.
    """
    from zipfile import LargeZipFile, ZipFile, ZipInfo

    archive_path = folder / f"packed{ARCHIVE_SUFFIX}"
    try:
        with ZipFile(archive_path, "w", allowZip64=False) as archive:
            for name in BUNDLE_FILES:
                entry = ZipInfo(name, _ENTRY_DATE)
                entry.create_system, entry.external_attr = 3, 0o100644 << 16
                entry.file_size = (folder / name).stat().st_size
                with (folder / name).open("rb") as read, archive.open(entry, "w") as target:
                    shutil.copyfileobj(read, target, _BUFFER_BYTES)
    except (LargeZipFile, RuntimeError):
        raise UsageError(
            "The bundle is larger than 2 GiB, the limit of an archive. Write it as a folder: use a path that "
            "does not end in {ARCHIVE_SUFFIX}."
        ) from None
    archive_path.chmod(0o644)
    return archive_path


def _publish(part: Path, path: Path) -> None:
    """Moves the finished part to its path.

    Raises:
        FileExistsError: something else is at the path.
    """
    if os.path.lexists(path):
        if not _has_same_content(part, path):
            raise FileExistsError
    elif part.is_dir():
        part.rename(path)
    else:
        try:
            os.link(part, path)  # unlike a rename, it never replaces a file
        except FileExistsError:
            raise
        except OSError:  # a file system without hard links
            part.rename(path)


def _has_same_content(part: Path, path: Path) -> bool:
    if part.is_file():
        return path.is_file() and cmp(part, path, shallow=False)
    names: Iterable[str] = (file.name for file in path.iterdir()) if path.is_dir() else ()
    return set(names) == set(BUNDLE_FILES) and all(
        cmp(part / name, path / name, shallow=False) for name in BUNDLE_FILES
    )


def _taken_path_message(path: Path, part: Path) -> str:
    """Returns why a bundle cannot be at a path, and what to do."""
    from json import loads
    from shlex import quote

    try:
        with open_bundle(path) as bundle:
            payload = loads(bundle.read(ENVELOPE))["payload"]
        if payload == loads((part / ENVELOPE).read_bytes())["payload"]:
            return (
                f"{str(path)!r} is already a bundle of this run, with other signatures. To add yours, "
                f"run: `proctor attest {quote(str(path))}`."
            )
    except (BundleError, UsageError, OSError, ValueError, LookupError, TypeError, RecursionError):
        pass
    return _exists_message(path)


def _exists_message(path: Path) -> str:
    return f"{str(path)!r} already exists and is not this bundle. Choose another path, or move it away."


# --- single files ------------------------------------------------------------------------------------------


def check_file_path(path: Path) -> None:
    """Checks that a file can be at a path, before any work is done.

    Raises:
        UsageError: its folder does not exist, or the path is a folder.
    """
    if path.is_dir():
        raise UsageError(f"{str(path)!r} is a folder. Choose a file with -o.")
    if not path.absolute().parent.is_dir():
        raise UsageError(f"The folder of {str(path)!r} does not exist. Create it first.")


def write_new_file(path: Path, data: bytes) -> None:
    """Writes a file without replacing another; an identical file at the path stays.

    Raises:
        UsageError: something else is at the path, or it cannot be written.
    """
    with _as_usage_error(path), _open_writer(path) as draft:
        part = draft.folder / "proof"
        part.write_bytes(data)
        part.chmod(0o644)
        try:
            _publish(part, path)
        except FileExistsError:
            raise UsageError(_exists_message(path)) from None

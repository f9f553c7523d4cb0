"""A suite's file or folder as a dialect sees it, with what the suite may read of the files around it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import cached_property, lru_cache, partial
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

from proctor.dialects.shared.jsonl import too_large
from proctor.errors import SuiteError, UsageError
from proctor.model import Problem
from proctor.protocols import MAX_LINE_BYTES, Found, Source

_OWN_GRADERS = (".proctor/assertions", ".agentv/assertions")
_WILD = frozenset("*?[")
_PIECE_BYTES = 2**20


def source_of(path: Path, environ: Mapping[str, str] = {}, options: Mapping[str, Any] = {}) -> Source:
    """A file, or a folder with Markdown tests, as a dialect sees it.

    Raises:
        UsageError: it cannot be opened.
    """
    is_folder = path.is_dir()
    try:
        str(path).encode("utf-8")
        if not is_folder:
            path.open("rb").close()
    except UnicodeEncodeError:
        raise UsageError(f"The name of the suite {str(path)!r} is not UTF-8. Rename the file.") from None
    except OSError as error:
        raise UsageError(f"The suite {str(path)!r} cannot be read: {error.strerror}.") from None

    def lines() -> Iterator[bytes]:
        if not is_folder:
            with path.open("rb") as file:
                yield from bounded_lines(file, str(path))

    def neighbour(name: str) -> bytes | None:
        beside = around.folder / name
        return _read(beside) if beside.is_file() else None

    absolute = Path(os.path.abspath(path))  # noqa: PTH100  # resolve() would follow links
    around = _Around(absolute if is_folder else absolute.parent)
    return Source(
        path=str(path),
        lines=lines,
        neighbour=neighbour,
        find=lru_cache(maxsize=64)(around.find),
        within=around.within,
        expand=lru_cache(maxsize=64)(around.expand),
        program=lru_cache(maxsize=64)(around.program),
        folder=str(around.folder),
        environ=environ,
        is_folder=is_folder,
        options=options,
    )


def bounded_lines(file: BinaryIO, path: str) -> Iterator[bytes]:
    """The lines of an open file, of none of which more than `MAX_LINE_BYTES` are read.

    Raises:
        SuiteError: a line has more; with its number.
    """
    for number, line in enumerate(iter(partial(file.readline, _PIECE_BYTES), b""), 1):
        if len(line) < _PIECE_BYTES or line.endswith(b"\n"):
            yield line
            continue
        whole = _long_line(line, file)
        if whole is None:
            message = (
                f"The line has more than {MAX_LINE_BYTES // 2**20} MiB. Move large content into files of "
                "its own, or split the case."
            )
            raise SuiteError([Problem(code="line-too-long", message=message, path=path, line=number)])
        yield whole


def _long_line(begun: bytes, file: BinaryIO) -> bytes | None:
    """The line that begins so, read to its end; None where it is too long."""
    line = bytearray(begun)
    while len(line) <= MAX_LINE_BYTES:
        piece = file.readline(_PIECE_BYTES)
        line += piece
        if len(piece) < _PIECE_BYTES or piece.endswith(b"\n"):
            return bytes(line) if len(line) <= MAX_LINE_BYTES else None
    return None


def _read(file: Path | str) -> bytes:
    """A whole file; raises SuiteError where it is too large, and OSError."""
    with open(file, "rb") as opened:  # noqa: PTH123  # a suite can be thousands of files
        if os.fstat(opened.fileno()).st_size > MAX_LINE_BYTES:
            raise too_large(str(file))
        return opened.read()


def _is_file(path: Path) -> bool:
    return path.is_file() or (path.is_symlink() and not path.exists())


class _Around:
    """The files around a suite in this folder, which is absolute."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @cached_property
    def roots(self) -> list[Path]:
        """Where files are looked for: this folder, those above it up to the repository's, the working one."""
        here = Path.cwd()
        above = [self.folder, *self.folder.parents]
        end = next((one for one in above if (one / ".git").exists()), here if here in above else self.folder)
        return list(dict.fromkeys((*above[: above.index(end) + 1], here)))

    def find(self, reference: str) -> Found | None:
        """See `Source.find`."""
        wanted = reference.replace("\\", "/")
        absolute = [wanted] if wanted.startswith("/") else []
        for file in chain(absolute, (f"{root}/{wanted.lstrip('/')}" for root in self.roots)):
            try:
                if os.path.isfile(file):  # noqa: PTH113  # a suite can be thousands of files
                    return Found(path=self._relative(file), data=_read(file))
            except (OSError, ValueError):  # a name that no file can have, or one that may not be read
                continue
        return None

    def within(self, path: str) -> Found | None:
        """See `Source.within`."""
        try:
            folder = os.path.realpath(self.folder)
            file = Path(os.path.realpath(f"{folder}/{path}".replace("\\", "/")))
            inside = file.relative_to(folder)
            return Found(path=inside.as_posix(), data=_read(file)) if file.is_file() else None
        except (OSError, ValueError):  # outside, a name that no file can have, or one that may not be read
            return None

    def expand(self, pattern: str) -> list[str]:
        """See `Source.expand`; a glob that ends in `/` matches folders. Hidden files match no `*`.

        A link that leads nowhere is a file that cannot be found, so that nobody misses it silently.
        """
        *folders, last = [part for part in pattern.rstrip("/").split("/") if part != "."] or [""]
        fixed = next((at for at, part in enumerate(folders) if _WILD.intersection(part)), len(folders))
        start = self.folder.joinpath("/" if pattern.startswith("/") else "", *folders[:fixed])
        rest = "/".join((*folders[fixed:], last))
        wants_folder = pattern.endswith("/")
        try:
            found = [start / last] if not _WILD.intersection(rest) else list(start.glob(rest))
            wanted = Path.is_dir if wants_folder else _is_file
            kept = [one for one in found if wanted(one)]
        except (OSError, ValueError):
            return []
        shown = rest.startswith(".") or "/." in rest
        return sorted(
            self._relative(one)
            for one in kept
            if shown or not any(part.startswith(".") for part in one.relative_to(start).parts)
        )

    def program(self, name: str) -> tuple[str, ...] | None:
        """See `Source.program`."""
        closed: Path | None = None
        for root in self.roots:
            for place in _OWN_GRADERS:
                files = sorted(one for one in (root / place).glob("*") if one.stem == name and one.is_file())
                for file in files:
                    if file.suffix == ".py":
                        return ("python", self._relative(file))
                    if os.access(file, os.X_OK):
                        return (self._relative(file),)
                    closed = closed or file
        if closed is not None:
            shown = self._relative(closed)
            raise UsageError(f"The file {shown!r} is not executable. Run chmod +x on it, or name it NAME.py.")
        return None

    def _relative(self, file: Path | str) -> str:
        name = os.fspath(file)
        inside = name.removeprefix(f"{self.folder}{os.sep}")
        if inside == name or "/." in f"/{inside}" or "//" in inside:
            inside = os.path.relpath(name, self.folder)
        return inside.replace(os.sep, "/")

"""Opens a suite's file or folder as a `SuiteSource`, with the files around it that the suite may read."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import cached_property, lru_cache, partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from proctor.dialects.shared.jsonl import too_large_error
from proctor.errors import SuiteError, UsageError
from proctor.model import Problem
from proctor.protocols import MAX_LINE_BYTES, GraderCommand, SourceFile, SuiteSource

if TYPE_CHECKING:
    from proctor.services.file_log import FileLog

_GRADER_FOLDERS = (".proctor/assertions", ".agentv/assertions")
_WILDCARDS = frozenset("*?[")
_CHUNK_BYTES = 2**20


def source_from_path(
    path: Path,
    environ: Mapping[str, str] = {},
    options: Mapping[str, Any] = {},
    log: FileLog | None = None,
) -> SuiteSource:
    """Returns the source of a file, or of a folder with Markdown tests.

    Args:
        path: the file or folder.
        environ: the environment variables for references.
        options: the reading options in `proctor.toml`.
        log: gets the files that are read, looked for and listed; None if nobody watches them.

    Raises:
        UsageError: the file cannot be opened.
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

    if log is not None and not is_folder:
        log.add(path)

    def lines() -> Iterator[bytes]:
        if not is_folder:
            with path.open("rb") as file:
                yield from bounded_lines(file, str(path))

    def neighbour(name: str) -> bytes | None:
        sibling = files.folder / name
        if log is not None:
            log.add(sibling)
        return _read_file(sibling) if sibling.is_file() else None

    def find_program_defect(command: GraderCommand) -> str | None:
        from proctor.targets.process.suite_programs import SuiteProgramRunner

        return SuiteProgramRunner(str(files.folder), environ).find_defect(*command)

    absolute = Path(os.path.abspath(path))  # noqa: PTH100  # resolve() would follow links
    files = _DiskFiles(absolute if is_folder else absolute.parent, log)
    return SuiteSource(
        path=str(path),
        read_lines=lines,
        read_sibling=neighbour,
        find_file=lru_cache(maxsize=64)(files.find),
        find_within=files.within,
        expand_glob=lru_cache(maxsize=64)(files.expand),
        find_program=lru_cache(maxsize=64)(files.program),
        find_program_defect=find_program_defect,
        folder=str(files.folder),
        environ=environ,
        is_folder=is_folder,
        options=options,
    )


def bounded_lines(file: BinaryIO, path: str) -> Iterator[bytes]:
    """Yields the lines of an open file; no line is read beyond `MAX_LINE_BYTES`.

    Raises:
        SuiteError: a line is longer; has its number.
    """
    for number, line in enumerate(iter(partial(file.readline, _CHUNK_BYTES), b""), 1):
        if len(line) < _CHUNK_BYTES or line.endswith(b"\n"):
            yield line
            continue
        long_line = _read_long_line(line, file)
        if long_line is None:
            message = (
                f"The line has more than {MAX_LINE_BYTES // 2**20} MiB. Move large content into files of "
                "its own, or split the case."
            )
            raise SuiteError([Problem(code="line-too-long", message=message, path=path, line=number)])
        yield long_line


def _read_long_line(start: bytes, file: BinaryIO) -> bytes | None:
    """Reads the rest of the line that begins with `start`; None if it is too long."""
    line = bytearray(start)
    while len(line) <= MAX_LINE_BYTES:
        chunk = file.readline(_CHUNK_BYTES)
        line += chunk
        if len(chunk) < _CHUNK_BYTES or chunk.endswith(b"\n"):
            return bytes(line) if len(line) <= MAX_LINE_BYTES else None
    return None


def _read_file(file: Path | str) -> bytes:
    """Reads a whole file; raises SuiteError where it is too large, and OSError."""
    with open(file, "rb") as stream:  # noqa: PTH123  # a suite can be thousands of files
        if os.fstat(stream.fileno()).st_size > MAX_LINE_BYTES:
            raise too_large_error(str(file))
        return stream.read()


def _is_file(path: Path) -> bool:
    return path.is_file() or (path.is_symlink() and not path.exists())


class _DiskFiles:
    """The files around a suite; its folder is absolute."""

    def __init__(self, folder: Path, log: FileLog | None) -> None:
        self.folder = folder
        self._log = log

    @cached_property
    def roots(self) -> list[Path]:
        """The search path: this folder, those above it up to the repository's root, the working folder."""
        working_folder = Path.cwd()
        above = [self.folder, *self.folder.parents]
        last = next(
            (folder for folder in above if (folder / ".git").exists()),
            working_folder if working_folder in above else self.folder,
        )
        return list(dict.fromkeys((*above[: above.index(last) + 1], working_folder)))

    def find(self, reference: str) -> SourceFile | None:
        """See `SuiteSource.find_file`."""
        name = reference.replace("\\", "/")
        absolute = [name] if name.startswith("/") else []
        for file in chain(absolute, (f"{root}/{name.lstrip('/')}" for root in self.roots)):
            if self._log is not None:  # also a file that is not there, and would come first
                self._log.add(file)
            try:
                if os.path.isfile(file):  # noqa: PTH113  # a suite can be thousands of files
                    return SourceFile(path=self._relative(file), data=_read_file(file))
            except (OSError, ValueError):  # an impossible name, or no permission
                continue
        return None

    def within(self, path: str) -> SourceFile | None:
        """See `SuiteSource.find_within`."""
        try:
            folder = os.path.realpath(self.folder)
            file = Path(os.path.realpath(f"{folder}/{path}".replace("\\", "/")))
            inside = file.relative_to(folder)
            if self._log is not None:
                self._log.add(file)
            return SourceFile(path=inside.as_posix(), data=_read_file(file)) if file.is_file() else None
        except (OSError, ValueError):  # outside, an impossible name, or no permission
            return None

    def expand(self, pattern: str) -> list[str]:
        """See `SuiteSource.expand_glob`; a glob that ends in `/` matches folders. Hidden files match no `*`.

        A dangling link counts as a match, so that the missing file is reported.
        """
        *folders, last = [part for part in pattern.rstrip("/").split("/") if part != "."] or [""]
        fixed_parts = next(
            (at for at, part in enumerate(folders) if _WILDCARDS.intersection(part)), len(folders)
        )
        start = self.folder.joinpath("/" if pattern.startswith("/") else "", *folders[:fixed_parts])
        remaining = "/".join((*folders[fixed_parts:], last))
        if self._log is not None:
            self._log.add_listing(start, remaining)
        wants_folder = pattern.endswith("/")
        try:
            candidates = (
                [start / last] if not _WILDCARDS.intersection(remaining) else list(start.glob(remaining))
            )
            is_match = Path.is_dir if wants_folder else _is_file
            matches = [path for path in candidates if is_match(path)]
        except (OSError, ValueError):
            return []
        include_hidden = remaining.startswith(".") or "/." in remaining
        return sorted(
            self._relative(path)
            for path in matches
            if include_hidden or not any(part.startswith(".") for part in path.relative_to(start).parts)
        )

    def program(self, name: str) -> tuple[str, ...] | None:
        """See `SuiteSource.find_program`."""
        not_executable: Path | None = None
        for root in self.roots:
            for subfolder in _GRADER_FOLDERS:
                if self._log is not None:
                    self._log.add_listing(root / subfolder, "*")
                files = sorted(
                    path for path in (root / subfolder).glob("*") if path.stem == name and path.is_file()
                )
                for file in files:
                    if file.suffix == ".py":
                        return ("python", self._relative(file))
                    if os.access(file, os.X_OK):
                        return (self._relative(file),)
                    not_executable = not_executable or file
        if not_executable is not None:
            path = self._relative(not_executable)
            raise UsageError(
                f"The file {path!r} is not executable. Run chmod +x on it, or rename it to NAME.py."
            )
        return None

    def _relative(self, file: Path | str) -> str:
        name = os.fspath(file)
        inside = name.removeprefix(f"{self.folder}{os.sep}")
        if inside == name or "/." in f"/{inside}" or "//" in inside:
            inside = os.path.relpath(name, self.folder)
        return inside.replace(os.sep, "/")

"""Finds the suites in a folder and below, and other files there."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from proctor.dialects import DIALECTS
from proctor.dialects.detection import may_be_suite
from proctor.dialects.shared.json_arrays import read_suite
from proctor.dialects.shared.signatures import YAML_ENDINGS
from proctor.errors import SuiteError, UsageError
from proctor.proof.statement import ENVELOPE, SUITE
from proctor.protocols import MAX_LINE_BYTES, CaseAtLine, Dialect, SourceFile, SuiteSource
from proctor.services.runs.planning.target_names import TARGETS_FILE_NAMES
from proctor.services.suites.load import detect_dialect

_SKIPPED_FOLDERS: Final = frozenset({"node_modules", "venv", "__pycache__"})


class FolderContents(Struct, frozen=True, kw_only=True):
    """The suites and other files of a folder and below, in the order of paths."""

    suites: tuple[Path, ...]
    """Suite files; the folder itself is the last where Markdown tests make it one suite."""
    included: tuple[Path, ...] = ()
    """Suite files that another suite of the folder reads."""
    unrecognised: tuple[Path, ...] = ()
    """Files with the ending of a suite that no format recognises and no suite reads."""


def search_folder(
    folder: Path, source: Callable[[Path], SuiteSource], dialect: str | None = None
) -> FolderContents:
    """Finds the suites in a folder and below.

    Hidden files and folders, `node_modules`, virtual environments, bundles and links to folders are left out.

    Args:
        folder: the folder.
        source: returns the source of a suite's path.
        dialect: the dialect of all files, instead of finding it from the content of each.

    Raises:
        UsageError: a file or folder cannot be read, or there is no such dialect.
    """
    endings = {ending for reader in _file_dialects() for ending in reader.endings}
    files = [
        file
        for file in _walk_files(folder, _raise_unreadable)
        if file.suffix.lower() in endings and file.is_file()
    ]
    suites = [
        file for file in files if _is_recognised(source(file), dialect) and not is_settings_file(source(file))
    ]
    units = [*suites, folder] if _is_folder_suite(folder) else suites
    included = _find_included(units, files, source, dialect) if len(files) > 1 else frozenset[Path]()
    return FolderContents(
        suites=tuple(unit for unit in units if unit not in included),
        included=tuple(file for file in suites if file in included),
        unrecognised=tuple(
            file
            for file in files
            if file not in included | set(suites) and file.name not in TARGETS_FILE_NAMES
        ),
    )


def _walk_files(folder: Path, on_error: Callable[[OSError], None] | None = None) -> Iterator[Path]:
    """Yields the files in a folder and below, except what `search_folder` leaves out."""
    for inside, folders, names in os.walk(folder, onerror=on_error):
        folders[:] = sorted(name for name in folders if _should_enter(Path(inside, name)))
        yield from (Path(inside, name) for name in sorted(names) if not name.startswith("."))


def _file_dialects() -> list[Dialect]:
    return [dialect for dialect in DIALECTS.load_all().values() if not dialect.reads_folders]


def _raise_unreadable(error: OSError) -> None:
    raise UsageError(f"The folder {error.filename!r} cannot be read: {error.strerror}.")


def _should_enter(folder: Path) -> bool:
    if folder.name.startswith(".") or folder.name in _SKIPPED_FOLDERS:
        return False
    if (folder / "pyvenv.cfg").exists():
        return False
    return not ((folder / ENVELOPE).exists() and (folder / SUITE).exists())  # a bundle of a run


def _is_recognised(source: SuiteSource, dialect: str | None) -> bool:
    if dialect is not None:
        return True
    try:
        detect_dialect(source)
    except SuiteError as error:
        return any(problem.code != "unknown-dialect" for problem in error.problems)
    return True


def is_settings_file(source: SuiteSource) -> bool:
    """Whether a file is YAML but no suite: targets, settings, or a companion of a JSON Lines file."""
    if not source.path.lower().endswith(YAML_ENDINGS):
        return False
    try:
        return not may_be_suite(source, _file_dialects())
    except SuiteError:  # too large to tell; reading it reports the error
        return False


def _is_folder_suite(folder: Path) -> bool:
    """Whether a file in a folder or below makes the folder one suite; hidden files do not count."""
    readers = [dialect for dialect in DIALECTS.load_all().values() if dialect.reads_folders]
    for file in _walk_files(folder):
        possible = [reader for reader in readers if file.name.lower().endswith(reader.endings)]
        if not possible:
            continue
        path = file.relative_to(folder).as_posix()
        try:
            is_small = file.is_file() and file.stat().st_size <= MAX_LINE_BYTES
            if is_small and any(reader.marks_suite_folder(path, file.read_bytes) for reader in possible):
                return True
        except OSError:  # unreadable; reported if another file makes the folder a suite
            continue
    return False


# --- files of other suites ---------------------------------------------------------------------------------


def _find_included(
    suites: Collection[Path],
    files: Collection[Path],
    source: Callable[[Path], SuiteSource],
    dialect: str | None,
) -> frozenset[Path]:
    """Returns the files that one of the suites reads, or that lie in a template of its workspaces.

    Suites of rows come last: what they read, such as a registry that names them, does not include them.
    """
    absolute = {os.path.abspath(file): file for file in files}  # noqa: PTH100  # a link is not followed
    included: set[Path] = set()
    for suite in sorted(suites, key=lambda path: path.suffix.lower() not in (*YAML_ENDINGS, ".json")):
        if suite in included:
            continue
        names, neighbours, folders = _find_references(source(suite), dialect)
        own_name = os.path.abspath(suite)  # noqa: PTH100
        inside = tuple(
            f"{folder}{os.sep}" for folder in folders if not own_name.startswith(f"{folder}{os.sep}")
        )
        included |= {
            file
            for name, file in absolute.items()
            if name != own_name
            and (name in names or (name in neighbours and file not in suites) or name.startswith(inside))
        }
    return frozenset(included)


def _find_references(source: SuiteSource, dialect: str | None) -> tuple[set[str], set[str], set[str]]:
    """The absolute paths of what a suite reads: files, files that go with it, templates of workspaces.

    A file that may go with a suite may also be a suite of its own, which is not read for it.
    """
    names: set[str] = set()
    neighbours: set[str] = set()
    folders: set[str] = set()

    def absolute(path: str) -> str:
        return os.path.normpath(os.path.join(source.folder, path))  # noqa: PTH118

    def find(reference: str) -> SourceFile | None:
        source_file = source.find_file(reference)
        if source_file is not None:
            names.add(absolute(source_file.path))
        return source_file

    def neighbour(name: str) -> bytes | None:
        neighbours.add(absolute(name))
        return source.read_sibling(name)

    with suppress(SuiteError, UsageError):  # raised again when the suite is loaded
        name = dialect or detect_dialect(source)
        for item in read_suite(DIALECTS.get(name), replace(source, find_file=find, read_sibling=neighbour)):
            workspace = item.case.workspace if isinstance(item, CaseAtLine) else None
            if workspace is not None and workspace.template:
                folders.add(absolute(workspace.template))
    return names, neighbours, folders

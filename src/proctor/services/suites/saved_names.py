"""Chooses and checks the names under which suites are saved, and parses `NAME@v2`."""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from pathlib import Path

from proctor.errors import UsageError
from proctor.lazy_pattern import lazy_pattern
from proctor.model import Suite
from proctor.protocols import Store

_VERSION = lazy_pattern(r"(.+)@(v[0-9]+|sha256:[0-9a-f]*)", re.DOTALL)


def name_for(store: Store, path: Path, suite: Suite, others: Collection[Path] = ()) -> str:
    """Chooses the name for the suite of a file; the store reserves it for that file from now on.

    A file keeps the name that it was saved under. A new one gets the name of a deleted file, that of a suite
    with the same cases, or the shortest that no other file has.

    Args:
        store: where it is saved.
        path: its file, or its folder.
        suite: its header, with the name that the file gives it and its digest.
        others: files that are saved by the same command.
    """
    file = os.path.abspath(path)  # noqa: PTH100  # a link is not followed
    names = candidate_names(path, suite.name)
    earlier = store.names_for_path(file)
    previous = next((name for name in names if name in earlier), None)
    if previous is not None:
        return previous
    for name in names:
        if _has_suite(store, name, suite) and _claim_name(store, name, file):
            return name
    taken_names = _ambiguous_names(path, suite.name, others)
    for name in names:
        if name in taken_names:
            continue
        if _claim_name(store, name, file) or _has_suite(store, name, suite):
            return name
        taken_names |= set(candidate_names(Path(store.path_for_name(name) or file), suite.name)) - {
            _path_from_working_folder(path, suite.name)
        }
    return suite.name


def candidate_names(path: Path, name: str) -> list[str]:
    """Returns the names that a file may have: `tests`, `a/tests` and so on, then the same with its ending.

    Args:
        path: the file, or the folder of a suite that is one.
        name: the name of its suite; where it is neither the file's nor its folder's, there are none.
    """
    parts = _split_path(path, name)
    if parts is None:
        return []
    folders, full_name = parts[0].parts[1:], parts[1]
    return [
        "/".join((*folders[start:], last))
        for last in dict.fromkeys((name, full_name))
        for start in range(len(folders), -1, -1)
    ]


def _split_path(path: Path, name: str) -> tuple[Path, str] | None:
    """Returns the parent of a file, or of the folder whose name the suite has, and the full name in it."""
    path = Path(os.path.abspath(path))  # noqa: PTH100
    if name in (path.name, path.stem, path.stem.removesuffix(".eval")):
        return path.parent, path.name
    return (path.parent.parent, f"{name}/{path.name}") if name == path.parent.name else None


def _claim_name(store: Store, name: str, file: str) -> bool:
    """Reserves a name for a file, unless another existing file has it; returns whether it did."""
    origin = store.path_for_name(name)
    if origin is not None and os.path.lexists(origin):
        return False
    store.claim_name(name, file)
    return True


def _has_suite(store: Store, name: str, suite: Suite) -> bool:
    return any(saved.suite.digest == suite.digest for saved in store.versions(name))


def _ambiguous_names(path: Path, name: str, others: Collection[Path]) -> set[str]:
    """Returns the names that could be other files' as well, without the path from the working folder."""
    other_files = [other for other in others if other != path]
    candidates = {candidate for other in other_files for candidate in candidate_names(other, name)}
    own_name = _path_from_working_folder(path, name)
    return (
        candidates
        if own_name in {_path_from_working_folder(other, name) for other in other_files}
        else candidates - {own_name}
    )


def _path_from_working_folder(path: Path, name: str) -> str | None:
    """Returns the name with all folders below the working folder; None for a file that is elsewhere."""
    parts, working_folder = _split_path(path, name), Path.cwd()
    if parts is None or not parts[0].is_relative_to(working_folder):
        return None
    return (parts[0].relative_to(working_folder) / name).as_posix()


def list_saved_names(store: Store, name: str | None = None) -> list[str]:
    """Returns the names of the suites in a store, sorted: of all, or only of one if a suite has that name."""
    return sorted({saved.suite.name for saved in store.versions(name)})


def split_version(word: str) -> tuple[str, str] | None:
    """Returns the name and the version of `NAME@v2` or `NAME@sha256:…`; None for any other word."""
    match = _VERSION.fullmatch(word)
    return None if match is None else (match[1], match[2])


def check_suite_name(name: str) -> None:
    """Checks that a suite can be saved and found again under a name.

    Raises:
        UsageError: it cannot.
    """
    if name != name.strip() or not name.isprintable() or not name:
        raise UsageError(f"{name!r} is not a valid name for a suite. Use one line without spaces around it.")
    if split_version(name) is not None:
        raise UsageError(f"{name!r} looks like a version of a suite. Remove the part from `@` on.")

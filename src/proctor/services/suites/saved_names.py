"""The names under which suites are saved: which one a file gets, which are allowed, and `NAME@v2`."""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from pathlib import Path

from proctor.errors import UsageError
from proctor.model import Suite
from proctor.protocols import Store

_VERSION = re.compile(r"(.+)@(v[0-9]+|sha256:[0-9a-f]*)", re.DOTALL)


def name_for(store: Store, path: Path, suite: Suite, others: Collection[Path] = ()) -> str:
    """The name for the suite of a file, which the store keeps for that file from now on.

    A file keeps the name that it was saved under. A new one gets the name of a file that is gone, that of a
    suite with the same cases, or the shortest that no other file has.

    Args:
        store: where it is saved.
        path: its file, or its folder.
        suite: its header, with the name that the file gives it and its digest.
        others: files that are saved by the same command.
    """
    file = os.path.abspath(path)  # noqa: PTH100  # a link is not followed
    names = names_of(path, suite.name)
    earlier = store.names_from(file)
    known = next((name for name in names if name in earlier), None)
    if known is not None:
        return known
    for name in names:
        if _has(store, name, suite) and _claimed(store, name, file):
            return name
    taken = _taken(path, suite.name, others)
    for name in names:
        if name in taken:
            continue
        if _claimed(store, name, file) or _has(store, name, suite):
            return name
        taken |= set(names_of(Path(store.origin(name) or file), suite.name)) - {_from_here(path, suite.name)}
    return suite.name


def names_of(path: Path, name: str) -> list[str]:
    """The names that a file may have: `tests`, `a/tests` and so on, then the same with its ending.

    Args:
        path: the file, or the folder of a suite that is one.
        name: the name of its suite; where it is neither the file's nor its folder's, there are none.
    """
    unit = _unit(path, name)
    if unit is None:
        return []
    folders, whole = unit[0].parts[1:], unit[1]
    return [
        "/".join((*folders[start:], last))
        for last in dict.fromkeys((name, whole))
        for start in range(len(folders), -1, -1)
    ]


def _unit(path: Path, name: str) -> tuple[Path, str] | None:
    """The folder in which a file, or the folder whose name it has, lies; and what that is called in full."""
    path = Path(os.path.abspath(path))  # noqa: PTH100
    if name in (path.name, path.stem, path.stem.removesuffix(".eval")):
        return path.parent, path.name
    return (path.parent.parent, f"{name}/{path.name}") if name == path.parent.name else None


def _claimed(store: Store, name: str, file: str) -> bool:
    """Whether a name is the file's from now on: it was no file's, or that of one that is gone."""
    origin = store.origin(name)
    if origin is not None and os.path.lexists(origin):
        return False
    store.claim_name(name, file)
    return True


def _has(store: Store, name: str, suite: Suite) -> bool:
    return any(saved.suite.digest == suite.digest for saved in store.versions(name))


def _taken(path: Path, name: str, others: Collection[Path]) -> set[str]:
    """The names that could be those of other files as well, without the path from the working folder."""
    rest = [other for other in others if other != path]
    taken = {each for other in rest for each in names_of(other, name)}
    here = _from_here(path, name)
    return taken if here in {_from_here(other, name) for other in rest} else taken - {here}


def _from_here(path: Path, name: str) -> str | None:
    """The name that has all folders from the working one on; None for a file that is elsewhere."""
    unit, here = _unit(path, name), Path.cwd()
    if unit is None or not unit[0].is_relative_to(here):
        return None
    return (unit[0].relative_to(here) / name).as_posix()


def versioned(word: str) -> tuple[str, str] | None:
    """The name and the version in `NAME@v2` or `NAME@sha256:…`; None for any other word."""
    found = _VERSION.fullmatch(word)
    return None if found is None else (found[1], found[2])


def check_name(name: str) -> None:
    """Check that a suite can be saved and found again under a name.

    Raises:
        UsageError: it cannot.
    """
    if name != name.strip() or not name.isprintable() or not name:
        raise UsageError(f"{name!r} is no name for a suite. Give it one line without spaces around it.")
    if versioned(name) is not None:
        raise UsageError(f"{name!r} would be read as a version of a suite. Leave the part from `@` on out.")

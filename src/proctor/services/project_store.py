"""The store of a project: where it is, and how it is opened."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from proctor.errors import UsageError
from proctor.protocols import Store
from proctor.services.runs.config import iter_upward
from proctor.stores import DEFAULT_STORE, locate_store
from proctor.stores.location import DEFAULT_FOLDER, StoreLocation

STORE_VARIABLE = "PROCTOR_STORE"
_COMMITTED = ("assertions", "templates", "schemas")
"""The folders of a project folder that belong into its repository."""
_GITIGNORE = "".join(
    ["*\n", *(f"!{name}/\n!{name}/**\n" for name in _COMMITTED), "!targets.yaml\n!.gitignore\n"]
)


def locate_project_store(address: str | None, environ: Mapping[str, str] = os.environ) -> StoreLocation:
    """Returns the location of the store that an address names, or else of the project's.

    The project's is `$PROCTOR_STORE`, else `.proctor/proctor.db` in the project's folder.

    Raises:
        UsageError: there is no such kind of store.
    """
    named = address or environ.get(STORE_VARIABLE)
    return locate_named_store(named or _relative_path(find_project() / DEFAULT_STORE))


def locate_named_store(address: str, start: Path | None = None) -> StoreLocation:
    """Returns the location of a store; one that is in no folder gets the project's for its other files.

    Args:
        address: as for `locate_store`.
        start: stands for the working directory, and the folder becomes absolute; None for itself.

    Raises:
        UsageError: there is no such kind of store.
    """
    location = locate_store(address)
    if not location.is_in_folder:
        folder = find_project(start) / DEFAULT_FOLDER
        location.folder = Path(_relative_path(folder)) if start is None else folder
    return location


def _relative_path(path: Path) -> str:
    """Returns a path relative to the working directory, unless a folder on that way may not be entered."""
    relative = os.path.relpath(path)
    return relative if os.path.lexists(relative) or not os.path.lexists(path) else str(path)


def find_project(start: Path | None = None) -> Path:
    """Returns the absolute path of the folder whose `.proctor` is the project's, which may not exist yet.

    That is the nearest folder with a store in its `.proctor`, of the working directory and the folders above
    it up to the repository's root; else the nearest one that has a `.proctor`; else the working directory.
    A `.proctor` that may not be read may have a store, and counts as one that has. A `.proctor` above the
    working directory counts only if it belongs to this user or to the owner of the working directory, so
    that nobody else can collect prompts and answers by making one in a folder that all may write to.

    Args:
        start: stands for the working directory; None for itself.
    """
    start, *above = iter_upward(start)
    folders = [start, *(folder for folder in above if _is_own(folder / DEFAULT_FOLDER, start))]
    with_store = next((folder for folder in folders if _may_have_store(folder)), None)
    if with_store is not None:
        return with_store
    return next((folder for folder in folders if os.path.isdir(folder / DEFAULT_FOLDER)), start)  # noqa: PTH112


def _is_own(path: Path, start: Path) -> bool:
    """Returns whether a path belongs to this user or to the owner of the working directory."""
    if sys.platform == "win32":
        return True
    owners = {os.geteuid()}
    with suppress(OSError):  # without rights on a folder above it
        owners.add(start.stat().st_uid)
    with suppress(OSError):
        return path.stat().st_uid in owners
    return False


def _may_have_store(folder: Path) -> bool:
    project_folder = folder / DEFAULT_FOLDER
    is_unreadable = os.path.isdir(project_folder) and not os.access(project_folder, os.X_OK)  # noqa: PTH112
    return is_unreadable or os.path.lexists(folder / DEFAULT_STORE)


def open_existing_store(location: StoreLocation, notify: Callable[[str], None] = lambda _line: None) -> Store:
    """Opens a store for reading; it may be migrated.

    Raises:
        UsageError: there is none, or it is empty.
        StoreError: it cannot be read.
    """
    check_store_exists(location)
    return location.open_store(notify)


def check_store_exists(location: StoreLocation) -> None:
    """Checks that there is a store with content.

    Raises:
        UsageError: there is none, or it is empty.
    """
    if not location.exists():
        raise UsageError(
            f"There is no store at {location.address}. Run a suite first, or name a store with --store."
        )
    if location.is_empty():
        raise UsageError(
            f"The store {location.address} is empty. Run a suite first, or name another store with --store."
        )


def ignore_in_git(folder: Path) -> None:
    """Writes the `.gitignore` of a new project folder, which keeps runs out of the repository."""
    if folder.name == DEFAULT_FOLDER and folder.is_dir() and not (folder / ".gitignore").exists():
        (folder / ".gitignore").write_text(_GITIGNORE, encoding="utf-8")

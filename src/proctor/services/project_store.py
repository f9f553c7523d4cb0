"""The store of a project: where it is, and how it is opened."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from proctor.errors import UsageError
from proctor.protocols import Store
from proctor.services.runs.config import find_upward
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

    The project's is in `$PROCTOR_STORE`, else in the nearest `.proctor` of the working directory and the
    folders above it, up to the repository's root; without one it will be in the working directory.

    Raises:
        UsageError: there is no such kind of store.
    """
    if named := address or environ.get(STORE_VARIABLE):
        return locate_store(named)
    path = find_upward(None, (DEFAULT_STORE,))
    return locate_store(DEFAULT_STORE if path is None else os.path.relpath(path))


def open_existing_store(location: StoreLocation, notify: Callable[[str], None] = lambda _line: None) -> Store:
    """Opens a store for reading.

    Raises:
        UsageError: there is none, or it is empty.
        StoreError: it cannot be read.
    """
    if not location.exists():
        raise UsageError(
            f"There is no store at {location.address}: nothing was run here. Name one with --store."
        )
    if location.is_empty():
        raise UsageError(
            f"The store {location.address} is empty: nothing was run here. Name another one with --store."
        )
    return location.open_store(notify)


def ignore_in_git(folder: Path) -> None:
    """Writes the `.gitignore` of a new project folder, which keeps runs out of the repository."""
    if folder.name == DEFAULT_FOLDER and folder.is_dir() and not (folder / ".gitignore").exists():
        (folder / ".gitignore").write_text(_GITIGNORE, encoding="utf-8")

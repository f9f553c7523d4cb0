"""Finds what `store gc` can remove, with its size, and removes it item by item.

Nothing that a process may be using is removed: workspaces of runs in progress, and files and versions that
changed recently.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Final, Literal, get_args

from msgspec import Struct

from proctor.errors import StoreError
from proctor.plurals import counted
from proctor.protocols import Store
from proctor.services.runs.execution.workspaces import workspaces_folder
from proctor.services.suites.overview import kept
from proctor.stores.location import StoreFiles, StoreLocation
from proctor.workspaces.copying import remove_tree
from proctor.workspaces.run_shared import run_folder

Kind = Literal["workspaces", "parts", "versions", "caches", "leftovers"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
RECENT: Final = timedelta(hours=1)
"""Files and versions changed more recently than this may be in use."""
OLD: Final = timedelta(days=30)
"""The age from which a cache or a deleted version can be removed."""
_PART = re.compile(
    r"\..*[0-9a-f]{12,16}\.part"  # bundles, backups, keys
    r"|.+\.(?:jsonl|json|csv|html|md|xml)\.(?P<report>\d+)\.part"
    r"|(?P<suite>\d+)-\d+\.part"
)
"""The names of unfinished files and folders; some contain the id of the process that writes them."""


class Garbage(Struct, frozen=True, kw_only=True):
    """Something that can be removed."""

    kind: Kind
    description: str
    size: int
    """In bytes; 0 where removing it makes no file smaller."""
    remove: Callable[[], None]


def find_garbage(
    store: Store, location: StoreLocation, environ: Mapping[str, str], now: datetime | None = None
) -> Iterator[Garbage]:
    """Yields what can be removed, kind by kind.

    Args:
        store: the open store; items can be removed until it is closed.
        location: where the store is.
        environ: the environment, which says where workspaces are.
        now: the current time; None reads the clock.
    """
    now = now or datetime.now(UTC)
    yield from _workspaces(store, workspaces_folder(environ))
    yield from _parts({location.folder.absolute(), Path.cwd()}, now)
    yield from _versions(store, now)
    yield from _deleted_versions(location.trash(), now)
    if location.files is not None:
        yield from _caches(location.files, now)
    yield from _unused_rows(store)


def _workspaces(store: Store, root: Path) -> Iterator[Garbage]:
    for run in store.runs():
        folder = run_folder(root, run.id)
        if folder.is_dir() and not store.claimed(run.id):
            yield Garbage(
                kind="workspaces",
                description=f"{folder}, workspaces of run {run.id}",
                size=size_of(folder),
                remove=partial(_remove_workspaces, store, run.id, folder),
            )


def _remove_workspaces(store: Store, run_id: str, folder: Path) -> None:
    store.claim(run_id)  # it may have been resumed since
    remove_tree(folder)


def _parts(folders: set[Path], now: datetime) -> Iterator[Garbage]:
    for folder in sorted(folders):
        for path in sorted(folder.glob("*.part")):
            match = _PART.fullmatch(path.name)
            if match is None or not _is_older(path, now - RECENT):
                continue
            process = match["report"] or match["suite"]
            if process is None or not _is_alive(int(process)):
                description = f"{path}, left by a command that was killed"
                yield Garbage(
                    kind="parts",
                    description=description,
                    size=size_of(path),
                    remove=partial(remove_tree, path),
                )


def _versions(store: Store, now: datetime) -> Iterator[Garbage]:
    for version in kept(store):
        saved, suite = version.saved, version.saved.suite
        if not version.runs and not saved.current and saved.saved_at < now - RECENT:
            yield Garbage(
                kind="versions",
                description=f"{suite.name}@{suite.version} of {saved.saved_at:%Y-%m-%d}, which has no run "
                f"and is not the current one ({counted(suite.case_count, 'case')})",
                size=0,
                remove=partial(store.forget, suite.name, suite.digest),
            )


def _deleted_versions(trash: StoreLocation, now: datetime) -> Iterator[Garbage]:
    if not trash.exists():
        return
    with closing(trash.open_store()) as deleted:
        old = [saved.suite for saved in deleted.versions() if saved.saved_at < now - OLD]
    for suite in old:
        yield Garbage(
            kind="versions",
            description=f"{suite.name}, deleted more than {OLD.days} days ago",
            size=0,
            remove=partial(_delete_from, trash, suite.name, suite.digest),
        )


def _delete_from(trash: StoreLocation, name: str, digest: str) -> None:
    with closing(trash.open_store()) as deleted:
        deleted.forget(name, digest)


def _caches(files: StoreFiles, now: datetime) -> Iterator[Garbage]:
    for file in files.find_unused(lambda path: _is_older(path, now - OLD)):
        reason = "a damaged cache" if file.is_damaged else f"not used for {OLD.days} days"
        yield Garbage(
            kind="caches",
            description=f"{file.path}, {reason}",
            size=size_of(file.path),
            remove=file.remove,
        )


def _unused_rows(store: Store) -> Iterator[Garbage]:
    counts = store.count_unused_rows()
    if counts:
        rows = ", ".join(counted(count, noun) for noun, count in counts.items())
        yield Garbage(
            kind="leftovers",
            description=f"rows of the store that nothing uses: {rows}",
            size=0,
            remove=store.delete_unused_rows,
        )


def remove(item: Garbage) -> None:
    """Removes an item.

    Raises:
        StoreError: it is in use by now, or cannot be removed.
    """
    try:
        item.remove()
    except OSError as error:
        raise StoreError(f"{item.description}, cannot be removed: {error.strerror or error}.") from error


# --- files -------------------------------------------------------------------------------------------------


def size_of(path: Path) -> int:
    """Returns the bytes of a file, or of all files in a folder; files removed meanwhile count as 0."""
    size = 0
    waiting = [path]
    while waiting:
        entry = waiting.pop()
        with suppress(OSError):
            status = entry.lstat()
            size += status.st_size if stat.S_ISREG(status.st_mode) else 0
            if stat.S_ISDIR(status.st_mode):
                waiting.extend(entry.iterdir())
    return size


def _is_older(path: Path | str, than: datetime) -> bool:
    """Whether a file, or everything in a folder, was last changed before a time; True if it is missing."""
    waiting = [Path(path)]
    while waiting:
        entry = waiting.pop()
        with suppress(OSError):
            status = entry.lstat()
            if datetime.fromtimestamp(status.st_mtime, UTC) >= than:
                return False
            if stat.S_ISDIR(status.st_mode):
                waiting.extend(entry.iterdir())
    return True


def _is_alive(process: int) -> bool:
    """Whether a process with that id is running; always True on Windows."""
    if sys.platform == "win32":
        return True
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True

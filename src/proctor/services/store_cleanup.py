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
from proctor.plurals import pluralize
from proctor.protocols import Store
from proctor.services.runs.execution.workspaces import workspaces_folder
from proctor.services.suites.overview import list_saved_versions
from proctor.stores.location import StoreLocation, StoreMaintenance
from proctor.workspaces.copying import remove_tree
from proctor.workspaces.run_shared import run_folder

GarbageKind = Literal["workspaces", "parts", "versions", "caches", "leftovers"]
GARBAGE_KINDS: Final[tuple[GarbageKind, ...]] = get_args(GarbageKind)
IN_USE_PERIOD: Final = timedelta(hours=1)
"""Files and versions changed more recently than this may be in use."""
RETENTION_PERIOD: Final = timedelta(days=30)
"""The age from which a cache or a deleted version can be removed."""
_PART_NAME = re.compile(
    r"\..*[0-9a-f]{12,16}\.part"  # bundles, backups, keys
    r"|.+\.(?:jsonl|json|csv|html|md|xml)\.(?P<report>\d+)\.part"
    r"|(?P<suite>\d+)-\d+\.part"
)
"""The names of unfinished files and folders; some contain the id of the process that writes them."""


class Garbage(Struct, frozen=True, kw_only=True):
    """An item that can be removed."""

    kind: GarbageKind
    description: str
    size: int
    """In bytes; 0 if removing it makes no file smaller."""
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
    yield from _find_workspaces(store, workspaces_folder(environ))
    yield from _find_parts({location.folder.absolute(), Path.cwd()}, now)
    yield from _find_versions(store, now)
    yield from _find_deleted_versions(location.trash(), now)
    if location.maintenance is not None:
        yield from _find_caches(location.maintenance, now)
    yield from _find_unused_rows(store)


def _find_workspaces(store: Store, root: Path) -> Iterator[Garbage]:
    for run in store.runs():
        folder = run_folder(root, run.id)
        if folder.is_dir() and not store.is_run_locked(run.id):
            yield Garbage(
                kind="workspaces",
                description=f"{folder}, workspaces of run {run.id}",
                size=disk_size(folder),
                remove=partial(_remove_workspaces, store, run.id, folder),
            )


def _remove_workspaces(store: Store, run_id: str, folder: Path) -> None:
    store.lock_run(run_id)  # it may have been resumed since
    remove_tree(folder)


def _find_parts(folders: set[Path], now: datetime) -> Iterator[Garbage]:
    for folder in sorted(folders):
        for path in sorted(folder.glob("*.part")):
            match = _PART_NAME.fullmatch(path.name)
            if match is None or not _is_older(path, now - IN_USE_PERIOD):
                continue
            process = match["report"] or match["suite"]
            if process is None or not _is_alive(int(process)):
                description = f"{path}, left behind by a command that was killed"
                yield Garbage(
                    kind="parts",
                    description=description,
                    size=disk_size(path),
                    remove=partial(remove_tree, path),
                )


def _find_versions(store: Store, now: datetime) -> Iterator[Garbage]:
    for version in list_saved_versions(store):
        saved, suite = version.saved, version.saved.suite
        if not version.runs and not saved.current and saved.saved_at < now - IN_USE_PERIOD:
            yield Garbage(
                kind="versions",
                description=f"{suite.name}@{suite.version} of {saved.saved_at:%Y-%m-%d}, an old "
                f"version without runs ({pluralize(suite.case_count, 'case')})",
                size=0,
                remove=partial(store.delete_version, suite.name, suite.digest),
            )


def _find_deleted_versions(trash: StoreLocation, now: datetime) -> Iterator[Garbage]:
    if not trash.exists():
        return
    with closing(trash.open_store()) as deleted:
        old = [saved.suite for saved in deleted.versions() if saved.saved_at < now - RETENTION_PERIOD]
    for suite in old:
        yield Garbage(
            kind="versions",
            description=f"{suite.name}, deleted more than {RETENTION_PERIOD.days} days ago",
            size=0,
            remove=partial(_delete_from, trash, suite.name, suite.digest),
        )


def _delete_from(trash: StoreLocation, name: str, digest: str) -> None:
    with closing(trash.open_store()) as deleted:
        deleted.delete_version(name, digest)


def _find_caches(maintenance: StoreMaintenance, now: datetime) -> Iterator[Garbage]:
    for file in maintenance.find_unused(lambda path: _is_older(path, now - RETENTION_PERIOD)):
        reason = "a damaged cache" if file.is_damaged else f"not used for {RETENTION_PERIOD.days} days"
        yield Garbage(
            kind="caches",
            description=f"{file.path}, {reason}",
            size=disk_size(file.path),
            remove=file.remove,
        )


def _find_unused_rows(store: Store) -> Iterator[Garbage]:
    counts = store.count_unused_rows()
    if counts:
        rows = ", ".join(pluralize(count, noun) for noun, count in counts.items())
        yield Garbage(
            kind="leftovers",
            description=f"rows in the store that nothing uses: {rows}",
            size=0,
            remove=store.delete_unused_rows,
        )


def remove_garbage(item: Garbage) -> None:
    """Removes an item.

    Raises:
        StoreError: it is in use by now, or cannot be removed.
    """
    try:
        item.remove()
    except OSError as error:
        raise StoreError(f"{item.description}: it cannot be removed: {error.strerror or error}.") from error


# --- files -------------------------------------------------------------------------------------------------


def disk_size(path: Path) -> int:
    """Returns the bytes of a file, or of all files in a folder; files removed meanwhile count as 0."""
    return sum(status.st_size for status in _walk_status(path) if stat.S_ISREG(status.st_mode))


def _is_older(path: Path | str, than: datetime) -> bool:
    """Whether a file, or everything in a folder, was last changed before a time; True if it is missing."""
    return all(datetime.fromtimestamp(status.st_mtime, UTC) < than for status in _walk_status(Path(path)))


def _walk_status(path: Path) -> Iterator[os.stat_result]:
    """Yields the status of a file, or of a folder and all below it, except of what is removed meanwhile."""
    waiting = [path]
    while waiting:
        entry = waiting.pop()
        with suppress(OSError):
            status = entry.lstat()
            yield status
            if stat.S_ISDIR(status.st_mode):
                waiting.extend(entry.iterdir())


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

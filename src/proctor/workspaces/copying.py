"""Copies and removes folders, and checks that paths stay inside a workspace.

Links are never followed, as they may point anywhere.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path, PurePosixPath, PureWindowsPath
from tempfile import mkdtemp

from proctor.errors import WorkspaceError

GIT_FOLDER = ".git"

_OWNER_MODE = 0o700


def resolve_inside(root: Path, relative: str, what: str) -> Path:
    """Resolves a relative path inside a folder.

    Args:
        root: the folder, without links in its path.
        relative: the path, with `/` between folders.
        what: a description of the path, for messages.

    Raises:
        WorkspaceError: the path leads, or could lead, out of the folder.
    """
    path = PurePosixPath(relative)
    windows = PureWindowsPath(relative)
    if not relative or path.is_absolute() or windows.anchor:
        raise WorkspaceError(f"{what} is {relative!r}; it must be a relative path inside the workspace.")
    if ".." in (*path.parts, *windows.parts) or GIT_FOLDER in path.parts:
        raise WorkspaceError(f"{what} is {relative!r}; it must not contain '..' or '.git'.")
    place = root / path
    if not place.resolve().is_relative_to(root):
        raise WorkspaceError(f"{what} is {relative!r}, which leads outside the workspace through a link.")
    return place


# --- copying -----------------------------------------------------------------------------------------------


def copy_template(source: Path, target: Path, skip: Path) -> None:
    """Copies the contents of a template into an empty folder, without any `.git`.

    Args:
        source: the template.
        target: the folder.
        skip: a folder to leave out, as copying it would never end.

    Raises:
        WorkspaceError: a link leads out of the template, or it contains a special file.
        OSError: it cannot be copied.
    """
    top = source.resolve()

    def link(path: str, text: str) -> str:
        leads_to = Path(os.path.realpath(Path(path).parent / text))
        if Path(text).is_absolute() or not leads_to.is_relative_to(top):
            raise WorkspaceError(
                f"The template's link {path!r} leads to {text!r}, which is outside the template. Put the "
                f"file itself there, or use a relative link to a file inside the template."
            )
        return text

    def is_wanted(entry: os.DirEntry[str]) -> bool:
        if entry.name == GIT_FOLDER or Path(entry.path) == skip:
            return False
        if entry.is_symlink() or entry.is_dir() or entry.is_file():
            return True
        raise WorkspaceError(f"The template's {entry.path!r} is not a file, a folder or a link.")

    _copy(top, target, link, is_wanted)


def copy_workspace(source: Path, target: Path) -> None:
    """Copies a whole folder into an empty one; absolute links into the source become links into the copy.

    Raises:
        OSError: it cannot be copied.
    """

    def link(_path: str, text: str) -> str:
        if Path(text).is_absolute() and Path(text).is_relative_to(source):
            return str(target / Path(text).relative_to(source))
        return text

    def is_copied(entry: os.DirEntry[str]) -> bool:
        # Sockets, such as those of servers that hooks start, cannot be copied.
        return entry.is_symlink() or entry.is_dir() or entry.is_file()

    _copy(source, target, link, is_copied)


def _copy(
    source: Path,
    target: Path,
    link: Callable[[str, str], str],
    is_copied: Callable[[os.DirEntry[str]], bool],
) -> None:
    with os.scandir(source) as entries:
        for entry in entries:
            destination = target / entry.name
            if not is_copied(entry):
                continue
            if entry.is_symlink():
                text = link(entry.path, os.readlink(entry.path))  # noqa: PTH115  # as it is written
                destination.symlink_to(text, target_is_directory=entry.is_dir())
            elif entry.is_dir():
                destination.mkdir()
                _copy(Path(entry.path), destination, link, is_copied)
                shutil.copystat(entry.path, destination)
            else:
                shutil.copy2(entry.path, destination)


# --- removing ----------------------------------------------------------------------------------------------


def remove_tree(path: Path) -> None:
    """Removes a folder with its contents, even read-only ones; removes a link without following it.

    Raises:
        OSError: something could not be removed.
    """
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
        return
    try:
        shutil.rmtree(path)
    except FileNotFoundError:
        if path.exists():
            shutil.rmtree(path)
    except (OSError, RecursionError):
        # Closed to its owner, too deep for the maximum path length, or written to by a program meanwhile.
        make_writable(path)
        _flatten(path)
        shutil.rmtree(path)


def make_writable(path: Path) -> None:
    """Gives the owner full access to this folder and all folders below it."""
    waiting = [path]
    while waiting:
        folder = waiting.pop()
        with suppress(OSError):
            folder.chmod(folder.stat().st_mode | _OWNER_MODE)
            waiting.extend(_list_folders(folder))


def _flatten(path: Path) -> None:
    """Moves all nested folders into one, so that each path is short enough."""
    shelf, numbers, waiting = Path(mkdtemp(dir=path)), count(), [path]
    while waiting:
        folders = [folder for folder in _list_folders(waiting.pop()) if folder != shelf]
        waiting.extend(folder.rename(shelf / str(next(numbers))) for folder in folders)


def _list_folders(path: Path) -> list[Path]:
    with os.scandir(path) as entries:
        return [Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)]

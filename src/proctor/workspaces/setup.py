"""Fills the folder of a workspace with its template and its repositories."""

from __future__ import annotations

from pathlib import Path

from proctor.errors import WorkspaceError
from proctor.model import Workspace
from proctor.workspaces.copying import copy_template, remove_tree
from proctor.workspaces.git_command import Git
from proctor.workspaces.repositories import checkout_repository
from proctor.workspaces.threads import run_in_thread


async def populate(workspace: Workspace, target: Path, folder: Path, git: Git, skip: Path) -> None:
    """Puts template and repositories into an empty folder.

    Args:
        workspace: has the template and the repositories.
        target: the folder.
        folder: the suite's folder, the base of relative paths.
        git: clones the repositories.
        skip: a folder to leave out of the template.

    Raises:
        WorkspaceError: the template is missing, or a repository cannot be cloned.
        OSError: a file cannot be copied.
    """
    if workspace.template is not None:
        template = folder / workspace.template
        if not template.is_dir():
            raise WorkspaceError(
                f"There is no folder {workspace.template!r} for the template of a workspace; its path is "
                f"relative to the folder of the suite."
            )
        await run_in_thread(copy_template, template, target, skip)
    for repository in workspace.repositories:
        await checkout_repository(repository, target, folder, git)


async def populate_own_folder(workspace: Workspace, target: Path, folder: Path, git: Git, skip: Path) -> None:
    """Fills a folder of the user's like `populate`, if it is empty; empties it again on failure."""
    if not _create_and_check_empty(target):
        return
    try:
        await populate(workspace, target, folder, git, skip)
    except BaseException:
        await run_in_thread(remove_tree, target)
        _create_and_check_empty(target)
        raise


def _create_and_check_empty(folder: Path) -> bool:
    """Creates a folder if it is missing; returns whether it is empty."""
    folder.mkdir(parents=True, exist_ok=True)
    return not any(folder.iterdir())


def resolve_own_folder(workspace: Workspace, folder: Path, home: str | None) -> Path:
    """Resolves the path of a workspace in a folder of the user's.

    Raises:
        WorkspaceError: the folder is not safe to let an agent work in.
    """
    assert workspace.path is not None
    path = (folder / workspace.path).resolve()
    if workspace.isolation == "per_test":
        raise WorkspaceError(
            f"The workspace has the path {workspace.path!r}, which all tests share, but isolation per_test. "
            f"Remove one of them."
        )
    if path.exists() and not path.is_dir():
        raise WorkspaceError(f"The workspace's path {workspace.path!r} is not a folder.")
    if path == Path(path.anchor) or folder.is_relative_to(path) or (home and Path(home).resolve() == path):
        raise WorkspaceError(
            f"The workspace path {workspace.path!r} is {str(path)!r}: an agent would work in the suite "
            f"itself, in a home directory or in the root directory. Name a separate folder."
        )
    return path

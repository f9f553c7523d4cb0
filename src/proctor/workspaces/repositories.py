"""Clones git repositories into a workspace, each at one commit.

A clone has a detached HEAD and cannot push to its source.
"""

from __future__ import annotations

from pathlib import Path

from proctor.errors import WorkspaceError
from proctor.model import Repository
from proctor.workspaces.copying import resolve_inside
from proctor.workspaces.git_command import Git

_CLONE_TIMEOUT_S = 600.0
_LOOKUP_CODES = (0, 1, 128)
_ANY_OWNER = ("--upload-pack", "git -c safe.directory='*' upload-pack")
"""Git does not pass this setting on to the program that reads the other repository."""


async def checkout_repository(repository: Repository, workspace: Path, folder: Path, git: Git) -> None:
    """Clones a repository and checks out its commit.

    Args:
        repository: its source, path and commit.
        workspace: the workspace's folder.
        folder: the suite's folder.
        git: runs the commands.

    Raises:
        WorkspaceError: it cannot be cloned, has no such commit, or would be outside the workspace.
    """
    target = resolve_inside(workspace, repository.path, "The path of a repository")
    try:
        source = _resolve_local(folder, repository.source) if repository.local else repository.source
        options = [*_clone_options(repository), "--", source, str(target)]
        await git.run("clone", *options, cwd=workspace, timeout_s=_CLONE_TIMEOUT_S)
        commit = await _resolve_commit(repository, target, git)
        if repository.sparse:
            paths = "\n".join(repository.sparse).encode()
            await git.run("sparse-checkout", "set", "--cone", "--stdin", cwd=target, stdin=paths)
        await git.run("checkout", "--quiet", "--detach", commit, cwd=target, timeout_s=_CLONE_TIMEOUT_S)
    except WorkspaceError as error:
        what = f"The repository {repository.source!r} cannot be cloned into the workspace."
        raise WorkspaceError(f"{what} {error}") from None


def _resolve_local(folder: Path, source: str) -> str:
    path = (folder / source).resolve()
    if not path.is_dir():
        raise WorkspaceError("There is no such folder; its path is relative to the folder of the suite.")
    return str(path)


def _clone_options(repository: Repository) -> list[str]:
    """Returns the options of `git clone`."""
    options = ["--quiet", "--no-checkout", "--template=", "--config", "remote.origin.pushUrl=nowhere"]
    options += _ANY_OWNER * repository.local
    if repository.depth is not None:
        # Without --no-local git ignores the depth for folders.
        return [*options, "--depth", str(repository.depth), "--no-local"]
    # With hard links an agent could damage the source repository.
    return [*options, "--no-hardlinks"]


async def _resolve_commit(repository: Repository, target: Path, git: Git) -> str:
    """Returns the digest of the commit to check out."""
    ref = repository.ref
    fetch = ("fetch", "--quiet", *(_ANY_OWNER * repository.local))
    if ref.startswith("-"):
        raise WorkspaceError(f"Its ref is {ref!r}; a ref cannot begin with '-'.")
    commit = await _find_commit(f"refs/remotes/origin/{ref}", target, git) or await _find_commit(
        ref, target, git
    )
    if commit is None:
        depth = () if repository.depth is None else ("--depth", str(repository.depth))
        await git.run(*fetch, *depth, "origin", ref, cwd=target, timeout_s=_CLONE_TIMEOUT_S)
        commit = await _find_commit("FETCH_HEAD", target, git)
    if commit is None:
        raise WorkspaceError(f"It has no commit {ref!r}.")
    if not repository.ancestor:
        return commit
    ancestor = f"{commit}~{repository.ancestor}"
    older = await _find_commit(ancestor, target, git)
    if older is None and repository.depth is not None:
        deepen = f"--deepen={repository.ancestor}"
        await git.run(*fetch, deepen, "origin", ref, cwd=target, timeout_s=_CLONE_TIMEOUT_S)
        older = await _find_commit(ancestor, target, git)
    if older is None:
        raise WorkspaceError(f"Fewer than {repository.ancestor} commits come before {ref!r} in it.")
    return older


async def _find_commit(name: str, target: Path, git: Git) -> str | None:
    arguments = ("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
    return (await git.run(*arguments, cwd=target, accepted_codes=_LOOKUP_CODES)).decode().strip() or None

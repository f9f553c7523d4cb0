"""Runs git without any user configuration or prompts, so that it behaves the same on every machine."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Mapping
from pathlib import Path

from proctor.env_substitution import stream_end
from proctor.errors import TargetError, WorkspaceError
from proctor.protocols import ProgramRunner
from proctor.workspaces.copying import remove_tree
from proctor.workspaces.threads import run_in_thread

_VARIABLES = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_SSH_COMMAND": "ssh -oBatchMode=yes",
}
_OPTIONS = tuple(
    word
    for option in (
        # Files that git reads by default, without any configuration.
        "core.excludesFile=",
        "core.attributesFile=",
        f"core.hooksPath={os.devnull}",
        "core.autocrlf=false",
        "core.quotePath=false",
        "advice.detachedHead=false",
        "init.defaultBranch=main",
        # In containers, checkouts often belong to another user.
        "safe.directory=*",
    )
    for word in ("-c", option)
)
_MAX_STDERR_LENGTH = 1000


class Git:
    """The git of this machine."""

    def __init__(self, programs: ProgramRunner, environ: Mapping[str, str]) -> None:
        """Starts nothing.

        Args:
            programs: runs it.
            environ: has the `PATH` on which git is looked up.
        """
        self._programs = programs
        self.is_installed = shutil.which("git", path=environ.get("PATH", os.defpath)) is not None

    async def run(
        self,
        *arguments: str,
        cwd: Path,
        stdin: bytes = b"",
        timeout_s: float = 60.0,
        accepted_codes: Collection[int] = (0,),
    ) -> bytes:
        """Runs a git command and returns its stdout.

        Args:
            arguments: the command with its arguments.
            cwd: where it runs; it does not look for a repository in the folders above.
            stdin: its input.
            timeout_s: the time limit in seconds, after which it is killed.
            accepted_codes: the exit codes that count as success.

        Raises:
            WorkspaceError: git is not installed, or the command failed.
        """
        try:
            completed = await self._programs.run(
                ["git", *_OPTIONS, *arguments],
                stdin,
                timeout_s=timeout_s,
                cwd=str(cwd),
                variables={**_VARIABLES, "GIT_CEILING_DIRECTORIES": str(cwd.parent)},
            )
        except TargetError as error:
            raise WorkspaceError(f"`git {arguments[0]}` could not be run: {error}") from error
        if completed.exit_code not in accepted_codes:
            message = stream_end(completed.stderr, _MAX_STDERR_LENGTH)
            raise WorkspaceError(f"`git {arguments[0]}` {completed.ending}: {message}")
        return completed.stdout

    async def find_ignored(self, root: Path, paths: Collection[str], scratch: Path) -> frozenset[str]:
        """Returns the paths that the `.gitignore` files of a folder match.

        Args:
            root: the folder, which need not be in a repository.
            paths: paths relative to it.
            scratch: the path of a temporary folder, which must not exist.

        Raises:
            WorkspaceError: git is not installed, or it failed.
        """
        if not paths:
            return frozenset()
        try:
            await self.run("init", "--quiet", "--bare", "--template=", str(scratch), cwd=scratch.parent)
            output = await self.run(
                f"--git-dir={scratch}",
                f"--work-tree={root}",
                *("check-ignore", "-z", "--stdin", "--no-index"),
                cwd=root,
                # A path that begins with a colon would be taken for a pattern.
                stdin=b"\0".join(os.fsencode(f"./{path}") for path in sorted(paths)),
                accepted_codes=(0, 1),
            )
        finally:
            await run_in_thread(remove_tree, scratch)
        return frozenset(os.fsdecode(path).removeprefix("./") for path in output.split(b"\0"))

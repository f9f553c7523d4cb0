"""What all workspaces of a run share: their folder, git, the program runner and kept contents."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Literal

from proctor.model import Case, Hook
from proctor.protocols import ProgramRunner
from proctor.workspaces.copying import remove_tree
from proctor.workspaces.git_command import Git
from proctor.workspaces.hooks import HookContext, HookName, run_hook
from proctor.workspaces.snapshots import ContentStore
from proctor.workspaces.threads import run_in_thread

KeepMode = Literal["none", "failed", "all"]

_SAFE_NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z-]*")


def run_folder(root: Path, run_id: str) -> Path:
    """Returns the folder for a run's workspaces inside the folder for all runs."""
    return root / (run_id if _SAFE_NAME.fullmatch(run_id) else sha256(run_id.encode()).hexdigest())


class WorkspaceRoot:
    """The folder of one run's workspaces, and what they share."""

    def __init__(
        self,
        folder: str,
        root: Path,
        run_id: str,
        *,
        programs: ProgramRunner,
        keep: KeepMode,
        warn: Callable[[str], None],
        environ: Mapping[str, str],
        first_folder: int = 1,
    ) -> None:
        """Creates nothing.

        Args:
            folder: the suite's folder, the base of paths in workspaces.
            root: the folder for the workspaces of all runs; best outside any repository, as tools search
                upwards for theirs.
            run_id: the id of the run.
            programs: runs hooks and git.
            keep: the trials whose folders are kept.
            warn: called with a sentence about a failure after a trial.
            environ: for `PATH` and `HOME` only.
            first_folder: the number of the first folder; other processes may make folders for the run, too.
        """
        self.folder = Path(folder).resolve()
        self.base_folder = root.resolve()
        self.git = Git(programs, environ)
        self.home = environ.get("HOME") or environ.get("USERPROFILE")
        self.kept_folders: dict[Path, str] = {}
        self._run_folder = run_folder(self.base_folder, run_id)
        self._run_id = run_id
        self._programs = programs
        self._keep = keep
        self._warn = warn
        self._warnings: set[str] = set()
        self._numbers = count(first_folder)
        self._contents: ContentStore | None = None

    @property
    def contents(self) -> ContentStore:
        """The contents of files in all snapshots."""
        if self._contents is None:
            self._contents = ContentStore(self.scratch)
        return self._contents

    @property
    def scratch(self) -> Path:
        """The folder of this run, created if it is missing."""
        self._run_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return self._run_folder

    def create_folder(self) -> Path:
        """Creates an empty folder. Its name is a number, as ids of tests are not valid paths."""
        own = self.scratch
        while True:
            folder = own / f"{next(self._numbers):04}"
            with suppress(FileExistsError):  # kept by the same run, before it was resumed
                folder.mkdir()
                return folder

    def unused_path(self) -> Path:
        """Returns the path of a folder that does not exist."""
        folder = self.create_folder()
        folder.rmdir()
        return folder

    def warn(self, message: str) -> None:
        """Warns the user, once for each message."""
        if message not in self._warnings:
            self._warnings.add(message)
            self._warn(message)

    async def run_hook(self, hook: Hook | None, moment: HookName, folder: Path, case: Case | None) -> None:
        """Runs a hook, if there is one, for one case or, with None, for several.

        Raises:
            WorkspaceError: it failed.
        """
        scene = HookContext(workspace=folder, run_id=self._run_id, case=case)
        await run_hook(hook, moment, scene, self._programs)

    async def keep_or_remove(self, folder: Path, *, passed: bool, used_by: str) -> None:
        """Keeps or removes a folder after its last use."""
        if self._keep == "all" or (self._keep == "failed" and not passed):
            self.kept_folders[folder] = used_by
        else:
            await self.remove(folder)

    async def remove(self, folder: Path) -> None:
        """Removes a folder with its contents; a failure becomes a warning."""
        try:
            await run_in_thread(remove_tree, folder)
        except OSError as error:
            self.warn(f"The workspace {str(folder)!r} could not be removed: {error}. Remove it yourself.")

    def close(self) -> None:
        """Removes temporary files and empty folders. Safe to call twice."""
        if self._contents is not None:
            self._contents.close()
            self._contents = None
        for folder in (self._run_folder, self.base_folder):
            with suppress(OSError):
                folder.rmdir()

"""What all workspaces of a run share: the place where they are made, and who runs their programs."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Literal

from proctor.model import Case, Hook
from proctor.protocols import Programs
from proctor.workspaces.copying import remove_tree
from proctor.workspaces.git import Git
from proctor.workspaces.hooks import Moment, Scene, run_hook
from proctor.workspaces.snapshots import Contents
from proctor.workspaces.threads import aside

Keep = Literal["none", "failed", "all"]

_SAFE = re.compile(r"[0-9A-Za-z][0-9A-Za-z-]*")


def run_folder(root: Path, run_id: str) -> Path:
    """The folder of a run's workspaces among those of all runs."""
    return root / (run_id if _SAFE.fullmatch(run_id) else sha256(run_id.encode()).hexdigest())


class Site:
    """The folder of one run's workspaces, with what all of them share."""

    def __init__(
        self,
        folder: str,
        root: Path,
        run_id: str,
        *,
        programs: Programs,
        keep: Keep,
        warn: Callable[[str], None],
        environ: Mapping[str, str],
    ) -> None:
        """Creates nothing.

        Args:
            folder: the suite's, where the paths in workspaces begin.
            root: where workspaces are made; best in no repository, as tools look for theirs upwards.
            run_id: the run's.
            programs: runs hooks and git.
            keep: the folders of which trials stay afterwards.
            warn: called with a sentence about what failed after a trial.
            environ: for `PATH` and `HOME` only.
        """
        self.folder = Path(folder).resolve()
        self.root = root.resolve()
        self.git = Git(programs, environ)
        self.home = environ.get("HOME") or environ.get("USERPROFILE")
        self.kept: dict[Path, str] = {}
        self._run_folder = run_folder(self.root, run_id)
        self._run_id = run_id
        self._programs = programs
        self._keep = keep
        self._warn = warn
        self._warned: set[str] = set()
        self._numbers = count(1)
        self._contents: Contents | None = None

    @property
    def contents(self) -> Contents:
        """Keeps the contents of all files."""
        if self._contents is None:
            self._contents = Contents(self.scratch)
        return self._contents

    @property
    def scratch(self) -> Path:
        """The folder of this run; creates it."""
        self._run_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return self._run_folder

    def fresh(self) -> Path:
        """Creates an empty folder. Its name is a number, as ids of tests are no paths."""
        own = self.scratch
        while True:
            folder = own / f"{next(self._numbers):04}"
            with suppress(FileExistsError):  # kept by the same run, before it was resumed
                folder.mkdir()
                return folder

    def unused(self) -> Path:
        """The path of a folder that is not there."""
        folder = self.fresh()
        folder.rmdir()
        return folder

    def warn(self, message: str) -> None:
        """Warns the user; each message only once."""
        if message not in self._warned:
            self._warned.add(message)
            self._warn(message)

    async def run(self, hook: Hook | None, moment: Moment, folder: Path, case: Case | None) -> None:
        """Run a hook, if there is one, for one case or for several.

        Raises:
            WorkspaceError: it failed.
        """
        scene = Scene(workspace=folder, run_id=self._run_id, case=case)
        await run_hook(hook, moment, scene, self._programs)

    async def settle(self, folder: Path, *, passed: bool, used_by: str) -> None:
        """Keeps a folder after its last use, or removes it."""
        if self._keep == "all" or (self._keep == "failed" and not passed):
            self.kept[folder] = used_by
        else:
            await self.remove(folder)

    async def remove(self, folder: Path) -> None:
        """Remove a folder with all that is in it."""
        try:
            await aside(remove_tree, folder)
        except OSError as error:
            self.warn(f"The workspace {str(folder)!r} could not be removed: {error}. Remove it by hand.")

    def close(self) -> None:
        """Removes everything but the kept folders. Safe to call twice."""
        if self._contents is not None:
            self._contents.close()
            self._contents = None
        for folder in (self._run_folder, self.root):
            with suppress(OSError):
                folder.rmdir()

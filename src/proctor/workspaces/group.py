"""One workspace and the visits of its trials.

A shared folder is used by one trial at a time. Otherwise each trial gets a copy of a folder that was prepared
once, with template, repositories and `before_all`.
"""

from __future__ import annotations

import asyncio
from errno import EACCES, EDQUOT, ENOSPC, ENOTDIR, EROFS
from pathlib import Path

from proctor.errors import WorkspaceError
from proctor.model import Case, Hook, Workspace
from proctor.workspaces.copying import GIT_FOLDER, copy_workspace
from proctor.workspaces.diffs import diff_snapshots
from proctor.workspaces.run_shared import WorkspaceRoot
from proctor.workspaces.setup import populate, populate_own_folder, resolve_own_folder
from proctor.workspaces.snapshots import EMPTY_SNAPSHOT, Snapshot, is_same, restore_snapshot, take_snapshot
from proctor.workspaces.threads import run_in_thread

_DISK_ERRORS = frozenset({EACCES, EDQUOT, ENOSPC, ENOTDIR, EROFS})


class TrialVisit:
    """The visit of one trial in a workspace; implements `WorkspaceVisit`."""

    def __init__(self, group: WorkspaceGroup, case: Case, repeat: int) -> None:
        """Starts waiting: `path` is set when the folder is ready."""
        self.path = ""
        self.group = group
        self.case = case
        self.repeat = repeat
        self.start_snapshot = EMPTY_SNAPSHOT
        self.holds_lock = True
        self.is_over = False

    async def diff(self) -> str | None:
        """Returns the changes in the folder since the visit began, as a unified diff; None if there are none.

        Also None, with a warning, if they cannot be determined.
        """
        return await self.group.diff(self)

    def __str__(self) -> str:
        return f"test {self.case.id!r}" + (f", repeat {self.repeat}" if self.repeat else "")


class WorkspaceGroup:
    """The cases whose workspaces are equal."""

    def __init__(self, workspace: Workspace, workspace_root: WorkspaceRoot, turn: asyncio.Lock) -> None:
        """Creates nothing.

        Args:
            workspace: the workspace of all these cases.
            workspace_root: creates its folders.
            turn: held by the trial that uses the shared folder, or that prepares the folder for all.
        """
        self._workspace = workspace
        self._root = workspace_root
        self._lock = turn
        self._folder: Path | None = None
        self._pristine: Snapshot | None = None
        """The folder after `before_all`, if a hook resets to that."""
        self._last_snapshot = EMPTY_SNAPSHOT
        self._failure: str | None = None
        self._all_passed = True
        self._case_count = 0
        self._case: Case | None = None
        self._expected_trials = 0
        self._finished_trials = 0
        self._visits: set[TrialVisit] = set()

    def expect(self, case: Case, trials: int, case_count: int) -> None:
        """Announces `trials` trials of `case_count` cases, of which `case` is one."""
        self._case_count += case_count
        self._case = case if self._case_count == 1 else None
        self._expected_trials += trials

    async def enter(self, case: Case, repeat: int) -> TrialVisit:
        """Waits for the trial's turn and starts its visit.

        Raises:
            WorkspaceError: the workspace could not be created, or a hook failed.
        """
        await self._lock.acquire()
        visit = TrialVisit(self, case, repeat)
        self._visits.add(visit)
        try:
            folder = await self._prepare()
            if self._is_shared:
                visit.path = str(folder)
            else:
                self._release_lock(visit)
                own = self._root.create_folder()
                visit.path = str(own)
                await run_in_thread(copy_workspace, folder, own)
            await self._begin_visit(visit)
        except OSError as error:
            await self.end(visit, passed=False)
            raise WorkspaceError(_setup_failure(error)) from error
        except BaseException:
            await self.end(visit, passed=False)
            raise
        return visit

    async def diff(self, visit: TrialVisit) -> str | None:
        """See `TrialVisit.diff`."""
        site = self._root
        if not site.git.is_installed:
            site.warn(
                "There is no git on your PATH, so the changes that agents make in their workspaces are not "
                "recorded."
            )
            return None
        try:
            now = await run_in_thread(take_snapshot, Path(visit.path), site.contents, visit.start_snapshot)
            if self._is_shared:
                self._last_snapshot = now
            return await diff_snapshots(visit.start_snapshot, now, site.contents, site.git, site.scratch)
        except (WorkspaceError, OSError) as error:
            site.warn(f"The changes of {visit} in its workspace cannot be determined: {error}")
            return None

    async def leave(self, visit: TrialVisit, *, passed: bool) -> None:
        """Ends a visit after its trial; runs `after_each` first."""
        try:
            if not visit.is_over:
                hook = self._workspace.hooks.after_each
                await self._root.run_hook(hook, "after_each", Path(visit.path), visit.case)
        except WorkspaceError as error:
            self._root.warn(f"After {visit}: {error}")
        finally:
            await self.end(visit, passed=passed)

    async def end(self, visit: TrialVisit, *, passed: bool) -> None:
        """Ends a visit for any reason: resets or removes the folder and lets the next trial in."""
        if visit.is_over:
            return
        visit.is_over = True
        self._visits.discard(visit)
        self._all_passed = self._all_passed and passed
        self._finished_trials += 1
        try:
            if not self._is_shared:
                if visit.path:
                    await self._root.keep_or_remove(Path(visit.path), passed=passed, used_by=visit.case.id)
            elif self._folder is not None:
                await self._reset(self._workspace.hooks.after_each)
            if self._expected_trials and self._finished_trials >= self._expected_trials and not self._visits:
                await self.close()
        except (WorkspaceError, OSError) as error:
            self._root.warn(f"After {visit}: its workspace could not be reset: {error}")
        finally:
            self._release_lock(visit)

    async def close(self) -> None:
        """Runs `after_all`, then keeps or removes the folder. A later trial gets a new one."""
        for visit in list(self._visits):
            await self.end(visit, passed=False)
        folder, self._folder = self._folder, None
        if folder is None:
            return
        hook, site = self._workspace.hooks.after_all, self._root
        try:
            await site.run_hook(hook, "after_all", folder, self._case)
            if self._workspace.path is not None:
                await self._restore(hook, folder)
        except (WorkspaceError, OSError) as error:
            site.warn(f"After the last test of a workspace: {error}")
        finally:
            if not self._is_shared:
                await site.remove(folder)
            elif self._workspace.path is None:
                await site.keep_or_remove(folder, passed=self._all_passed, used_by=self._case_id)

    # --- steps ---------------------------------------------------------------------------------------------

    @property
    def _is_shared(self) -> bool:
        return self._workspace.isolation == "shared"

    @property
    def _case_id(self) -> str:
        return "" if self._case is None else self._case.id

    def _release_lock(self, visit: TrialVisit) -> None:
        if visit.holds_lock:
            visit.holds_lock = False
            self._lock.release()

    async def _prepare(self) -> Path:
        """Returns the folder after `before_all`, which runs once; if it fails, it fails for all tests."""
        if self._failure is not None:
            raise WorkspaceError(self._failure)
        if self._folder is None:
            try:
                self._folder = await self._create_folder()
            except OSError as error:
                self._failure = _setup_failure(error)
                raise WorkspaceError(self._failure) from error
            except WorkspaceError as error:
                self._failure = str(error)
                raise
        return self._folder

    async def _create_folder(self) -> Path:
        workspace, site = self._workspace, self._root
        sources = (site.folder, site.git, site.base_folder)
        if workspace.path is not None:
            folder = resolve_own_folder(workspace, site.folder, site.home)
            await populate_own_folder(workspace, folder, *sources)
            await self._set_up(folder)
            return folder
        folder = site.create_folder()
        try:
            await populate(workspace, folder, *sources)
            await self._set_up(folder)
        except WorkspaceError:
            await site.keep_or_remove(folder, passed=False, used_by=self._case_id)
            raise
        except BaseException:
            await site.remove(folder)
            raise
        return folder

    async def _set_up(self, folder: Path) -> None:
        hooks = self._workspace.hooks
        await self._root.run_hook(hooks.before_all, "before_all", folder, self._case)
        resets = [hook.reset for hook in (hooks.before_each, hooks.after_each, hooks.after_all) if hook]
        if self._is_shared and {*resets} - {"none"}:
            self._pristine = await run_in_thread(
                take_snapshot, folder, self._root.contents, limit=None, git=True
            )

    async def _begin_visit(self, visit: TrialVisit) -> None:
        hook, folder = self._workspace.hooks.before_each, Path(visit.path)
        await self._reset(hook)
        await self._root.run_hook(hook, "before_each", folder, visit.case)
        earlier = self._last_snapshot if self._is_shared else EMPTY_SNAPSHOT
        visit.start_snapshot = await run_in_thread(take_snapshot, folder, self._root.contents, earlier)

    async def _reset(self, hook: Hook | None) -> None:
        if self._folder is not None:
            await self._restore(hook, self._folder)

    async def _restore(self, hook: Hook | None, folder: Path) -> None:
        """Resets a shared folder as a hook is configured; the folder of a single trial is removed instead."""
        if hook is None or hook.reset == "none" or self._pristine is None:
            return
        contents, pristine = self._root.contents, self._pristine
        now = await run_in_thread(take_snapshot, folder, contents, pristine, git=True)
        ignored_paths: frozenset[str] = frozenset()
        if hook.reset == "fast":
            changed = [
                path
                for path in now.files.keys() | pristine.files.keys()
                if GIT_FOLDER not in path.split("/")
                and not is_same(now.files.get(path), pristine.files.get(path))
            ]
            ignored_paths = await self._root.git.find_ignored(folder, changed, self._root.unused_path())
        await run_in_thread(restore_snapshot, folder, pristine, now, contents, ignored_paths)


def _setup_failure(error: OSError) -> str:
    """Returns why there is no workspace, with advice for errors of the disk."""
    advice = " Workspaces are in the cache folder; to use another folder, set PROCTOR_CACHE."
    return f"The workspace could not be created: {error}." + advice * (error.errno in _DISK_ERRORS)

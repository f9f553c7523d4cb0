"""Runs in processes of their own: started from a page or by an agent, followed, stopped and resumed.

Each process is `proctor run`. Its stderr goes to a file beside the store, so that a server started later can
find it.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from threading import Lock, Thread
from time import monotonic
from typing import Any

import msgspec
from msgspec import Struct

from proctor.errors import StoreError, UsageError
from proctor.model import Run
from proctor.protocols import Store
from proctor.safe_text import one_line
from proctor.services.project_folder import ProjectFolder
from proctor.services.project_store import ignore_in_git
from proctor.services.runs.request import check_group_id, new_id
from proctor.services.runs.starts.process_space import get_process_space
from proctor.services.runs.starts.prompt_files import PromptFiles
from proctor.services.runs.starts.stop_run import STOP_SIGNAL, send_stop_signal, stop_run
from proctor.services.runs.starts.subprocess_command import start_command
from proctor.targets.process.guard import GUARD

_MAX_OUTPUT_BYTES = 8_000
"""Bytes shown from the end of a process's output."""
_MAX_OUTPUT_LINES = 40
_MAX_STARTS = 500
"""Number of starts whose files are kept."""
_MAX_NEWEST_RUNS = 64
"""Number of newest runs searched for those of a process that is running."""
_END_TIMEOUT_S = 20.0
"""How long a process may take to store what it has after it was interrupted twice."""
_WINDOWS = sys.platform == "win32"


class StartedRun(Struct, frozen=True, kw_only=True):
    """A process that was started: its arguments, and how to find it again."""

    group: str
    """The group of its runs; for a resumed run, an id of the start."""
    words: tuple[str, ...]
    """The arguments after `proctor`."""
    pid: int
    started_at: datetime
    fields: tuple[tuple[str, str], ...] = ()
    """The fields of the form, to fill it in again."""
    run: str | None = None
    """The run that it resumes."""
    process_space: str | None = None
    """What tells where `pid` is a process, see `get_process_space`; None for a start of an older Proctor."""

    @property
    def command(self) -> str:
        """The command for a shell."""
        return shlex.join(("proctor", *self.words))

    def is_same_command(self, arguments: Sequence[str]) -> bool:
        """Whether it was started with these arguments after `run`."""
        return self.words[1 : 1 + len(arguments)] == tuple(arguments)


class RunProcesses:
    """The processes of one store; safe to use from many threads."""

    def __init__(self, project: ProjectFolder, *, outlive_server: bool = True) -> None:
        """Starts nothing.

        Args:
            project: the folder that they work in, and the store of their runs.
            outlive_server: whether they continue when the server ends; else they are killed with it.
        """
        self._project = project
        self._outlive_server = outlive_server
        self._folder = project.location.folder / "starts"
        self.prompt_files = PromptFiles(self._folder / "prompts")
        """The prompts of what is started."""
        self._lock = Lock()
        self._children: dict[int, subprocess.Popen[bytes]] = {}
        self._stopped: set[int] = set()

    # --- starting ---

    def start(
        self, arguments: Sequence[str], *, group: str | None = None, fields: Mapping[str, Sequence[str]] = {}
    ) -> StartedRun:
        """Starts `proctor run` with validated arguments, once for each group.

        Args:
            arguments: the arguments after `run`.
            group: the group of its runs; None for a new id. A group that exists and was started with
                the same arguments is not started again.
            fields: the fields of the form.

        Raises:
            UsageError: the group was started with other arguments; or the process, or its file, cannot be
                created.
        """
        group = group or new_id()
        check_group_id(group)
        field_pairs = tuple((name, value) for name, values in fields.items() for value in values)
        arguments = ("run", *arguments, f"--group={group}", *self._common_flags())
        with self._lock:
            existing = self.find(group)
            if existing is not None and existing.words == arguments:
                return existing
            if existing is not None:
                raise UsageError(f"A different run was already started as {group!r}. Use another group.")
            return self._start(
                StartedRun(group=group, words=arguments, pid=0, started_at=_now(), fields=field_pairs)
            )

    def resume(self, run: Run) -> StartedRun | None:
        """Starts a process that resumes a run; returns None if one is already running.

        Raises:
            UsageError: the process cannot be started.
        """
        with self._lock:
            with self._project.open_store() as store:
                if store.lock_owner(run.id) is not None:
                    return None
            if any(start.run == run.id and self.is_alive(start) for start in self._newest_starts()):
                return None
            arguments = ("run", f"--resume={run.id}", *self._common_flags())
            return self._start(
                StartedRun(group=new_id(), words=arguments, pid=0, started_at=_now(), run=run.id)
            )

    def _common_flags(self) -> tuple[str, ...]:
        return ("--quiet", f"--store={self._project.location.address}")

    def _start(self, start: StartedRun) -> StartedRun:
        """Starts a process; its stderr file stays locked for as long as it lives."""
        try:
            is_new_folder = not self._folder.parent.exists()
            self._folder.mkdir(parents=True, exist_ok=True)
            if is_new_folder:  # the store is elsewhere
                ignore_in_git(self._folder.parent)
            self._forget_oldest()
            with self._path(start.group, "err").open("ab") as stderr:
                _lock_file(stderr.fileno())
                child = start_command(
                    self._project,
                    start.words,
                    outlives_server=self._outlive_server,
                    stdout=subprocess.DEVNULL,
                    stderr=stderr,
                    **_DETACHED,
                )
        except OSError as error:
            raise UsageError(f"The run cannot be started: {error}.") from None
        if not self._outlive_server:
            GUARD.add(child.pid)
        self._stopped.discard(child.pid)
        self._children[child.pid] = child
        Thread(target=self._wait, args=(child,), name=f"waits for {child.pid}", daemon=True).start()
        start = msgspec.structs.replace(start, pid=child.pid, process_space=get_process_space())
        _write(self._path(start.group, "json"), msgspec.json.encode(start))
        return start

    def _wait(self, child: subprocess.Popen[bytes]) -> None:
        child.wait()  # avoids a zombie
        if not self._outlive_server:
            GUARD.discard(child.pid)
        self._children.pop(child.pid, None)

    # --- finding ---

    def list_alive(self) -> list[StartedRun]:
        """Returns the newest starts whose process is running, newest first."""
        return [start for start in self._newest_starts() if self.is_alive(start)]

    def find(self, group: str) -> StartedRun | None:
        """Returns the start of that group, or None."""
        try:
            check_group_id(group)
            return msgspec.json.decode(self._path(group, "json").read_bytes(), type=StartedRun)
        except (UsageError, OSError, msgspec.MsgspecError):
            return None

    def is_alive(self, start: StartedRun) -> bool:
        """Whether the process of a start is running, on this machine and in this container."""
        if start.process_space not in (None, get_process_space()):
            return False
        if _WINDOWS:
            child = self._children.get(start.pid)
            return child is not None and child.poll() is None
        # The lock ends with the process; programs that it started may hold it a little longer.
        return _is_locked(self._path(start.group, "err")) and _is_running(start.pid)

    def read_output(self, start: StartedRun) -> list[str]:
        """Returns the last lines that a process wrote to stderr."""
        try:
            with self._path(start.group, "err").open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - _MAX_OUTPUT_BYTES))
                text = file.read(_MAX_OUTPUT_BYTES).decode("utf-8", "replace")
        except OSError:
            return []
        return [one_line(line) for line in text.splitlines() if line.strip()][-_MAX_OUTPUT_LINES:]

    def list_runs(self, store: Store, group: str, *, newest: bool = False) -> list[Run]:
        """Returns the runs of a group, or the run that it resumes, oldest first.

        Args:
            store: the store of the runs.
            group: the group's id.
            newest: search only the newest runs, as for a process that is running.

        Raises:
            StoreError: the store cannot be read.
        """
        start = self.find(group)
        if start is not None and start.run is not None:
            try:
                return [store.run(start.run)]
            except StoreError:  # it was deleted
                return []
        runs = []
        for run in islice(store.runs(), _MAX_NEWEST_RUNS if newest else None):
            if run.group == group:
                runs.append(run)
            elif start is not None and run.imported is None and run.started_at < start.started_at:
                break
        return runs[::-1]

    # --- stopping ---

    def stop(self, start: StartedRun) -> bool:
        """Tells a process to stop, once; returns False if it is not running."""
        if not self.is_alive(start):
            return False
        return self._signal(start.pid)

    def stop_run(self, store: Store, run: Run) -> bool:
        """Tells the process of a run to stop, once; returns False if there is none or it is unknown.

        Raises:
            StoreError: the store cannot be read.
        """
        return stop_run(store, run.id, self._signal)

    def is_stopping(self, store: Store, run: Run) -> bool:
        """Whether a run was told to stop and is still running."""
        if store.is_stop_requested(run.id):
            return True
        owner = store.lock_owner(run.id)
        return owner is not None and owner.host is None and owner.pid in self._stopped

    def end_children(self, wait_s: float = 1.0) -> None:
        """Interrupts the processes that this server started, and waits for each.

        Args:
            wait_s: how long calls in progress may take; after it they are cut off.
        """
        children = list(self._children.values())
        for timeout_s in (wait_s, _END_TIMEOUT_S):
            for child in children:
                with suppress(OSError):
                    child.send_signal(STOP_SIGNAL)
            until = monotonic() + timeout_s
            for child in children:
                with suppress(subprocess.TimeoutExpired):
                    child.wait(max(0.0, until - monotonic()))
            children = [child for child in children if child.poll() is None]

    def _signal(self, pid: int) -> bool:
        """Interrupts a process, once: a second signal would cut off calls in progress."""
        with self._lock:
            self._stopped = {old_pid for old_pid in self._stopped if _is_running(old_pid)}
            if pid in self._stopped:
                return True
            if send_stop_signal(pid):
                self._stopped.add(pid)
            return pid in self._stopped

    # --- files ---

    def _path(self, group: str, extension: str) -> Path:
        return self._folder / f"{group}.{extension}"

    def _newest_starts(self) -> list[StartedRun]:
        names = sorted((path.stem for path in self._folder.glob("*.json")), reverse=True)
        return [start for name in names[:_MAX_NEWEST_RUNS] if (start := self.find(name)) is not None]

    def _forget_oldest(self) -> None:
        paths = sorted(self._folder.glob("*.json"), key=lambda path: path.stat().st_mtime)
        for path in paths[: max(0, len(paths) - _MAX_STARTS)]:
            start = self.find(path.stem)
            if start is None or not self.is_alive(start):
                for extension in ("json", "err"):
                    with suppress(OSError):
                        self._path(path.stem, extension).unlink()


def get_run_processes(project: ProjectFolder) -> RunProcesses:
    """Returns the run processes of a project."""
    return project.get_shared("run processes", lambda: RunProcesses(project))


def _now() -> datetime:
    return datetime.now(UTC)


def _write(path: Path, data: bytes) -> None:
    """Writes a file in one step, so that no reader sees half of it."""
    temporary = path.with_suffix(".part")
    temporary.write_bytes(data)
    temporary.replace(path)


# --- what differs between systems --------------------------------------------------------------------------

if _WINDOWS:
    _DETACHED: dict[str, Any] = {"creationflags": getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)}
else:
    _DETACHED = {"start_new_session": True}


def _lock_file(descriptor: int) -> None:
    """Locks an open file; a process that inherits it keeps the lock."""
    if not _WINDOWS:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _is_locked(path: Path) -> bool:
    import fcntl

    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # it is another user's
        return True
    return True

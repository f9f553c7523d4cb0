"""Runs that are made by processes of their own: started from a page, followed, stopped, and taken up again.

A child is `proctor run` and nothing else. It outlives the server, and what it says on stderr is in a file
beside the store, so that a server that is started later still knows of it.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from threading import Lock, Thread
from typing import Any

import msgspec
from msgspec import Struct

from proctor.errors import StoreError, UsageError
from proctor.model import Run
from proctor.protocols import Store
from proctor.safe_text import one_line
from proctor.services.runs.request import check_group, new_id
from proctor.web.project import Site
from proctor.web.runs.subprocess_command import started

_SAID_BYTES = 8_000
"""So much of the end of what a child said is shown."""
_SAID_LINES = 40
_KEPT = 500
"""So many starts are remembered."""
_NEWEST = 64
"""Among so many of the newest runs are those of a child that is at work."""
_WINDOWS = sys.platform == "win32"


class Start(Struct, frozen=True, kw_only=True):
    """One child: what it was started with, and how to find it again."""

    group: str
    """What its runs are called together; of one that takes up a run, its own id."""
    words: tuple[str, ...]
    """After `proctor`."""
    pid: int
    started_at: datetime
    fields: tuple[tuple[str, str], ...] = ()
    """What was chosen on the page, to choose it again."""
    run: str | None = None
    """The run that it takes up."""

    @property
    def command(self) -> str:
        """What it runs, as a shell has it."""
        return shlex.join(("proctor", *self.words))

    def runs(self, words: Sequence[str]) -> bool:
        """Whether it was started with these words after `run`."""
        return self.words[1 : 1 + len(words)] == tuple(words)


class Children:
    """The children of one store; safe to use from many threads."""

    def __init__(self, site: Site) -> None:
        """Starts nothing.

        Args:
            site: whose folder they work in, and whose store they keep their runs in.
        """
        self._site = site
        self._folder = site.location.folder / "starts"
        self._lock = Lock()
        self._waited: dict[int, subprocess.Popen[bytes]] = {}
        self._stopped: set[int] = set()

    # --- starting ---

    def begin(
        self, words: Sequence[str], *, group: str | None = None, fields: Mapping[str, Sequence[str]] = {}
    ) -> Start:
        """Start `proctor run` with these words, which are checked already; once for each group.

        Args:
            words: what comes after `run`.
            group: what its runs are called together; a new id where there is none. Of one that is there
                already, and was started with the same words, nothing is started again.
            fields: what was chosen on the page.

        Raises:
            UsageError: the group was started with other words; or the file beside the store, or the child,
                cannot be made.
        """
        group = group or new_id()
        check_group(group)
        kept = tuple((name, value) for name, values in fields.items() for value in values)
        words = ("run", *words, f"--group={group}", *self._always())
        with self._lock:
            known = self.find(group)
            if known is not None and known.words == words:
                return known
            if known is not None:
                raise UsageError(f"Something else was started as {group!r} already. Start this anew.")
            return self._start(Start(group=group, words=words, pid=0, started_at=_now(), fields=kept))

    def resume(self, run: Run) -> Start | None:
        """Make what is missing of a run, by a child; None where somebody is at it already.

        Raises:
            UsageError: the child cannot be made.
        """
        with self._lock:
            with self._site.store() as store:
                if store.maker(run.id) is not None:
                    return None
            if any(start.run == run.id and self.is_alive(start) for start in self._newest()):
                return None
            words = ("run", f"--resume={run.id}", *self._always())
            return self._start(Start(group=new_id(), words=words, pid=0, started_at=_now(), run=run.id))

    def _always(self) -> tuple[str, ...]:
        return ("--quiet", f"--store={self._site.location.address}")

    def _start(self, start: Start) -> Start:
        """Start a child; its stderr is locked for as long as it lives."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._forget_oldest()
            with self._path(start.group, "err").open("ab") as said:
                _hold(said.fileno())
                child = started(
                    self._site,
                    start.words,
                    outlives_server=True,
                    stdout=subprocess.DEVNULL,
                    stderr=said,
                    **_APART,
                )
        except OSError as error:
            raise UsageError(f"The run cannot be started: {error}.") from None
        self._stopped.discard(child.pid)
        self._waited[child.pid] = child
        Thread(target=self._wait, args=(child,), name=f"waits for {child.pid}", daemon=True).start()
        start = msgspec.structs.replace(start, pid=child.pid)
        _write(self._path(start.group, "json"), msgspec.json.encode(start))
        return start

    def _wait(self, child: subprocess.Popen[bytes]) -> None:
        child.wait()  # else it stays as a zombie
        self._waited.pop(child.pid, None)

    # --- finding ---

    def find(self, group: str) -> Start | None:
        """The start of that id; None where nothing was started here under it."""
        try:
            check_group(group)
            return msgspec.json.decode(self._path(group, "json").read_bytes(), type=Start)
        except (UsageError, OSError, msgspec.MsgspecError):
            return None

    def is_alive(self, start: Start) -> bool:
        """Whether the child of a start is still at work."""
        if _WINDOWS:
            child = self._waited.get(start.pid)
            return child is not None and child.poll() is None
        # The lock is let go of when the child dies, and what it left behind may hold it a little longer.
        return _is_held(self._path(start.group, "err")) and _is_there(start.pid)

    def said(self, start: Start) -> list[str]:
        """The last lines that a child said on stderr."""
        try:
            with self._path(start.group, "err").open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - _SAID_BYTES))
                text = file.read(_SAID_BYTES).decode("utf-8", "replace")
        except OSError:
            return []
        return [one_line(line) for line in text.splitlines() if line.strip()][-_SAID_LINES:]

    def runs(self, store: Store, group: str, *, newest: bool = False) -> list[Run]:
        """The runs of a group, or the one that is taken up under that id; in the order of their making.

        Args:
            store: where they are.
            group: the group's id.
            newest: look among the newest runs only, as for a child that is at work.

        Raises:
            StoreError: the store cannot be read.
        """
        start = self.find(group)
        if start is not None and start.run is not None:
            try:
                return [store.run(start.run)]
            except StoreError:  # it was deleted
                return []
        found = []
        for run in islice(store.runs(), _NEWEST if newest else None):
            if run.group == group:
                found.append(run)
            elif start is not None and run.imported is None and run.started_at < start.started_at:
                break
        return found[::-1]

    # --- stopping ---

    def stop(self, start: Start) -> bool:
        """Tell a child to stop, once; False where it is not at work."""
        if not self.is_alive(start):
            return False
        return self._signal(start.pid)

    def stop_run(self, store: Store, run: Run) -> bool:
        """Tell whoever makes a run to stop, once; False where nobody does, or nobody knows who.

        Raises:
            StoreError: the store cannot be read.
        """
        maker = store.maker(run.id)
        if maker is None or maker == os.getpid():
            return False
        return self._signal(maker)

    def is_stopping(self, store: Store, run: Run) -> bool:
        """Whether a run was told to stop and is still at it."""
        maker = store.maker(run.id)
        return maker is not None and maker in self._stopped

    def _signal(self, pid: int) -> bool:
        """Interrupt a process, once: a second time would cut off the calls under way."""
        with self._lock:
            self._stopped = {known for known in self._stopped if _is_there(known)}
            if pid in self._stopped:
                return True
            try:
                os.kill(pid, _STOP)
            except OSError:  # it has ended, or is another user's
                return False
            self._stopped.add(pid)
            return True

    # --- files ---

    def _path(self, group: str, ending: str) -> Path:
        return self._folder / f"{group}.{ending}"

    def _newest(self) -> list[Start]:
        names = sorted((path.stem for path in self._folder.glob("*.json")), reverse=True)
        return [start for name in names[:_NEWEST] if (start := self.find(name)) is not None]

    def _forget_oldest(self) -> None:
        paths = sorted(self._folder.glob("*.json"), key=lambda path: path.stat().st_mtime)
        for path in paths[: max(0, len(paths) - _KEPT)]:
            start = self.find(path.stem)
            if start is None or not self.is_alive(start):
                for ending in ("json", "err"):
                    with suppress(OSError):
                        self._path(path.stem, ending).unlink()


def children_of(site: Site) -> Children:
    """The children of a site."""
    return site.shared("children", lambda: Children(site))


def _now() -> datetime:
    return datetime.now(UTC)


def _write(path: Path, data: bytes) -> None:
    """Write a file in one step, so that nobody reads half of it."""
    part = path.with_suffix(".part")
    part.write_bytes(data)
    part.replace(path)


# --- what differs between systems --------------------------------------------------------------------------

if _WINDOWS:
    _APART: dict[str, Any] = {"creationflags": getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)}
    _STOP = getattr(signal, "CTRL_BREAK_EVENT", signal.SIGTERM)
else:
    _APART = {"start_new_session": True}
    _STOP = signal.SIGINT


def _hold(descriptor: int) -> None:
    """Lock an open file; whoever inherits it holds the lock on."""
    if not _WINDOWS:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _is_held(path: Path) -> bool:
    import fcntl

    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # it is another user's
        return True
    return True

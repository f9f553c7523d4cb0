"""Starts a sandboxed process, watches it from outside, and leaves nothing of it behind.

`proctor.targets.process.subprocesses` runs programs that are trusted to end; here both outputs are limited,
what was written before a kill is kept, further handles are passed on, a folder is watched too, and no event
loop is needed in the calling thread.
"""

from __future__ import annotations

import os
import selectors
import signal
import stat
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from secrets import token_hex

FOLDER_LIMIT = 67_108_864
"""How many bytes all files of the working folder may have together."""
ENTRIES_LIMIT = 2_000
"""How many files and folders there may be in it."""
THREADS_LIMIT = 256
"""How many threads a program may have. No limit of the system's holds for root, and none for one process."""

_LOOK_S = 0.1
"""How often the folder and the threads are looked at."""
_GRACE_S = 0.25
"""How long the outputs of a process that has ended are still read."""
_REPORT_LIMIT = 65_536
_ROUNDS = 5
"""How often a folder is emptied in which something appears again."""


@dataclass(slots=True)
class Watched:
    """What came of a process."""

    stdout: bytes
    stderr: bytes
    report: bytes
    """What it told on its third handle."""
    exit_code: int | None = None
    """Negative: the signal that ended it; None where it was stopped."""
    stopped: str = ""
    """Why it was stopped: "timeout", "output", "folder" or "threads"; empty where it was not."""
    seconds: float = 0.0


class Watch:
    """One process under watch. Not for several threads.

    Args:
        process: a leader of its own session, with pipes for stdout and stderr.
        report: where it tells what becomes of it; this closes it.
        folder: its working folder.
        output_limit: how many bytes it may write to stdout, and as many to stderr.
    """

    def __init__(
        self, process: subprocess.Popen[bytes], report: int, folder: Path, output_limit: int
    ) -> None:
        assert process.stdout is not None
        assert process.stderr is not None
        self._process = process
        self._folder = folder
        self._limit = output_limit
        self._report = report
        self._outputs = {process.stdout.fileno(): bytearray(), process.stderr.fileno(): bytearray()}
        self._outputs[report] = bytearray()
        self._stopped = ""
        self._least_free = FOLDER_LIMIT if _free(folder) > 2 * FOLDER_LIMIT else 0

    def wait(self, timeout_s: float, final: Sequence[bytes]) -> Watched:
        """Watch until the process has ended, has to be stopped, or has told one of the final words.

        However it ends, nothing of its process group is left running.
        """
        began = time.monotonic()
        with selectors.DefaultSelector() as selector:
            try:
                for handle in self._outputs:
                    os.set_blocking(handle, False)
                    selector.register(handle, selectors.EVENT_READ)
                told = self._watch(selector, began + timeout_s, final)
                seconds = time.monotonic() - began
            finally:
                self._kill()
            self._read_rest(selector)
        stdout, stderr, report = (bytes(output) for output in self._outputs.values())
        code = None if self._stopped or told else self._process.returncode
        limit = self._limit
        return Watched(stdout[:limit], stderr[:limit], report, code, self._stopped, seconds)

    def _watch(self, selector: selectors.BaseSelector, deadline: float, final: Sequence[bytes]) -> bool:
        """Watch until there is a reason to end; tells whether a final word was it."""
        next_look = time.monotonic() + _LOOK_S
        ended_at = None
        while not self._stopped:
            now = time.monotonic()
            if now >= deadline:
                self._stopped = "timeout"
                break
            if ended_at is None and self._has_ended():
                ended_at = now
            if ended_at is not None and (not selector.get_map() or now > ended_at + _GRACE_S):
                break
            if now >= next_look:
                next_look = now + _LOOK_S
                self._look()
            self._read(selector, min(deadline - now, 0.02 if selector.get_map() else 0.002))
            if any(word in self._outputs[self._report] for word in final):
                return True
        return False

    def _look(self) -> None:
        """Stop a program that has too much of something."""
        pid = self._outputs[self._report].partition(b"\n")[0].rpartition(b"\t")[2]
        if pid.isdigit() and threads_of(int(pid)) > THREADS_LIMIT:
            self._stopped = "threads"
        elif folder_is_over(self._folder, self._least_free):
            self._stopped = "folder"

    def _read(self, selector: selectors.BaseSelector, wait_s: float) -> bool:
        """Read what there is, after waiting for it; tells whether there was anything."""
        if not selector.get_map():
            time.sleep(wait_s)
            return False
        ready = selector.select(wait_s)
        for key, _ in ready:
            piece = os.read(key.fd, 65_536)
            if not piece:
                selector.unregister(key.fd)
                continue
            output = self._outputs[key.fd]
            output += piece
            if len(output) > (_REPORT_LIMIT if key.fd == self._report else self._limit):
                self._stopped = self._stopped or "output"
                selector.unregister(key.fd)
        return bool(ready)

    def _read_rest(self, selector: selectors.BaseSelector) -> None:
        """Read what was written before the end; nobody is left to write more."""
        until = time.monotonic() + _GRACE_S
        while selector.get_map() and time.monotonic() < until and self._read(selector, 0.02):
            pass

    def _has_ended(self) -> bool:
        """Whether the process has ended, which leaves its id to it, so that no other group can be killed."""
        if not hasattr(os, "waitid"):  # macOS
            return self._process.poll() is not None
        flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PID, self._process.pid, flags) is not None

    def _kill(self) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


def threads_of(pid: int) -> int:
    """How many threads a process has, where that can be seen (Linux); else 0."""
    try:
        return os.stat(f"/proc/{pid}/task").st_nlink - 2  # noqa: PTH116  # as for any folder, one for each in it
    except OSError:
        return 0


def _free(folder: Path) -> int:
    """How many bytes may still be written to the disk of a folder."""
    disk = os.statvfs(folder)
    return disk.f_bavail * disk.f_frsize


def folder_is_over(folder: Path, least_free: int = 0) -> bool:
    """Whether a folder holds more bytes or entries than a program may leave in it, or hides what it holds.

    Files that are deleted and still open are seen only in what is left of the disk: at least `least_free`.
    """
    if _free(folder) < least_free:
        return True
    size = entries = 0
    todo = [str(folder)]
    while todo:
        try:
            with os.scandir(todo.pop()) as found:
                for entry in found:
                    status = entry.stat(follow_symlinks=False)
                    entries += 1
                    size += status.st_blocks * 512
                    if size > FOLDER_LIMIT or entries > ENTRIES_LIMIT:
                        return True
                    if stat.S_ISDIR(status.st_mode):
                        todo.append(entry.path)
        except FileNotFoundError:
            continue  # removed meanwhile
        except OSError:
            return True
    return False


def remove_folder(folder: Path) -> None:
    """Remove a folder with all that a hostile program may have left in it: deep, closed or full of entries.

    Folders in it are emptied into the top one, so that no path gets long and nothing is called recursively.
    What cannot be removed, because a process still writes to it, is left.
    """
    names = (token_hex(16) for _ in count())
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            for _ in range(_ROUNDS):
                _empty(handle, names)
                with suppress(OSError):
                    folder.rmdir()
                    break
        finally:
            os.close(handle)


def _empty(folder: int, names: Iterator[str]) -> None:
    while found := os.listdir(folder):
        for name in found:
            if not _is_folder(folder, name):
                os.unlink(name, dir_fd=folder)
                continue
            inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
            try:
                for moved in os.listdir(inner):  # noqa: PTH208
                    _is_folder(inner, moved)
                    os.rename(moved, next(names), src_dir_fd=inner, dst_dir_fd=folder)
            finally:
                os.close(inner)
            os.rmdir(name, dir_fd=folder)


def _is_folder(parent: int, name: str) -> bool:
    """Whether it is one; then it may be opened and moved afterwards."""
    if not stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
        return False
    os.chmod(name, stat.S_IRWXU, dir_fd=parent)
    return True

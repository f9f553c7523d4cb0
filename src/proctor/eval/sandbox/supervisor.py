"""Watches a sandboxed process from outside, and removes everything it leaves behind.

`proctor.targets.process.subprocesses` runs programs that are trusted to end; here both outputs are limited,
output from before a kill is kept, more handles are passed on, a folder is watched too, and the calling thread
needs no event loop.
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

MAX_FOLDER_BYTES = 67_108_864
"""Bytes of all files of the working folder together."""
MAX_ENTRIES = 2_000
"""Files and folders in the working folder."""
MAX_THREADS = 256
"""Threads of a program. The system's limits do not hold for root, and not for a single process."""

_CHECK_INTERVAL_S = 0.1
"""Seconds between two checks of the folder and the threads."""
_GRACE_S = 0.25
"""Seconds for which the outputs of an ended process are still read."""
_MAX_REPORT_BYTES = 65_536
_MAX_ROUNDS = 5
"""How often a folder is emptied in which new files appear."""


@dataclass(slots=True)
class ProcessResult:
    """The outputs and the end of a process."""

    stdout: bytes
    stderr: bytes
    report: bytes
    """What the process wrote to its report handle."""
    exit_code: int | None = None
    """Negative: the signal that ended it; None if it was stopped."""
    stopped: str = ""
    """Why it was stopped: "timeout", "output", "folder" or "threads"; empty if it was not."""
    seconds: float = 0.0


class Supervisor:
    """Watches one process. Not safe for several threads.

    Args:
        process: a leader of its own session, with pipes for stdout and stderr.
        report: the handle of the pipe to which it writes its report.
        folder: its working folder.
        output_limit: how many bytes it may write to each of stdout and stderr.
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
        self._min_free = MAX_FOLDER_BYTES if _free_bytes(folder) > 2 * MAX_FOLDER_BYTES else 0

    def wait(self, timeout_s: float, final_words: Sequence[bytes]) -> ProcessResult:
        """Waits until the process has ended, must be stopped, or has reported one of the final words.

        Leaves no process of its group running.
        """
        start = time.monotonic()
        with selectors.DefaultSelector() as selector:
            try:
                for handle in self._outputs:
                    os.set_blocking(handle, False)
                    selector.register(handle, selectors.EVENT_READ)
                has_final_word = self._watch(selector, start + timeout_s, final_words)
                seconds = time.monotonic() - start
            finally:
                self._kill()
            self._read_rest(selector)
        stdout, stderr, report = (bytes(output) for output in self._outputs.values())
        code = None if self._stopped or has_final_word else self._process.returncode
        limit = self._limit
        return ProcessResult(stdout[:limit], stderr[:limit], report, code, self._stopped, seconds)

    def _watch(self, selector: selectors.BaseSelector, deadline: float, final_words: Sequence[bytes]) -> bool:
        """Watches until there is a reason to end; returns whether it was a final word."""
        next_check = time.monotonic() + _CHECK_INTERVAL_S
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
            if now >= next_check:
                next_check = now + _CHECK_INTERVAL_S
                self._check_usage()
            self._read(selector, min(deadline - now, 0.02 if selector.get_map() else 0.002))
            if any(word in self._outputs[self._report] for word in final_words):
                return True
        return False

    def _check_usage(self) -> None:
        """Stops a program with too many threads, bytes or files."""
        pid = self._outputs[self._report].partition(b"\n")[0].rpartition(b"\t")[2]
        if pid.isdigit() and count_threads(int(pid)) > MAX_THREADS:
            self._stopped = "threads"
        elif folder_exceeds_limit(self._folder, self._min_free):
            self._stopped = "folder"

    def _read(self, selector: selectors.BaseSelector, wait_s: float) -> bool:
        """Waits for output and reads it; returns whether there was any."""
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
            if len(output) > (_MAX_REPORT_BYTES if key.fd == self._report else self._limit):
                self._stopped = self._stopped or "output"
                selector.unregister(key.fd)
        return bool(ready)

    def _read_rest(self, selector: selectors.BaseSelector) -> None:
        """Reads the output that was written before the end."""
        until = time.monotonic() + _GRACE_S
        while selector.get_map() and time.monotonic() < until and self._read(selector, 0.02):
            pass

    def _has_ended(self) -> bool:
        """Whether the process has ended; its id stays reserved, so that no other group can be killed."""
        if not hasattr(os, "waitid"):  # macOS
            return self._process.poll() is not None
        flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PID, self._process.pid, flags) is not None

    def _kill(self) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


def count_threads(pid: int) -> int:
    """Returns the number of threads of a process (Linux); else 0."""
    try:
        return os.stat(f"/proc/{pid}/task").st_nlink - 2  # noqa: PTH116  # as for any folder, one for each in it
    except OSError:
        return 0


def _free_bytes(folder: Path) -> int:
    """Returns how many bytes may still be written to the disk of a folder."""
    disk = os.statvfs(folder)
    return disk.f_bavail * disk.f_frsize


def folder_exceeds_limit(folder: Path, min_free: int = 0) -> bool:
    """Whether a folder holds more bytes or entries than allowed, or cannot be read.

    Files that are deleted and still open only reduce the free bytes of the disk, which must be at least
    `min_free`.
    """
    if _free_bytes(folder) < min_free:
        return True
    size = entries = 0
    pending_folders = [str(folder)]
    while pending_folders:
        try:
            with os.scandir(pending_folders.pop()) as scan:
                for entry in scan:
                    status = entry.stat(follow_symlinks=False)
                    entries += 1
                    size += status.st_blocks * 512
                    if size > MAX_FOLDER_BYTES or entries > MAX_ENTRIES:
                        return True
                    if stat.S_ISDIR(status.st_mode):
                        pending_folders.append(entry.path)
        except FileNotFoundError:
            continue  # removed meanwhile
        except OSError:
            return True
    return False


def remove_folder(folder: Path) -> None:
    """Removes a folder with everything a hostile program may have left: deep, unreadable or full of entries.

    Folders in it are emptied into the top one, so that no path gets long and no call is recursive. A folder
    to which a process still writes is left.
    """
    names = (token_hex(16) for _ in count())
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            for _ in range(_MAX_ROUNDS):
                _empty_folder(handle, names)
                with suppress(OSError):
                    folder.rmdir()
                    break
        finally:
            os.close(handle)


def _empty_folder(folder: int, names: Iterator[str]) -> None:
    while children := os.listdir(folder):
        for name in children:
            if not _is_folder(folder, name):
                os.unlink(name, dir_fd=folder)
                continue
            inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
            try:
                for child in os.listdir(inner):  # noqa: PTH208
                    _is_folder(inner, child)
                    os.rename(child, next(names), src_dir_fd=inner, dst_dir_fd=folder)
            finally:
                os.close(inner)
            os.rmdir(name, dir_fd=folder)


def _is_folder(parent: int, name: str) -> bool:
    """Whether it is a folder; makes one accessible, so that it can be opened and moved."""
    if not stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
        return False
    os.chmod(name, stat.S_IRWXU, dir_fd=parent)
    return True

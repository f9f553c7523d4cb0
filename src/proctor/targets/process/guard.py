"""Makes sure that no program outlives this process, even if this process is killed.

A killed process cannot act, so another one, `watcher`, holds the read end of a pipe and acts when the pipe
closes. On Windows there is no watcher.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from uuid import uuid4

from proctor.targets.process import watcher as process_watcher
from proctor.targets.process.watcher import MARK as MARK

_WINDOWS = sys.platform == "win32"
_STOP_TIMEOUT_S = 1.0


class ProcessGuard:
    """Tells a watcher which programs are running. Thread-safe."""

    def __init__(self) -> None:
        """Starts nothing; the first program starts the watcher."""
        self._prefix = uuid4().hex
        self._lock = Lock()
        self._watcher: subprocess.Popen[bytes] | None = None
        self._groups: set[int] = set()
        self._unsent = b""

    def new_mark(self) -> str:
        """Returns the value of `MARK` for a program about to start; starts the watcher if needed.

        Raises:
            OSError: the watcher cannot be started.
        """
        with self._lock:
            if not _WINDOWS and (self._watcher is None or self._watcher.poll() is not None):
                self._start()
        return f"{self._prefix}.{uuid4().hex}"

    @contextmanager
    def watch(self, pid: int) -> Iterator[None]:
        """Has the group of a program killed if this process ends inside the block."""
        self.add(pid)
        try:
            yield
        finally:
            self.discard(pid)

    def add(self, pid: int) -> None:
        """Records that a program leading its own group has started."""
        with self._lock:
            self._groups.add(pid)
            self._send(f"+{pid}\n".encode())

    def discard(self, pid: int) -> None:
        """Records that nothing is left of a program's group."""
        with self._lock:
            self._groups.discard(pid)
            self._send(f"-{pid}\n".encode())

    def close(self) -> None:
        """Ends the watcher; processes that programs left in their own sessions may live on."""
        with self._lock:
            if self._watcher is not None:
                self._send(b"end\n", restart=False)
                self._drop()

    def reset(self) -> None:
        """Forgets the watcher in a forked child, which gets its own."""
        watcher = self._watcher
        self._prefix, self._lock = uuid4().hex, Lock()
        self._watcher, self._groups, self._unsent = None, set(), b""
        if watcher is not None:
            assert watcher.stdin is not None
            watcher.stdin.close()
            watcher.returncode = 0  # only its parent can wait for it

    def _start(self) -> None:
        """Starts a watcher and tells it of all running groups; raises OSError."""
        self._drop()
        source = Path(process_watcher.__file__).read_text("utf-8")
        self._watcher = subprocess.Popen(  # noqa: S603 - our own script
            # By its source: its command line must not match a pattern that kills all of Proctor.
            [sys.executable, "-I", "-S", "-c", source],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={name: value for name, value in os.environ.items() if name != MARK},
            bufsize=0,
            start_new_session=True,
        )
        assert self._watcher.stdin is not None
        # A program must never wait for the watcher.
        os.set_blocking(self._watcher.stdin.fileno(), False)
        lines = [self._prefix, *(f"+{pid}" for pid in self._groups)]
        self._send("".join(f"{line}\n" for line in lines).encode(), restart=False)

    def _send(self, lines: bytes, *, restart: bool = True) -> None:
        """Writes lines, after those for which the pipe had no room before."""
        if self._watcher is None:
            return
        assert self._watcher.stdin is not None
        self._unsent += lines
        try:
            bytes_sent = os.write(self._watcher.stdin.fileno(), self._unsent)
            self._unsent = self._unsent[bytes_sent:]
        except BlockingIOError:
            return
        except BrokenPipeError:
            if restart:
                with suppress(OSError):  # the next program tries again and reports the error
                    self._start()

    def _drop(self) -> None:
        """Closes the watcher's pipe, which ends the watcher."""
        watcher, self._watcher, self._unsent = self._watcher, None, b""
        if watcher is not None:
            assert watcher.stdin is not None
            watcher.stdin.close()
            with suppress(subprocess.TimeoutExpired):
                watcher.wait(_STOP_TIMEOUT_S)


GUARD = ProcessGuard()
"""The guard of this process."""
atexit.register(GUARD.close)
if not _WINDOWS:
    os.register_at_fork(after_in_child=GUARD.reset)

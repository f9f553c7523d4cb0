"""Runs a foreign program with a time limit, an output limit, its own process group and no secrets.

Whatever happens, nothing of the group is left running afterwards.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from msgspec import Struct

from proctor.errors import TargetError, TargetTimeout

OUTPUT_LIMIT = 10_000_000
"""How many bytes a program may write to stdout."""

_ERRORS_KEPT = 65_536
_GRACE_S = 1.0
_PASSED_ON = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "TEMP", "TMP"),
        *("VIRTUAL_ENV", "SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "COMSPEC", "PATHEXT", "USERPROFILE"),
        *("APPDATA", "LOCALAPPDATA", "PROGRAMFILES", "NUMBER_OF_PROCESSORS"),
    }
)


class Finished(Struct, frozen=True):
    """What a program that ended by itself left behind; a negative exit code is the signal that ended it."""

    exit_code: int
    stdout: bytes
    stderr: bytes
    """The last of it."""


def scrubbed(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that a program needs in order to run, and none that could hold a secret."""
    return {
        name: value for name, value in environ.items() if name.upper() in _PASSED_ON or name.startswith("LC_")
    }


async def run_process(
    argv: Sequence[str],
    stdin: bytes = b"",
    *,
    timeout_s: float,
    environ: Mapping[str, str],
    output_limit: int = OUTPUT_LIMIT,
) -> Finished:
    """Run a program to its end.

    Args:
        argv: the program and its arguments; no shell sees them.
        stdin: what it is given to read.
        timeout_s: after this many seconds its whole group is killed.
        environ: its environment, already scrubbed.
        output_limit: more bytes than this on stdout kill it.

    Raises:
        TargetTimeout: it did not end in time.
        TargetError: of kind `program`: it could not be started or wrote too much.
    """
    transport, collector = await _started(argv, stdin, environ, output_limit)
    try:
        async with asyncio.timeout(timeout_s):
            await collector.over
            # What the program left behind in its group would hold its pipes open.
            kill_group(transport.get_pid())
            await asyncio.wait([collector.exited, collector.read], timeout=_GRACE_S)
    except TimeoutError as error:
        raise TargetTimeout(f"{argv[0]!r} did not end within {timeout_s:g} s and was killed.") from error
    finally:
        if transport.get_returncode() is None:
            kill_group(transport.get_pid())
            await asyncio.wait([collector.exited], timeout=_GRACE_S)
        transport.close()
    if collector.too_much:
        raise TargetError(
            f"{argv[0]!r} wrote more than {output_limit:,} bytes to stdout and was killed.", kind="program"
        )
    return Finished(transport.get_returncode() or 0, bytes(collector.stdout), bytes(collector.stderr))


async def _started(
    argv: Sequence[str], stdin: bytes, environ: Mapping[str, str], output_limit: int
) -> tuple[asyncio.SubprocessTransport, _Collector]:
    """The program under way; raises TargetError when it cannot be started."""
    loop = asyncio.get_running_loop()
    try:
        # A file, not a pipe: nobody has to feed it, and the program may open /dev/stdin by its name.
        with tempfile.TemporaryFile() as given:
            given.write(stdin)
            given.seek(0)
            return await loop.subprocess_exec(
                lambda: _Collector(loop, output_limit),
                *argv,
                stdin=given,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=dict(environ),
                **_own_group(),
            )
    except (OSError, ValueError) as error:
        raise TargetError(f"{argv[0]!r} could not be started: {error}.", kind="program") from error


class _Collector(asyncio.SubprocessProtocol):
    """Collects what a program writes; `over` is set when it has ended or has written too much."""

    def __init__(self, loop: asyncio.AbstractEventLoop, limit: int) -> None:
        self.stdout = bytearray()
        self.stderr = bytearray()
        self.too_much = False
        self.over: asyncio.Future[None] = loop.create_future()
        self.exited: asyncio.Future[None] = loop.create_future()
        self.read: asyncio.Future[None] = loop.create_future()
        self._limit = limit
        self._open = {1, 2}

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Keep stdout up to the limit, and the end of stderr."""
        if fd == 1 and not self.too_much:
            self.stdout += data
            if len(self.stdout) > self._limit:
                self.too_much = True
                _settle(self.over)
        elif fd == 2:
            self.stderr += data
            del self.stderr[:-_ERRORS_KEPT]

    def pipe_connection_lost(self, fd: int, _exc: Exception | None) -> None:
        """Note that all was read."""
        self._open.discard(fd)
        if not self._open:
            _settle(self.read)

    def process_exited(self) -> None:
        """Note the end."""
        _settle(self.exited)
        _settle(self.over)


def kill_group(pid: int) -> None:
    """Kill a process that was started in its own group, and everything in that group."""
    if sys.platform == "win32":
        command = ["taskkill", "/T", "/F", "/PID", str(pid)]
        subprocess.run(command, capture_output=True, check=False)  # noqa: S603 - a system program
    else:
        # macOS answers PermissionError where only zombies are left.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)


def _own_group() -> dict[str, Any]:
    if sys.platform == "win32":
        return {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
    return {"start_new_session": True}


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)

"""Runs a program with a time limit, an output limit, its own process group and no secrets.

Afterwards nothing of the group is left running, even if this process is killed (see `guard`). If a program
had to be stopped, on Linux its descendants that left the group are killed too. A program that ended by itself
may leave a server running in its own session, until this process is killed.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from proctor.env_substitution import stream_end_sentence
from proctor.errors import TargetError, TargetTimeout
from proctor.protocols import CompletedProgram as CompletedProgram
from proctor.targets.process.program_start import start_program

DEFAULT_OUTPUT_LIMIT = 10_000_000
"""The maximum bytes that a program may write to stdout."""
MAX_STDERR_BYTES = 65_536
"""The bytes that are kept of the end of stderr."""
_MAX_ERROR = 500
_GRACE_S = 1.0

_INHERITED_VARIABLES = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "TEMP", "TMP"),
        *("VIRTUAL_ENV", "SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "COMSPEC", "PATHEXT", "USERPROFILE"),
        *("APPDATA", "LOCALAPPDATA", "PROGRAMFILES", "NUMBER_OF_PROCESSORS"),
    }
)


def clean_environ(environ: Mapping[str, str]) -> dict[str, str]:
    """Returns only the variables that a program needs in order to run, none of which has a secret."""
    return {
        name: value
        for name, value in environ.items()
        if name.upper() in _INHERITED_VARIABLES or name.startswith("LC_")
    }


def workspace_environ(environ: Mapping[str, str], workspace: str | None) -> dict[str, str]:
    """Returns the environment for a program in a workspace, where git must not find a repository above it."""
    above = {} if workspace is None else {"GIT_CEILING_DIRECTORIES": str(Path(workspace).parent)}
    return {**environ, **above}


async def run_process(
    argv: Sequence[str],
    stdin: bytes = b"",
    *,
    timeout_s: float,
    environ: Mapping[str, str],
    output_limit: int = DEFAULT_OUTPUT_LIMIT,
    cwd: str | None = None,
    called: str | None = None,
    limit_flag: str = "",
) -> CompletedProgram:
    """Runs a program to its end.

    Args:
        argv: the program and its arguments, without a shell.
        stdin: its input, which it need not read.
        timeout_s: the time limit in seconds, after which the whole group is killed.
        environ: its environment, without secrets.
        output_limit: the maximum bytes on stdout, after which it is killed.
        cwd: the folder in which it runs; None is the working directory.
        called: its name in messages; None for the name of the program.
        limit_flag: the flag that raises the output limit, for messages.

    Raises:
        TargetTimeout: it did not end in time; the message has the end of its output.
        TargetError: it could not be started, of kind `program`; or it wrote too much, of kind `too-large` if
            a flag raises the limit, else `program`.
    """
    from proctor.targets.process.guard import GUARD, MARK  # not needed by runs without programs

    name = repr(argv[0] if called is None else called)
    collector = _OutputCollector(asyncio.get_running_loop(), output_limit)
    try:
        environ = {**environ, MARK: GUARD.new_mark()}
        starting = asyncio.ensure_future(_start_program(collector, argv, stdin, environ, cwd))
        transport = await _wait_for_start(starting, environ)
    except (OSError, ValueError) as error:
        raise TargetError(f"{name} could not be started: {error}.", kind="program") from error
    with GUARD.watch(transport.get_pid()):
        try:
            async with asyncio.timeout(timeout_s):
                await collector.done
            if not collector.is_over_limit:
                # Leftover processes in its group would keep its pipes open.
                kill_group(transport.get_pid())
                await asyncio.wait([collector.exited, collector.pipes_closed], timeout=_GRACE_S)
        except TimeoutError as error:
            message = f"{name} did not end within {timeout_s:g} s and was killed"
            raise TargetTimeout(collector.with_output_tail(message)) from error
        finally:
            if transport.get_returncode() is None or collector.is_over_limit:
                _kill(transport, environ)
                await asyncio.wait([collector.exited], timeout=_GRACE_S)
            transport.close()
    if collector.is_over_limit:
        limit = f"{output_limit:,} bytes" + (f" ({limit_flag})" if limit_flag else "")
        message = collector.with_output_tail(f"{name} wrote more than {limit} to stdout and was killed")
        raise TargetError(message, kind="too-large" if limit_flag else "program")
    return CompletedProgram(transport.get_returncode() or 0, bytes(collector.stdout), bytes(collector.stderr))


async def _wait_for_start(
    starting: asyncio.Future[asyncio.SubprocessTransport], environ: Mapping[str, str]
) -> asyncio.SubprocessTransport:
    """Returns the started program; raises OSError or ValueError if it cannot be started.

    If cancelled, it lets asyncio finish the start and then kills the program and its descendants. asyncio
    would kill only the program, and wait forever if another process keeps its pipes open.
    """
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        with suppress(OSError, ValueError):
            transport = await starting
            _kill(transport, environ)
            transport.close()
        raise


def _kill(transport: asyncio.SubprocessTransport, environ: Mapping[str, str]) -> None:
    from proctor.targets.process.watcher import MARK, kill_marked

    kill_group(transport.get_pid())
    kill_marked(environ[MARK])


async def _start_program(
    collector: _OutputCollector,
    argv: Sequence[str],
    stdin: bytes,
    environ: Mapping[str, str],
    cwd: str | None,
) -> asyncio.SubprocessTransport:
    """Starts the program without protection against cancellation."""
    from tempfile import TemporaryFile  # with seven other modules, not needed by runs without programs

    # A file, not a pipe: nothing has to feed it, and the program may open /dev/stdin by name.
    with TemporaryFile() as stdin_file:
        stdin_file.write(stdin)
        stdin_file.seek(0)
        return await start_program(collector, argv, stdin=stdin_file, environ=environ, cwd=cwd)


class _OutputCollector(asyncio.SubprocessProtocol):
    """Collects a program's output; `done` is set when it has ended or has written too much."""

    def __init__(self, loop: asyncio.AbstractEventLoop, limit: int) -> None:
        self.stdout = bytearray()
        self.stderr = bytearray()
        self.is_over_limit = False
        self.done: asyncio.Future[None] = loop.create_future()
        self.exited: asyncio.Future[None] = loop.create_future()
        self.pipes_closed: asyncio.Future[None] = loop.create_future()
        self._limit = limit
        self._open_pipes = {1, 2}

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Keeps stdout up to the limit, and the end of stderr."""
        if fd == 1 and not self.is_over_limit:
            self.stdout += data
            if len(self.stdout) > self._limit:
                self.is_over_limit = True
                _resolve(self.done)
        elif fd == 2:
            self.stderr += data
            del self.stderr[:-MAX_STDERR_BYTES]

    def pipe_connection_lost(self, fd: int, _exc: Exception | None) -> None:
        """Sets `pipes_closed` when both pipes are closed."""
        self._open_pipes.discard(fd)
        if not self._open_pipes:
            _resolve(self.pipes_closed)

    def process_exited(self) -> None:
        """Sets `exited` and `done`."""
        _resolve(self.exited)
        _resolve(self.done)

    def with_output_tail(self, message: str) -> str:
        """Appends a full stop and the end of the program's output to a message."""
        return add_output_ends(message, self.stdout, self.stderr)


def add_output_ends(message: str, stdout: bytes | bytearray, stderr: bytes | bytearray) -> str:
    """Appends a full stop and the ends of a program's output to a message."""
    ends = (
        stream_end_sentence(bytes(stdout), "stdout", _MAX_ERROR),
        stream_end_sentence(bytes(stderr), "stderr", _MAX_ERROR),
    )
    return f"{message}.{''.join(ends)}"


def kill_group(pid: int) -> None:
    """Kills a process that leads its own group, and everything in that group."""
    if sys.platform == "win32":
        command = ["taskkill", "/T", "/F", "/PID", str(pid)]
        subprocess.run(command, capture_output=True, check=False)  # noqa: S603 - a system program
    else:
        # macOS raises PermissionError if only zombies are left.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)

"""Starts programs and connects their pipes to an event loop.

The loop's own `subprocess_exec` is used on Windows only: uvloop starts a program by `fork`, which copies the
page tables of this process and takes 110 ms where it has 400 MB. `subprocess.Popen` uses `vfork`: 5 ms.
"""

from __future__ import annotations

import asyncio
import errno
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Thread
from typing import IO, Any

_MAX_FIRST_LINE = 256


async def start_program(
    protocol: asyncio.SubprocessProtocol,
    argv: Sequence[str],
    *,
    stdin: int | IO[bytes],
    environ: Mapping[str, str],
    cwd: str | None,
) -> asyncio.SubprocessTransport:
    """Starts a program in a process group of its own; not protected against cancellation.

    Args:
        protocol: gets what it writes to stdout and stderr, and its end.
        argv: the program and its arguments.
        stdin: a file, or `subprocess.PIPE` to write by the pipe 0 of the transport.
        environ: its environment.
        cwd: the folder in which it runs.

    Raises:
        OSError: it cannot be started.
        ValueError: an argument has a null character.
    """
    loop = asyncio.get_running_loop()
    pipes: dict[str, Any] = {"stdin": stdin, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    if sys.platform == "win32":
        flags = subprocess.CREATE_NEW_PROCESS_GROUP
        transport, _ = await loop.subprocess_exec(
            lambda: protocol, *argv, **pipes, env=dict(environ), cwd=cwd, creationflags=flags
        )
        return transport
    try:
        process = subprocess.Popen(  # noqa: S603, ASYNC220 - the caller's program; it blocks for 1 ms
            argv, **pipes, env=dict(environ), cwd=cwd, start_new_session=True, bufsize=0
        )
    except OSError as error:
        why = _explain_script_error(error, Path(cwd or "", argv[0]))
        if why is None:
            raise
        raise OSError(error.errno, why, argv[0]) from error
    program = ProgramTransport(process, protocol, loop)
    try:
        await program.connect()
    except BaseException:
        process.kill()
        program.close()
        raise
    return program


def _explain_script_error(error: OSError, path: Path) -> str | None:
    """Returns what is wrong with the first line of a script that the system cannot start, else None."""
    if error.errno == errno.ENOEXEC:
        return "its first line names no interpreter, such as #!/bin/sh"
    if error.errno != errno.ENOENT:
        return None
    try:
        with path.open("rb") as file:
            line = file.readline(_MAX_FIRST_LINE)
    except (OSError, ValueError):
        return None
    if not line.startswith(b"#!"):
        return None
    interpreter = line[2:].rstrip(b"\n").strip(b" \t").decode("utf-8", "replace")
    return f"its first line names an interpreter that does not exist, {interpreter!r}"


class ProgramTransport(asyncio.SubprocessTransport):
    """A program that `Popen` has started, with its pipes on an event loop."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        protocol: asyncio.SubprocessProtocol,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """Watches for its end; `connect` connects its pipes."""
        super().__init__()
        self._process = process
        self._protocol = protocol
        self._loop = loop
        self._pipes: dict[int, asyncio.BaseTransport] = {}
        self._watch_end()

    async def connect(self) -> None:
        """Connects the pipes."""
        process, loop = self._process, self._loop
        for number, file in ((1, process.stdout), (2, process.stderr)):
            assert file is not None
            end: Any = _PipeEnd(file, loop)
            self._pipes[number], _ = await loop.connect_read_pipe(self._make_reader(number), end)
        if process.stdin is not None:
            end = _PipeEnd(process.stdin, loop)
            self._pipes[0], _ = await loop.connect_write_pipe(asyncio.BaseProtocol, end)

    def get_pid(self) -> int:
        """Returns the process id, which is that of its group too."""
        return self._process.pid

    def get_returncode(self) -> int | None:
        """Returns the exit code, or None before `process_exited` was called."""
        return self._process.returncode

    def get_pipe_transport(self, fd: int) -> asyncio.BaseTransport | None:
        """Returns the transport of a pipe; None for stdin if that is a file."""
        return self._pipes.get(fd)

    def close(self) -> None:
        """Closes the pipes; kills nothing. Safe to call twice."""
        for pipe in self._pipes.values():
            pipe.close()
        for number, file in enumerate((self._process.stdin, self._process.stdout, self._process.stderr)):
            if file is not None and number not in self._pipes:
                file.close()

    def _make_reader(self, number: int) -> Callable[[], _PipeReader]:
        return lambda: _PipeReader(self._protocol, number)

    def _watch_end(self) -> None:
        """Has `process_exited` called, by a descriptor of the process if the system has them (Linux)."""
        try:
            descriptor = os.pidfd_open(self._process.pid)  # type: ignore[attr-defined, unused-ignore]
        except (AttributeError, OSError):
            Thread(target=self._wait_in_thread, daemon=True, name="proctor-program").start()
            return

        def reap() -> None:
            if self._process.poll() is not None:
                self._loop.remove_reader(descriptor)
                os.close(descriptor)
                self._protocol.process_exited()

        self._loop.add_reader(descriptor, reap)

    def _wait_in_thread(self) -> None:
        self._process.wait()
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._protocol.process_exited)


class _PipeEnd:
    """One end of a pipe, which is closed once.

    uvloop closes the descriptor and then the file. Meanwhile another thread may have got the same descriptor.
    """

    def __init__(self, file: IO[bytes], loop: asyncio.AbstractEventLoop) -> None:
        """Takes the place of a file, which it closes."""
        self._descriptor = os.dup(file.fileno())
        self._is_open = isinstance(loop, asyncio.SelectorEventLoop)
        """Whether it has to be closed here."""
        file.close()

    def fileno(self) -> int:
        """Returns the descriptor."""
        return self._descriptor

    def close(self) -> None:
        """Closes the descriptor, unless the loop has done so. Safe to call twice."""
        if self._is_open:
            self._is_open = False
            os.close(self._descriptor)


class _PipeReader(asyncio.Protocol):
    """Passes on what one pipe brings."""

    def __init__(self, protocol: asyncio.SubprocessProtocol, number: int) -> None:
        self._protocol = protocol
        self._number = number

    def data_received(self, data: bytes) -> None:
        self._protocol.pipe_data_received(self._number, data)

    def connection_lost(self, error: Exception | None) -> None:
        self._protocol.pipe_connection_lost(self._number, error)

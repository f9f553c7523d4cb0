"""One running program that reads a line and writes a line, again and again."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress

from proctor.errors import TargetError, TargetTimeout
from proctor.protocols import CompletedProgram
from proctor.targets.process.program_start import start_program
from proctor.targets.process.subprocesses import MAX_STDERR_BYTES, add_output_ends, kill_group

_GRACE_S = 0.5
"""How long a program may take to end after its stdin was closed."""
_MAX_EXIT_S = 2.0
"""How long a program may take to end after it closed its stdout."""
_WATCH_S = 0.02
"""How long a program is watched after its first answer for a line that nobody asked for."""
_RULE = "A persistent program reads one line at a time, and writes and flushes one line for each."


class LineProcess(asyncio.SubprocessProtocol):
    """A process with the output that was not read yet; for one caller at a time."""

    def __init__(self, mark: str, output_limit: int) -> None:
        """Use `LineProcess.start`."""
        loop = asyncio.get_running_loop()
        self.has_answered = False
        """Whether it has answered a line."""
        self.has_stray_output = False
        """Whether it has written something since its last answer."""
        self._is_watched = False
        self._mark = mark
        self._limit = output_limit
        self._stdout = bytearray()
        self._stderr = bytearray()
        self._transport: asyncio.SubprocessTransport | None = None
        self._waiter: asyncio.Future[None] | None = None
        """Of the caller that waits for an answer; done when there is a line, or nothing more will come."""
        self._exited: asyncio.Future[None] = loop.create_future()
        self._stdout_closed: asyncio.Future[None] = loop.create_future()

    @classmethod
    async def start(
        cls, argv: Sequence[str], environ: Mapping[str, str], folder: str, output_limit: int
    ) -> LineProcess:
        """Starts a program.

        Args:
            argv: the program and its arguments.
            environ: its environment.
            folder: the folder in which it runs.
            output_limit: the maximum bytes of one answer.

        Raises:
            OSError: it cannot be started.
            ValueError: an argument has a null character.
        """
        from proctor.targets.process.guard import GUARD, MARK  # not needed by runs without programs

        mark = GUARD.new_mark()
        process = cls(mark, output_limit)
        starting = asyncio.ensure_future(
            start_program(process, argv, stdin=subprocess.PIPE, environ={**environ, MARK: mark}, cwd=folder)
        )
        try:
            process._transport = await asyncio.shield(starting)
        except asyncio.CancelledError:
            with suppress(OSError, ValueError):
                process._transport = await starting
                await process.kill()
            raise
        GUARD.add(process._transport.get_pid())
        return process

    @property
    def is_ready(self) -> bool:
        """Whether it can take a line: it runs, and has written nothing that nobody asked for."""
        has_ended = self._exited.done() or self._stdout_closed.done()
        return not (has_ended or self.has_stray_output or self._stdin.is_closing())

    async def exchange(self, line: bytes, called: str, timeout_s: float) -> CompletedProgram:
        """Writes a line and returns the answer; see `PersistentProgram.exchange`."""
        if self.has_answered:  # else what it wrote since its start, such as why it ends, belongs to this line
            self._stderr.clear()
        if self.has_stray_output:
            raise self._make_error(f"{called!r} wrote to stdout before it received a line")
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            if not self._stdin.is_closing():
                self._stdin.write(line + b"\n")
            async with asyncio.timeout(timeout_s):
                await self._waiter
        except TimeoutError as error:
            message = f"{called!r} did not answer within {timeout_s:g} s and was killed. {_RULE}"
            raise TargetTimeout(self._with_output_ends(message.removesuffix("."))) from error
        finally:
            self._waiter = None
        if b"\n" not in self._stdout and len(self._stdout) <= self._limit:
            await self._wait_for_end(called)
        if len(self._stdout) > self._limit:
            raise self._make_error(f"{called!r} wrote more than {self._limit:,} bytes to stdout")
        answer, newline, rest = self._stdout.partition(b"\n")
        if rest.strip():
            self.has_stray_output = True
            raise self.make_stray_output_error(called)
        exit_code = 0 if newline else self._get_transport().get_returncode() or 0
        self._stdout.clear()
        self.has_answered = True
        return CompletedProgram(exit_code, bytes(answer), bytes(self._stderr))

    async def watch_first_answer(self) -> None:
        """Waits a moment after the first answer for a line too many, which would answer the next line."""
        if not self._is_watched:
            self._is_watched = True
            await asyncio.wait([self._exited], timeout=_WATCH_S)

    def make_stray_output_error(self, called: str) -> TargetError:
        """Returns the error of a program that wrote more than was asked for."""
        return self._make_error(f"{called!r} wrote more than one line for one answer")

    async def _wait_for_end(self, called: str) -> None:
        """Waits until there is all that a program wrote before it ended; it must have closed its stdout."""
        await asyncio.wait([self._exited], timeout=_MAX_EXIT_S)
        if not self._exited.done():
            raise self._make_error(f"{called!r} closed its stdout without an answer")
        kill_group(self._pid)  # the rest of its group would keep its pipes open
        await asyncio.wait([self._stdout_closed], timeout=_GRACE_S)

    async def kill(self) -> None:
        """Kills it with all that it started, and waits for its end. Safe to call twice."""
        from proctor.targets.process.guard import GUARD
        from proctor.targets.process.watcher import kill_marked

        kill_group(self._pid)
        if not self._exited.done():
            kill_marked(self._mark)
        self._get_transport().close()
        GUARD.discard(self._pid)
        if not self._exited.done():
            await asyncio.wait([self._exited], timeout=_GRACE_S)

    async def end(self) -> None:
        """Closes its stdin, and kills it if it does not end."""
        self._stdin.close()
        await asyncio.wait([self._exited], timeout=_GRACE_S)
        await self.kill()

    @property
    def _pid(self) -> int:
        return self._get_transport().get_pid()

    @property
    def _stdin(self) -> asyncio.WriteTransport:
        stdin = self._get_transport().get_pipe_transport(0)
        assert stdin is not None
        return stdin  # type: ignore[return-value]

    def _get_transport(self) -> asyncio.SubprocessTransport:
        assert self._transport is not None
        return self._transport

    def _make_error(self, message: str) -> TargetError:
        return TargetError(self._with_output_ends(f"{message} and was killed"), kind="program")

    def _with_output_ends(self, message: str) -> str:
        return add_output_ends(message, self._stdout, self._stderr)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # --- asyncio.SubprocessProtocol ------------------------------------------------------------------------

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Keeps an answer up to the limit, and the end of stderr; blank lines are no answer."""
        if fd == 2:
            self._stderr += data
            del self._stderr[:-MAX_STDERR_BYTES]
        elif self._waiter is None:
            self.has_stray_output = self.has_stray_output or bool(data.strip())
        elif len(self._stdout) <= self._limit:
            data = data if self._stdout else data.lstrip()
            self._stdout += data
            if b"\n" in data or len(self._stdout) > self._limit:
                self._wake()

    def pipe_connection_lost(self, fd: int, _exc: Exception | None) -> None:
        """Wakes the caller if there will be no more of stdout."""
        if fd == 1:
            if not self._stdout_closed.done():
                self._stdout_closed.set_result(None)
            self._wake()

    def process_exited(self) -> None:
        """Wakes the caller: what the program started must not keep it waiting."""
        if not self._exited.done():
            self._exited.set_result(None)
        self._wake()

"""Programs that stay alive between answers: each reads one line and writes one, again and again.

A program serves one caller at a time and is killed as soon as its answers could belong to something else:
after a time limit, a cancelled or failed call, and output that nobody asked for. The next call gets a fresh
one. After output that nobody asked for, each program of that command gets one line only, so that nothing late
answers the next line. They are guarded as all programs are: nothing of their groups is left, even if this
process is killed.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress

from proctor.errors import TargetError
from proctor.protocols import CompletedProgram
from proctor.targets.process.line_process import LineProcess
from proctor.targets.process.subprocesses import DEFAULT_OUTPUT_LIMIT

MAX_PROGRAMS = 8
"""Of one command at the same time."""
MAX_IDLE_PROGRAMS = 16
"""Of all commands together; beyond it, the program that has been idle longest is ended."""
_PATIENCE_S = 0.05
"""How long a caller waits for a program that is in use, before it starts another one."""
_START_PATIENCE_S = 1.0
"""The same before the first answer: starting a second program would not make the first start faster."""

_Command = tuple[tuple[str, ...], str]
"""The words of a command, and its folder."""


class PersistentProgramPool:
    """The programs of one suite that stay alive, by their command; for the calls of one event loop."""

    def __init__(self, environ: Mapping[str, str], output_limit: int = DEFAULT_OUTPUT_LIMIT) -> None:
        """Starts nothing.

        Args:
            environ: the environment of all programs.
            output_limit: the maximum bytes of one answer.
        """
        self._environ = environ
        self._output_limit = output_limit
        self._groups: dict[_Command, _CommandGroup] = {}
        self._idle: list[tuple[_Command, LineProcess]] = []
        """The one that was used last is at the end."""
        self._endings: set[asyncio.Task[None]] = set()
        self._is_closed = False

    @asynccontextmanager
    async def open_session(
        self, argv: Sequence[str], folder: str, called: str
    ) -> AsyncIterator[ProgramSession]:
        """Gives an idle program or a fresh one; see `ProgramRunner.open_persistent`.

        Args:
            argv: the program and its arguments.
            folder: the folder in which it runs.
            called: its name in messages.
        """
        command = tuple(argv), folder
        group = self._groups.setdefault(command, _CommandGroup())
        session = ProgramSession(self, command, called)
        try:
            yield session
            process = session.process
            if process is not None:
                await process.watch_first_answer()
            if process is not None and process.has_stray_output:
                raise process.make_stray_output_error(called)
            if process is not None and self._may_serve_again(process, group) and not self._is_closed:
                session.process = None
                self._idle.append((command, process))
                group.add_answer()
        finally:
            await session.drop()
        if len(self._idle) > MAX_IDLE_PROGRAMS:
            ending = asyncio.create_task(self._end(*self._idle.pop(0)))
            self._endings.add(ending)
            ending.add_done_callback(self._endings.discard)

    async def acquire(self, command: _Command, called: str) -> LineProcess:
        """Returns an idle program of a command, else a fresh one; waits while others may become idle.

        Raises:
            TargetError: it cannot be started.
        """
        loop = asyncio.get_running_loop()
        group, arrived_at = self._groups[command], loop.time()
        while (process := await self._take_idle(command)) is None:
            start_at = group.next_start(arrived_at)
            if start_at is not None and loop.time() >= start_at:
                return await self.start(command, called)
            with suppress(TimeoutError):
                async with asyncio.timeout_at(start_at):
                    await group.wait()
        return process

    async def start(self, command: _Command, called: str) -> LineProcess:
        """Starts a program.

        Raises:
            TargetError: it cannot be started.
        """
        argv, folder = command
        group = self._groups[command]
        group.count += 1
        group.started_at = asyncio.get_running_loop().time()
        try:
            return await LineProcess.start(argv, self._environ, folder, self._output_limit)
        except BaseException as error:
            group.remove()
            if not isinstance(error, (OSError, ValueError)):
                raise
            raise TargetError(f"{called!r} could not be started: {error}.", kind="program") from error

    async def kill(self, command: _Command, process: LineProcess) -> None:
        """Kills a program; another caller may start one in its place."""
        group = self._groups[command]
        group.has_strayed = group.has_strayed or process.has_stray_output
        try:
            await process.kill()
        finally:
            group.remove()

    async def aclose(self) -> None:
        """Ends all idle programs: closes their stdin, and kills those that do not end. Safe to call twice."""
        self._is_closed = True
        idle, self._idle = self._idle, []
        await asyncio.gather(*(self._end(*entry) for entry in idle), *self._endings)

    async def _end(self, command: _Command, process: LineProcess) -> None:
        await process.end()
        self._groups[command].remove()

    async def _take_idle(self, command: _Command) -> LineProcess | None:
        """Returns an idle program of a command; kills those that cannot be used any more."""
        for place in reversed(range(len(self._idle))):
            if self._idle[place][0] == command:
                _, process = self._idle.pop(place)
                if self._may_serve_again(process, self._groups[command]):
                    return process
                await self.kill(command, process)
                return await self._take_idle(command)
        return None

    @staticmethod
    def _may_serve_again(process: LineProcess, group: _CommandGroup) -> bool:
        """Returns whether the next line of a program will be the answer to the next line that it reads."""
        return process.is_ready and not group.has_strayed


class _CommandGroup:
    """The programs of one command, and the callers that wait for one."""

    def __init__(self) -> None:
        self.count = 0
        """How many programs there are, idle or in use."""
        self.started_at = 0.0
        """When the last one was started, by the clock of the event loop."""
        self.has_answered = False
        self.has_strayed = False
        """Whether one has written a line that nobody asked for: then each gets one line only."""
        self._waiters: deque[asyncio.Future[None]] = deque()

    def next_start(self, arrived_at: float) -> float | None:
        """Returns when a caller may start another program; None if there are enough."""
        if self.count == 0:
            return 0.0
        if self.count >= MAX_PROGRAMS:
            return None
        patience_s = _PATIENCE_S if self.has_answered else _START_PATIENCE_S
        return max(arrived_at, self.started_at) + patience_s

    def add_answer(self) -> None:
        """Has a caller take the program that has answered; after the first answer, all wait less long."""
        if self.has_answered:
            self.wake_next()
            return
        self.has_answered = True
        while self._waiters:
            self.wake_next()

    def remove(self) -> None:
        """Counts one program less, in whose place a caller may start one."""
        self.count -= 1
        self.wake_next()

    async def wait(self) -> None:
        """Waits until a program is idle, or one has ended."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self.wake_next()
            raise
        finally:
            with suppress(ValueError):
                self._waiters.remove(waiter)

    def wake_next(self) -> None:
        """Wakes the caller that has waited longest."""
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return


class ProgramSession:
    """The use of one program by one caller; implements `PersistentProgram`."""

    def __init__(self, pool: PersistentProgramPool, command: _Command, called: str) -> None:
        """Starts nothing; the first call of `exchange` does."""
        self.process: LineProcess | None = None
        self._pool = pool
        self._command = command
        self._called = called

    async def exchange(self, line: bytes, *, timeout_s: float) -> CompletedProgram:
        """See `PersistentProgram.exchange`.

        A program that ended by itself after its last answer is replaced by a fresh one, which gets the line.
        """
        if self.process is None:
            self.process = await self._pool.acquire(self._command, self._called)
        has_answered = self.process.has_answered
        completed = await self.process.exchange(line, self._called, timeout_s)
        if has_answered and completed.exit_code == 0 and not completed.stdout:
            await self.drop()
            self.process = await self._pool.start(self._command, self._called)
            completed = await self.process.exchange(line, self._called, timeout_s)
        return completed

    async def drop(self) -> None:
        """Kills the program, if the session still has one."""
        if self.process is not None:
            process, self.process = self.process, None
            await self._pool.kill(self._command, process)

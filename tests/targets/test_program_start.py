"""How programs start: their pipes and their end reach the event loop, on each system and under each loop."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import uvloop

from proctor.targets.process.program_start import ProgramTransport, _PipeEnd, start_program
from support.waiting import PATIENCE_S

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there the event loop starts programs")
PATH_ONLY = {"PATH": os.environ["PATH"]}


class Log(asyncio.SubprocessProtocol):
    """Records the output of a program, and whether it has ended."""

    def __init__(self) -> None:
        self.output = {1: b"", 2: b""}
        self.open_pipes = {1, 2}
        self.exited = asyncio.Event()
        self.closed = asyncio.Event()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self.output[fd] += data

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        self.open_pipes.discard(fd)
        if not self.open_pipes:
            self.closed.set()

    def process_exited(self) -> None:
        self.exited.set()


async def run_shell(words: str, stdin: bytes = b"") -> tuple[int | None, dict[int, bytes]]:
    log = Log()
    argv = ["sh", "-c", words]
    program = await start_program(log, argv, stdin=subprocess.PIPE, environ=PATH_ONLY, cwd=None)
    pipe: Any = program.get_pipe_transport(0)
    pipe.write(stdin)
    pipe.close()
    async with asyncio.timeout(PATIENCE_S):
        await log.exited.wait()
        await log.closed.wait()
    program.close()
    return program.get_returncode(), log.output


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
@pytest.mark.parametrize("has_descriptors", [True, False])
def test_the_output_and_the_end_of_a_program_arrive(
    loop: Callable[[], asyncio.AbstractEventLoop], has_descriptors: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_descriptors:
        monkeypatch.delattr(os, "pidfd_open", raising=False)
    with asyncio.Runner(loop_factory=loop) as runner:
        assert runner.run(run_shell("cat; echo why >&2; exit 3", b"given")) == (3, {1: b"given", 2: b"why\n"})
        assert runner.run(run_shell("kill -9 $$")) == (-signal.SIGKILL, {1: b"", 2: b""})


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_no_descriptor_is_closed_that_another_thread_may_have_got(
    loop: Callable[[], asyncio.AbstractEventLoop], monkeypatch: pytest.MonkeyPatch
) -> None:
    close, results = _PipeEnd.close, []

    def close_after_reuse(end: _PipeEnd) -> None:
        was_open = is_open(end)
        if not was_open:  # another thread opens a file in this moment
            with open(os.devnull, "rb") as other:  # noqa: PTH123 - it needs a descriptor
                os.dup2(other.fileno(), end.fileno())
        close(end)
        results.append(is_open(end) is not was_open)
        if is_open(end):
            os.close(end.fileno())

    monkeypatch.setattr(_PipeEnd, "close", close_after_reuse)
    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(run_shell("cat", b"given"))
        runner.run(wait_for(lambda: len(results) == 3))
    assert results == [True] * 3


async def wait_for(is_true: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not is_true():
            await asyncio.sleep(0.001)


def is_open(end: _PipeEnd) -> bool:
    try:
        os.fstat(end.fileno())
    except OSError:
        return False
    return True


async def test_a_program_leads_a_group_of_its_own() -> None:
    log = Log()
    program = await start_program(log, ["cat"], stdin=subprocess.PIPE, environ=PATH_ONLY, cwd=None)
    assert os.getpgid(program.get_pid()) == program.get_pid()
    program.close()
    async with asyncio.timeout(PATIENCE_S):
        await log.exited.wait()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("#! /bin/sh\r\n", r"an interpreter that does not exist, '/bin/sh\\r': '.*/script'"),
        ("#!/no/such/place -x\n", "an interpreter that does not exist, '/no/such/place -x'"),
        ("echo\n", "its first line names no interpreter, such as #!/bin/sh"),
    ],
)
async def test_a_script_without_its_interpreter_is_told(text: str, why: str, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text(text, encoding="utf-8", newline="")
    script.chmod(0o700)
    for argv, cwd in (([str(script)], None), (["./script"], str(tmp_path))):
        with pytest.raises(OSError, match=why):
            await start_program(Log(), argv, stdin=subprocess.DEVNULL, environ=PATH_ONLY, cwd=cwd)


async def test_a_program_whose_pipes_cannot_be_connected_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log()

    async def fail(_: ProgramTransport) -> None:
        raise OSError("too many open files")

    monkeypatch.setattr(ProgramTransport, "connect", fail)
    with pytest.raises(OSError, match="too many"):
        await start_program(log, ["sleep", "3600"], stdin=subprocess.DEVNULL, environ=PATH_ONLY, cwd=None)
    async with asyncio.timeout(PATIENCE_S):
        await log.exited.wait()

"""Persistent programs: matching answers to questions, what ends them, and that no process is left."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import uvloop

from proctor.errors import TargetError, TargetTimeout
from proctor.protocols import CompletedProgram
from proctor.targets.process import line_process
from proctor.targets.process.persistent_programs import MAX_IDLE_PROGRAMS, MAX_PROGRAMS
from proctor.targets.process.suite_programs import SuiteProgramRunner
from support.processes import NOTE_START, is_alive, read_starts, wait_for_ends
from support.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="runs a POSIX shell")
linux = pytest.mark.skipif(sys.platform != "linux", reason="/proc tells which processes live")
PATH_ONLY = {"PATH": os.environ["PATH"]}
ECHO = NOTE_START + 'while read -r line; do echo "$line"; done'
TICK_S = 0.1


@pytest.fixture
async def programs(tmp_path: Path) -> AsyncIterator[SuiteProgramRunner]:
    runner = SuiteProgramRunner(str(tmp_path), PATH_ONLY)
    yield runner
    await runner.aclose()


@pytest.fixture
def exchange(programs: SuiteProgramRunner) -> Callable[..., object]:
    async def exchange(script: str, line: str = "", timeout_s: float = PATIENCE_S) -> CompletedProgram:
        async with programs.open_persistent(["sh", "-c", script]) as program:
            return await program.exchange(line.encode(), timeout_s=timeout_s)

    return exchange


Exchange = Callable[..., "asyncio.Future[CompletedProgram]"]


# --- one process -------------------------------------------------------------------------------------------


async def test_two_hundred_lines_in_sequence_are_answered_by_one_process(
    exchange: Exchange, tmp_path: Path
) -> None:
    for number in range(200):
        assert (await exchange(ECHO, f"line {number}")).stdout == b"line %d" % number
    assert len(read_starts(tmp_path)) == 1


async def test_many_callers_of_a_quick_program_share_few_processes(
    exchange: Exchange, tmp_path: Path
) -> None:
    answers = await asyncio.gather(*(exchange(ECHO, f"line {number}") for number in range(64)))
    assert [answer.stdout for answer in answers] == [b"line %d" % number for number in range(64)]
    assert len(read_starts(tmp_path)) <= MAX_PROGRAMS


async def test_callers_of_a_slow_program_get_more_processes(exchange: Exchange, tmp_path: Path) -> None:
    slow = NOTE_START + f'while read -r line; do sleep {TICK_S}; echo "$line"; done'
    answers = await asyncio.gather(*(exchange(slow, f"line {number}") for number in range(6)))
    assert [answer.stdout for answer in answers] == [b"line %d" % number for number in range(6)]
    assert 1 < len(read_starts(tmp_path)) <= 6


async def test_programs_with_other_words_are_other_programs(exchange: Exchange, tmp_path: Path) -> None:
    for words in ("true; ", "true; true; ", "true; "):
        await exchange(words + ECHO, "a")
    assert len(read_starts(tmp_path)) == 2


async def test_a_large_line_goes_in_and_comes_out(exchange: Exchange) -> None:
    line = "x" * 5_000_000
    for _ in range(2):
        assert (await exchange("cat", line)).stdout == line.encode()


async def test_an_answer_in_pieces_is_one_answer(exchange: Exchange) -> None:
    script = "while read -r line; do printf a; sleep 0.01; printf b; sleep 0.01; printf 'c\\n'; done"
    for _ in range(2):
        assert (await exchange(script)).stdout == b"abc"


async def test_blank_lines_are_no_answers(exchange: Exchange, tmp_path: Path) -> None:
    script = NOTE_START + "echo; while read -r line; do printf '\\n \\n  %s\\r\\n\\n' \"$line\"; done"
    for number in range(3):
        assert (await exchange(script, f"line {number}")).stdout.strip() == b"line %d" % number
    assert len(read_starts(tmp_path)) == 1


async def test_stderr_is_that_of_one_answer_and_only_its_end(exchange: Exchange) -> None:
    write = "head -c $n /dev/zero | tr '\\0' x >&2; echo \"end $n\" >&2"
    script = f"while read -r n; do {write}; sleep 0.1; echo 1; done"
    assert (await exchange(script, "100000")).stderr[-13:] == b"xx" + b"end 100000\n"
    assert (await exchange(script, "1")).stderr == b"xend 1\n"


async def test_stderr_of_the_first_answer_begins_at_the_start(tmp_path: Path) -> None:
    script = "echo early >&2; read -r line; exit 3"
    process = await line_process.LineProcess.start(["sh", "-c", script], PATH_ONLY, str(tmp_path), 100)
    async with asyncio.timeout(PATIENCE_S):
        while not process._stderr:
            await asyncio.sleep(0.001)
    result = await process.exchange(b"a", "sh", PATIENCE_S)
    await process.kill()
    assert (result.exit_code, result.stderr) == (3, b"early\n")


# --- programs that end -------------------------------------------------------------------------------------


async def test_a_crash_is_told_and_the_next_line_gets_a_fresh_process(
    exchange: Exchange, tmp_path: Path
) -> None:
    crash = '[ "$line" = bad ] && { echo why >&2; exit 3; }'
    script = NOTE_START + f'while read -r line; do {crash}; echo "$line"; done'
    assert (await exchange(script, "good")).stdout == b"good"
    result = await exchange(script, "bad")
    assert (result.exit_code, result.stdout, result.stderr) == (3, b"", b"why\n")
    assert (await exchange(script, "good")).stdout == b"good"
    assert len(read_starts(tmp_path)) == 2


async def test_what_was_written_before_a_crash_is_returned(exchange: Exchange) -> None:
    crash = await exchange("read -r line; printf half; kill -9 $$")
    assert (crash.exit_code, crash.stdout) == (-signal.SIGKILL, b"half")


async def test_a_program_may_end_after_each_answer(exchange: Exchange, tmp_path: Path) -> None:
    script = NOTE_START + 'read -r line; echo "$line"; exit 0'
    for number in range(20):
        assert (await exchange(script, f"line {number}")).stdout == b"line %d" % number
    assert len(read_starts(tmp_path)) == 20


async def test_a_program_that_ends_without_an_answer_is_not_started_for_ever(
    exchange: Exchange, tmp_path: Path
) -> None:
    result = await exchange(NOTE_START + "read -r line; exit 0")
    assert (result.exit_code, result.stdout) == (0, b"")
    assert len(read_starts(tmp_path)) == 1


async def test_a_line_without_an_end_is_an_answer_if_the_program_ends(exchange: Exchange) -> None:
    assert (await exchange("read -r line; printf '%s' \"$line\"", "once")).stdout == b"once"


async def test_a_missing_program_is_an_error(programs: SuiteProgramRunner) -> None:
    with pytest.raises(TargetError, match=r"no program 'no-such-program'"):
        async with programs.open_persistent(["no-such-program"]) as program:
            await program.exchange(b"", timeout_s=PATIENCE_S)
    with pytest.raises(TargetError, match=r"cat .* could not be started: embedded null byte"):
        async with programs.open_persistent(["cat", "\0"]) as program:
            await program.exchange(b"", timeout_s=PATIENCE_S)


# --- programs that break the rules -------------------------------------------------------------------------


async def test_a_late_answer_is_never_taken_for_that_of_the_next_line(
    exchange: Exchange, tmp_path: Path
) -> None:
    script = NOTE_START + 'while read -r line; do [ "$line" = late ] && sleep 0.2; echo "$line"; done'
    assert (await exchange(script, "first")).stdout == b"first"
    with pytest.raises(TargetTimeout, match=r"did not answer within 0.05 s and was killed\. A persistent"):
        await exchange(script, "late", 0.05)
    await asyncio.sleep(0.25)
    assert (await exchange(script, "next")).stdout == b"next"
    assert len(read_starts(tmp_path)) == 2


@linux
async def test_a_program_that_hangs_is_killed_with_its_group(exchange: Exchange, tmp_path: Path) -> None:
    script = NOTE_START + "sleep 3600 & echo $! >> starts; echo busy >&2; read -r line; wait"
    for timeout_s in (0.3, 3, PATIENCE_S):  # until it has written to stderr
        with pytest.raises(TargetTimeout) as caught:
            await exchange(script, "", timeout_s)
        if "Its stderr ends with: busy" in str(caught.value):
            break
    wait_for_ends(tmp_path)


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("read -r line; printf 'a\\nb\\n'; read -r line", "more than one line for one answer and was killed"),
        ("read -r line; exec 1>&-; sleep 3600", "closed its stdout without an answer and was killed"),
        ("read -r line; exec yes x | tr -d '\\n'", r"more than 10,000,000 bytes to stdout and was killed"),
    ],
    ids=["two lines", "closed", "too long"],
)
async def test_a_program_that_breaks_the_rules_is_killed(
    exchange: Exchange, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, message: str
) -> None:
    monkeypatch.setattr(line_process, "_MAX_EXIT_S", 0.1)
    with pytest.raises(TargetError, match=message):
        await exchange(NOTE_START + script)
    (pid,) = read_starts(tmp_path)
    assert not is_alive(pid)


async def test_what_comes_between_two_lines_is_no_answer(
    exchange: Exchange, programs: SuiteProgramRunner, tmp_path: Path
) -> None:
    wait = "while [ ! -e more ]; do sleep 0.01; done"
    script = NOTE_START + f'while read -r line; do echo "$line"; {wait}; echo "$line again"; done'
    assert (await exchange(script, "first")).stdout == b"first"
    (tmp_path / "more").touch()
    assert programs._pool is not None
    async with asyncio.timeout(PATIENCE_S):
        while not programs._pool._idle[0][1].has_stray_output:
            await asyncio.sleep(0.01)
    (tmp_path / "more").unlink()
    assert (await exchange(script, "second")).stdout == b"second"
    assert len(read_starts(tmp_path)) == 2


async def test_what_comes_before_the_first_line_is_no_answer_to_it(tmp_path: Path) -> None:
    script = 'echo loading; while read -r line; do echo "$line"; done'
    process = await line_process.LineProcess.start(["sh", "-c", script], PATH_ONLY, str(tmp_path), 100)
    async with asyncio.timeout(PATIENCE_S):
        while not process.has_stray_output:
            await asyncio.sleep(0.001)
    with pytest.raises(TargetError, match="'sh' wrote to stdout before it received a line and was killed"):
        await process.exchange(b"a", "sh", PATIENCE_S)
    await process.kill()


async def test_a_line_too_many_never_answers_the_next_line(exchange: Exchange, tmp_path: Path) -> None:
    script = NOTE_START + 'while read -r line; do echo "$line"; sleep 0.002; echo "$line again"; done'
    answers = await asyncio.gather(
        *(exchange(script, f"line {number}") for number in range(12)), return_exceptions=True
    )
    lines = {answer.stdout for answer in answers if isinstance(answer, CompletedProgram)}
    assert lines <= {b"line %d" % number for number in range(12)}
    assert len(read_starts(tmp_path)) == 12


async def test_after_a_line_too_many_each_line_gets_a_process_of_its_own(
    exchange: Exchange, tmp_path: Path
) -> None:
    script = (
        NOTE_START + r'while read -r line; do [ "$line" = bad ] && line="bad\nmore"; printf "$line\n"; done'
    )
    assert (await exchange(script, "good")).stdout == b"good"
    with pytest.raises(TargetError, match="more than one line for one answer"):
        await exchange(script, "bad")
    before = len(read_starts(tmp_path))
    for _ in range(3):
        assert (await exchange(script, "good")).stdout == b"good"
    assert len(read_starts(tmp_path)) == before + 3


async def test_a_line_too_many_while_an_answer_is_read_makes_it_an_error(
    programs: SuiteProgramRunner,
) -> None:
    script = 'while read -r line; do echo "$line"; sleep 0.01; echo more; done'

    async def use() -> None:
        async with programs.open_persistent(["sh", "-c", script]) as program:
            await program.exchange(b"first", timeout_s=PATIENCE_S)
            while program.process is not None and not program.process.has_stray_output:
                await asyncio.sleep(0.01)

    with pytest.raises(TargetError, match="more than one line for one answer"):
        await asyncio.wait_for(use(), PATIENCE_S)


async def test_a_program_whose_answer_is_refused_is_not_used_again(
    programs: SuiteProgramRunner, exchange: Exchange, tmp_path: Path
) -> None:
    async def refuse() -> None:
        async with programs.open_persistent(["sh", "-c", ECHO]) as program:
            await program.exchange(b"a", timeout_s=PATIENCE_S)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await refuse()
    await exchange(ECHO, "b")
    assert len(read_starts(tmp_path)) == 2


async def test_a_cancelled_call_kills_its_program(exchange: Exchange, tmp_path: Path) -> None:
    call = asyncio.ensure_future(exchange(NOTE_START + "read -r line; sleep 3600"))
    async with asyncio.timeout(PATIENCE_S):
        while not (tmp_path / "starts").exists() or not read_starts(tmp_path):
            await asyncio.sleep(0.01)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    wait_for_ends(tmp_path)


async def test_a_cancelled_caller_does_not_keep_others_waiting(exchange: Exchange) -> None:
    slow = f'while read -r line; do sleep {TICK_S}; echo "$line"; done'
    calls = [asyncio.ensure_future(exchange(slow, f"line {number}")) for number in range(12)]
    await asyncio.sleep(TICK_S / 2)
    for call in calls[::2]:
        call.cancel()
    async with asyncio.timeout(PATIENCE_S):
        answers = await asyncio.gather(*calls, return_exceptions=True)
    assert [answer.stdout for answer in answers[1::2]] == [b"line %d" % number for number in range(1, 12, 2)]  # type: ignore[union-attr]


# --- the end -----------------------------------------------------------------------------------------------


async def test_at_the_end_stdin_is_closed(
    programs: SuiteProgramRunner, exchange: Exchange, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line_process, "_GRACE_S", PATIENCE_S)
    await exchange(ECHO + "; echo bye > bye", "a")
    await programs.aclose()
    assert (tmp_path / "bye").read_text(encoding="utf-8") == "bye\n"


async def test_a_program_that_ignores_the_end_of_stdin_is_killed(
    programs: SuiteProgramRunner, exchange: Exchange, tmp_path: Path
) -> None:
    await exchange(NOTE_START + "read -r line; echo a; sleep 3600")
    await programs.aclose()
    await programs.aclose()
    wait_for_ends(tmp_path)


async def test_few_programs_stay_alive_without_work(
    programs: SuiteProgramRunner, exchange: Exchange, tmp_path: Path
) -> None:
    for number in range(MAX_IDLE_PROGRAMS + 3):
        await exchange(f": {number}; {ECHO}", "a")
    async with asyncio.timeout(PATIENCE_S):
        while sum(map(is_alive, read_starts(tmp_path))) > MAX_IDLE_PROGRAMS:
            await asyncio.sleep(0.01)
    assert [is_alive(pid) for pid in read_starts(tmp_path)] == [False] * 3 + [True] * MAX_IDLE_PROGRAMS


KILLED = """
import asyncio, os, sys
from proctor.targets.process.suite_programs import SuiteProgramRunner

async def main():
    programs = SuiteProgramRunner(".", os.environ)
    async with programs.open_persistent(["sh", "-c", sys.argv[1]]) as program:
        await program.exchange(b"a", timeout_s=300)
    print("idle", flush=True)
    if sys.argv[2] == "busy":
        async with programs.open_persistent(["sh", "-c", sys.argv[1]]) as program:
            await program.exchange(b"hang", timeout_s=300)
    await asyncio.sleep(3600)

asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.parametrize("state", ["idle", "busy"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
@linux
def test_no_program_outlives_proctor(tmp_path: Path, state: str, number: signal.Signals) -> None:
    hang = '[ "$line" = hang ] && { touch hangs; trap "" HUP TERM INT; sleep 3600; }'
    own_session = "setsid " if number == signal.SIGKILL else ""
    child = f"{own_session}sleep 3600 & echo $! >> starts; "
    script = NOTE_START + child + f'while read -r line; do {hang}; echo "$line"; done'
    argv = [sys.executable, "-c", KILLED, script, state]
    with subprocess.Popen(argv, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"idle\n"
        if state == "busy":
            wait_until((tmp_path / "hangs").exists)
        process.send_signal(number)
        process.wait(PATIENCE_S)
    assert len(read_starts(tmp_path)) == 2
    wait_for_ends(tmp_path)


@pytest.mark.slow
def test_persistent_programs_run_under_the_fast_event_loop_as_well(tmp_path: Path) -> None:
    async def main() -> None:
        programs = SuiteProgramRunner(str(tmp_path), PATH_ONLY)

        async def exchange(script: str, line: str, timeout_s: float = PATIENCE_S) -> bytes:
            async with programs.open_persistent(["sh", "-c", script]) as program:
                return (await program.exchange(line.encode(), timeout_s=timeout_s)).stdout

        assert [await exchange(ECHO, str(number)) for number in range(3)] == [b"0", b"1", b"2"]
        assert await exchange("cat", "x" * 5_000_000) == b"x" * 5_000_000
        with pytest.raises(TargetTimeout):
            await exchange(NOTE_START + "exec sleep 3600", "", 0.2)
        assert await exchange(NOTE_START + "read -r line; exec 0<&-; echo a; sleep 3600", "") == b"a"
        assert await exchange(NOTE_START + "read -r line; exec 0<&-; echo a; sleep 3600", "") == b"a"
        await programs.aclose()

    uvloop.run(main())
    wait_for_ends(tmp_path)

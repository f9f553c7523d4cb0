"""The guard's watcher: it may die at any moment, writes nothing, and its command line has no `proctor`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread

import pytest

from proctor.targets.process.guard import GUARD, ProcessGuard
from proctor.targets.process.subprocesses import run_process
from proctor.targets.process.watcher import MARK
from support.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no watcher")
linux = pytest.mark.skipif(sys.platform != "linux", reason="/proc tells which processes live")
SLEEP = [sys.executable, "-S", "-c", "import time; time.sleep(3600)"]
PATH_ONLY = {"PATH": os.environ["PATH"]}


@pytest.fixture
def program() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(SLEEP, start_new_session=True) as process:
        yield process
        process.kill()


@pytest.fixture
def guard() -> ProcessGuard:
    guard = ProcessGuard()
    guard.new_mark()
    return guard


def _watcher(guard: ProcessGuard) -> subprocess.Popen[bytes]:
    assert guard._watcher is not None
    return guard._watcher


def _end_as_if_killed(guard: ProcessGuard) -> None:
    stdin = _watcher(guard).stdin
    assert stdin is not None
    stdin.close()
    _watcher(guard).wait(PATIENCE_S)


@pytest.mark.parametrize("end", [_end_as_if_killed, ProcessGuard.close])
def test_a_group_that_is_under_way_is_killed_at_any_end(
    guard: ProcessGuard, program: subprocess.Popen[bytes], end: Callable[[ProcessGuard], None]
) -> None:
    guard.add(program.pid)
    end(guard)
    assert program.wait(PATIENCE_S) == -signal.SIGKILL


def test_a_group_that_has_ended_gets_no_signal(guard: ProcessGuard, program: subprocess.Popen[bytes]) -> None:
    with guard.watch(program.pid):
        pass
    _end_as_if_killed(guard)
    assert program.poll() is None


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
@linux
def test_a_signal_to_all_processes_does_not_end_the_watcher(
    guard: ProcessGuard, program: subprocess.Popen[bytes], by: signal.Signals
) -> None:
    status = Path(f"/proc/{_watcher(guard).pid}/status")
    ignored = 1 << (by - 1)
    wait_until(lambda: int(status.read_text().partition("SigIgn:")[2].split()[0], 16) & ignored)
    _watcher(guard).send_signal(by)
    guard.add(program.pid)
    _end_as_if_killed(guard)
    assert program.wait(PATIENCE_S) == -signal.SIGKILL


def test_another_watcher_takes_over_the_groups_of_one_that_died(
    guard: ProcessGuard, program: subprocess.Popen[bytes]
) -> None:
    guard.add(program.pid)
    first = _watcher(guard)
    first.kill()
    os.waitid(os.P_PID, first.pid, os.WEXITED | os.WNOWAIT)
    guard.add(99_999_999)  # an id that no system gives
    assert _watcher(guard) is not first
    _end_as_if_killed(guard)
    assert program.wait(PATIENCE_S) == -signal.SIGKILL


async def test_the_death_of_the_watcher_breaks_no_program() -> None:
    await run_process(["true"], timeout_s=PATIENCE_S, environ=PATH_ONLY)
    first = _watcher(GUARD)
    first.kill()
    os.waitid(os.P_PID, first.pid, os.WEXITED | os.WNOWAIT)
    finished = await run_process(["echo", "here"], timeout_s=PATIENCE_S, environ=PATH_ONLY)
    assert finished.stdout == b"here\n"
    assert _watcher(GUARD) is not first
    assert _watcher(GUARD).poll() is None
    assert not GUARD._groups


@pytest.mark.slow
def test_a_watcher_that_does_not_read_blocks_no_program(
    guard: ProcessGuard, program: subprocess.Popen[bytes]
) -> None:
    guard.add(program.pid)
    _watcher(guard).send_signal(signal.SIGSTOP)
    for _ in range(10_000):  # more than a pipe holds
        with guard.watch(99_999_999):
            pass
    with guard.watch(program.pid):
        pass
    _watcher(guard).send_signal(signal.SIGCONT)

    def discard() -> bool:
        guard.discard(99_999_999)
        return not guard._unsent

    wait_until(discard)
    _end_as_if_killed(guard)
    assert program.poll() is None


def test_many_threads_share_one_watcher() -> None:
    guard = ProcessGuard()
    threads = [Thread(target=guard.new_mark) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    watcher = _watcher(guard)
    guard.close()
    assert watcher.returncode == 0


@pytest.mark.slow
def test_a_forked_child_has_a_guard_of_its_own(program: subprocess.Popen[bytes]) -> None:
    script = (
        "import os, sys\n"
        "from proctor.targets.process.guard import GUARD\n"
        "GUARD.new_mark()\n"
        "watcher = GUARD._watcher\n"
        f"GUARD.add({program.pid})\n"
        "if os.fork() == 0: sys.exit()\n"
        "assert os.wait()[1] == 0\n"
        "assert GUARD._watcher is watcher and watcher.poll() is None\n"
        "os.abort()\n"
    )
    process = subprocess.run(
        [sys.executable, "-X", "dev", "-c", script], capture_output=True, timeout=PATIENCE_S, check=False
    )
    assert program.wait(PATIENCE_S) == -signal.SIGKILL
    assert b"ResourceWarning" not in process.stderr


@pytest.mark.slow
def test_the_end_of_a_process_waits_for_its_watcher_and_warns_of_nothing() -> None:
    script = "from proctor.targets.process.guard import GUARD\nGUARD.new_mark()\nprint(GUARD._watcher.pid)"
    process = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", script],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )
    assert process.stderr == ""
    with pytest.raises(ProcessLookupError):
        os.kill(int(process.stdout), 0)


KILL = f"""
import sys, time
from pathlib import Path
from proctor.targets.process import watcher

def pause(seconds):
    Path("go").touch()
    time.sleep(seconds)

watcher.sleep = pause
watcher.kill_marked(sys.argv[1], patience_s={PATIENCE_S})
"""
"""Kills the processes with a mark; in the first pause, a process without a mark gets one."""


@linux
def test_a_program_that_is_just_being_started_is_killed_as_well(tmp_path: Path) -> None:
    mark = f"{tmp_path.name}.a"
    start = f"until [ -e go ]; do sleep 0.01; done; exec env {MARK}={mark} sleep 3600"
    with (
        subprocess.Popen(["sh", "-c", start], cwd=tmp_path, env={}) as program,
        subprocess.Popen([sys.executable, "-c", KILL, mark], cwd=tmp_path) as killer,
    ):
        try:
            assert program.wait(PATIENCE_S) == -signal.SIGKILL
        finally:
            program.kill()
            killer.kill()


@linux
def test_the_command_line_of_the_watcher_does_not_contain_proctor(guard: ProcessGuard) -> None:
    command = Path(f"/proc/{_watcher(guard).pid}/cmdline").read_bytes()
    assert b"proctor" not in command.replace(os.fsencode(sys.executable), b"")
    guard.close()

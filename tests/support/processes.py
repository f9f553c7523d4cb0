"""Other processes: one that holds a store's lock until it is told to let go, and a family that is to end."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from proctor.errors import TargetTimeout
from support.waiting import PATIENCE_S, wait_until

_HOLDS = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=60)
db.execute("BEGIN EXCLUSIVE")
print("held", flush=True)
sys.stdin.readline()
db.execute("ROLLBACK")
print("free", flush=True)
"""


def ignore_no_signals() -> None:
    """Gives signals that are ignored, as `nohup` and a shell in the background have them, an empty handler.

    It does as little here, but a program that is started has them as they are by default. A `preexec_fn` can
    do that too, for which each start would copy the memory map of this process: 30 ms with 400 MB of tests.
    """
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM) if os.name == "posix" else ():
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda _number, _frame: None)


class LockHolder:
    """A process that holds the lock from now on."""

    def __init__(self, path: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _HOLDS, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="utf-8",
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "held\n"

    def let_go(self) -> None:
        """Return when the lock is free. Safe to call twice."""
        if self._process.poll() is None:
            out, _ = self._process.communicate("\n", timeout=PATIENCE_S)
            assert out == "free\n"


def is_alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


NOTE_START = "echo $$ >> starts; "
"""The first command of a shell script whose process ids `read_starts` returns."""


def read_starts(folder: Path) -> list[int]:
    """The process id of each start of such a script in a folder."""
    return [int(word) for word in (folder / "starts").read_text(encoding="utf-8").split()]


def wait_for_ends(folder: Path) -> None:
    """Returns when all that `read_starts` names have ended."""
    wait_until(lambda: not any(map(is_alive, read_starts(folder))))


FAMILY = """
import os, subprocess, sys, time
sleep = [sys.executable, "-S", "-c", "import time; time.sleep(3600)"]
children = [subprocess.Popen(sleep), subprocess.Popen(sleep, start_new_session=True)]
with open("pids.new", "w") as file:
    file.write(" ".join(str(pid) for pid in [os.getpid(), *(child.pid for child in children)]))
sys.stderr.write("still at it")
sys.stderr.flush()
os.rename("pids.new", "pids")
time.sleep(float(sys.argv[1]))
"""
"""Starts a child in its group and one in a session of its own, both of which hold its pipes open, writes all
process ids to a file in its folder, and waits for so many seconds."""


async def list_living(folder: Path, most: int = 0) -> list[int]:
    """The living members of the family in a folder, once there are at most so many."""
    pids = [int(word) for word in (folder / "pids").read_text(encoding="utf-8").split()]
    async with asyncio.timeout(PATIENCE_S):
        while sum(map(is_alive, pids)) > most:
            await asyncio.sleep(0.02)
    return [pid for pid in pids if is_alive(pid)]


async def make_late(folder: Path, ask: Callable[[float], Awaitable[object]]) -> tuple[TargetTimeout, float]:
    """The family's end at a time limit, and that limit: long enough for this machine to have started it."""
    for limit_s in (0.5, 4, 32, PATIENCE_S):
        with pytest.raises(TargetTimeout) as caught:
            await ask(limit_s)
        if (folder / "pids").exists():
            return caught.value, limit_s
    pytest.fail("The family has never been complete.")

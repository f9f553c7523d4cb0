"""Other processes: one that holds a store's lock until it is told to let go, and whether one lives."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from support.waiting import PATIENCE_S

_HOLDS = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=60)
db.execute("BEGIN EXCLUSIVE")
print("held", flush=True)
sys.stdin.readline()
db.execute("ROLLBACK")
print("free", flush=True)
"""


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

"""What a process and all its descendants take, by looking at them many times a second. Linux only."""

from __future__ import annotations

import os
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from typing import NamedTuple

_TICKS = os.sysconf("SC_CLK_TCK")


class TreeUsage(NamedTuple):
    """What the processes of a tree took."""

    wall_s: float
    cpu_s: float
    peak_mib: float
    """The largest sum over processes that ran at the same time; shared pages are counted once."""


class Meter:
    """Samples a process and its descendants until `stop`."""

    def __init__(self, root: int, without: Collection[int] = (), every_s: float = 0.1) -> None:
        """Begins at once.

        Args:
            root: the id of the process at the top.
            without: processes that are left out, with their descendants.
            every_s: the time between two samples.
        """
        self._root = root
        self._without = frozenset(without)
        self._every_s = every_s
        self._cpu_s: dict[int, float] = {}
        self._before_s = sum(_cpu_s(pid) for pid in _list_tree(root, self._without))
        self._peak_kib = 0
        self._stop_event = Event()
        self._thread = Thread(target=self._run)
        self._thread.start()

    def stop(self, wall_s: float) -> TreeUsage:
        """Ends sampling, and returns what was taken since the beginning."""
        self._stop_event.set()
        self._thread.join()
        return TreeUsage(wall_s, sum(self._cpu_s.values()) - self._before_s, self._peak_kib / 1024)

    def _run(self) -> None:
        while True:
            is_last = self._stop_event.wait(self._every_s)
            pids = _list_tree(self._root, self._without)
            for pid in pids:
                self._cpu_s[pid] = max(_cpu_s(pid), self._cpu_s.get(pid, 0.0))
            self._peak_kib = max(self._peak_kib, sum(map(_pss_kib, pids)))
            if is_last:
                return


def _list_tree(root: int, without: Collection[int]) -> list[int]:
    pids, place = [root], 0
    while place < len(pids):
        pids += [child for child in list_children(pids[place]) if child not in without]
        place += 1
    return pids


def list_children(pid: int) -> list[int]:
    """The processes that a process has started and that still run."""
    with suppress(OSError):
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        return [int(word) for task in tasks for word in (task / "children").read_text("ascii").split()]
    return []


def _cpu_s(pid: int) -> float:
    with suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS
    return 0.0


def _pss_kib(pid: int) -> int:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text("ascii").splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1])
    return 0

"""Commands of Proctor as child processes, and what disturbs them."""

from __future__ import annotations

import os
import resource
import shlex
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from time import monotonic, sleep

from tools.soak_parts.suites import PROGRAMS

CLOCK = Path(__file__).parents[2] / "tests" / "support" / "clock.py"
MAX_UNDISTURBED_S = 180.0
"""A command that has not ended by then hangs."""
MAX_AFTER_SIGNAL_S = 30.0
"""The same after SIGINT or SIGTERM; calls under way get 1 s of it."""
_MAX_ORPHAN_S = 2.0
"""How long what a command has started may live on."""
_PAUSE_S = 0.01


@dataclass(frozen=True)
class Site:
    """Where the commands of one worker run."""

    folder: Path
    """Every process of a worker names it in its command line or environment, so that orphans are found."""
    store: Path
    logs: Path
    """Elsewhere, so that output can be written when the store's disk is full."""
    is_small_disk: bool
    """The folder is a file system of its own."""


class Child:
    """One command of Proctor that is running, in a session of its own."""

    def __init__(self, words: Sequence[str], site: Site, name: str, prefix: Sequence[str] = ()) -> None:
        self.words = words
        self.began = monotonic()
        self.signalled: float | None = None
        """When the last signal that ends it was sent."""
        self._paths = [site.logs / f"{name}.{stream}" for stream in ("out", "err")]
        with self._paths[0].open("wb") as out, self._paths[1].open("wb") as err:
            self._process = subprocess.Popen(
                [*prefix, sys.executable, "-m", "proctor", *words],
                cwd=site.folder,
                env=_environ(site),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def code(self) -> int | None:
        """The exit code, as `subprocess` has it; None while it runs."""
        return self._process.poll()

    def has_ended_within(self, seconds: float) -> bool:
        """Wait so long, and no longer than it runs."""
        last = monotonic() + seconds
        while self.code is None and monotonic() < last:
            sleep(_PAUSE_S)
        return self.code is not None

    def send(self, number: signal.Signals) -> None:
        """Send it a signal, if it still runs."""
        if self.code is None:
            self._process.send_signal(number)
            if number not in {signal.SIGSTOP, signal.SIGCONT}:
                self.signalled = monotonic()

    def has_hung(self) -> bool:
        """Wait for its end; one that hangs is made to write where, and ended."""
        limit_s = MAX_UNDISTURBED_S if self.signalled is None else MAX_AFTER_SIGNAL_S
        if self.has_ended_within(limit_s):
            return False
        self._process.send_signal(signal.SIGABRT)  # faulthandler writes what each thread does
        if not self.has_ended_within(5):
            self._process.kill()
        self._process.wait()
        return True

    def output(self) -> str:
        """What it wrote to stdout."""
        return self._paths[0].read_text(encoding="utf-8", errors="replace")

    def complaint(self) -> str:
        """What it wrote to stderr."""
        return self._paths[1].read_text(encoding="utf-8", errors="replace")

    def command_line(self) -> str:
        """How to run the same in a shell."""
        return shlex.join(["python", "-m", "proctor", *self.words])


def _environ(site: Site) -> Mapping[str, str]:
    """The environment without what could change a result, and with a mark of the worker."""
    ours = {name: value for name, value in os.environ.items() if not name.upper().startswith("PROCTOR_")}
    return ours | {
        "PROCTOR_KEYS": str(site.folder / "keys"),
        "PYTHONFAULTHANDLER": "1",
        "TMPDIR": str(site.folder / "tmp"),
    }


# --- what disturbs a command -------------------------------------------------------------------------------


Moment = Callable[[], bool]
"""Waits for a random moment of a command; False where the command has ended before."""
Apply = Callable[[Child, Site, Random, Moment], None]


@dataclass(frozen=True)
class Disturbance:
    """One thing that happens to a command."""

    name: str
    apply: Apply
    """What it does to a command that has begun."""
    may_end: bool = False
    """A command need not come to its end."""
    is_durable: bool = True
    """What is handed to the store can be committed at any time."""
    prefix: tuple[str, ...] = field(default=())
    """What its command line begins with."""


def _do_nothing(_child: Child, _site: Site, _random: Random, _moment: Moment) -> None:
    """Let it run."""


def _signalling(number: signal.Signals) -> Apply:
    def apply(child: Child, _site: Site, random: Random, moment: Moment) -> None:
        if not moment():
            return
        child.send(number)
        if number is not signal.SIGKILL and random.random() < 0.3:
            child.has_ended_within(random.uniform(0.05, 1))
            child.send(number)

    return apply


def _pause(child: Child, _site: Site, random: Random, moment: Moment) -> None:
    if moment():
        child.send(signal.SIGSTOP)
        sleep(random.uniform(0.2, 3))
        child.send(signal.SIGCONT)


def _lock_store(child: Child, site: Site, random: Random, moment: Moment) -> None:
    """Hold the lock for writing for some seconds, seldom for longer than SQLite waits by itself."""
    if not moment() or not site.store.exists():
        return
    with closing(sqlite3.connect(site.store, timeout=10, isolation_level=None)) as db:
        try:
            db.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return  # the command has it all the time
        child.has_ended_within(40 if random.random() < 0.05 else random.uniform(0.5, 5))
        db.execute("ROLLBACK")


def _fill_disk(child: Child, site: Site, random: Random, moment: Moment) -> None:
    """Leave at most a megabyte to write, until the command has ended."""
    room = random.randint(0, 2**20)
    if random.random() < 0.7 and not moment():
        return
    if not site.is_small_disk:
        size = site.store.stat().st_size if site.store.exists() else 0
        if child.code is None:
            resource.prlimit(child.pid, resource.RLIMIT_FSIZE, (size + room, size + room))
        child.has_ended_within(MAX_UNDISTURBED_S)
        return
    filler = site.folder / "filler"
    try:
        # The command may fill the disk first.
        with filler.open("wb") as file, suppress(OSError):
            os.posix_fallocate(file.fileno(), 0, max(1, shutil.disk_usage(site.folder).free - room))
        child.has_ended_within(MAX_UNDISTURBED_S)
    finally:
        filler.unlink(missing_ok=True)


NO_DISTURBANCE = Disturbance("none", _do_nothing)
_KILL = Disturbance("kill", _signalling(signal.SIGKILL), may_end=True)
DISTURBANCES: tuple[tuple[int, Disturbance], ...] = (
    (40, NO_DISTURBANCE),
    (25, _KILL),
    (7, Disturbance("terminate", _signalling(signal.SIGTERM), may_end=True)),
    (7, Disturbance("interrupt", _signalling(signal.SIGINT), may_end=True)),
    (6, Disturbance("pause", _pause)),
    (6, Disturbance("lock", _lock_store, is_durable=False)),
    (5, Disturbance("full-disk", _fill_disk, may_end=True, is_durable=False)),
    (4, Disturbance("clock-back", _do_nothing, prefix=(sys.executable, str(CLOCK), "-90m"))),
)
"""Each with how often it comes, of 100."""


# --- what a command leaves behind --------------------------------------------------------------------------


def end_orphans(site: Site) -> list[str]:
    """End the processes of a site that still live after a while, and tell their command lines."""
    last = monotonic() + _MAX_ORPHAN_S
    while (orphans := _list_processes(site)) and monotonic() < last:
        sleep(0.05)
    for pid in orphans:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    return list(orphans.values())


def _list_processes(site: Site) -> dict[int, str]:
    """Proctor's commands in a site, and the programs that these start; none where there is no /proc."""
    folder, program = str(site.folder).encode(), PROGRAMS.name.encode()
    processes = {}
    for entry in Path("/proc").glob("[0-9]*"):
        if int(entry.name) == os.getpid():
            continue
        try:
            words, environ = (entry / "cmdline").read_bytes(), (entry / "environ").read_bytes()
        except OSError:
            continue  # it has just ended, or is another user's
        if b"TMPDIR=" + folder in environ or (program in words and folder in words):
            processes[int(entry.name)] = words.replace(b"\0", b" ").decode(errors="replace").strip()
    return processes

"""A real PostgreSQL server on loopback, with a data folder of its own; needs the programs of PostgreSQL."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from contextlib import closing
from pathlib import Path
from time import monotonic, sleep
from typing import IO, Any

import psycopg
import pytest

NOBODY = 65534
"""The server refuses to run as root."""
_PROGRAMS = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
_PR_SET_PDEATHSIG = 1


def find_programs() -> Path | None:
    """Returns the folder with `initdb` and `postgres`; None if PostgreSQL is not installed."""
    on_path = shutil.which("initdb")
    if on_path:
        return Path(on_path).resolve().parent
    return _PROGRAMS[-1] if _PROGRAMS else None


def free_port() -> int:
    """Returns a port on loopback that was free a moment ago."""
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class PostgresServer:
    """One server; `start` and `kill` may be called again and again."""

    def __init__(
        self, *, auth: str = "trust", options: tuple[str, ...] = (), parent: Path | None = None
    ) -> None:
        """Makes a data folder; skips the test where PostgreSQL is not installed, but for CI.

        Args:
            auth: the method by which clients on loopback log in; `trust` asks for no password.
            options: further options of the server, such as `fsync=off`.
            parent: where the data folder is made; None for memory, if there is room.
        """
        programs = find_programs()
        if programs is None and "CI" not in os.environ:
            pytest.skip("PostgreSQL is not installed")
        assert programs is not None, "PostgreSQL is not installed"
        self._programs = programs
        self.port = free_port()
        self._options = options
        memory = Path("/dev/shm")
        parent = parent or (memory if memory.is_dir() else None)
        self.folder = Path(tempfile.mkdtemp(prefix="proctor-pg-", dir=parent))
        self._own: dict[str, Any] = {}
        if os.geteuid() == 0:
            os.chown(self.folder, NOBODY, NOBODY)
            self._own = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
        self._process: subprocess.Popen[bytes] | None = None
        subprocess.run(
            [
                *(str(programs / "initdb"), "--pgdata", str(self.data), "--username", "postgres"),
                *("--auth", auth, "--encoding", "UTF8", "--locale", "C", "--no-sync"),
            ],
            check=True,
            stdout=subprocess.DEVNULL,
            cwd=self.folder,
            **self._own,
        )

    @property
    def pid(self) -> int:
        """The id of the running server's first process."""
        assert self._process is not None
        return self._process.pid

    @property
    def data(self) -> Path:
        """The data folder, for configuration files."""
        return self.folder / "data"

    def address(self, schema: str = "proctor", user: str = "postgres", database: str = "postgres") -> str:
        """Returns the address of a store."""
        return f"postgresql://{user}@127.0.0.1:{self.port}/{database}?schema={schema}"

    def connect(self, **fields: Any) -> psycopg.Connection[Any]:
        """Connects as the owner of everything."""
        fields = {"user": "postgres", "dbname": "postgres"} | fields
        return psycopg.connect(host="127.0.0.1", port=self.port, autocommit=True, **fields)

    def start(self) -> None:
        """Starts the server, which dies with this process, and waits until it takes connections."""
        options = (f"port={self.port}", f"unix_socket_directories={self.folder}", *self._options)
        with (self.folder / "log").open("ab") as log:
            self._process = self._spawn(options, log)
        until = monotonic() + 60
        while True:
            try:
                self.connect().close()
            except psycopg.OperationalError:
                assert self._process.poll() is None, (self.folder / "log").read_text("utf-8")[-2000:]
                assert monotonic() < until, "the server does not start"
                sleep(0.02)
            else:
                return

    def _spawn(self, options: tuple[str, ...], log: IO[bytes]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [
                *(str(self._programs / "postgres"), "-D", str(self.data)),
                *(word for option in options for word in ("-c", option)),
            ],
            stdout=subprocess.DEVNULL,
            stderr=log,
            cwd=self.folder,
            preexec_fn=lambda: ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGQUIT),
            **self._own,
        )

    def kill(self) -> None:
        """Kills the server and every process of it, as a crash does."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Stops the server at once, and removes its data."""
        self._end(signal.SIGQUIT)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _end(self, number: int) -> None:
        process, self._process = self._process, None
        if process is not None:
            children = _list_children(process.pid)
            process.send_signal(number)
            if number == signal.SIGKILL:
                for child in children:
                    _kill(child)
            process.wait()


def _list_children(pid: int) -> list[int]:
    words = Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii").split()
    return [int(word) for word in words]


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return

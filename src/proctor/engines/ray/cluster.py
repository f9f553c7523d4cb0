"""Connects to a Ray cluster, or starts one on this machine, and starts processes on it."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import socket
import tempfile
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib.util import find_spec
from itertools import count
from typing import Any

from proctor import __version__
from proctor.engines.protocol import RunWork, WorkerOpener
from proctor.engines.ray.messages import dump
from proctor.errors import UsageError

_ADDRESS_VARIABLE = "RAY_ADDRESS"
_TLS_VARIABLE = "RAY_USE_TLS"
_SETTINGS = 4
"""The type of HTTP/2's frame with settings, which is the first one of each side."""
_FRAME_HEAD_SIZE = 9
_HTTP2_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, _SETTINGS, 0, 0, 0, 0, 0])
_NOTICE_AFTER_S = 2.0
_CONNECT_TIMEOUT_S = 5.0
_REMEDY = "Start a cluster, correct the address, or remove it to start a cluster on this machine."
_MAX_STARTS = 3
_TRACEBACK = "Traceback (most recent call last)"
_NOT_IMPORTED = "TemporaryActor"
"""What Ray puts in place of a class that a node cannot import."""
_QUIET: Mapping[str, str] = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}
"""Variables of Ray: it sends no statistics, and prints no advice."""


class RayCluster:
    """The connection to a cluster, for all runs of a command; implements `protocol.EngineCluster`."""

    current: RayCluster | None = None
    """The connection of this process. Ray has one in a process, too."""

    def __init__(self, address: str | None, report: Callable[[str], None]) -> None:
        """Connects to nothing yet.

        Args:
            address: `ray://HOST:PORT`, `HOST:PORT` or `auto`; None for that in `$RAY_ADDRESS`, else for a
                cluster that is started on this machine and stopped at the end.
            report: called with a sentence when this takes long.
        """
        self._address = address or os.environ.get(_ADDRESS_VARIABLE) or None
        self._report = report
        self._thread: ThreadPoolExecutor | None = None
        self._folder: str | None = None
        self._idle: list[Any] = []
        self._leases: Any = None
        self._numbers = count(1)
        self.process_count = 1
        """How many processes can make trials at once: one on each processor."""

    async def __aenter__(self) -> RayCluster:
        """Connects.

        Raises:
            UsageError: the cluster cannot be reached, or Ray is not installed.
        """
        _check_installed()
        if self._address not in (None, "auto", "local"):
            _check_address(self._address)
        # Ray's own processes end when the thread that has started them ends.
        self._thread = ThreadPoolExecutor(1, "proctor-ray")
        where = "Starting a Ray cluster on this machine" if self._address is None else "Connecting to Ray"
        notice = asyncio.get_running_loop().call_later(_NOTICE_AFTER_S, self._report, f"{where} …")
        try:
            await self._call(self._connect)
            self.process_count = max(1, int(await self._call(_count_processors)))
        except UsageError:
            raise
        except Exception as error:  # Ray raises errors of many kinds where it cannot connect
            raise UsageError(_describe_failure(self._address, error)) from error
        finally:
            notice.cancel()
        RayCluster.current = self
        return self

    async def __aexit__(self, *_error: object) -> None:
        """Disconnects, and stops the cluster that was started."""
        RayCluster.current = None
        for process in (*self._idle, self._leases):
            kill(process)
        if self._thread is None:
            return
        try:
            if self._is_own:
                await self._call(_disconnect)
        finally:
            self._thread.shutdown(wait=False)
            if self._folder is not None:
                shutil.rmtree(self._folder, ignore_errors=True)

    async def check(self, work: RunWork, opener: WorkerOpener) -> None:
        """Opens the worker of a run in a process and closes it.

        Raises:
            UsageError: a target or judge cannot be opened there.
        """
        import ray

        data = dump((work, opener))
        for tries_left in reversed(range(_MAX_STARTS)):
            process = self.take_process()
            try:
                problem = await process.open.remote("check", next(self._numbers), data, self.get_leases())
                await process.close.remote()
                break
            except ray.exceptions.RayError as error:  # its node may have ended just now
                kill(process)
                if not tries_left:
                    raise UsageError(_describe_failed_start(error)) from None
            except ConnectionError as error:
                raise UsageError(_describe_failure(self._address, error)) from None
        self.give_back(process)
        if problem is not None:
            raise UsageError(problem)

    def next_number(self) -> int:
        """Returns a number for a process that no other has."""
        return next(self._numbers)

    def take_process(self) -> Any:
        """Returns the handle of an idle `TrialProcess`, or of a new one, which starts when there is room."""
        import ray

        from proctor.engines.ray.processes import TrialProcess

        if self._idle:
            return self._idle.pop()
        actor = ray.remote(TrialProcess)
        return actor.options(
            num_cpus=1, max_restarts=0, max_task_retries=0, max_concurrency=1000, scheduling_strategy="SPREAD"
        ).remote()

    def give_back(self, process: Any) -> None:
        """Keeps a process for the next run."""
        self._idle.append(process)

    def get_leases(self) -> Any:
        """Returns the handle of the `LeaseProcess`, on the head node, without which there is no cluster."""
        import ray

        from proctor.engines.ray.processes import LeaseProcess

        if self._leases is None:
            actor = ray.remote(LeaseProcess)
            self._leases = actor.options(
                num_cpus=0,
                resources={"node:__internal_head__": 0.0001},
                max_restarts=0,
                max_task_retries=0,
                max_concurrency=1000,
            ).remote()
        return self._leases

    def drop_leases(self) -> None:
        """Forgets a `LeaseProcess` that has ended, so that the next run gets another one."""
        self._leases = None

    async def _call(self, function: Callable[[], Any]) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._thread, function)

    def _connect(self) -> None:
        for name, value in _QUIET.items():
            os.environ.setdefault(name, value)
        import ray

        self._is_own = not ray.is_initialized()
        if not self._is_own:
            return
        options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.CRITICAL}
        if self._address in (None, "local"):
            self._folder = tempfile.mkdtemp(prefix="proctor-ray-")
            options |= {"address": "local", "include_dashboard": False, "_temp_dir": self._folder}
        else:
            options["address"] = _resolve_address(self._address)
        for tries_left in reversed(range(_MAX_STARTS)):
            try:
                ray.init(**options)
                break
            except ConnectionAbortedError:  # a server of Ray Client takes more than 30 s on a busy head
                if not tries_left:
                    raise
        _silence()


def _check_installed() -> None:
    if find_spec("ray") is None:
        raise UsageError("The engine 'ray' needs Ray. Install it with: pip install 'proctor[ray]'")


def _check_address(address: str) -> None:
    """Checks that a server of gRPC is at an address: Ray would try for a minute and end this process."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        if not port.isdecimal() or not host:
            raise UsageError(
                f"{address!r} is not the address of a Ray cluster. Write ray://HOST:PORT, HOST:PORT or auto."
            )
        with socket.create_connection((host.strip("[]"), int(port)), _CONNECT_TIMEOUT_S) as connection:
            if not _speaks_grpc(connection):
                raise ConnectionError("another program listens at this address")
    except (OSError, OverflowError) as error:
        raise UsageError(_describe_failure(address, error)) from None


def _resolve_address(address: str | None) -> str | None:
    """Returns the address that `auto` stands for, once something listens there; any other as it is."""
    if address != "auto":
        return address
    from ray._private import services

    with suppress(AttributeError):  # another version of Ray
        address = services.get_ray_address_from_environment("auto", None) or address
    if address not in ("auto", "local"):
        _check_address(address)
    return address


def _speaks_grpc(connection: socket.socket) -> bool:
    """Returns whether a server greets as one of gRPC does, which all of Ray's are; True if it uses TLS."""
    if os.environ.get(_TLS_VARIABLE, "0") not in {"", "0"}:
        return True
    connection.sendall(_HTTP2_GREETING)
    frame_head = connection.recv(_FRAME_HEAD_SIZE, socket.MSG_WAITALL)
    return len(frame_head) == _FRAME_HEAD_SIZE and frame_head[3] == _SETTINGS


def _count_processors() -> float:
    import ray

    return float(ray.cluster_resources().get("CPU", 1))


def _disconnect() -> None:
    import ray

    ray.shutdown()


def _silence() -> None:
    """Ends the thread by which Ray prints errors of processes on stdout; the engine reports them itself."""
    from ray._private.worker import global_worker

    worker: Any = global_worker
    with suppress(AttributeError):
        worker.threads_stopped.set()
        worker.gcs_error_subscriber.close()


def kill(process: Any) -> None:
    """Ends a process of the cluster at once."""
    import ray

    if ray.is_initialized():  # else Ray would start a cluster for this
        with suppress(Exception):  # it has ended already
            ray.kill(process)


def _describe_failed_start(error: Exception) -> str:
    if _NOT_IMPORTED in str(error):
        return (
            "A node of the Ray cluster cannot import Proctor. Install the same version there: pip "
            f"install 'proctor[ray]=={__version__}'"
        )
    return f"A process of the Ray cluster cannot be started: {_summarize(error)}"


def _describe_failure(address: str | None, error: Exception) -> str:
    if address is None:
        return f"A Ray cluster cannot be started on this machine: {_summarize(error)}"
    return f"The Ray cluster at {address!r} cannot be reached: {_summarize(error)} {_REMEDY}"


def _summarize(error: Exception) -> str:
    """Returns the line that says what happened: the last one of a traceback, else the first one."""
    text = (error.strerror if isinstance(error, OSError) else None) or str(error)
    lines = text.strip().splitlines() or [type(error).__name__]
    line = lines[-1] if _TRACEBACK in text else lines[0]
    return line if line.endswith(".") else f"{line}."

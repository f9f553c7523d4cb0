"""How tests run: hypothesis' profiles, folders in memory, the clock, and marks."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from _pytest.runner import runtestprotocol
from hypothesis import settings

from proctor.eval import CodeSandbox
from proctor.stores.location import StoreLocation
from support import clock
from support.processes import ignore_no_signals
from support.templates import share_compiled

if TYPE_CHECKING:
    from support.postgresql import PostgresServer

# Each run tries other examples, except where `CI` is set: hypothesis then takes the same ones every time.
# `.ci/run` asks for more of them in the tests that a development run leaves out. No deadline: on a busy
# machine an example takes as long as it takes.
settings.register_profile("development", max_examples=10, deadline=None)
settings.register_profile("ci", max_examples=20, deadline=None)
settings.load_profile("development")

MEMORY = "/dev/shm"  # a folder here costs a test a tenth of what it costs on a disk


def in_memory(folder: str) -> bool:
    """Whether there is such a folder, with room for what tests write and leave for the programs among it."""
    if sys.platform != "linux" or not os.access(folder, os.W_OK):
        return False
    there = os.statvfs(folder)
    return there.f_bavail * there.f_frsize > 2**30 and not there.f_flag & os.ST_NOEXEC


def pytest_configure(config: pytest.Config) -> None:
    """Let Python keep what it compiles, which else every program that a test starts compiles again.

    Programs that tests start ignore no signals. Where memory has room the folders of tests are there. Nothing
    that is collected here is garbage. Under faketime, which breaks Python's waits, the tests start again by a
    clock of their own.
    """
    if offset := os.environ.get("FAKETIME"):
        capture: Any = config.pluginmanager.getplugin("capturemanager")
        capture.stop_global_capturing()  # or this process's output would go to a file that nobody reads
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], clock.shift_clock(os.environ, offset))
    ignore_no_signals()
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    gc.disable()
    if in_memory(MEMORY):
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", MEMORY)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, Any, Any]:
    """Lets every other worker read folders from their end, so that no two compile the same modules."""
    report = yield
    if isinstance(collector, pytest.Dir) and os.environ.get("PYTEST_XDIST_WORKER", "gw0")[-1] in "13579":
        report.result.reverse()
    return report


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts tests in the same order in all workers, and marks those that open a browser."""
    items.sort(key=lambda item: item.path.parts)
    for item in items:
        if "chromium" in getattr(item, "fixturenames", ()):
            item.add_marker("browser")


def pytest_collection_finish() -> None:
    """Lets tests share compiled templates, and the garbage collector look only at what tests make."""
    share_compiled()
    gc.freeze()
    gc.set_threshold(10_000, 10, 10)
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Reports of a test only what ran, unless its set-up or its end failed: each message costs xdist time.

    With `--durations`, and without xdist, everything is reported as usual.
    """
    if item.config.getoption("durations") is not None or "PYTEST_XDIST_WORKER" not in os.environ:
        return None
    for report in runtestprotocol(item, log=False, nextitem=nextitem):
        if report.when == "call" or not report.passed:
            item.ihook.pytest_runtest_logreport(report=report)
    return True


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A PostgreSQL server; a test takes a schema of its own."""
    from support.postgresql import PostgresServer

    server = PostgresServer(options=("fsync=off", "max_connections=200"))
    server.start()
    yield server
    server.stop()


@pytest.fixture
def postgres_location(postgres_server: PostgresServer) -> StoreLocation:
    """A new, empty store in PostgreSQL, with its tables."""
    from proctor.stores.postgresql.location import postgresql_location

    address = postgres_server.address(schema=f"test_{uuid4().hex}")
    location = postgresql_location(address.removeprefix("postgresql://"))
    location.migrate()
    return location


@pytest.fixture(scope="session")
def sandboxed() -> None:
    """For a test that runs programs in a `CodeSandbox`: skips it where this system cannot isolate them."""
    lack = CodeSandbox.lack()
    if lack:
        pytest.skip(lack)

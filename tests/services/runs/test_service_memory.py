"""What a run, and what reads a run, holds in memory does not grow with the number of cases."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path

import pytest

from proctor import spools
from proctor.bundles import reader, strict_zip
from proctor.lint import related_cases
from proctor.model import Run
from proctor.proof import digest_set
from proctor.services import events
from proctor.services.bundles.attest import attest
from proctor.services.bundles.verify import verify
from proctor.services.runs.execution.session import RunSession
from proctor.services.runs.reading.report import build_report, write_report
from proctor.services.runs.request import Request
from proctor.services.suites import load
from proctor.stores import open_store
from proctor.stores.sql import suite_writer, trial_queue
from proctor.stores.sqlite.store import SqliteStore

MAX_GROWTH = 40
"""In bytes for each further case until the run starts; an id alone takes 60, and 350 were taken once."""
MAX_RUN_GROWTH = 100
"""The same until its end, when the number of rows that wait to be written varies a little."""

MAX_READER_GROWTH = {"export": 100, "regrade": 400, "attest": 200, "verify": 300}
"""In bytes for each further case. A trial takes over 1,000; verify holds two salts, an id and a name of each,
and in a regrade the number of rows that wait to be written varies.
"""
Reader = Callable[[Run], Awaitable[object]]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes every limit so small that a few hundred cases are many."""
    set_limits(monkeypatch, 500)


def set_limits(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    for module, name in (
        (spools, "MAX_ROWS"),
        (spools, "MAX_NUMBERS"),
        (load, "MAX_ROWS"),
        (suite_writer, "BATCH_CASES"),
        (related_cases, "MAX_GROUPS"),
    ):
        monkeypatch.setattr(module, name, count)
    # On a busy machine as many rows wait as may.
    monkeypatch.setattr(trial_queue, "MAX_WAITING_ROWS", count // 10)
    monkeypatch.setattr(digest_set, "_BUCKETS", 16)
    monkeypatch.setattr(spools, "_BLOCK_ROWS", 20)
    monkeypatch.setattr(spools, "_BLOCK_NUMBERS", 20)


def write_suite(folder: Path, count: int) -> Path:
    path = folder / f"s{count}.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for number in range(count):
            row = {"id": f"case-{number}", "input": f"Say {number}", "expected": f"Say {number}"}
            file.write(json.dumps(row) + "\n")
    return path


async def measure_peaks(folder: Path, count: int) -> tuple[int, int]:
    """Returns the peaks of Python's memory until a run starts, and until it is reported."""
    path = write_suite(folder, count)
    peaks = []

    def note_start(event: events.Event) -> None:
        if isinstance(event, events.RunStarted):
            peaks.append(tracemalloc.get_traced_memory()[1])

    with closing(open_store(str(folder / f"{count}.db"))) as store:
        session = RunSession(store, {}, note_start, folder=folder)
        tracemalloc.start()
        try:
            (finished,) = await session.run(Request(suites=(str(path),), targets=("echo",), holdout=0.2))
            report = build_report(store, finished.run, finished.tally)
            assert report.tally.all.passed == report.tally.latency_ms().answers == count
            return peaks[0], tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()


@pytest.mark.slow
async def test_memory_does_not_grow_with_the_cases(folder: Path) -> None:
    await measure_peaks(folder, 10)  # imports what a run needs
    few, many = [await measure_peaks(folder, count) for count in (1_200, 3_200)]
    assert many[0] - few[0] < 2_000 * MAX_GROWTH
    assert many[1] - few[1] < 2_000 * MAX_RUN_GROWTH


def make_readers(store: SqliteStore, session: RunSession, folder: Path) -> dict[str, Reader]:
    """Returns what reads a whole run, by name; each comes after those that it needs."""

    async def export(run: Run) -> None:
        write_report(str(folder / f"{run.id}.jsonl"), [build_report(store, run, reveal=True)])

    async def regrade(run: Run) -> None:
        assert await session.run(Request(regrade=run.id))

    async def bundle(run: Run) -> None:
        attest(store, run, folder / f"{run.id}.zip", public=False, key=None)

    async def check(run: Run) -> None:
        assert verify(folder / f"{run.id}.zip", {}).graded_again == run.planned

    return {"export": export, "regrade": regrade, "attest": bundle, "verify": check}


@pytest.mark.slow
async def test_the_memory_of_what_reads_a_run_hardly_grows_with_its_cases(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limits(monkeypatch, 100)
    for module in (reader, strict_zip):
        monkeypatch.setattr(module, "_CHUNK_BYTES", 2**13)
    peaks: dict[str, list[int]] = {}
    with closing(open_store(str(folder / "readers.db"))) as store:
        assert isinstance(store, SqliteStore)
        session = RunSession(store, {}, lambda _event: None, folder=folder)
        readers = make_readers(store, session, folder)
        for count in (10, 500, 1_300):  # the first imports what they need
            path = write_suite(folder, count)
            (finished,) = await session.run(Request(suites=(str(path),), targets=("echo",), holdout=0.2))
            for name, read in readers.items():
                tracemalloc.start()
                try:
                    await read(finished.run)
                    peaks.setdefault(name, []).append(tracemalloc.get_traced_memory()[1])
                finally:
                    tracemalloc.stop()
    growths = {name: (many - few) / 800 for name, (_, few, many) in peaks.items()}
    assert {name: growth for name, growth in growths.items() if growth >= MAX_READER_GROWTH[name]} == {}, (
        growths
    )

"""What a run holds in memory does not grow with the number of cases."""

from __future__ import annotations

import json
import tracemalloc
from contextlib import closing
from pathlib import Path

import pytest

from proctor import spools
from proctor.lint import related_cases
from proctor.services import events
from proctor.services.runs.execution.session import RunSession
from proctor.services.runs.reading.report import build_report
from proctor.services.runs.request import Request
from proctor.services.suites import load
from proctor.stores import open_store
from proctor.stores.sql import suite_writer, trial_queue

MAX_GROWTH = 40
"""In bytes for each further case until the run starts; an id alone takes 60, and 350 were taken once."""
MAX_RUN_GROWTH = 100
"""The same until its end, when the number of rows that wait to be written varies."""


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes every limit so small that a few hundred cases are many."""
    for module, name in (
        (spools, "MAX_ROWS"),
        (spools, "MAX_NUMBERS"),
        (load, "MAX_ROWS"),
        (suite_writer, "BATCH_CASES"),
        (related_cases, "MAX_GROUPS"),
        (trial_queue, "MAX_WAITING_ROWS"),
    ):
        monkeypatch.setattr(module, name, 500)
    monkeypatch.setattr(spools, "_BLOCK_ROWS", 20)
    monkeypatch.setattr(spools, "_BLOCK_NUMBERS", 20)


async def measure_peaks(folder: Path, count: int) -> tuple[int, int]:
    """Returns the peaks of Python's memory until a run of so many cases starts, and until it is reported."""
    path = folder / f"s{count}.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for number in range(count):
            row = {"id": f"case-{number}", "input": f"Say {number}", "expected": f"Say {number}"}
            file.write(json.dumps(row) + "\n")
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

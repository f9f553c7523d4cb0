"""Runs whose graders stay alive: one process for all answers of a run, and none after it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from support.processes import NOTE_START, read_starts, wait_for_ends
from support.sessions import MakeRuns

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="runs a POSIX shell")
SCRIPT = (
    NOTE_START
    + """while read -r line; do
case "$line" in *crash*) exit 3;; *) echo '{"score": 1}';; esac; done"""
)


def write_suite(folder: Path, *inputs: str) -> str:
    check = {"grader": "program", "params": {"command": ["sh", "-c", SCRIPT], "persistent": True}}
    rows = [
        {"id": f"c{number}", "input": [{"role": "user", "content": text}], "assertions": [check]}
        for number, text in enumerate(inputs)
    ]
    lines = map(json.dumps, [{"proctor": 1, "name": "s"}, *rows])
    (folder / "s.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return "s.jsonl"


async def test_a_run_and_its_regrade_use_one_process_each_one_after_the_other(
    make: MakeRuns, folder: Path
) -> None:
    suite = write_suite(folder, *map(str, range(200)))
    (finished,) = await make(suite)
    assert finished.tally.all.passed == 200
    first = len(read_starts(folder))
    (regraded,) = await make(regrade=finished.run.id)
    assert regraded.tally.all.passed == 200
    assert first <= 8
    assert len(read_starts(folder)) <= first + 8
    wait_for_ends(folder)


async def test_a_crash_leaves_one_answer_unscored(make: MakeRuns, folder: Path) -> None:
    (finished,) = await make(write_suite(folder, "a", "crash", "b", "c"))
    assert finished.tally.all.passed == 3
    assert finished.tally.all.unscored == 1

"""`proctor runs stop`: the run of another process ends, and finished trials are stored."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from proctor.protocols import RunOwner
from support.cli import Proctor
from support.waiting import PATIENCE_S, wait_until

GATED = """
import asyncio, os
async def f(prompt):
    while int(prompt[1:]) >= 3 and not os.path.exists("go"):
        await asyncio.sleep(0.01)
    return prompt
"""


def _count_trials(folder: Path) -> int:
    path = folder / ".proctor" / "proctor.db"
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
            return int(db.execute("SELECT count(*) FROM trials").fetchone()[0])
    except sqlite3.OperationalError:  # the tables do not exist yet
        return 0


@pytest.mark.slow
def test_a_run_is_stopped_from_another_terminal_and_can_be_resumed(
    proctor: Proctor, start: Proctor, suite: Proctor, function: Proctor, folder: Path
) -> None:
    name = suite(*((f"t{n}", f"q{n}", f"q{n}") for n in range(8)))
    child = start("run", name, "--target", function(GATED), "--concurrency", "2", "--quiet")
    wait_until(lambda: _count_trials(folder) == 3)
    result = proctor("runs", "stop", "last", "--json")
    (row,) = json.loads(result.out)["runs"]
    assert (result.code, row["status"], row["ended"]) == (0, "interrupted", True)
    assert (row["done"], row["planned"]) == (3, 8)  # both calls in progress were cancelled after 1 s
    assert row["owner"] == {"pid": child.pid, "host": None, "user": None}
    assert child.wait(timeout=PATIENCE_S) == 2
    (folder / "go").touch()
    assert proctor("run", f"--resume={row['run']}", "--quiet").code == 0
    again = proctor("runs", "stop", "last")
    assert (again.code, again.out) == (4, "")
    assert again.err == f"proctor: error: Run {row['run']} is not in progress: it is finished.\n"


@pytest.mark.parametrize(
    ("owner", "title"),
    [
        (RunOwner(pid=4711), "process 4711"),
        (RunOwner(pid=None), "another process"),
        (RunOwner(pid=4711, host="gpu-3", user="ana"), "ana's process 4711 on gpu-3"),
        (RunOwner(pid=None, host="gpu-3", user="ana"), "ana's process on gpu-3"),
        (RunOwner(pid=None, host="gpu-3"), "another process on gpu-3"),
    ],
)
def test_the_owner_of_a_run_is_named_as_far_as_it_is_known(owner: RunOwner, title: str) -> None:
    assert owner.title == title

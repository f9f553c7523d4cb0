"""The clock of tests that run on another day."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from shutil import which
from typing import Any

import pytest

from support.clock import seconds, shift_clock

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="libraries are preloaded otherwise there")

SCRIPT = """
import json, os, sqlite3, subprocess, sys, threading, time
from datetime import datetime
path, = sys.argv[1:]
start = time.perf_counter()
time.sleep(0.01)
lock = threading.Lock()
lock.acquire()
timed_out = not lock.acquire(timeout=0.01)
open(path, "w").close()
written = os.stat(path).st_mtime
os.utime(path, (1e9, 2e9))
print(json.dumps({
    "now": time.time(),
    "monotonic": time.monotonic(),
    "child": float(subprocess.run(["date", "+%s"], capture_output=True, check=True).stdout),
    "sqlite": sqlite3.connect(":memory:").execute("SELECT unixepoch()").fetchone()[0],
    "written": written,
    "set": [os.stat(path).st_atime, os.stat(path).st_mtime],
    "waits": timed_out,
}))
"""


def run_script(folder: Path, environ: dict[str, str]) -> Any:
    process = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(folder / "file")], env=environ, capture_output=True, check=True
    )
    return json.loads(process.stdout)


@pytest.mark.slow
@pytest.mark.skipif(not (which("cc") or os.environ.get("CI")), reason="There is no C compiler here.")
def test_the_wall_clock_and_the_times_of_files_are_ahead_and_waits_take_as_long_as_ever(
    tmp_path: Path,
) -> None:
    plain = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    real, ahead, later = (
        run_script(tmp_path, environ) for environ in (plain, shift_clock(os.environ, "+400d"), plain)
    )
    for clock in ("now", "child", "sqlite", "written"):
        assert real[clock] <= ahead[clock] - 400 * 86_400 <= later[clock] + 1
    assert real["monotonic"] < ahead["monotonic"] < later["monotonic"]
    assert ahead["set"] == [1e9, 2e9]
    assert ahead["waits"]


@pytest.mark.parametrize(
    ("offset", "expected"),
    [("+34560000", 34_560_000), ("+400d", 34_560_000), ("-2h", -7200), ("+1y", 31_536_000)],
)
def test_an_offset_is_read_as_faketime_writes_it(offset: str, expected: int) -> None:
    assert seconds(offset) == expected


@pytest.mark.parametrize("offset", ["", "400", "+4w", "@2030-01-01 00:00:00", "+1.5d"])
def test_an_invalid_offset_is_refused(offset: str) -> None:
    with pytest.raises(SystemExit, match="Write it as"):
        seconds(offset)

"""Tests on another day: `python tests/support/clock.py +400d pytest` runs a command 400 days ahead.

`faketime` 0.9.10, which Debian 12 has, cannot do that for Python 3.11: it moves the monotonic clock as well,
so that timed waits for a lock never end, and with `--exclude-monotonic` `time.sleep` fails and Python
aborts. `clock.c` moves the wall clock and the times of files only. Tests under faketime start again with it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

SOURCE = Path(__file__).with_name("clock.c")
LIBRARY = Path(__file__).parents[2] / "build" / "clock.so"
UNITS = {"": 1, "m": 60, "h": 3600, "d": 86_400, "y": 31_536_000}


def seconds(offset: str) -> int:
    """An offset as faketime writes it, such as `+400d` or `+34560000`.

    Raises:
        SystemExit: it is none.
    """
    parts = re.fullmatch(r"([+-]\d+)([mhdy]?)", offset)
    if parts is None:
        sys.exit(f"The offset of the clock is {offset!r}. Write it as +400d, or -2h.")
    return int(parts[1]) * UNITS[parts[2]]


def shift_clock(environ: Mapping[str, str], offset: str) -> dict[str, str]:
    """The environment of a process whose wall clock is that much ahead; faketime has no part in it.

    Raises:
        SystemExit: there is no C compiler, or the offset is none.
    """
    if shutil.which("cc") is None:
        sys.exit("There is no C compiler, cc, to make the clock with: apt-get install gcc libc6-dev.")
    LIBRARY.parent.mkdir(exist_ok=True)
    clean = {
        name: value for name, value in environ.items() if not name.startswith(("FAKETIME", "LD_PRELOAD"))
    }
    new = LIBRARY.with_suffix(f".{os.getpid()}")
    subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", new, SOURCE], env=clean, check=True)
    new.replace(LIBRARY)
    return {**clean, "LD_PRELOAD": str(LIBRARY), "AHEAD_S": str(seconds(offset))}


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit("Usage: python tests/support/clock.py OFFSET COMMAND…, such as +400d pytest")
    os.execvpe(sys.argv[2], sys.argv[2:], shift_clock(os.environ, sys.argv[1]))

"""What a whole process takes, and ratios of processes that ran in turns.

The programs of this folder share it. A process is measured from its start to its end by `wait4`, so the
figures have the start of Python, imports and everything that the process waits for.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter
from typing import NamedTuple

BENCHMARKS = Path(__file__).parent
SOURCE = BENCHMARKS.parent / "src"
"""The package that stands beside this folder."""


class ProcessUsage(NamedTuple):
    """What a process and the processes it waited for took."""

    wall_s: float
    cpu_s: float
    """User and system time."""
    peak_mib: float
    """The peak resident memory of the largest of them."""


class Ratios(NamedTuple):
    """Two programs compared: a ratio for each round, of processes that ran one after the other."""

    wall: tuple[float, ...]
    cpu: tuple[float, ...]

    def describe(self) -> str:
        """Both medians, and in brackets the middle half of the rounds."""
        return f"CPU {describe_ratios(self.cpu)}, wall {describe_ratios(self.wall)}"


def describe_ratios(ratios: Sequence[float]) -> str:
    """The median, and in brackets the middle half of the ratios."""
    if len(ratios) < 2:
        return f"{ratios[0]:.2f}"
    low, _, high = quantiles(ratios, n=4, method="inclusive")
    return f"{median(ratios):.2f} ({low:.2f}–{high:.2f})"


def compare_usages(numerators: Sequence[ProcessUsage], denominators: Sequence[ProcessUsage]) -> Ratios:
    """The ratios of two programs; the usages of one round have the same place."""
    pairs = list(zip(numerators, denominators, strict=True))
    return Ratios(
        wall=tuple(numerator.wall_s / denominator.wall_s for numerator, denominator in pairs),
        cpu=tuple(numerator.cpu_s / denominator.cpu_s for numerator, denominator in pairs),
    )


def describe_usages(usages: Sequence[ProcessUsage]) -> str:
    """The medians of some processes, and the highest peak."""
    wall_s, cpu_s = median(usage.wall_s for usage in usages), median(usage.cpu_s for usage in usages)
    peak_mib = max(usage.peak_mib for usage in usages)
    return f"wall {wall_s:.2f} s, CPU {cpu_s:.2f} s, peak {peak_mib:.0f} MiB"


def take_turns(
    programs: Mapping[str, Callable[[], ProcessUsage]], rounds: int
) -> dict[str, list[ProcessUsage]]:
    """Runs every program once in each round; every second round goes backwards.

    A machine that slows down for a while slows all programs of a round, and none is always the first.
    """
    usages: dict[str, list[ProcessUsage]] = {name: [] for name in programs}
    for number in range(rounds):
        names = list(programs)
        for name in reversed(names) if number % 2 else names:
            usages[name].append(programs[name]())
    return usages


def measure_process(
    command: Sequence[str],
    codes: Sequence[int] = (0,),
    *,
    environ: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> ProcessUsage:
    """Runs a command to its end; another exit code than `codes` ends this program.

    What it writes goes into a file, so that a pipe never holds it up.
    """
    with tempfile.TemporaryFile() as log:
        began = perf_counter()
        process = subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=clean_environ() if environ is None else environ,
            cwd=folder,
        )
        _, status, usage = os.wait4(process.pid, 0)
        wall_s = perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode not in codes:
            log.seek(0)
            text = log.read().decode("utf-8", "replace")[-3000:]
            raise SystemExit(f"{' '.join(command)} ended with {process.returncode}: {text}")
    return ProcessUsage(wall_s, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def clean_environ(**variables: str) -> dict[str, str]:
    """The environment of a user: Python may write its byte code, and Proctor has its defaults."""
    unset = {name for name in os.environ if name.startswith("PROCTOR_") and name != "PROCTOR_KEYS"}
    unset.add("PYTHONDONTWRITEBYTECODE")
    return {name: value for name, value in os.environ.items() if name not in unset} | variables


def proctor() -> list[str]:
    """The installed command, as a user calls it."""
    path = shutil.which("proctor", path=str(Path(sys.executable).parent)) or shutil.which("proctor")
    return [path] if path else [sys.executable, "-m", "proctor"]


def proctor_environ(source: Path = SOURCE) -> dict[str, str]:
    """An environment in which `python -m proctor` is the package in `source`."""
    return clean_environ(PYTHONPATH=str(source))


def compile_package(source: Path) -> None:
    """Writes the byte code of a version of Proctor, so that none of its processes does."""
    subprocess.run([sys.executable, "-m", "compileall", "-q", str(source)], check=True)


def new_store(scratch: Path) -> str:
    """The path of a store that is not there yet."""
    return str(scratch / f"{random.randrange(10**9)}.db")

"""Proctor and its peers beside a bare aiohttp client: the same questions to the same server, in turns.

Usage: python benchmarks/peers.py --folder DIR [--cases 2000] [--rounds 7] [--slow-rounds 3]
           [--concurrency 64] [--latency MS] [--only NAME,…] [--before FOLDER] [--smoke]

Each peer gets a virtual environment or an npm folder of its own in DIR, at the version named here, which pip
or npm fetches once. Each sends the same sums at the same concurrency, checks that each answer contains its
sum, and stores what it stores by default; displays, telemetry and caches of answers are off. A program must
get every answer right; it is said if the server did not answer exactly one request a case.

A process is measured from start to end: wall time, CPU with the processes that it waited for, and the largest
sum of memory over its processes at one time. Ratios are those of a round, to the floor (`floor.py`, which
stores nothing); the figures are medians. Peers that took over a minute in the first round run `--slow-rounds`
times. Nothing here has a goal. `--smoke` runs floor and Proctor only, small.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import NamedTuple

from measure import (  # type: ignore[import-not-found]  # found beside this file when it is run
    BENCHMARKS,
    SOURCE,
    ProcessUsage,
    clean_environ,
    compare_usages,
    compile_package,
    describe_ratios,
    describe_usages,
    new_store,
)
from process_tree import Meter  # type: ignore[import-not-found]
from server import LoopbackServer, start_server  # type: ignore[import-not-found]
from sums import write_suite  # type: ignore[import-not-found]

SAMPLE_S = 0.05
SLOW_S = 60.0
PASSED = re.compile(r"[\d,]+(?= passed\b)|(?<=\bpassed )[\d,]+")
"""Where a program says how many answers were right; Proctor has its exit code instead."""
SMOKE_CASES = 100
PACKAGES = {
    "pydantic-evals": ("pydantic-evals==2.62.0", "openai==3.57.0"),
    "deepeval": ("deepeval==4.3.1", "openai==3.57.0"),
    "inspect-ai": ("inspect-ai==0.3.285", "openai==3.57.0"),
    "promptfoo": ("promptfoo@0.121.20",),
}
PROGRAMS = {
    "pydantic-evals": "pydantic_evals_suite.py",
    "deepeval": "deepeval_suite.py",
    "inspect-ai": "inspect_suite.py",
}
VARIANTS = {"deepeval": ("deepeval --no-cache",)}
"""Peers that run a second time, with a flag of their program here."""
QUIET = {
    "DEEPEVAL_TELEMETRY_OPT_OUT": "YES",
    "DEEPEVAL_UPDATE_WARNING_OPT_IN": "NO",
    "PROMPTFOO_DISABLE_TELEMETRY": "1",
    "PROMPTFOO_DISABLE_UPDATE": "1",
    "PROMPTFOO_DISABLE_REMOTE_GENERATION": "1",
}
"""What switches off telemetry, and looking for new versions."""


class Task(NamedTuple):
    """What every program is to do."""

    suite: Path
    cases: int
    base: str
    concurrency: int

    @property
    def words(self) -> list[str]:
        """The arguments of the floor and of the peers in Python."""
        return [str(self.suite), self.base, str(self.concurrency)]


class Program(NamedTuple):
    """A command line for a task."""

    name: str
    command: Callable[[Task, Path], list[str]]
    """Gets the folder that it runs in, which is new."""
    environ: Mapping[str, str]


def main() -> None:
    """Installs the peers, runs all, and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--folder", type=Path, help="for the peers")
    parser.add_argument("--cases", type=int, default=2_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--slow-rounds", type=int, default=3)
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--latency", type=int, default=0, metavar="MS")
    parser.add_argument("--only", default=",".join(PACKAGES), metavar="NAME,…", help="these peers")
    parser.add_argument(
        "--before", type=Path, metavar="FOLDER", help="a checkout of another version of Proctor"
    )
    parser.add_argument("--smoke", action="store_true")
    options = parser.parse_args()
    names = [] if options.smoke else [name for name in options.only.split(",") if name]
    if unknown := [name for name in names if name not in PACKAGES]:
        parser.error(f"There is no peer {unknown[0]!r}. Choose from {', '.join(PACKAGES)}.")
    if names and options.folder is None:
        parser.error("Name a folder for the peers with --folder, or run --smoke.")
    sources = {"proctor": SOURCE}
    if options.before is not None:
        sources["before"] = options.before.absolute() / "src"
    programs = [floor()]
    for version, source in sources.items():
        programs.append(proctor(version, source))
        if not options.smoke:
            compile_package(source)
    for name in names:
        install(name, options.folder.absolute())
        programs += [peer(variant, options.folder.absolute()) for variant in (name, *VARIANTS.get(name, ()))]
    cases, rounds = (SMOKE_CASES, 1) if options.smoke else (options.cases, options.rounds)
    with tempfile.TemporaryDirectory() as folder, start_server(options.latency) as server:
        suite = write_suite(cases, Path(folder))
        task = Task(suite, cases, server.base, options.concurrency)
        usages = run_all(programs, task, server, rounds, options.slow_rounds)
    latency = f"{options.latency} ms latency" if options.latency else "no latency"
    print(f"\n{cases:,} cases, {latency}, {options.concurrency:,} at once; medians of {rounds} rounds\n")
    print("\n".join(table(usages, rounds)))


def run_all(
    programs: Sequence[Program], task: Task, server: LoopbackServer, rounds: int, slow_rounds: int
) -> dict[str, list[ProcessUsage]]:
    """Runs every program in turns, and every second round backwards; what each took."""
    usages: dict[str, list[ProcessUsage]] = {program.name: [] for program in programs}
    for number in range(rounds):
        for program in programs[::-1] if number % 2 else programs:
            earlier = usages[program.name]
            if number >= slow_rounds and median(usage.wall_s for usage in earlier) > SLOW_S:
                continue
            answers = server.count_answers()
            usage = measure(program, task)
            answers = server.count_answers() - answers
            if answers != task.cases:
                print(f"{program.name} sent {answers:,} requests for {task.cases:,} cases.", flush=True)
            earlier.append(usage)
            print(f"round {number + 1}  {program.name:<14}  {describe_usages([usage])}", flush=True)
    return usages


def measure(program: Program, task: Task) -> ProcessUsage:
    """Runs a program in a new folder, and checks that it got all answers right."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as log:
        command = program.command(task, Path(folder))
        environ = clean_environ(**program.environ, HOME=folder, TMPDIR=folder)
        began = perf_counter()
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environ, cwd=folder
        )
        meter = Meter(process.pid, every_s=SAMPLE_S)
        _, status, usage = os.wait4(process.pid, 0)
        wall_s = perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        peak_mib = meter.stop(wall_s).peak_mib
        log.seek(0)
        text = log.read().decode("utf-8", "replace")
    counts = {int(count.replace(",", "")) for count in PASSED.findall(text)}
    if process.returncode or counts - {task.cases}:
        raise SystemExit(f"{program.name} ended with {process.returncode}: {text[-3000:]}")
    return ProcessUsage(wall_s, usage.ru_utime + usage.ru_stime, peak_mib)


def table(usages: Mapping[str, Sequence[ProcessUsage]], rounds: int) -> Iterator[str]:
    """Yields the lines of a table in Markdown."""
    yield "| program | wall | CPU | peak | wall : floor | CPU : floor |"
    yield "|---|---|---|---|---|---|"
    for name, samples in usages.items():
        label = name if len(samples) == rounds else f"{name} ({len(samples)} rounds)"
        wall_s, cpu_s = median(usage.wall_s for usage in samples), median(usage.cpu_s for usage in samples)
        peak_mib = max(usage.peak_mib for usage in samples)
        ratios = compare_usages(samples, usages["floor"][: len(samples)])
        cells = [label, f"{wall_s:.2f} s", f"{cpu_s:.2f} s", f"{peak_mib:,.0f} MiB"]
        yield f"| {' | '.join(cells)} | {describe_ratios(ratios.wall)} | {describe_ratios(ratios.cpu)} |"


# --- the programs ------------------------------------------------------------------------------------------


def floor() -> Program:
    """The bare client."""
    return Program("floor", lambda task, _: [sys.executable, str(BENCHMARKS / "floor.py"), *task.words], {})


def proctor(name: str, source: Path) -> Program:
    """A version of Proctor."""

    def command(task: Task, folder: Path) -> list[str]:
        target = ["--target", f"openai:bench@{task.base}", "--concurrency", str(task.concurrency)]
        store = ["-q", "--min-pass-rate", "1", "--store", new_store(folder)]
        return [sys.executable, "-m", "proctor", "run", str(task.suite), *target, *store]

    return Program(name, command, {"PYTHONPATH": str(source)})


def peer(name: str, folder: Path) -> Program:
    """An installed peer."""
    if name == "promptfoo":
        return Program(name, lambda task, place: promptfoo(task, place, folder / name), QUIET)
    package, _, flag = name.partition(" ")
    python, program = folder / package / "bin" / "python", BENCHMARKS / "peers" / PROGRAMS[package]
    words = [str(python), str(program)]
    return Program(name, lambda task, _: [*words, *task.words, *flag.split()], QUIET)


def promptfoo(task: Task, place: Path, installed: Path) -> list[str]:
    """Writes the suite in promptfoo's format; its results go into a database in the home folder, as usual."""
    with (
        task.suite.open(encoding="utf-8") as lines,
        (place / "tests.jsonl").open("w", encoding="utf-8") as file,
    ):
        for line in lines:
            case = json.loads(line)
            checks = [{"type": "contains", "value": case["expected"]}]
            file.write(json.dumps({"vars": {"question": case["input"]}, "assert": checks}) + "\n")
    provider = {
        "id": "openai:chat:bench",
        "config": {"apiBaseUrl": task.base, "apiKey": "none", "temperature": 0},
    }
    config = {"prompts": ["{{question}}"], "providers": [provider], "tests": "file://tests.jsonl"}
    (place / "promptfooconfig.yaml").write_text(json.dumps(config), encoding="utf-8")  # JSON is YAML
    command = [str(installed / "node_modules" / ".bin" / "promptfoo"), "eval", "--no-cache", "--no-table"]
    return [*command, "--no-progress-bar", "--max-concurrency", str(task.concurrency)]


def install(name: str, folder: Path) -> None:
    """Fetches a peer with pip or npm, unless it is there."""
    place, packages = folder / name, PACKAGES[name]
    marker = place / "installed.txt"
    if marker.exists() and marker.read_text("utf-8").split() == list(packages):
        return
    print(f"Installing {' '.join(packages)} in {place}", flush=True)
    if name == "promptfoo":
        npm = shutil.which("npm")
        if npm is None:
            raise SystemExit("promptfoo needs npm. Install Node.js, or leave promptfoo out with --only.")
        place.mkdir(parents=True, exist_ok=True)
        commands = [[npm, "install", "--prefix", str(place), "--no-audit", "--no-fund", *packages]]
    else:
        commands = [
            [sys.executable, "-m", "venv", str(place)],
            [str(place / "bin" / "python"), "-m", "pip", "install", "--quiet", *packages],
        ]
    for command in commands:
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    marker.write_text("\n".join(packages), encoding="utf-8")


if __name__ == "__main__":
    main()

"""Memory and time of a run and of what reads it, at several numbers of cases.

Usage: python benchmarks/flat.py [--sizes 10000,100000,1000000] [--only NAME,…] [--rounds 1]
           [--before FOLDER] [--folder DIR] [--smoke]

For each size it writes a suite, runs it twice without a network, so that one case in twelve has another
verdict, and compares, regrades, exports, attests and verifies the first run. Every command is a whole
process; with several rounds the figures are medians, and the highest peak. It exits with 1 when a peak is
above its goal, or when CPU per case grows by more than half from one size to the next.

`--before FOLDER` is a checkout of another version, such as a git worktree: its `src` runs the same commands
in turns, on stores of its own, and ratios to it are printed. `--smoke` does it small, without goals.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from measure import (  # type: ignore[import-not-found]  # found beside this file when it is run
    SOURCE,
    ProcessUsage,
    compare_usages,
    compile_package,
    describe_usages,
    measure_process,
    proctor_environ,
)

SIZES = (10_000, 100_000, 1_000_000)
SMOKE_SIZES = (200,)
MAX_GROWTH = 1.5
"""Of CPU per case, from one size to the next."""
WORD = "river"
"""What every answer should have; the second run answers this to everything."""
NAMES = ("stone", "garden", "copper", "window", "harbour", "meadow", "engine", "letter")


class Command(NamedTuple):
    """One command that is measured."""

    words: str
    """Its words, with places for paths in the folder of its store."""
    max_mib: int
    codes: tuple[int, ...] = (0,)


COMMANDS = {
    "run": Command("run {suite} --target echo --store {folder}/proctor.db -q", 150, (0, 1)),
    "compare": Command("compare first second --store {folder}/proctor.db", 300),
    "regrade": Command("regrade first --store {folder}/proctor.db -q", 300, (0, 1)),
    "export": Command("runs export first -o {folder}/trials.jsonl --reveal --store {folder}/proctor.db", 300),
    "attest": Command("attest first -o {folder}/bundle.zip --store {folder}/proctor.db", 300),
    "verify": Command("verify {folder}/bundle.zip", 300),
}


class Row(NamedTuple):
    """What one command of one version took at one size, a process for each round."""

    cases: int
    name: str
    version: str
    usages: tuple[ProcessUsage, ...]

    @property
    def cpu_per_case_s(self) -> float:
        """The median CPU by the number of cases."""
        cpu_s: float = median(usage.cpu_s for usage in self.usages)
        return cpu_s / self.cases

    @property
    def peak_mib(self) -> float:
        """The highest peak."""
        peak_mib: float = max(usage.peak_mib for usage in self.usages)
        return peak_mib

    def describe(self) -> str:
        """Its cell in the table."""
        cpu_s = median(usage.cpu_s for usage in self.usages)
        wall_s = median(usage.wall_s for usage in self.usages)
        return f"{self.peak_mib:,.0f} MiB, {cpu_s:,.1f} s, {wall_s:,.1f} s"


def main() -> None:
    """Measures, and prints a table with a row for each command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), metavar="N,…")
    parser.add_argument("--only", default=",".join(COMMANDS), metavar="NAME,…")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--before", type=Path, metavar="FOLDER")
    parser.add_argument("--folder", type=Path, help="for suites and stores; a temporary one by default")
    parser.add_argument("--smoke", action="store_true")
    options = parser.parse_args()
    sources = {"proctor": SOURCE}
    if options.before is not None:
        sources["before"] = options.before.absolute() / "src"
    names = options.only.split(",")
    if unknown := [name for name in names if name not in COMMANDS]:
        parser.error(f"There is no command {unknown[0]!r}. Choose from {', '.join(COMMANDS)}.")
    sizes = SMOKE_SIZES if options.smoke else tuple(int(size) for size in options.sizes.split(","))
    if not options.smoke:
        for source in sources.values():
            compile_package(source)
    rows: list[Row] = []
    if options.folder is not None:
        options.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        for cases in sizes:
            rows += measure_size(cases, options.rounds, sources, names, Path(folder))
    print("\n" + "\n".join(table(rows, sizes)))
    misses = [] if options.smoke else list(find_misses(rows))
    if misses:
        raise SystemExit(f"Missed: {'; '.join(misses)}.")


def measure_size(
    cases: int, rounds: int, sources: Mapping[str, Path], names: Sequence[str], scratch: Path
) -> Iterator[Row]:
    """Every command at one size; the versions take turns at each."""
    suite = write_suite(cases, scratch)
    usages: dict[tuple[str, str], list[ProcessUsage]] = {
        (name, version): [] for name in COMMANDS for version in sources if name in names
    }
    for number in range(rounds):
        versions = list(sources) if number % 2 == 0 else list(sources)[::-1]
        for name, command in COMMANDS.items():
            for version in versions:
                folder = scratch / version
                if name == "run":
                    shutil.rmtree(folder, ignore_errors=True)
                    folder.mkdir()
                if name not in names and not (name == "run" or (name == "attest" and "verify" in names)):
                    continue
                usage = measure(command.words, command.codes, suite, folder, sources[version])
                if name in names:
                    usages[name, version].append(usage)
                    print(f"{cases:>9,}  {name:<8} {version:<8} {describe_usages([usage])}", flush=True)
                if name == "run":
                    prepare(suite, folder, sources[version])
    suite.unlink()
    for (name, version), samples in usages.items():
        yield Row(cases, name, version, tuple(samples))


def measure(words: str, codes: Sequence[int], suite: Path, folder: Path, source: Path) -> ProcessUsage:
    """One command of one version on its store."""
    command = [word.format(suite=suite, folder=folder) for word in words.split()]
    environ = proctor_environ(source) | {"PROCTOR_KEYS": str(folder / "keys")}
    usage: ProcessUsage = measure_process(
        [sys.executable, "-m", "proctor", *command], codes, environ=environ, folder=folder
    )
    return usage


def prepare(suite: Path, folder: Path, source: Path) -> None:
    """Tags the run, and makes the second one."""
    for words in (
        "runs tag last first --store {folder}/proctor.db",
        f"run {{suite}} --target mock:{WORD} --store {{folder}}/proctor.db -q",
        "runs tag last second --store {folder}/proctor.db",
    ):
        measure(words, (0, 1), suite, folder, source)


def write_suite(cases: int, scratch: Path) -> Path:
    """Writes questions as simple JSON Lines: `echo` answers 23 of 24 right, and `mock:river` others."""
    path = scratch / f"words-{cases}.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for place in range(cases):
            topic = NAMES[place % len(NAMES)] if place % 24 == 0 else WORD
            expected = "Case" if place % 24 == 12 else WORD
            question = f"Case {place}: what do you know of the {topic} beside the {place % 9_973} houses?"
            line = {"id": f"case-{place}", "input": question, "expected": expected, "scorer": "contains"}
            file.write(json.dumps(line) + "\n")
    return path


def table(rows: Sequence[Row], sizes: Sequence[int]) -> Iterator[str]:
    """Yields the lines of a table in Markdown; a cell has the peak, CPU and wall time."""
    cells = {(row.name, row.version, row.cases): row for row in rows}
    versions = list(dict.fromkeys(row.version for row in reversed(rows)))
    yield "| command | goal | version | " + " | ".join(f"{size:,}" for size in sizes) + " |"
    yield "|---" * (len(sizes) + 3) + "|"
    for name in dict.fromkeys(row.name for row in rows):
        lines = {}
        for version in versions:
            label = "now" if version == "proctor" else version
            lines[label] = [cells[name, version, size].describe() for size in sizes]
        if "before" in versions:
            pairs = [(cells[name, "proctor", size], cells[name, "before", size]) for size in sizes]
            lines["ratio"] = [compare_usages(row.usages, before.usages).describe() for row, before in pairs]
        for place, (label, texts) in enumerate(lines.items()):
            first = f"{name} | {COMMANDS[name].max_mib} MiB" if place == 0 else " | "
            yield f"| {first} | {label} | {' | '.join(texts)} |"


def find_misses(rows: Sequence[Row]) -> Iterator[str]:
    """Yields the commands that take more memory than their goal, or grow faster than their cases."""
    previous: dict[str, Row] = {}
    for row in rows:
        if row.version != "proctor":
            continue
        limit = COMMANDS[row.name].max_mib
        if row.peak_mib > limit:
            yield f"{row.name} took {row.peak_mib:,.0f} of {limit} MiB at {row.cases:,} cases"
        smaller = previous.get(row.name)
        if smaller is not None and row.cpu_per_case_s > MAX_GROWTH * smaller.cpu_per_case_s:
            growth = row.cpu_per_case_s / smaller.cpu_per_case_s
            yield f"{row.name} took {growth:.1f} times the CPU per case at {row.cases:,} cases"
        previous[row.name] = row


if __name__ == "__main__":
    main()

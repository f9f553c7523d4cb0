"""Proctor beside a bare aiohttp client, whole process against whole process, as ratios measured in one run.

Usage: python benchmarks/overhead.py [--rounds 7] [--only NAME,…] [--before FOLDER] [--smoke]

Each scenario runs its programs in turns, and every second round goes backwards, so that all meet the same
machine. A ratio is that of the two processes of one round; the figures are the medians of these ratios, and
in brackets the middle half. It exits with 1 when a median is above its goal.

`--before FOLDER` is a checkout of another version, such as a git worktree: its `src` runs in the same rounds,
and its ratios are printed too. `--only` takes the names in front of the lines. `--smoke` runs everything once
and small, to see that it works: its figures mean nothing.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import NamedTuple

from measure import (  # type: ignore[import-not-found]  # found beside this file when it is run
    BENCHMARKS,
    SOURCE,
    ProcessUsage,
    Ratios,
    compare_usages,
    compile_package,
    describe_usages,
    measure_process,
    new_store,
    proctor_environ,
    take_turns,
)
from server import start_server  # type: ignore[import-not-found]
from sums import write_suite, write_yaml  # type: ignore[import-not-found]

CALL = "import proctor, sys; proctor.run(sys.argv[1], target='echo', store=sys.argv[2], progress=False)"
"""A program that runs a suite from Python."""


class Goal(NamedTuple):
    """What Proctor may take; None is no goal."""

    cpu: float | None = None
    """The ratio of CPU to that of the program beside it; the same for `wall`."""
    wall: float | None = None
    cpu_s: float | None = None
    """The CPU itself."""
    peak_mib: float | None = None
    trials_per_s: float | None = None

    def __str__(self) -> str:
        """Returns it as a phrase."""
        limits = {"CPU at most {} times": self.cpu, "wall at most {} times": self.wall}
        limits |= {"CPU at most {} s": self.cpu_s}
        limits |= {"at most {:g} MiB": self.peak_mib, "at least {:,g} trials/s": self.trials_per_s}
        return ", ".join(text.format(limit) for text, limit in limits.items() if limit is not None)

    def find_misses(
        self, usages: Sequence[ProcessUsage], ratios: Ratios | None, trials_per_s: float | None
    ) -> Iterator[str]:
        """Yields what is beyond its limit."""
        values = {
            "CPU": (median(usage.cpu_s for usage in usages), self.cpu_s),
            "memory": (max(usage.peak_mib for usage in usages), self.peak_mib),
        }
        if ratios is not None:
            values["CPU ratio"] = median(ratios.cpu), self.cpu
            values["wall ratio"] = median(ratios.wall), self.wall
        yield from (name for name, (value, limit) in values.items() if limit is not None and value > limit)
        if self.trials_per_s is not None and trials_per_s is not None and trials_per_s < self.trials_per_s:
            yield "trials/s"


class Scenario(NamedTuple):
    """A workload over the network, and what is asked of Proctor there."""

    cases: int
    latency_ms: int
    concurrency: int
    goal: Goal

    def __str__(self) -> str:
        """Returns it as a phrase."""
        latency = f"{self.latency_ms} ms latency" if self.latency_ms else "no latency"
        return f"{self.cases:,} cases, {latency}, {self.concurrency:,} at once"


NETWORK = {
    "ten": Scenario(10, 0, 10, Goal(cpu_s=0.2)),
    "small": Scenario(2_000, 0, 64, Goal(cpu=0.9, wall=0.9, peak_mib=80)),
    "large": Scenario(20_000, 0, 64, Goal(cpu=0.7, wall=0.7)),
    "latency": Scenario(20_000, 100, 1_000, Goal(cpu=1.0, wall=1.0)),
}
YAML_CASES, YAML_GOAL = 2_000, Goal(wall=1.5)
ECHO_CASES, ECHO_GOAL = 100_000, Goal(trials_per_s=10_000, peak_mib=150)
CALL_CASES, CALL_GOAL = 20_000, Goal(cpu=1.05)
SMOKE_CASES = 100


class Bench:
    """Runs scenarios and prints what they take."""

    def __init__(self, scratch: Path, rounds: int, sources: Mapping[str, Path], *, is_smoke: bool) -> None:
        """Runs nothing yet.

        Args:
            scratch: an empty folder.
            rounds: how often each program runs.
            sources: the folder of the package for each version of Proctor; the first one has goals.
            is_smoke: every workload is small, and no goal counts.
        """
        self.misses: list[str] = []
        self._scratch = scratch
        self._rounds = rounds
        self._sources = sources
        self._is_smoke = is_smoke

    def run_network(self, name: str) -> None:
        """Floor and Proctor over the same suite and server."""
        scenario = NETWORK[name]
        if self._is_smoke:
            scenario = scenario._replace(cases=min(SMOKE_CASES, scenario.cases))
        suite = write_suite(scenario.cases, self._scratch)
        with start_server(scenario.latency_ms) as server:
            words = [str(suite), server.base, str(scenario.concurrency)]
            floor = partial(measure_process, [sys.executable, str(BENCHMARKS / "floor.py"), *words])
            target = ["--target", f"openai:bench@{server.base}", "--concurrency", str(scenario.concurrency)]
            programs = {"floor": floor, **self._versions("run", str(suite), *target)}
            began, cpu_s = perf_counter(), server.cpu_s()
            usages = take_turns(programs, self._rounds)
            share = (server.cpu_s() - cpu_s) / (perf_counter() - began)
        self._report(f"{name}: {scenario}", "floor", usages, scenario.goal)
        print(f"  the server took {share:.0%} of a core")

    def run_yaml(self, name: str) -> None:
        """The same questions as JSON Lines with one check each and as YAML with three."""
        cases = self._size(YAML_CASES)
        lines, tests = write_suite(cases, self._scratch), write_yaml(cases, self._scratch)
        with start_server(0) as server:
            target = ["--target", f"openai:bench@{server.base}", "--concurrency", "64"]
            programs = {"JSON Lines": self._versions("run", str(lines), *target)["proctor"]}
            programs |= self._versions("run", str(tests), *target)
            usages = take_turns(programs, self._rounds)
        self._report(f"{name}: {cases:,} cases as YAML with 3 checks each", "JSON Lines", usages, YAML_GOAL)

    def run_echo(self, name: str) -> None:
        """Everything but the network: read, plan, grade, store."""
        cases = self._size(ECHO_CASES)
        suite = write_suite(cases, self._scratch)
        usages = take_turns(self._versions("run", str(suite), "--target", "echo"), self._rounds)
        per_s = cases / median(usage.wall_s for usage in usages["proctor"])
        title = f"{name}: {cases:,} cases without a network, {per_s:,.0f} trials/s graded and stored"
        self._report(title, None, usages, ECHO_GOAL, trials_per_s=per_s)

    def run_call(self, name: str) -> None:
        """`proctor.run` beside `proctor run`, over the same suite."""
        cases = self._size(CALL_CASES)
        suite = str(write_suite(cases, self._scratch))
        words = [sys.executable, "-c", CALL, suite]
        programs = {"command": self._versions("run", suite, "--target", "echo")["proctor"]}
        programs["proctor"] = lambda: self._measure_version(SOURCE, [*words, new_store(self._scratch)])
        usages = take_turns(programs, self._rounds)
        self._report(f"{name}: {cases:,} cases from Python, no network", "command", usages, CALL_GOAL)

    def _size(self, cases: int) -> int:
        return SMOKE_CASES if self._is_smoke else cases

    def _versions(self, *words: str) -> dict[str, Callable[[], ProcessUsage]]:
        """A program for each version of Proctor that runs this command on a new store."""

        def measure(source: Path) -> ProcessUsage:
            command = [sys.executable, "-m", "proctor", *words, "-q", "--store", new_store(self._scratch)]
            return self._measure_version(source, command)

        return {version: partial(measure, source) for version, source in self._sources.items()}

    def _measure_version(self, source: Path, command: Sequence[str]) -> ProcessUsage:
        """A run from a folder of its own, whose store is removed; on `echo` cases fail."""
        codes = (0, 1) if "echo" in command else (0,)
        usage: ProcessUsage = measure_process(
            command, codes, environ=proctor_environ(source), folder=self._scratch
        )
        for path in self._scratch.glob("*.db*"):
            path.unlink()
        return usage

    def _report(
        self,
        title: str,
        base: str | None,
        usages: Mapping[str, Sequence[ProcessUsage]],
        goal: Goal,
        trials_per_s: float | None = None,
    ) -> None:
        """Prints a scenario, and notes what is above its goal.

        Args:
            title: begins with the scenario's name.
            base: the program that ratios refer to.
            usages: of every program.
            goal: of `proctor`.
            trials_per_s: of `proctor`.
        """
        print(f"{title}. Goal: {goal}.")
        for version in self._sources:
            if base is not None and version in usages:
                print(f"  {version} : {base}  {compare_usages(usages[version], usages[base]).describe()}")
        if "before" in usages:
            ratios = compare_usages(usages["proctor"], usages["before"])
            print(f"  proctor : before  {ratios.describe()}")
        width = max(map(len, usages))
        for program, samples in usages.items():
            print(f"  {program:<{width}}  {describe_usages(samples)}", flush=True)
        if self._is_smoke:
            return
        ratios = compare_usages(usages["proctor"], usages[base]) if base is not None else None
        misses = list(goal.find_misses(usages["proctor"], ratios, trials_per_s))
        if misses:
            self.misses.append(f"{title.partition(':')[0]} ({', '.join(misses)})")


SCENARIOS: dict[str, Callable[[Bench, str], None]] = {
    **dict.fromkeys(NETWORK, Bench.run_network),
    "yaml": Bench.run_yaml,
    "echo": Bench.run_echo,
    "call": Bench.run_call,
}


def main() -> None:
    """Runs the scenarios, and prints some lines for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default=",".join(SCENARIOS), metavar="NAME,…")
    parser.add_argument("--before", type=Path, metavar="FOLDER")
    parser.add_argument("--smoke", action="store_true")
    options = parser.parse_args()
    sources = {"proctor": SOURCE}
    if options.before is not None:
        sources["before"] = options.before.absolute() / "src"
        if not (sources["before"] / "proctor").is_dir():
            parser.error(f"{sources['before']} has no package proctor. --before takes a checkout of Proctor.")
    names = options.only.split(",")
    if unknown := [name for name in names if name not in SCENARIOS]:
        parser.error(f"There is no scenario {unknown[0]!r}. Choose from {', '.join(SCENARIOS)}.")
    if not options.smoke:
        for source in sources.values():
            compile_package(source)
    with tempfile.TemporaryDirectory() as folder:
        rounds = 1 if options.smoke else options.rounds
        bench = Bench(Path(folder), rounds, sources, is_smoke=options.smoke)
        for name in names:
            SCENARIOS[name](bench, name)
    if bench.misses:
        raise SystemExit(f"Missed: {'; '.join(bench.misses)}.")


if __name__ == "__main__":
    main()

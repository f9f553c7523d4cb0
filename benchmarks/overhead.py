"""Proctor beside a bare aiohttp client, whole process against whole process, as ratios measured in one run.

Usage: python benchmarks/overhead.py [--rounds 5] [--smoke]

Each scenario runs floor and Proctor in turns, so that both meet the same machine; the figures are medians.
`--smoke` runs everything once and small, to see that it works: its figures mean nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import NamedTuple

HERE = Path(__file__).parent


class Scenario(NamedTuple):
    """One size of workload, and what is asked of Proctor there."""

    name: str
    cases: int
    latency_ms: int
    concurrency: int
    goal: str


SCENARIOS = (
    Scenario("2,000 cases, no latency, 64 at once", 2_000, 0, 64, "wall at most 1.3 times, at most 80 MiB"),
    Scenario("20,000 cases, no latency, 64 at once", 20_000, 0, 64, "wall at most 1.1 times"),
    Scenario("2,000 cases, 100 ms latency, 100 at once", 2_000, 100, 100, "wall at most 1.1 times"),
)
YAML_CASES = 2_000
YAML_GOAL = "wall at most 1.5 times"
ECHO_CASES = 100_000
ECHO_GOAL = "at least 10,000 trials/s, at most 150 MiB"
CALL_CASES = 20_000
CALL_GOAL = "CPU at most 1.05 times"
CALL = "import proctor, sys; proctor.run(sys.argv[1], target='echo', store=sys.argv[2], progress=False)"
"""A program that runs a suite from Python."""


class Spent(NamedTuple):
    """What a process took."""

    wall_s: float
    cpu_s: float
    peak_mib: float


def main() -> None:
    """Run all scenarios and print one line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--smoke", action="store_true")
    options = parser.parse_args()
    rounds = 1 if options.smoke else options.rounds
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        for scenario in SCENARIOS:
            small = scenario._replace(cases=100) if options.smoke else scenario
            side_by_side(small, rounds, scratch)
        yaml_beside_lines(100 if options.smoke else YAML_CASES, rounds, scratch)
        echo(1_000 if options.smoke else ECHO_CASES, rounds, scratch)
        call_beside_command(1_000 if options.smoke else CALL_CASES, rounds, scratch)


def side_by_side(scenario: Scenario, rounds: int, scratch: Path) -> None:
    """Floor and Proctor in turns over the same suite and server."""
    suite = write_suite(scenario.cases, scratch)
    floors, proctors = [], []
    with server(scenario.latency_ms) as base:
        for _ in range(rounds):
            floor = [sys.executable, str(HERE / "floor.py"), str(suite), base, str(scenario.concurrency)]
            floors.append(spent(floor))
            target = ["--target", f"openai:bench@{base}", "--concurrency", str(scenario.concurrency)]
            proctors.append(
                spent([*proctor(), "run", str(suite), *target, "-q", "--store", new_store(scratch)])
            )
    floor_s, proctor_s = median(run.wall_s for run in floors), median(run.wall_s for run in proctors)
    print(f"{scenario.name}: {proctor_s / floor_s:.2f} times the floor. Goal: {scenario.goal}.")
    for name, runs in (("proctor", proctors), ("floor", floors)):
        print(f"  {name:<8} {figures(runs)}", flush=True)


def yaml_beside_lines(cases: int, rounds: int, scratch: Path) -> None:
    """The same questions as JSON Lines with one check each and as YAML with three, in turns."""
    suites = {"yaml": write_yaml(cases, scratch), "lines": write_suite(cases, scratch)}
    runs: dict[str, list[Spent]] = {name: [] for name in suites}
    with server(0) as base:
        target = ["--target", f"openai:bench@{base}", "--concurrency", "64"]
        for _ in range(rounds):
            for name, suite in suites.items():
                command = [*proctor(), "run", str(suite), *target, "-q", "--store", new_store(scratch)]
                runs[name].append(spent(command))
    walls = {name: median(run.wall_s for run in taken) for name, taken in runs.items()}
    ratio = walls["yaml"] / walls["lines"]
    print(f"{cases:,} cases as YAML with 3 checks each: {ratio:.2f} times JSON Lines. Goal: {YAML_GOAL}.")
    for name, taken in runs.items():
        print(f"  {name:<8} {figures(taken)}", flush=True)


def figures(runs: list[Spent]) -> str:
    """The medians of some runs, and the highest peak."""
    wall_s, cpu_s = median(run.wall_s for run in runs), median(run.cpu_s for run in runs)
    return f"wall {wall_s:.2f} s, CPU {cpu_s:.2f} s, peak {max(run.peak_mib for run in runs):.0f} MiB"


def echo(cases: int, rounds: int, scratch: Path) -> None:
    """Everything but the network: read, plan, grade, store."""
    suite = write_suite(cases, scratch)
    runs = [
        spent(
            [*proctor(), "run", str(suite), "--target", "echo", "-q", "--store", new_store(scratch)],
            ok=(0, 1),
        )
        for _ in range(rounds)
    ]
    wall_s = median(run.wall_s for run in runs)
    print(
        f"{cases:,} cases on echo: {cases / wall_s:,.0f} trials/s graded and stored, whole process. "
        f"Goal: {ECHO_GOAL}.\n  proctor  {figures(runs)}"
    )


def call_beside_command(cases: int, rounds: int, scratch: Path) -> None:
    """`proctor.run` and `proctor run` over the same suite on `echo`, in turns."""
    suite = str(write_suite(cases, scratch))
    calls, commands = [], []
    for _ in range(rounds):
        calls.append(spent([sys.executable, "-c", CALL, suite, new_store(scratch)]))
        command = [*proctor(), "run", suite, "--target", "echo", "-q", "--store", new_store(scratch)]
        commands.append(spent(command, ok=(0, 1)))
    ratio = median(call.cpu_s / command.cpu_s for call, command in zip(calls, commands, strict=True))
    print(f"{cases:,} cases on echo from Python: CPU {ratio:.2f} times the command's. Goal: {CALL_GOAL}.")
    for name, runs in (("call", calls), ("command", commands)):
        print(f"  {name:<8} {figures(runs)}", flush=True)


def proctor() -> list[str]:
    """The installed command, as a user calls it."""
    found = shutil.which("proctor", path=str(Path(sys.executable).parent)) or shutil.which("proctor")
    return [found] if found else [sys.executable, "-m", "proctor"]


def new_store(scratch: Path) -> str:
    """A store that is not there yet."""
    return str(scratch / f"{random.randrange(10**9)}.db")


def spent(command: list[str], ok: tuple[int, ...] = (0,)) -> Spent:
    """Run a command to its end; what it and its children took."""
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    began = perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environ)
    _, status, usage = os.wait4(process.pid, 0)
    wall_s = perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    _, said = process.communicate()
    if process.returncode not in ok:
        raise SystemExit(f"{command} ended with {process.returncode}: {said.decode('utf-8', 'replace')}")
    return Spent(wall_s, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


@contextmanager
def server(latency_ms: int) -> Iterator[str]:
    """The server's base URL for as long as the block lasts."""
    process = subprocess.Popen(
        [sys.executable, str(HERE / "server.py"), str(latency_ms)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdin is not None
    try:
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
    finally:
        process.stdin.close()
        process.wait(10)
        process.stdout.close()


def sums(cases: int) -> Iterator[tuple[str, str, str]]:
    """An id, a question and its answer."""
    numbers = random.Random(7)
    for place in range(cases):
        one, other = numbers.randrange(1_000, 99_999), numbers.randrange(1_000, 99_999)
        question = f"What is {one} + {other}? Answer with the number only. (case {place})"
        yield f"sum-{place}", question, str(one + other)


def write_suite(cases: int, scratch: Path) -> Path:
    """Sums as simple JSON Lines of dialect meridian."""
    path = scratch / f"sums-{cases}.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for name, question, answer in sums(cases):
            case = {"id": name, "input": question, "expected": answer, "scorer": "contains"}
            file.write(json.dumps(case) + "\n")
    return path


def write_yaml(cases: int, scratch: Path) -> Path:
    """The same sums as YAML of dialect agentv, with three checks each."""
    path = scratch / f"sums-{cases}.eval.yaml"
    with path.open("w", encoding="utf-8") as file:
        file.write("description: Sums\ntests:\n")
        for name, question, answer in sums(cases):
            file.write(
                f"  - id: {name}\n    criteria: The sum is right.\n    input: {json.dumps(question)}\n"
            )
            file.write(f"    expected_output: '{answer}'\n    assertions:\n")
            for kind, value in (("contains", answer), ("regex", r"\d+"), ("icontains", answer)):
                file.write(f"      - type: {kind}\n        value: {json.dumps(value)}\n")
    return path


if __name__ == "__main__":
    main()

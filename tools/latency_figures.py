"""How often intervals of a difference in latency are right: docs/guides/compare-latencies.md.

Usage: python tools/latency_figures.py; it takes about a minute.

Simulated are two targets on a server with a load of its own: the logarithm of its slowness drifts (an
Ornstein-Uhlenbeck process), and now and then it answers nobody for some seconds. Cases differ in length, and
calls vary by chance. Calls are made by a number of places, each of which takes the next call in order when it
is free. A row has 1,000 samples with a fixed seed, so that a figure is right to a point.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from heapq import heapify, heapreplace
from math import exp, sqrt
from random import Random
from typing import NamedTuple

from proctor.comparison.differences import median_interval
from proctor.stats import mean_interval, quantile

Call = tuple[int, int]
"""The target, 0 or 1, and the case."""
Order = Callable[[int], list[list[Call]]]
"""Returns the calls for a number of cases, in sessions that follow one another."""

SAMPLES = 1_000
BASE_S = 0.4
CASE_SPREAD, CALL_SPREAD, LOAD_SPREAD = 0.5, 0.3, 0.4
"""Standard deviations of the logarithms of latencies."""
PAUSE_EVERY_S, PAUSE_S = 40.0, 2.0
"""How often the server answers nobody, and for how long, on average."""


def one_after_the_other(cases: int) -> list[list[Call]]:
    """All calls of the first target, then all of the second, as without --interleave."""
    return [[(target, case) for case in range(cases)] for target in (0, 1)]


def in_turns(cases: int) -> list[list[Call]]:
    """Case by case, the first target changing, as `proctor.engines.turns` orders them."""
    return [[(target, case) for case in range(cases) for target in ((0, 1), (1, 0))[case % 2]]]


def in_one_order(cases: int) -> list[list[Call]]:
    """Case by case, always the same target first."""
    return [[(target, case) for case in range(cases) for target in (0, 1)]]


class World(NamedTuple):
    """What latencies depend on, besides chance."""

    memory_s: float = 60.0
    """In what time the load is forgotten by two thirds."""
    pauses: bool = True
    second_factor: float = 1.0
    """How much longer the second call for a case takes, as the server has seen its prompt."""
    target_factor: float = 1.0
    """How much longer the second target takes."""


class Server:
    """The load of a server, drawn as time goes on."""

    def __init__(self, world: World, rng: Random) -> None:
        self._rng = rng
        self._keep = exp(-1 / world.memory_s)
        self._levels = [rng.gauss(0, LOAD_SPREAD)]
        self._pauses: list[tuple[float, float]] = []
        self._next_pause = rng.expovariate(1 / PAUSE_EVERY_S) if world.pauses else float("inf")

    def level(self, at: float) -> float:
        """Returns how slow it is, in steps of a second."""
        while len(self._levels) <= int(at):
            step = self._rng.gauss(0, LOAD_SPREAD * sqrt(1 - self._keep**2))
            self._levels.append(self._keep * self._levels[-1] + step)
        return exp(self._levels[int(at)])

    def delay(self, start: float, end: float) -> float:
        """Returns when a call ends, pauses included."""
        while self._next_pause < end + 60:
            self._pauses.append((self._next_pause, self._rng.expovariate(1 / PAUSE_S)))
            self._next_pause += self._rng.expovariate(1 / PAUSE_EVERY_S)
        self._pauses = [pause for pause in self._pauses if sum(pause) > start]  # later calls start later
        for begin, length in self._pauses:
            if begin < end and start < begin + length:
                end += begin + length - max(begin, start)
        return end


class Sample(NamedTuple):
    """The two runs of one hour."""

    differences: list[float]
    """The second target less the first, of each case, in seconds."""
    truth: float
    """The median of such differences for cases and loads like these."""


def draw_sample(world: World, order: Order, cases: int, places: int, rng: Random) -> Sample:
    """Plays the calls of both targets."""
    server = Server(world, rng)
    sizes = [BASE_S * exp(rng.gauss(0, CASE_SPREAD)) for _ in range(cases)]
    now, latencies, levels, asked_cases = 0.0, dict[Call, float](), [0.0] * cases, set[int]()
    for session in order(cases):
        free = [now] * places
        heapify(free)
        for target, case in session:
            start = free[0]
            levels[case] = sizes[case] * server.level(start)
            factor = world.target_factor if target else 1.0
            factor *= world.second_factor if case in asked_cases else 1.0
            asked_cases.add(case)
            end = server.delay(start, start + levels[case] * factor * exp(rng.gauss(0, CALL_SPREAD)))
            latencies[target, case] = end - start
            heapreplace(free, end)
        now = max(free) + 5
    truth = 0.0
    if world.target_factor != 1:
        draws = [
            level * (world.target_factor * exp(rng.gauss(0, CALL_SPREAD)) - exp(rng.gauss(0, CALL_SPREAD)))
            for level in levels
            for _ in range(2_000 // cases)
        ]
        truth = quantile(sorted(draws), 0.5) or 0.0
    return Sample([latencies[1, case] - latencies[0, case] for case in range(cases)], truth)


def rates(world: World, order: Order, cases: int, places: int) -> tuple[float, float, float]:
    """Returns how often 0 is outside the median's and the mean's interval, and the truth inside, in %."""
    rng = Random(f"{world} {order.__name__} {cases} {places}")
    outside = [0, 0]
    covered = 0
    for _ in range(SAMPLES):
        sample = draw_sample(world, order, cases, places, rng)
        intervals = median_interval(sorted(sample.differences)), mean_interval(sample.differences)
        for place, interval in enumerate(intervals):
            outside[place] += interval is not None and not interval[0] <= 0 <= interval[1]
        covered += intervals[0] is not None and intervals[0][0] <= sample.truth <= intervals[0][1]
    return 100 * outside[0] / SAMPLES, 100 * outside[1] / SAMPLES, 100 * covered / SAMPLES


def print_table(heads: Sequence[str], rows: Iterator[Sequence[str]]) -> None:
    """Prints a Markdown table."""
    print("| " + " | ".join(heads) + " |")
    print("|---|" + "--:|" * (len(heads) - 1))
    for row in rows:
        print("| " + " | ".join(row) + " |", flush=True)
    print()


def equal_targets() -> Iterator[Sequence[str]]:
    """Yields how often equal targets are told apart, by the median and the mean."""
    for memory_s in (5.0, 60.0, 600.0):
        for cases, places in ((20, 1), (20, 8), (50, 8), (200, 1), (200, 8), (200, 32)):
            world = World(memory_s=memory_s)
            before, after = (rates(world, order, cases, places) for order in (one_after_the_other, in_turns))
            yield (
                f"{memory_s:g} s",
                f"{cases}",
                f"{places}",
                f"{before[0]:.1f} %",
                f"{before[1]:.1f} %",
                f"{after[0]:.1f} %",
                f"{after[1]:.1f} %",
            )


def warm_prompts() -> Iterator[Sequence[str]]:
    """Yields the same where the second call for a case takes a fifth less time."""
    world = World(second_factor=0.8)
    for cases in (50, 200):
        for name, order in (("the same target first", in_one_order), ("each first in turn", in_turns)):
            yield name, f"{cases}", f"{rates(world, order, cases, 8)[0]:.1f} %"


def slower_target() -> Iterator[Sequence[str]]:
    """Yields how often a true difference is inside the interval, and is found."""
    for factor in (1.1, 1.3):
        for cases in (50, 200):
            world = World(pauses=False, target_factor=factor)
            power, _, covered = rates(world, in_turns, cases, 8)
            yield f"{factor - 1:.0%} slower", f"{cases}", f"{covered:.1f} %", f"{power:.1f} %"


def main() -> None:
    """Prints the tables."""
    heads = ["load forgotten in", "cases", "at once", "one after the other: median", "mean"]
    print_table([*heads, "in turns: median", "mean"], equal_targets())
    print_table(["order", "cases", "0 outside the interval"], warm_prompts())
    print_table(["second target", "cases", "the truth inside", "0 outside"], slower_target())


if __name__ == "__main__":
    main()

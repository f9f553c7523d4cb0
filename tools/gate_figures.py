"""How often gates and runs that stop by themselves decide wrongly: docs/guides/gates-and-early-stopping.md.

Usage: python tools/gate_figures.py; it takes some two minutes.

Gates on a fixed number of cases are exact: summed over every count that may pass. Sequences are simulated
with a fixed seed, 1,000 runs a row, so that a figure is right to a point or two.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from math import comb, fsum
from random import Random

from proctor.model import Settings
from proctor.run_gate import GateDecision, decide_gate, decide_run_gate
from proctor.stats import best_count_for, confidence_sequence, wilson
from proctor.stats.sequences import DEFAULT_BEST_COUNT
from proctor.verdicts import Counts

BAR = 0.8
RUNS = 1_000
MAX_CASES = 2_000
IN_FLIGHT = 31
"""The calls that are in flight when a run stops."""
SEED = 20


def decisions(cases: int, mode: str) -> list[GateDecision]:
    """What the gate says for each number of cases that may pass."""
    settings = Settings(min_pass_rate=BAR, gate_mode="interval" if mode == "interval" else "point")
    every = [
        Counts.from_cases({(1, 0, 0, 0): passed, (0, 1, 0, 0): cases - passed}) for passed in range(cases + 1)
    ]
    return [decide_run_gate(counts, settings) for counts in every]


def chance(decision: GateDecision, of_each: Sequence[GateDecision], rate: float) -> float:
    """The probability of a decision for a true rate."""
    cases = len(of_each) - 1
    return fsum(
        comb(cases, passed) * rate**passed * (1 - rate) ** (cases - passed)
        for passed, outcome in enumerate(of_each)
        if outcome is decision
    )


def gates(sizes: Sequence[int] = (20, 50, 200, 1000)) -> Iterator[str]:
    """For each size and mode how often each decision is made, below the gate, at it and above it."""
    yield (
        "| cases | mode | true 75 %: shown | ruled out | true 79.9 %: shown | true 80 %: ruled out "
        "| true 85 %: shown | ruled out |"
    )
    yield "|--:|---|" + "--:|" * 6
    for cases in sizes:
        for mode in ("point", "interval"):
            of_each = decisions(cases, mode)
            cells = [
                chance(decision, of_each, rate)
                for rate, decision in (
                    (0.75, GateDecision.SHOWN),
                    (0.75, GateDecision.RULED_OUT),
                    (0.799, GateDecision.SHOWN),
                    (0.8, GateDecision.RULED_OUT),
                    (0.85, GateDecision.SHOWN),
                    (0.85, GateDecision.RULED_OUT),
                )
            ]
            yield (
                f"| {cases:,} | {mode} | "
                + " | ".join(f"{cell:.1%}".replace("%", " %") for cell in cells)
                + " |"
            )


def repeats() -> Iterator[str]:
    """How often an interval gate at the true rate is wrong, where some cases are easier than others."""
    yield "| cases × repeats | shown | ruled out |"
    yield "|--:|--:|--:|"
    settings = Settings(min_pass_rate=BAR, gate_mode="interval")
    for cases, trials in ((20, 4), (50, 4), (100, 8)):
        rng, decision_counts = Random(f"{SEED}/{cases}"), dict.fromkeys(GateDecision, 0)
        for _ in range(RUNS):
            passes = [
                sum(rng.random() < ease for _ in range(trials))
                for ease in (rng.betavariate(2 * BAR, 2 * (1 - BAR)) for _ in range(cases))
            ]
            counts = Counts.from_cases(
                {(passed, trials - passed, 0, 0): count for passed, count in Counter(passes).items()}
            )
            decision_counts[decide_run_gate(counts, settings)] += 1
        cells = [
            percent(decision_counts[decision] / RUNS)
            for decision in (GateDecision.SHOWN, GateDecision.RULED_OUT)
        ]
        yield f"| {cases} × {trials} | " + " | ".join(cells) + " |"


def looks(cases: int) -> list[int]:
    """The numbers of cases at which a run looks: each up to 100, then each hundredth more."""
    numbers, number = [], 1
    while number <= cases:
        numbers.append(number)
        number += max(1, number // 100)
    return numbers


Draw = Callable[[Random, float], float]


def draw_verdict(rng: Random, rate: float) -> float:
    """A case that is asked once."""
    return float(rng.random() < rate)


def draw_share(rng: Random, rate: float) -> float:
    """The share of four trials of a case that pass; half of the cases are easier than the others."""
    easier = min(1.0, rate + 0.15) if rng.random() < 0.5 else max(0.0, 2 * rate - min(1.0, rate + 0.15))
    return sum(rng.random() < easier for _ in range(4)) / 4


Look = Callable[[float, int], tuple[float, float]]


@cache
def sequence(total: float, count: int) -> tuple[float, float]:
    """The confidence sequence of a gate."""
    return confidence_sequence(total, count, DEFAULT_BEST_COUNT)


@cache
def fixed(total: float, count: int) -> tuple[float, float]:
    """Wilson's interval, looked at again and again."""
    return wilson(total, count) or (0.0, 1.0)


def share_always_covered(look: Look, rate: float, draw: Draw) -> float:
    """The share of runs in which the true rate is in the interval at every look."""
    rng, covered, at = Random(f"{SEED}/{rate}"), 0, set(looks(MAX_CASES))
    for _ in range(RUNS):
        total = 0.0
        for count in range(1, MAX_CASES + 1):
            total += draw(rng, rate)
            if count in at:
                low, high = look(total, count)
                if not low - 1e-9 <= rate <= high + 1e-9:
                    break
        else:
            covered += 1
    return covered / RUNS


def coverage() -> Iterator[str]:
    """How often the true rate is in every interval up to 2,000 cases."""
    yield "| true rate | asked | `wilson`, looked at again and again | `confidence_sequence` |"
    yield "|--:|---|--:|--:|"
    for rate, name, draw in (
        (0.5, "once", draw_verdict),
        (0.8, "once", draw_verdict),
        (0.95, "once", draw_verdict),
        (0.8, "4 times", draw_share),
    ):
        cells = [percent(share_always_covered(look, rate, draw)) for look in (fixed, sequence)]
        yield f"| {100 * rate:g} % | {name} | " + " | ".join(cells) + " |"


def stopped_run(look: Look, rng: Random, rate: float) -> tuple[GateDecision, int]:
    """What a run says that stops when the gate is shown or ruled out, and after how many cases."""
    total, at = 0, set(looks(MAX_CASES))
    for count in range(1, MAX_CASES + 1):
        total += rng.random() < rate
        if count in at:
            decision = decide_gate(*look(total, count), BAR)
            if decision is not GateDecision.NOT_SHOWN:
                return decision, count
    return GateDecision.NOT_SHOWN, MAX_CASES


def stop_when_shown() -> Iterator[str]:
    """What runs say that stop when a gate of 80 % is shown or ruled out, and after how many cases."""
    yield "| true rate | shown | ruled out | mean cases | by `wilson`: shown | ruled out |"
    yield "|--:|--:|--:|--:|--:|--:|"
    for rate in (0.7, 0.75, 0.799, 0.8, 0.85, 0.9, 0.95):
        cells = []
        for look in (sequence, fixed):
            rng = Random(f"{SEED}/{rate}")
            runs = [stopped_run(look, rng, rate) for _ in range(RUNS)]
            cells += [
                percent(sum(outcome is decision for outcome, _ in runs) / RUNS)
                for decision in (GateDecision.SHOWN, GateDecision.RULED_OUT)
            ]
            if look is sequence:
                cells.append(f"{fsum(count for _, count in runs) / RUNS:,.0f}")
        yield f"| {100 * rate:g} % | " + " | ".join(cells) + " |"


def narrow_run(rng: Random, rate: float, half_width: float) -> tuple[int, float]:
    """After how many cases a run stops at a width, and how its width compares with Wilson's."""
    total, count, best_count = 0, 0, best_count_for(half_width)
    fewest = 0.5 * rate * (1 - rate) * (2 / half_width) ** 2  # no sequence is that narrow before
    at = set(looks(20_000))
    while True:
        count += 1
        total += rng.random() < rate
        if count in at and count >= fewest:
            low, high = confidence_sequence(total, count, best_count)
            if (high - low) / 2 <= half_width:
                ends = fixed(total, count)
                return count, (high - low) / (ends[1] - ends[0])


def until() -> Iterator[str]:
    """After how many cases a sequence is narrow, beside how many a run of fixed size takes."""
    yield "| until | true rate | mean cases | of a run of fixed size | width, to `wilson`'s |"
    yield "|--:|--:|--:|--:|--:|"
    for half_width in (0.05, 0.02):
        for rate in (0.5, 0.8, 0.95):
            rng = Random(f"{SEED}/{rate}")
            runs = [narrow_run(rng, rate, half_width) for _ in range(100)]
            cases, ratio = (fsum(run[place] for run in runs) / len(runs) for place in (0, 1))
            needed = next(
                count
                for count in range(1, 20_001)
                if (ends := fixed(rate * count, count))[1] - ends[0] <= 2 * half_width
            )
            width = f"±{100 * half_width:g} points"
            yield f"| {width} | {100 * rate:g} % | {cases:,.0f} | {needed:,} | {ratio:.2f} |"


def shown_interval(rng: Random, rate: float) -> tuple[tuple[float, float], tuple[float, float]]:
    """Wilson's interval and the one that is shown, of a run that stops by its gate with calls in flight."""
    total, at, first_ends = 0, set(looks(MAX_CASES)), (0.0, 1.0)
    for count in range(1, MAX_CASES + 1):
        total += rng.random() < rate
        if count in at:
            ends = sequence(total, count)
            if decide_gate(*ends, BAR) is not GateDecision.NOT_SHOWN:
                first_ends = ends
                break
    if first_ends != (0.0, 1.0):
        in_flight = min(IN_FLIGHT, MAX_CASES - count)
        total, count = total + sum(rng.random() < rate for _ in range(in_flight)), count + in_flight
    low, high = sequence(total, count)
    shown_ends = max(low, first_ends[0]), min(high, first_ends[1])
    return fixed(total, count), shown_ends if shown_ends[0] <= total / count <= shown_ends[1] else (low, high)


def shown() -> Iterator[str]:
    """How often the interval of a run that stops by its gate has the true rate, wherever it is shown."""
    yield "| true rate | `wilson`, shown before | shown now | mean width | now |"
    yield "|--:|--:|--:|--:|--:|"
    for rate in (0.7, 0.799, 0.8, 0.9, 0.95):
        rng = Random(f"{SEED}/{rate}")
        runs = [shown_interval(rng, rate) for _ in range(RUNS)]
        cells = [
            percent(sum(run[place][0] <= rate <= run[place][1] for run in runs) / RUNS) for place in (0, 1)
        ]
        cells += [percent(fsum(run[place][1] - run[place][0] for run in runs) / RUNS) for place in (0, 1)]
        yield f"| {100 * rate:g} % | " + " | ".join(cells) + " |"


def percent(share: float) -> str:
    """A share as the tables have it."""
    return f"{share:.1%}".replace("%", " %")


def main() -> None:
    """Prints every table."""
    for table in (gates, repeats, coverage, stop_when_shown, shown, until):
        print(f"{table.__name__}:\n")
        print("\n".join(table()), end="\n\n")


if __name__ == "__main__":
    main()

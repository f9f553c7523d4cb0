"""How often the interval and the test of paired runs are right: docs/explanation/comparison-statistics.md.

Usage: python tools/paired_figures.py; it takes about a minute.

What is said of single pairs is exact: summed over every table of pairs. The rest is simulated with a fixed
seed, 2,000 comparisons a figure, so that it is right to a point. "Limits" needs SciPy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import compress, product
from math import comb, exp, fsum, lgamma, log, sqrt
from random import Random
from typing import NamedTuple

from proctor.stats import (
    Z_95,
    agresti_min_interval,
    clustered_newcombe,
    mcnemar,
    newcombe_paired,
    permutation,
    wilson,
)

SAMPLES = 2000
_ALPHA = 0.05

# --- McNemar's test: exact, and mid-p while at most half of the pairs differ --------------------------------

TRUTHS = (
    ("alike, 10 % differ", 0.85, 0.05, 0.05),
    ("alike, 20 % differ", 0.6, 0.1, 0.1),
    ("alike, 50 % differ", 0.25, 0.25, 0.25),
    ("10 points better, 14 % differ", 0.8, 0.12, 0.02),
    ("20 points better, 30 % differ", 0.6, 0.25, 0.05),
)
"""Two runs: the true shares of pairs that both pass, that only one passes, and that only the other does."""


@cache
def significant(first: int, second: int, pairs: int) -> tuple[bool, bool]:
    """Whether the exact test and the test of `compare` reject."""
    mid_p = 2 * (first + second) <= pairs
    return mcnemar(first, second) < _ALPHA, mcnemar(first, second, mid_p=mid_p) < _ALPHA


def mcnemar_tests(sizes: Sequence[int] = (10, 20, 40)) -> Iterator[str]:
    """How often each test and the interval call one run better or worse, and how often they disagree."""
    yield "| true difference | cases | exact | `compare` | perhaps, by exact | perhaps, by `compare` |"
    yield "|---|--:|--:|--:|--:|--:|"
    for pairs in sizes:
        for name, both, first, second in TRUTHS:
            exact = by_compare = left_exact = left_shown = 0.0
            for weight, table in _tables(pairs, (both, first, second)):
                low, high = _interval(*table)
                is_exact, is_shown = significant(table[1], table[2], pairs)
                is_apart = low > 0 or high < 0
                exact += weight * (is_apart and is_exact)
                by_compare += weight * (is_apart and is_shown)
                left_exact += weight * (is_apart and not is_exact)
                left_shown += weight * (is_apart and not is_shown)
            cells = " | ".join(map(_percent, (exact, by_compare, left_exact, left_shown)))
            yield f"| {name} | {pairs} | {cells} |"


@cache
def _interval(both: int, first: int, second: int, neither: int) -> tuple[float, float]:
    return newcombe_paired(both, first, second, neither) or (-1.0, 1.0)


def _tables(
    pairs: int, shares: tuple[float, float, float]
) -> Iterator[tuple[float, tuple[int, int, int, int]]]:
    """Yields every table of pairs that is not all but impossible, with its probability."""
    logs = [log(max(share, 1e-300)) for share in (*shares, 1 - fsum(shares))]
    ways = [lgamma(count + 1) for count in range(pairs + 1)]
    for first in range(pairs + 1):
        for second in range(pairs + 1 - first):
            for both in range(pairs + 1 - first - second):
                table = (both, first, second, pairs - both - first - second)
                weight = ways[pairs] + fsum(
                    count * log_share - ways[count] for count, log_share in zip(table, logs, strict=True)
                )
                if weight > -25:
                    yield exp(weight), table


def largest_sizes(levels: Sequence[int] = (1, 2, 5, 10)) -> Iterator[str]:
    """The most often that equal runs are called different, over 5 to 100 cases and any share that differs."""
    yield "| p-values adjusted together | level | exact | mid-p always | `compare` |"
    yield "|--:|--:|--:|--:|--:|"
    rules: tuple[Callable[[int, int], bool], ...] = (
        lambda _differing, _pairs: False,
        lambda _differing, _pairs: True,
        lambda differing, pairs: 2 * differing <= pairs,
    )
    for level in levels:
        cells = [max(_size(pairs, _ALPHA / level, rule) for pairs in range(5, 101, 3)) for rule in rules]
        yield f"| {level} | {_percent(_ALPHA / level)} | " + " | ".join(map(_percent, cells)) + " |"


def _size(pairs: int, alpha: float, takes_mid_p: Callable[[int, int], bool]) -> float:
    rejects = [_rejects(differing, alpha, takes_mid_p(differing, pairs)) for differing in range(pairs + 1)]
    return max(
        fsum(
            comb(pairs, differing) * share**differing * (1 - share) ** (pairs - differing) * reject
            for differing, reject in enumerate(rejects)
        )
        for share in [place / 25 for place in range(1, 26)]
    )


@cache
def _rejects(differing: int, alpha: float, mid_p: bool) -> float:
    """The share of the ways in which a number of pairs differ that a test rejects."""
    ways = (
        comb(differing, first)
        for first in range(differing + 1)
        if mcnemar(first, differing - first, mid_p=mid_p) < alpha
    )
    rejecting: int = sum(ways)
    return rejecting / (1 << differing)


# --- the interval: of single pairs, exact, and of several pairs a case --------------------------------------

DISCORDANT = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5)
"""The true shares of pairs that differ."""


def _pair_truths() -> Iterator[tuple[float, float, float]]:
    """Yields true shares that both pass, only one, and only the other: any part of what differs is gain."""
    for differing, part, passing in product(DISCORDANT, (0.0, 0.25, 0.5, 0.75, 1.0), (0.5, 0.7, 0.9)):
        gain = differing * part
        yield (1 - differing) * passing, (differing + gain) / 2, (differing - gain) / 2


Interval = tuple[float, float]


def without_correction(both: int, first: int, second: int, neither: int) -> Interval:
    """Newcombe's method 10 with the correlation of the pairs as it is."""
    pairs = both + first + second + neither
    margins = (both + first) * (second + neither) * (both + second) * (first + neither)
    correlation = (both * neither - first * second) / sqrt(margins) if margins else 0.0
    distances = []
    for only, other in ((first, second), (second, first)):
        share, lower = (both + only) / pairs, _lower(both + only, pairs)
        further, upper = (both + other) / pairs, 1 - _lower(pairs - both - other, pairs)
        below, above = share - lower, upper - further
        distances.append(sqrt(max(0.0, below**2 - 2 * correlation * below * above + above**2)))
    difference = (first - second) / pairs
    return difference - distances[0], difference + distances[1]


def _lower(passed: int, pairs: int) -> float:
    return (wilson(passed, pairs) or (0.0, 1.0))[0]


def agresti_min(both: int, first: int, second: int, neither: int) -> Interval:
    """The normal interval after half a pair is added to each of the four cells."""
    pairs = both + first + second + neither + 2
    return _normal(first + 0.5, second + 0.5, pairs)


def bonett_price(both: int, first: int, second: int, neither: int) -> Interval:
    """The normal interval after one pair is added to each of the two cells that differ."""
    pairs = both + first + second + neither + 2
    return _normal(first + 1.0, second + 1.0, pairs)


def _normal(first: float, second: float, pairs: float) -> Interval:
    mean = (first - second) / pairs
    spread = Z_95 * sqrt(((first + second) / pairs - mean * mean) / pairs)
    return mean - spread, mean + spread


def tango(both: int, first: int, second: int, neither: int) -> Interval:
    """The score interval: T. Tango, Statistics in Medicine 17 (1998), 891-908."""
    pairs = both + first + second + neither
    return -_tango_high(second, first, pairs), _tango_high(first, second, pairs)


def _tango_high(first: int, second: int, pairs: int) -> float:
    low, high = (first - second) / pairs, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        linear = -first - second + (2 * pairs - first + second) * middle
        root = sqrt(max(0.0, linear**2 + 8 * pairs * second * middle * (1 - middle)))
        rare = (root - linear) / (4 * pairs)
        variance = pairs * (2 * rare + middle * (1 - middle))
        if (first - second - pairs * middle) ** 2 > Z_95**2 * variance:
            high = middle
        else:
            low = middle
    return high


METHODS: dict[str, Callable[[int, int, int, int], Interval]] = {
    "Newcombe": _interval,
    "Newcombe, not corrected": without_correction,
    "Agresti and Min": agresti_min,
    "Bonett and Price": bonett_price,
    "Tango": tango,
}


def pair_intervals(sizes: Sequence[int] = (5, 10, 20, 40)) -> Iterator[str]:
    """How often intervals of single pairs hold the true difference, mean and least over true shares."""
    yield "| cases | interval | equal runs: mean | least | other runs: mean | least | all: mean |"
    yield "|--:|---|--:|--:|--:|--:|--:|"
    for pairs, (name, method) in product(sizes, METHODS.items()):
        hits: dict[bool, list[float]] = {True: [], False: []}
        intervals = cache(method)
        for truth in _pair_truths():
            gain = truth[1] - truth[2]
            weights = (
                weight
                for weight, table in _tables(pairs, truth)
                if (ends := intervals(*table))[0] - 1e-12 <= gain <= ends[1] + 1e-12
            )
            hits[abs(gain) < 1e-9].append(fsum(weights))
        means = [
            fsum(coverages) / len(coverages)
            for coverages in (hits[True], hits[False], hits[True] + hits[False])
        ]
        cells = (means[0], min(hits[True]), means[1], min(hits[False]), means[2])
        yield f"| {pairs} | {name} | " + " | ".join(map(_percent, cells)) + " |"


def limits(sizes: Sequence[int] = (5, 6, 8, 10, 15, 20)) -> Iterator[str]:
    """How often any interval has to hold the 0 of equal runs, if its test is wrong in at most 5 %.

    The test that rejects most often is found by integer programming: of all tests that count differing pairs
    and reject equal runs in at most 5 %, whatever share of the pairs differs. A test that rejects a result
    rejects what differs more from it in the same direction.
    """
    yield (
        "| cases | "
        + " | ".join(f"{100 * share:.0f} % differ" for share in DISCORDANT)
        + " | mean | `compare` |"
    )
    yield "|--:|" + "--:|" * (len(DISCORDANT) + 2)
    for pairs in sizes:
        results = [
            (more, fewer) for more in range(pairs + 1) for fewer in range(more) if more + fewer <= pairs
        ]
        chances = {share: _chances(results, pairs, share) for share in DISCORDANT}
        best = _best_test(results, pairs, list(chances.values()))
        rejected_by_compare = [significant(*result, pairs)[1] for result in results]
        cells, ours = (
            [1 - fsum(compress(probabilities, rejected)) for probabilities in chances.values()]
            for rejected in (best, rejected_by_compare)
        )
        means = fsum(cells) / len(cells), fsum(ours) / len(ours)
        yield f"| {pairs} | " + " | ".join(map(_percent, (*cells, *means))) + " |"


def _chances(results: Sequence[tuple[int, int]], pairs: int, differing: float) -> list[float]:
    """Returns the probability of each result of equal runs, in either direction."""
    return [
        2
        * comb(pairs, more + fewer)
        * comb(more + fewer, fewer)
        * (differing / 2) ** (more + fewer)
        * (1 - differing) ** (pairs - more - fewer)
        for more, fewer in results
    ]


def _best_test(
    results: Sequence[tuple[int, int]], pairs: int, chances: Sequence[Sequence[float]]
) -> list[bool]:
    """Returns which results the test rejects that rejects most of them by their mean chance."""
    from scipy.optimize import Bounds, LinearConstraint, milp  # type: ignore[import-untyped,unused-ignore]

    sizes = [_chances(results, pairs, place / 100) for place in range(1, 101)]
    rules = [LinearConstraint(sizes, ub=_ALPHA)]
    place = {result: number for number, result in enumerate(results)}
    for more, fewer in results:
        for further in ((more + 1, fewer), (more, fewer - 1), (more + 1, fewer - 1)):
            if further in place:
                row = [0] * len(results)
                row[place[more, fewer]], row[place[further]] = 1, -1
                rules.append(LinearConstraint([row], ub=0))
    gains = [-fsum(column) for column in zip(*chances, strict=True)]
    solution = milp(gains, constraints=rules, integrality=[1] * len(results), bounds=Bounds(0, 1))
    return [value > 0.5 for value in solution.x]


Runs = Callable[[Random, int], tuple[list[float], list[float]]]
"""Draws for a number of cases how often each case passes in the candidate, and in the baseline."""


def _rigid(random: Random, cases: int) -> tuple[list[float], list[float]]:
    kinds = random.choices(((1.0, 0.0), (0.0, 1.0), (1.0, 1.0), (0.0, 0.0)), (8, 3, 62, 27), k=cases)
    return [first for first, _ in kinds], [second for _, second in kinds]


def _make_mixed_runs(gain: float) -> Runs:
    def draw(random: Random, cases: int) -> tuple[list[float], list[float]]:
        hard = [random.choice((0.2, 0.6, 0.95)) for _ in range(cases)]
        return [min(1.0, rate + gain) for rate in hard], hard

    return draw


def _slipped(random: Random, cases: int) -> tuple[list[float], list[float]]:
    rates = [random.betavariate(9, 0.5) for _ in range(cases)]
    return [0.75 * rate for rate in rates], rates


class Simulation(NamedTuple):
    """Runs to compare, and the true difference of their pass rates."""

    name: str
    draw: Runs
    truth: float
    repeats: tuple[int, ...]
    """How often each case is asked."""


SIMULATIONS = (
    Simulation("answers that never vary; 8 % fixed, 3 % broken", _rigid, 0.05, (1, 3)),
    Simulation("easy and hard cases, the candidate better", _make_mixed_runs(0.1), 0.25 / 3, (1, 3, 5)),
    Simulation("the same run twice, with chance in every answer", _make_mixed_runs(0.0), 0.0, (1, 3, 5)),
    Simulation("nearly all pass, the candidate a quarter less often", _slipped, -0.25 * 9 / 9.5, (1, 5)),
)


def intervals(sizes: Sequence[int] = (5, 10, 20, 40, 100), samples: int = SAMPLES) -> Iterator[str]:
    """How often the interval of a comparison holds the true difference."""
    yield "| simulated | asked | " + " | ".join(f"{size} cases" for size in sizes) + " |"
    yield "|---|--:|" + "--:|" * len(sizes)
    for simulation in SIMULATIONS:
        for repeats in simulation.repeats:
            cells = []
            for size in sizes:
                random, hits = Random(f"{simulation.name} {size} {repeats}"), 0
                for _ in range(samples):
                    low, high = _pair_counts(random, simulation.draw, size, repeats).interval
                    hits += low - 1e-12 <= simulation.truth <= high + 1e-12
                cells.append(f"{100 * hits / samples:.1f}")
            yield f"| {simulation.name} | {repeats}× | " + " | ".join(cells) + " |"


def repeated(samples: int = SAMPLES) -> Iterator[str]:
    """Of cases asked five times: the interval with two cases added, and that of an effective number."""
    head = "covers | width | better or worse"
    yield f"| simulated | cases | the test rejects | two cases added: {head} | now: {head} |"
    yield "|---|--:|" + "--:|" * 7
    for simulation, size in product(SIMULATIONS[1:], (10, 20)):
        random, rejections = Random(f"{simulation.name} {size}"), 0
        rows = [0.0] * 3, [0.0] * 3
        for _ in range(samples):
            counts = _pair_counts(random, simulation.draw, size, 5)
            rejected = permutation(counts.differences) < _ALPHA
            rejections += rejected
            before = agresti_min_interval(counts.differences) or (-1.0, 1.0)
            for row, (low, high) in zip(rows, (before, counts.interval), strict=True):
                row[0] += low - 1e-12 <= simulation.truth <= high + 1e-12
                row[1] += high - low
                row[2] += rejected and not low <= 0 <= high
        cells = [_percent(rejections / samples)]
        for hits, width, directed in rows:
            cells += [_percent(hits / samples), f"{100 * width / samples:.0f}", _percent(directed / samples)]
        yield f"| {simulation.name} | {size} | " + " | ".join(cells) + " |"


class _PairCounts(NamedTuple):
    """The differences of cases that are asked equally often, and what they are made of."""

    differences: list[float]
    table: tuple[float, float, float, float]
    repeats: int

    @property
    def interval(self) -> tuple[float, float]:
        """That of `compare`."""
        if self.repeats == 1:
            return _interval(*map(round, self.table))
        groups = [(difference, 1) for difference in self.differences]
        return clustered_newcombe(groups, self.table, len(groups) / self.repeats) or (-1.0, 1.0)


def _pair_counts(random: Random, draw: Runs, cases: int, repeats: int) -> _PairCounts:
    counts, differences = dict.fromkeys(product((True, False), repeat=2), 0), []
    for rates in zip(*draw(random, cases), strict=True):
        difference = 0
        for _ in range(repeats):
            first, second = (random.random() < rate for rate in rates)
            counts[first, second] += 1
            difference += first - second
        differences.append(difference / repeats)
    both, only_first, only_second, neither = (count / repeats for count in counts.values())
    return _PairCounts(differences, (both, only_first, only_second, neither), repeats)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def main() -> None:
    """Print every table."""
    tables = {
        "Tests": mcnemar_tests(),
        "Largest sizes": largest_sizes(),
        "Intervals": intervals(),
        "Intervals of single pairs": pair_intervals(),
        "Limits": limits(),
        "Repeats": repeated(),
    }
    for title, table in tables.items():
        print(f"{title}\n")
        for line in table:
            print(line, flush=True)
        print()


if __name__ == "__main__":
    main()

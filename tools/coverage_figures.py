"""How often the intervals of `proctor.stats` contain the truth, as the Markdown tables of docs/statistics.md.

Usage: python tools/coverage_figures.py [CHART.svg]; it takes about a minute.

Shares and pairs are exact: summed over every outcome. Repeats and means are simulated with a fixed seed,
2,000 samples a row, so that a figure is right to a point.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import product
from math import comb, fsum, sqrt
from pathlib import Path
from random import Random

from proctor.charts import Chart, Point, lines
from proctor.stats import (
    Z_95,
    bca,
    bootstrap,
    clopper_pearson,
    clustered_interval,
    mean_interval,
    newcombe_paired,
    wilson,
)

Interval = tuple[float, float] | None
OfShare = Callable[[int, int], Interval]

GRID = [place / 200 for place in range(1, 200)]
"""True shares over which coverage is averaged, and of which the worst is told."""


def textbook(passed: int, total: int) -> Interval:
    """The normal interval of a share, named after A. Wald."""
    share = passed / total
    spread = Z_95 * sqrt(share * (1 - share) / total)
    return share - spread, share + spread


OF_SHARES: dict[str, OfShare] = {
    "textbook": textbook,
    "`wilson`": wilson,
    "`clopper_pearson`": clopper_pearson,
}


def contains(interval: Interval, truth: float) -> bool:
    """Whether the truth is within the interval; one that is not there contains nothing."""
    return interval is not None and interval[0] - 1e-12 <= truth <= interval[1] + 1e-12


def coverage_of_share(interval: OfShare, total: int, share: float) -> float:
    """The probability that the interval contains the share, summed over all that may pass."""
    return fsum(
        comb(total, passed) * share**passed * (1 - share) ** (total - passed)
        for passed, found in enumerate(_of_each(interval, total))
        if contains(found, share)
    )


@cache
def _of_each(interval: OfShare, total: int) -> list[Interval]:
    return [interval(passed, total) for passed in range(total + 1)]


def shares(totals: Sequence[int] = (5, 10, 20, 40, 100, 400)) -> Iterator[str]:
    """For each size the mean and the least coverage over all true shares, of each interval."""
    yield "| cases | " + " | ".join(f"{name}: mean | least" for name in OF_SHARES) + " |"
    yield "|--:|" + "--:|" * 2 * len(OF_SHARES)
    for total in totals:
        cells = []
        for interval in OF_SHARES.values():
            found = [coverage_of_share(interval, total, share) for share in GRID]
            cells += [fsum(found) / len(found), min(found)]
        yield f"| {total} | " + " | ".join(map(_percent, cells)) + " |"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def textbook_paired(both: int, first: int, second: int, neither: int) -> Interval:
    """The normal interval of the difference of two shares over the same pairs."""
    pairs = both + first + second + neither
    difference = (first - second) / pairs
    spread = Z_95 * sqrt(max(0.0, (first + second) / pairs - difference**2) / pairs)
    return difference - spread, difference + spread


PAIRED = (
    (0.5, 0.05, 0.05),
    (0.85, 0.05, 0.05),
    (0.93, 0.02, 0.02),
    (0.6, 0.2, 0.1),
    (0.7, 0.2, 0.0),
    (0.8, 0.1, 0.02),
)
"""True shares of pairs in which both pass, only the first, and only the second."""


def pairs(totals: Sequence[int] = (10, 20, 40)) -> Iterator[str]:
    """The coverage of the paired difference, mean and least of some true tables."""
    yield "| pairs | textbook: mean | least | `newcombe_paired`: mean | least |"
    yield "|--:|--:|--:|--:|--:|"
    for total in totals:
        tables = [
            (both, first, second, total - both - first - second)
            for both, first, second in product(range(total + 1), repeat=3)
            if both + first + second <= total
        ]
        cells = []
        for interval in (textbook_paired, newcombe_paired):
            ends = [(table, interval(*table)) for table in tables]
            found = [_coverage_of_pairs(ends, true) for true in PAIRED]
            cells += [fsum(found) / len(found), min(found)]
        yield f"| {total} | " + " | ".join(map(_percent, cells)) + " |"


def _coverage_of_pairs(
    ends: Sequence[tuple[tuple[int, int, int, int], Interval]], true: tuple[float, float, float]
) -> float:
    both, first, second = true
    rest = 1 - both - first - second

    def probability(table: tuple[int, int, int, int]) -> float:
        ways, left = 1, sum(table)
        for count in table:
            ways *= comb(left, count)
            left -= count
        return ways * both ** table[0] * first ** table[1] * second ** table[2] * rest ** table[3]

    return fsum(probability(table) for table, interval in ends if contains(interval, first - second))


SAMPLES = 2000


def repeats(samples: int = SAMPLES) -> Iterator[str]:
    """The coverage of the pass rate of cases that are asked four times, by what counts as independent."""
    yield "| cases × repeats | `wilson` over trials | `wilson` over cases | `clustered_interval` |"
    yield "|--:|--:|--:|--:|"
    for cases in (10, 20, 40, 100):
        random, hits = Random(cases), [0, 0, 0]
        for _ in range(samples):
            # A third of the cases is easy, a third hard and a third undecided: the true rate is one half.
            rates = [random.choice((0.95, 0.5, 0.05)) for _ in range(cases)]
            values = [float(random.random() < rate) for rate in rates for _ in range(4)]
            groups = [case for case in range(cases) for _ in range(4)]
            passed = sum(values)
            found = (wilson(passed, 4 * cases), wilson(passed / 4, cases), clustered_interval(values, groups))
            hits = [count + contains(one, 0.5) for count, one in zip(hits, found, strict=True)]
        yield f"| {cases} × 4 | " + " | ".join(_percent(count / samples) for count in hits) + " |"


def means(samples: int = SAMPLES) -> Iterator[str]:
    """The coverage of the mean of lopsided scores: most are near 1, some far below; the true mean is 0.8."""
    yield "| scores | `mean_interval` | `bootstrap` | `bca` |"
    yield "|--:|--:|--:|--:|"
    for count in (10, 20, 40):
        random, hits = Random(count), [0, 0, 0]
        for _ in range(samples):
            values = [random.betavariate(1.2, 0.3) for _ in range(count)]
            found = (mean_interval(values), bootstrap(values, 1000), bca(values, 1000))
            hits = [each + contains(one, 0.8) for each, one in zip(hits, found, strict=True)]
        yield f"| {count} | " + " | ".join(_percent(each / samples) for each in hits) + " |"


def chart(total: int = 20) -> Chart:
    """The coverage of two intervals over all true shares."""
    names = {"textbook interval": textbook, "Wilson's interval": wilson}
    points = [
        Point(share, coverage_of_share(interval, total, share), series=name)
        for name, interval in names.items()
        for share in GRID
    ]
    points += [Point(share, 0.95, series="what both promise: 95 %") for share in (GRID[0], GRID[-1])]
    title = f"How often the interval of {total} cases contains the true pass rate"
    return lines(points, title=title, x="true pass rate", y="contains it", scale="share")


def main() -> None:
    """Print every table, and draw the chart where a file is named."""
    tables = {"Shares": shares(), "Pairs": pairs(), "Repeats": repeats(), "Means": means()}
    for title, table in tables.items():
        print(f"{title}\n")
        for line in table:
            print(line, flush=True)
        print()
    for path in sys.argv[1:]:
        chart().save(Path(path))


if __name__ == "__main__":
    main()

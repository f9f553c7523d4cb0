"""How often the intervals of `proctor.stats` contain the truth: docs/explanation/statistics-figures.md.

Usage: python tools/coverage_figures.py [CHART.svg]; it takes about a minute.

Shares and pairs are exact: summed over every outcome. Related trials and means are simulated with a fixed
seed, 2,000 samples a row, so that a figure is right to a point.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import product
from math import comb, fsum, sqrt
from pathlib import Path
from random import Random
from typing import NamedTuple

from proctor.charts import Chart, Point, lines
from proctor.stats import (
    Z_95,
    bca,
    bootstrap,
    clopper_pearson,
    clustered_wilson,
    mean_interval,
    newcombe_paired,
    t_95,
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
        for passed, ends in enumerate(_of_each(interval, total))
        if contains(ends, share)
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
            coverages = [coverage_of_share(interval, total, share) for share in GRID]
            cells += [fsum(coverages) / len(coverages), min(coverages)]
        yield f"| {total} | " + " | ".join(map(_percent, cells)) + " |"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def textbook_paired(both: int, first: int, second: int, neither: int) -> Interval:
    """The normal interval of the difference of two shares over the same pairs."""
    pairs = both + first + second + neither
    difference = (first - second) / pairs
    spread = Z_95 * sqrt(max(0.0, (first + second) / pairs - difference**2) / pairs)
    return difference - spread, difference + spread


PAIR_SHARES = (
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
            coverages = [_coverage_of_pairs(ends, true) for true in PAIR_SHARES]
            cells += [fsum(coverages) / len(coverages), min(coverages)]
        yield f"| {total} | " + " | ".join(map(_percent, cells)) + " |"


def _coverage_of_pairs(
    ends: Sequence[tuple[tuple[int, int, int, int], Interval]], true: tuple[float, float, float]
) -> float:
    both, first, second = true
    neither_share = 1 - both - first - second

    def probability(table: tuple[int, int, int, int]) -> float:
        ways, remaining = 1, sum(table)
        for count in table:
            ways *= comb(remaining, count)
            remaining -= count
        return ways * both ** table[0] * first ** table[1] * second ** table[2] * neither_share ** table[3]

    return fsum(probability(table) for table, interval in ends if contains(interval, first - second))


SAMPLES = 2000


class Setting(NamedTuple):
    """Cases whose trials are related: those of a group pass at a common rate."""

    name: str
    sizes: tuple[int, ...]
    """The number of trials of each group; a group is the repeats of a case, or the cases of a cluster."""
    correlation: float = 0.3
    """Within groups; 0 for independent trials."""
    rate: float = 0.8
    by_case: bool = True
    """Whether a group is a case, which counts once."""


RELATED_SETTINGS = (
    Setting("20 cases, one 50 times", (50, *[1] * 19)),
    Setting("20 cases, half 10 times", (*[10] * 10, *[1] * 10)),
    Setting("10 cases × 5", (5,) * 10),
    Setting("20 cases × 5", (5,) * 20),
    Setting("50 cases × 5", (5,) * 50),
    Setting("50 cases × 5, unrelated", (5,) * 50, 0.0),
    Setting("50 cases × 5, much alike", (5,) * 50, 0.8),
    Setting("100 cases × 5, 95 % pass", (5,) * 100, 0.3, 0.95),
    Setting("20 clusters of 5 cases", (5,) * 20, by_case=False),
    Setting("40 clusters of 5 cases", (5,) * 40, by_case=False),
    Setting("40 clusters of 1 to 9", tuple(1 + number % 9 for number in range(40)), by_case=False),
    Setting("40 clusters of 5, unrelated", (5,) * 40, 0.0, by_case=False),
)


def related(samples: int = SAMPLES) -> Iterator[str]:
    """The coverage and the width of intervals of the pass rate where trials are related.

    The first counts trials and takes them over cases, as Proctor 0.1 did; the second takes cases as if each
    had one trial, and were independent.
    """
    names = ("of 80 % that pass", "by trial: covers", "width", "`wilson` over cases", "width")
    yield f"| {' | '.join((*names, '`clustered_wilson`', 'width'))} |"
    yield "|---|--:|--:|--:|--:|--:|--:|"
    for setting in RELATED_SETTINGS:
        random, hits, widths = Random(setting.name), [0, 0, 0], [0.0, 0.0, 0.0]
        for _ in range(samples):
            for place, interval in enumerate(_draw_intervals(setting, random)):
                assert interval is not None
                hits[place] += contains(interval, setting.rate)
                widths[place] += interval[1] - interval[0]
        pairs = zip(hits, widths, strict=True)
        cells = [text for pair in pairs for text in (_percent(pair[0] / samples), _points(pair[1] / samples))]
        yield f"| {setting.name} | " + " | ".join(cells) + " |"


def _draw_intervals(setting: Setting, random: Random) -> tuple[Interval, Interval, Interval]:
    correlation, rate = setting.correlation, setting.rate
    passed = []
    for size in setting.sizes:
        own = rate
        if correlation:
            scale = (1 - correlation) / correlation
            own = random.betavariate(rate * scale, (1 - rate) * scale)
        passed.append(sum(random.random() < own for _ in range(size)))
    trials, groups = sum(setting.sizes), len(setting.sizes)
    cases = groups if setting.by_case else trials
    by_trial = wilson(sum(passed) / trials * cases, cases)
    if not setting.by_case:
        sums = [(float(count), size, 1) for count, size in zip(passed, setting.sizes, strict=True)]
        return by_trial, by_trial, clustered_wilson(sums, float(trials))
    shares = [count / size for count, size in zip(passed, setting.sizes, strict=True)]
    by_case = clustered_wilson([(share, 1, 1) for share in shares], fsum(1 / size for size in setting.sizes))
    return by_trial, wilson(min(fsum(shares), groups), groups), by_case


def _points(share: float) -> str:
    return f"{100 * share:.1f}"


FEW = ((2, 0.3), (2, 0.9), (3, 0.3), (3, 0.9), (5, 0.3), (5, 0.9), (10, 0.3), (10, 0.9))
"""Numbers of clusters, with the correlation within them."""
FEW_RATES = (0.5, 0.8, 0.95)


def few_clusters(samples: int = SAMPLES) -> Iterator[str]:
    """The coverage of the pass rate of few clusters of 5, on average over true rates.

    `former_wilson` lets clusters that agree by chance count as independent cases. The last two columns are
    of the samples alone in which all clusters have the same rate, and neither 0 nor 1.
    """
    former, latter = "former: covers", "now"
    head = ("clusters of 5", "correlation", former, latter, "where clusters agree, former", latter)
    yield f"| {' | '.join(head)} |"
    yield "|--:|--:|--:|--:|--:|--:|"
    for count, correlation in FEW:
        hits, agreeing, alike = [0, 0], [0, 0], 0
        for rate in FEW_RATES:
            setting = Setting("", (5,) * count, correlation, rate, by_case=False)
            random = Random(f"{count}/{correlation}/{rate}")
            for _ in range(samples):
                groups = _draw_clusters(setting, random)
                agree = len({part for part, *_ in groups}) == 1 and 0 < groups[0][0] < 5
                alike += agree
                for place, interval in enumerate(
                    (former_wilson(groups), clustered_wilson(groups, 5 * count))
                ):
                    hits[place] += contains(interval, rate)
                    agreeing[place] += agree and contains(interval, rate)
        cells = [_percent(total / (samples * len(FEW_RATES))) for total in hits]
        cells += [_percent(total / alike) if alike >= 20 else "–" for total in agreeing]
        yield f"| {count} | {correlation} | {' | '.join(cells)} |"


def _draw_clusters(setting: Setting, random: Random) -> list[tuple[float, int, int]]:
    scale = (1 - setting.correlation) / setting.correlation
    chances = [random.betavariate(setting.rate * scale, (1 - setting.rate) * scale) for _ in setting.sizes]
    return [
        (float(sum(random.random() < chance for _ in range(size))), size, 1)
        for chance, size in zip(chances, setting.sizes, strict=True)
    ]


def former_wilson(groups: Sequence[tuple[float, int, int]]) -> Interval:
    """`clustered_wilson` of single trials as it was: with no limit for few clusters that agree by chance."""
    cases, count = sum(size for _, size, _ in groups), len(groups)
    rate = fsum(part for part, *_ in groups) / cases
    number = cases**2 / sum(size**2 for _, size, _ in groups)
    if 0 < rate < 1:
        squares = fsum((part - size * rate) ** 2 for part, size, _ in groups)
        variance = max(1e-12, count / (count - 1) * squares / cases**2)
        factor = t_95(cases - 1) / t_95(count - 1)
        number = min(cases, max(number, rate * (1 - rate) / variance * factor**2))
    return wilson(min(rate * number, number), number)


def means(samples: int = SAMPLES) -> Iterator[str]:
    """The coverage of the mean of lopsided scores: most are near 1, some far below; the true mean is 0.8."""
    yield "| scores | `mean_interval` | `bootstrap` | `bca` |"
    yield "|--:|--:|--:|--:|"
    for count in (10, 20, 40):
        random, hits = Random(count), [0, 0, 0]
        for _ in range(samples):
            values = [random.betavariate(1.2, 0.3) for _ in range(count)]
            intervals = (mean_interval(values), bootstrap(values, 1000), bca(values, 1000))
            hits = [total + contains(interval, 0.8) for total, interval in zip(hits, intervals, strict=True)]
        yield f"| {count} | " + " | ".join(_percent(total / samples) for total in hits) + " |"


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
    tables = {
        "Shares": shares(),
        "Pairs": pairs(),
        "Related trials": related(),
        "Few clusters": few_clusters(),
        "Means": means(),
    }
    for title, table in tables.items():
        print(f"{title}\n")
        for line in table:
            print(line, flush=True)
        print()
    for path in sys.argv[1:]:
        chart().save(Path(path))


if __name__ == "__main__":
    main()

"""How often `proctor compare` is right, as the Markdown tables of docs/explanation/comparison-statistics.md.

Usage: python tools/comparison_figures.py; it takes about two minutes.

Candidates, errors, the best of several and clusters are simulated with a fixed seed, 2,000 comparisons a row,
so that a figure is right to a point. The tests and intervals are in paired_figures.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, repeat
from math import fsum, sqrt
from random import Random
from statistics import NormalDist

from proctor.comparison.differences import PassRateDifference, adjust_together, pass_rate_difference
from proctor.comparison.outcome_table import TrialOutcome
from proctor.comparison.pairing import PairedCase
from proctor.model import Verdict
from proctor.stats import agresti_min_interval, clustered_difference_interval, expected_maximum

SAMPLES = 2000
_VERDICTS = {"+": Verdict.PASS, "-": Verdict.FAIL, "!": Verdict.ERROR}

# --- several candidates, errors, and the best of several ----------------------------------------------------


def difference(before: str, after: str, names: Sequence[str] | None = None) -> PassRateDifference:
    """The difference of two runs of a case for each sign, whose clusters may be named."""
    outcomes = [
        [TrialOutcome(repeat=0, verdict=_VERDICTS[sign]) for sign in signs] for signs in (before, after)
    ]
    cases = [
        PairedCase(id="", category=None, tags=(), split=None, pairs=(pair,), cluster=cluster)
        for pair, cluster in zip(zip(*outcomes, strict=True), names or repeat(None, len(before)), strict=True)
    ]
    return pass_rate_difference(cases, by_case=False)


def answers(random: Random, hard: Sequence[float], gain: float = 0.0) -> str:
    """The verdicts of a run: each case passes with its own probability, which a better target raises."""
    return "".join("-+"[random.random() < min(1.0, rate + gain)] for rate in hard)


def draw_cases(random: Random, count: int) -> list[float]:
    """The probability with which each case passes: a third of them is hard, a third even, a third easy."""
    return [random.choice((0.2, 0.6, 0.95)) for _ in range(count)]


def candidates(cases: int = 60, samples: int = SAMPLES) -> Iterator[str]:
    """How often any of k candidates is called better than the baseline, by what is adjusted together."""
    yield "| candidates | truth | not adjusted | over all pairs of runs | over the candidates |"
    yield "|--:|---|--:|--:|--:|"
    for count in (2, 4, 8):
        for name, gain in (("all alike", 0.0), ("one 20 points better, found", 0.2)):
            random, hits = Random(count), [0, 0, 0]
            for _ in range(samples):
                hard = draw_cases(random, cases)
                runs = [answers(random, hard) for _ in range(count)]
                runs.append(answers(random, hard, gain))
                against_first = [difference(runs[0], run) for run in runs[1:]]
                every_pair = against_first + [difference(*pair) for pair in combinations(runs[1:], 2)]
                families = (
                    against_first,
                    adjust_together(every_pair)[:count],
                    adjust_together(against_first),
                )
                for place, family in enumerate(families):
                    comparisons = family[-1:] if gain else family
                    hits[place] += any(comparison.direction == "better" for comparison in comparisons)
            yield f"| {count} | {name} | " + " | ".join(_percent(total / samples) for total in hits) + " |"


def errors(cases: int = 60, samples: int = SAMPLES) -> Iterator[str]:
    """What a gate says when a candidate has errors, with as many of them allowed as there are."""
    yield "| candidate | errors | before: held | did not hold | now: held | did not hold | not decided |"
    yield "|---|---|--:|--:|--:|--:|--:|"
    for name, gain in (("as good", 0.0), ("30 points worse", -0.3)):
        for where, share, passes_only in (
            ("none", 0.0, False),
            ("2 % of all", 0.02, False),
            ("a third of all", 1 / 3, False),
            ("on what it would fail", 1.0, True),
        ):
            random, hits = Random(cases), [0, 0, 0, 0, 0]
            for _ in range(samples):
                hard = draw_cases(random, cases)
                before, after = answers(random, hard), answers(random, hard, gain)
                after = "".join(
                    "!" if random.random() < share and not (passes_only and sign == "+") else sign
                    for sign in after
                )
                comparison = difference(before, after)
                passes = [
                    scenario.ci95 is not None and scenario.ci95[1] >= 0 for scenario in comparison.scenarios
                ]
                hits[0] += passes[0]
                hits[1] += not passes[0]
                hits[2] += all(passes)
                hits[3] += not any(passes)
                hits[4] += any(passes) and not all(passes)
            cells = " | ".join(_percent(total / samples) for total in hits)
            yield f"| {name} | {where} | {cells} |"


def leads(cases: int = 60, samples: int = SAMPLES) -> Iterator[str]:
    """By how much the best of equal runs exceeds their mean, beside what `compare` prints."""
    yield "| equal runs | best less mean | printed on average | as if no case were harder than another |"
    yield "|--:|--:|--:|--:|"
    for count in (3, 5, 10):
        random, lead, expected, apart = Random(count), 0.0, 0.0, 0.0
        for _ in range(samples // 4):
            hard = draw_cases(random, cases)
            runs = [answers(random, hard) for _ in range(count)]
            rates = [run.count("+") / cases for run in runs]
            pairs = [difference(*pair).error or 0.0 for pair in combinations(runs, 2)]
            mean = fsum(rates) / count
            lead += max(rates) - mean
            expected += expected_maximum(count) * sqrt(
                fsum(error * error for error in pairs) / len(pairs) / 2
            )
            apart += expected_maximum(count) * sqrt(mean * (1 - mean) / cases)
        cells = " | ".join(f"{100 * total / (samples // 4):.1f}" for total in (lead, expected, apart))
        yield f"| {count} | {cells} |"


CLUSTERS = {
    "8 of 5 cases": [5] * 8,
    "20 of 5 cases": [5] * 20,
    "40 of 5 cases": [5] * 40,
    "4 of 10 cases, 20 of one": [10] * 4 + [1] * 20,
    "40 of one case": [1] * 40,
}


def clusters(samples: int = SAMPLES) -> Iterator[str]:
    """How the interval and the verdict of related cases hold, over cases and over clusters.

    A case passes if a normal number is below a bar; 0.3 of its variance is that of the cluster in this run,
    and 0.3 that of the case in both runs.
    """
    head = "over cases: covers | better or worse | over clusters: covers | better or worse"
    yield f"| clusters | true difference | {head} |"
    yield "|---|--:|--:|--:|--:|--:|"
    for name, sizes in CLUSTERS.items():
        for gain in (0.0, 0.1):
            random, hits = Random(len(sizes)), [0, 0, 0, 0]
            bars = [NormalDist().inv_cdf(rate) for rate in (0.7, 0.7 + gain)]
            for _ in range(samples):
                signs, names = _related_answers(random, sizes, bars)
                for place, by in enumerate((None, names)):
                    comparison = difference(*signs, by)
                    low, high = comparison.ci95 or (-1.0, 1.0)
                    hits[2 * place] += low <= gain <= high
                    hits[2 * place + 1] += comparison.direction in ("better", "worse")
            cells = " | ".join(_percent(total / samples) for total in hits)
            yield f"| {name} | {100 * gain:.0f} points | {cells} |"


def related_scores(samples: int = SAMPLES // 2) -> Iterator[str]:
    """How often the interval of a difference of scores holds, over cases and over clusters.

    Scores are within 0..1, of normal numbers; 0.3 of their variance is that of the cluster in one run.
    """
    yield "| scores of | over cases: covers | width | over clusters: covers | width |"
    yield "|---|--:|--:|--:|--:|"
    for name, sizes in CLUSTERS.items():
        random, hits, widths = Random(len(sizes)), [0, 0], [0.0, 0.0]
        for _ in range(samples):
            groups = [_score_differences(random, size) for size in sizes]
            intervals = (
                agresti_min_interval([change for group in groups for change in group]),
                clustered_difference_interval([(fsum(group), len(group)) for group in groups]),
            )
            for place, (low, high) in enumerate(interval or (-1.0, 1.0) for interval in intervals):
                hits[place] += low <= 0 <= high
                widths[place] += high - low
        cells = [
            f"{_percent(total / samples)} | {100 * width / samples:.0f}"
            for total, width in zip(hits, widths, strict=True)
        ]
        yield f"| {name} | " + " | ".join(cells) + " |"


def _score_differences(random: Random, size: int) -> list[float]:
    """Returns the differences of the scores of a cluster's cases in two equal runs."""
    shared = [random.gauss(0.5, sqrt(0.3)) for _ in range(2)]
    first, second = ([_score(common + random.gauss(0, sqrt(0.7))) for _ in range(size)] for common in shared)
    return [first_score - second_score for first_score, second_score in zip(first, second, strict=True)]


def _score(value: float) -> float:
    return NormalDist().cdf(value)


def _related_answers(
    random: Random, sizes: Sequence[int], bars: Sequence[float]
) -> tuple[tuple[str, str], list[str]]:
    """Returns the verdicts of two runs, and the cluster of each case."""
    first, second, names = "", "", list[str]()
    for number, size in enumerate(sizes):
        shared = [random.gauss(0, sqrt(0.3)) for _ in bars]
        for _ in range(size):
            case = random.gauss(0, sqrt(0.3))
            values = [common + case + random.gauss(0, sqrt(0.4)) for common in shared]
            first += "-+"[values[0] < bars[0]]
            second += "-+"[values[1] < bars[1]]
            names.append(str(number))
    return (first, second), names


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def main() -> None:
    """Print every table."""
    tables = {
        "Candidates": candidates(),
        "Errors": errors(),
        "Best of several": leads(),
        "Clusters": clusters(),
        "Scores of related cases": related_scores(),
    }
    for title, table in tables.items():
        print(f"{title}\n")
        for line in table:
            print(line, flush=True)
        print()


if __name__ == "__main__":
    main()

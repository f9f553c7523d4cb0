"""How often the numbers on judges and on pass@k hold, as Markdown tables for the documentation.

Usage: python tools/judge_figures.py [TABLE…]; all of them take about five minutes. Fixed seeds.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import product
from math import exp, fsum, inf, lgamma, log, sqrt
from random import Random
from typing import NamedTuple

from msgspec.structs import replace

from proctor.calibration import (
    AnswerVerdicts,
    DrawnLabel,
    changed_p_value,
    corrected_pass_rate,
    find_biases,
    measure_shift,
    net_p_value,
    people_pass_rate,
)
from proctor.model import Calibration, LabelDraw, VerdictShift
from proctor.services.judges.review import ReviewableAnswer, ReviewAnswers
from proctor.stats import (
    Z_95,
    bootstrap,
    bounded_interval,
    effective_cases,
    kappa,
    pass_at_k,
    pass_hat_k,
    wilson,
)

Interval = tuple[float, float]


def contains(interval: Interval | None, truth: float) -> bool:
    """Whether the truth is within the interval; one that is not there contains nothing."""
    return interval is not None and interval[0] - 1e-12 <= truth <= interval[1] + 1e-12


def percent(share: float) -> str:
    """A share as a cell."""
    return f"{100 * share:.1f} %"


class Coverage:
    """How often an interval held, in some settings, and how wide it was."""

    def __init__(self) -> None:
        """Starts empty."""
        self.hits: list[list[bool]] = []
        self.widths: list[float] = []

    def add(self, interval: Interval | None, truth: float) -> None:
        """Adds one interval of the current setting."""
        self.hits[-1].append(contains(interval, truth))
        if interval is not None:
            self.widths.append(interval[1] - interval[0])

    @property
    def cells(self) -> list[str]:
        """The mean over the settings, and the least of them."""
        shares = [sum(hits) / len(hits) for hits in self.hits if hits]
        return [percent(fsum(shares) / len(shares)), percent(min(shares))]

    @property
    def width(self) -> str:
        """The mean width, in percentage points."""
        return f"{100 * fsum(self.widths) / len(self.widths):.1f}"


# --- pass@k ------------------------------------------------------------------------------------------------

TASK_RATES: dict[str, Callable[[Random], float]] = {
    "half easy, half hard": lambda random: random.betavariate(0.5, 0.5),
    "all alike": lambda random: random.betavariate(8, 8),
    "mostly hard": lambda random: random.betavariate(0.3, 3),
    "mostly easy": lambda random: random.betavariate(3, 0.3),
    "three in ten can be solved": lambda random: (
        random.betavariate(5, 5) if random.random() < 0.3 else random.betavariate(1, 30)
    ),
}
"""How often an answer to a task passes, over tasks."""


def bootstrap_before(values: Sequence[float]) -> Interval | None:
    """The interval of pass@k until 0.2: percentiles, and Wilson's where all values are equal."""
    if min(values) == max(values):
        return wilson(values[0] * len(values), len(values))
    return bootstrap(values, draws=400)


def passk(samples: int = 300, population: int = 100_000) -> Iterator[str]:
    """The coverage of pass@k and pass^k over mixtures of so many tasks, 10 answers each.

    The bootstrap takes long, and is of pass@k alone; what there is now is tried ten times as often.
    """
    yield "| tasks | k | bootstrap: mean | least | now: mean | least |"
    yield "|--:|--:|--:|--:|--:|--:|"
    for tasks, k in product((5, 10, 20, 50), (1, 5, 10)):
        before, now = Coverage(), Coverage()
        for name, draw in TASK_RATES.items():
            random = Random(f"{tasks} {k} {name}")
            rates = [draw(random) for _ in range(population)]
            any_passes = fsum(1 - (1 - rate) ** k for rate in rates) / len(rates)
            all_pass = fsum(rate**k for rate in rates) / len(rates)
            before.hits.append([])
            pass_counts = [
                [sum(random.random() < rate for _ in range(10)) for rate in random.choices(rates, k=tasks)]
                for _ in range(10 * samples)
            ]
            for passed in pass_counts[:samples]:
                before.add(bootstrap_before([pass_at_k(10, count, k) for count in passed]), any_passes)
            for estimate, truth in ((pass_at_k, any_passes), (pass_hat_k, all_pass))[: 1 if k == 1 else 2]:
                now.hits.append([])
                for passed in pass_counts:
                    now.add(bounded_interval([estimate(10, count, k) for count in passed]), truth)
        yield f"| {tasks} | {k} | " + " | ".join(before.cells + now.cells) + " |"


# --- kappa -------------------------------------------------------------------------------------------------

MARGINS = ((0.5, 0.5), (0.7, 0.7), (0.9, 0.9), (0.8, 0.65), (0.5, 0.8), (0.95, 0.85))
"""How much each of two raters passes."""
KAPPAS = (0.0, 0.4, 0.6, 0.8, 0.9)


def kappa_before(pairs: Sequence[tuple[bool, bool]]) -> Interval | None:
    """The interval of kappa until 0.2: the large-sample error, and Wilson's where that is 0."""
    count = len(pairs)
    both, first, second = (
        sum(pair == kind for pair in pairs) / count for kind in ((True, True), (True, False), (False, True))
    )
    neither = 1 - both - first - second
    row, column = both + first, both + second
    chance = row * column + (1 - row) * (1 - column)
    if chance > 1 - 1e-12:
        return None
    value = (both + neither - chance) / (1 - chance)
    complement = 1 - value
    variance = (
        both * (1 - (row + column) * complement) ** 2
        + neither * (1 - (2 - row - column) * complement) ** 2
        + first * ((column + 1 - row) * complement) ** 2
        + second * ((row + 1 - column) * complement) ** 2
        - (value - chance * complement) ** 2
    )
    error = sqrt(max(0.0, variance) / count) / (1 - chance)
    if error > 1e-9:
        return value - Z_95 * error, value + Z_95 * error
    low, high = wilson((both + neither) * count, count) or (0.0, 1.0)
    return (low - chance) / (1 - chance), (high - chance) / (1 - chance)


def kappas(most_items: int = 100) -> Iterator[str]:
    """The coverage of Cohen's kappa of pass and fail, over true tables, summed over all samples."""
    yield "| items | large-sample: mean | least | now: mean | least | width |"
    yield "|--:|--:|--:|--:|--:|--:|"
    for items in (10, 20, 40, 100):
        if items > most_items:
            break
        samples = list(_kappa_samples(items))
        before, now, widths = list[float](), list[float](), list[float]()
        for (first, second), truth in product(MARGINS, KAPPAS):
            chance = first * second + (1 - first) * (1 - second)
            both = (chance + truth * (1 - chance) + first + second - 1) / 2
            shares = (both, first - both, second - both, 1 - first - second + both)
            if min(shares) < 0:
                continue
            logs = [log(share) if share > 0 else -inf for share in shares]
            total = hits_before = hits = width = 0.0
            for cells, ways, old, new in samples:
                terms = (count * log_share for count, log_share in zip(cells, logs, strict=True) if count)
                likelihood = exp(ways + fsum(terms))
                total += likelihood
                hits_before += likelihood * contains(old, truth)
                hits += likelihood * contains(new, truth)
                width += likelihood * (new[1] - new[0])
            before.append(hits_before / total)
            now.append(hits / total)
            widths.append(width / total)
        row = map(percent, (_mean(before), min(before), _mean(now), min(now)))
        yield f"| {items} | {' | '.join(row)} | {_mean(widths):.2f} |"


def _mean(values: Sequence[float]) -> float:
    return fsum(values) / len(values)


def _kappa_samples(items: int) -> Iterator[tuple[tuple[int, ...], float, Interval, Interval]]:
    """Every table for which kappa is defined: the log of its orders, and the intervals before and now."""
    intervals: dict[tuple[int, ...], tuple[Interval, Interval]] = {}
    for both, first, second in product(range(items + 1), repeat=3):
        neither = items - both - first - second
        if neither < 0 or items in (both, neither):
            continue
        cells = (both, first, second, neither)
        key = (max(both, neither), max(first, second), min(first, second), min(both, neither))
        if key not in intervals:  # neither the raters' order nor what passes and fails matters
            kinds = ((True, True), (True, False), (False, True), (False, False))
            pairs = [kind for kind, count in zip(kinds, key, strict=True) for _ in range(count)]
            agreement, old = kappa(pairs), kappa_before(pairs)
            assert agreement is not None
            assert old is not None
            intervals[key] = old, (agreement.low, agreement.high)
        ways = lgamma(items + 1) - fsum(lgamma(count + 1) for count in cells)
        yield cells, ways, *intervals[key]


# --- bias flags --------------------------------------------------------------------------------------------


def is_flagged_before(shift: VerdictShift | None) -> bool:
    """Whether a variant was called biased until 0.2: each test at 5 %."""
    return shift is not None and (
        net_p_value(shift) < 0.05 or (shift.moved > shift.restless and changed_p_value(shift) < 0.05)
    )


def flags(samples: int = 2000) -> Iterator[str]:
    """How often a judge gets a flag: an unbiased one that wavers, and one that passes long answers."""
    yield "| labels | steadiness | any flag before | now | finds length bias before | now |"
    yield "|--:|--:|--:|--:|--:|--:|"
    for labels, steadiness in product((20, 50, 200), (0.95, 0.85, 0.7)):
        counts = []
        for leniency in (0.0, 0.2):
            random, before, now = Random(f"{labels} {steadiness} {leniency}"), 0, 0
            for _ in range(samples):
                answers = [_hear(random, place % 2 == 0, steadiness, leniency) for place in range(labels)]
                shifts = {
                    "position": measure_shift(answers, lambda answer: answer.reversed_verdict),
                    "length": measure_shift(answers, lambda answer: answer.lengthened_verdict),
                    "length_failed": measure_shift(
                        [answer for answer in answers if not answer.label],
                        lambda answer: answer.lengthened_verdict,
                    ),
                }
                tests = find_biases(
                    Calibration(
                        judge="",
                        name="",
                        at=datetime(2026, 1, 1, tzinfo=UTC),
                        labels="",
                        count=0,
                        agreed=0,
                        **shifts,  # type: ignore[arg-type]
                    )
                )
                if leniency:
                    before += is_flagged_before(shifts["length"])
                    now += "length" in tests and tests["length"].bias is not None
                else:
                    before += any(map(is_flagged_before, shifts.values()))
                    now += any(test.bias is not None for test in tests.values())
            counts += [before / samples, now / samples]
        yield f"| {labels} | {percent(steadiness)} | " + " | ".join(map(percent, counts)) + " |"


def _hear(random: Random, passes: bool, steadiness: float, leniency: float) -> AnswerVerdicts:
    """One answer that is judged three times as in runs, then reversed, then lengthened."""
    *usual, backwards, longer = ((random.random() < steadiness) == passes for _ in range(5))
    return AnswerVerdicts(
        human_verdicts=(passes,),
        judge_verdicts=tuple(usual),
        reversed_verdict=backwards,
        lengthened_verdict=longer or random.random() < leniency,
    )


# --- labels and judgments ----------------------------------------------------------------------------------

JUDGES = ((0.9, 0.9), (0.95, 0.7), (0.7, 0.95), (0.98, 0.98), (0.6, 0.6))
"""The sensitivity and specificity of judges."""
PASS_RATES = (0.3, 0.7, 0.9)
SIZES = ((200, 10), (100, 20), (200, 20), (200, 40), (200, 100), (1000, 40), (60, 40))
"""The number of judgments, and of labels."""


def people(samples: int = 250) -> Iterator[str]:
    """The coverage and width of the pass rate that people would give, by how the labels are drawn."""
    yield "| judgments | labels | drawn | labels alone | width | not weighted | now: mean | least | width |"
    yield "|--:|--:|---|--:|--:|--:|--:|--:|--:|"
    draws: tuple[LabelDraw, ...] = ("random", "doubt")
    for (judgments, labels), draw in product(SIZES, draws):
        alone, unweighted, now = Coverage(), Coverage(), Coverage()
        for (right, wrong), truth in product(JUDGES, PASS_RATES):
            random = Random(f"{judgments} {labels} {draw} {right} {wrong} {truth}")
            for table in (alone, unweighted, now):
                table.hits.append([])
            for sample in range(samples if draw == "doubt" else 4 * samples):
                labelled, judge_rate = (
                    _draw_at_random(random, judgments, labels, truth, right, wrong)
                    if draw == "random"
                    else _Run(random, judgments, truth, right, wrong).draw(labels, str(sample))
                )
                even = [
                    DrawnLabel(
                        group=label.group,
                        passed=label.passed,
                        judge_passed=label.judge_passed,
                        drawn="random",
                    )
                    for label in labelled
                ]
                alone.add(wilson(sum(label.passed for label in labelled), labels), truth)
                now.add(_people_interval(labelled, judge_rate, judgments, judgments), truth)
                unweighted.add(
                    _people_interval(even, judge_rate, judgments, judgments) if draw == "doubt" else None,
                    truth,
                )
        without = unweighted.cells[0] if draw == "doubt" else "–"
        cells = [alone.cells[0], alone.width, without, *now.cells, now.width]
        yield f"| {judgments} | {labels} | {draw} | " + " | ".join(cells) + " |"


def _people_interval(
    labels: Sequence[DrawnLabel], judge_rate: float, judgments: int, cases: float
) -> Interval | None:
    rate = people_pass_rate(labels, judge_rate=judge_rate, judgments=judgments, cases=cases)
    return None if rate is None else rate.ci95


def _draw_at_random(
    random: Random, judgments: int, labels: int, rate: float, right: float, wrong: float
) -> tuple[list[DrawnLabel], float]:
    """The labels of the first of some answers, and the share of all that the judge passes."""
    passed = [random.random() < rate for _ in range(labels)]
    judged = [random.random() < (right if passes else 1 - wrong) for passes in passed]
    chance = rate * right + (1 - rate) * (1 - wrong)
    others = sum(random.random() < chance for _ in range(judgments - labels))
    labelled = [
        DrawnLabel(group=str(place), passed=passes, judge_passed=says, drawn="random")
        for place, (passes, says) in enumerate(zip(passed, judged, strict=True))
    ]
    return labelled, (sum(judged) + others) / judgments


class _Run:
    """One run: what people would say of each answer, and what its judge said."""

    def __init__(self, random: Random, answers: int, rate: float, right: float, wrong: float) -> None:
        self.passed = [random.random() < rate for _ in range(answers)]
        self.judged = [random.random() < (right if passed else 1 - wrong) for passed in self.passed]
        pairs = zip(self.passed, self.judged, strict=True)
        doubts = [random.random() < (0.15 if passed == judged else 0.6) for passed, judged in pairs]
        self.answers = ReviewAnswers(
            ReviewableAnswer(
                position=place,
                repeat=0,
                case_id=str(place),
                tags=(),
                held_out=False,
                said=judged,
                judged=True,
                doubt=float(doubt),
            )
            for place, (judged, doubt) in enumerate(zip(self.judged, doubts, strict=True))
        )

    def draw(self, labels: int, run_id: str) -> tuple[list[DrawnLabel], float]:
        """The labels of the answers that the page Review shows first, and how many its judge passes."""
        labelled = [
            DrawnLabel(
                group=answer.case_id,
                passed=self.passed[answer.position],
                judge_passed=self.judged[answer.position],
                drawn="doubt",
                doubt=self.answers.relative_chance(answer),
            )
            for answer in self.answers.order(run_id, "ana", "doubt")[:labels]
        ]
        return labelled, sum(self.judged) / len(self.judged)


class Layout(NamedTuple):
    """How the answers of a run are related."""

    text: str
    groups: int
    cases: int
    """In each group."""
    repeats: tuple[int, ...]
    """Of the cases, in turns."""
    likeness: float
    """The correlation of two cases of a group, or of two repeats of a case that is a group of its own."""
    labels: int


LAYOUTS = (
    Layout("50 cases × 5", 50, 1, (5,), 0.3, 20),
    Layout("50 cases × 5", 50, 1, (5,), 0.3, 40),
    Layout("50 cases × 5, much alike", 50, 1, (5,), 0.8, 40),
    Layout("20 cases × 5", 20, 1, (5,), 0.3, 40),
    Layout("20 cases × 5, all labelled", 20, 1, (5,), 0.3, 100),
    Layout("200 cases × 3", 200, 1, (3,), 0.3, 40),
    Layout("100 cases, half 10 times", 100, 1, (1, 10), 0.3, 40),
    Layout("40 clusters of 5 cases", 40, 5, (1,), 0.3, 40),
    Layout("20 clusters of 5 cases", 20, 5, (1,), 0.3, 40),
    Layout("20 clusters of 5, much alike", 20, 5, (1,), 0.8, 40),
    Layout("10 clusters of 10 cases", 10, 10, (1,), 0.3, 40),
    Layout("5 clusters of 20 cases", 5, 20, (1,), 0.3, 40),
)
RELATED_RATES = (0.35, 0.5, 0.7, 0.8, 0.9)


def related_answers(samples: int = 200) -> Iterator[str]:
    """The coverage of the pass rate that people would give, where answers are related."""
    yield "| related answers | labels | a judgment a group | width | now: mean | least | width |"
    yield "|---|--:|--:|--:|--:|--:|--:|"
    for layout in LAYOUTS:
        before, now = Coverage(), Coverage()
        for (right, wrong), truth in product(JUDGES, RELATED_RATES):
            random = Random(f"{layout} {right} {wrong} {truth}")
            for table in (before, now):
                table.hits.append([])
            for _ in range(samples):
                labelled, sums, judgments = _draw_related(random, layout, truth, right, wrong)
                cases = layout.groups * layout.cases
                repeats = (layout.repeats[place % len(layout.repeats)] for place in range(cases))
                effective = effective_cases(
                    [(total, layout.cases, 1) for total in sums], fsum(1 / number for number in repeats)
                )
                assert effective is not None
                rate = fsum(sums) / cases
                before.add(_people_interval(labelled, rate, judgments, layout.groups), truth)
                within = [
                    replace(
                        label,
                        group_rate=sums[int(label.group)] / layout.cases,
                        group_share=1 / layout.groups,
                    )
                    for label in labelled
                ]
                now.add(_people_interval(within, rate, judgments, effective[1]), truth)
        cells = [before.cells[0], before.width, *now.cells, now.width]
        yield f"| {layout.text} | {layout.labels} | " + " | ".join(cells) + " |"


def _draw_related(
    random: Random, layout: Layout, rate: float, right: float, wrong: float
) -> tuple[list[DrawnLabel], list[float], int]:
    """The labels of some answers, the judge's sum of case rates in each group, and the number of answers."""
    answers, sums = list[DrawnLabel](), list[float]()
    scale = (1 - layout.likeness) / layout.likeness
    for group in range(layout.groups):
        passes, total = random.betavariate(rate * scale, (1 - rate) * scale), 0.0
        for case in range(layout.cases):
            repeats = layout.repeats[(group * layout.cases + case) % len(layout.repeats)]
            for _ in range(repeats):
                passed = random.random() < passes
                judged = random.random() < (right if passed else 1 - wrong)
                total += judged / repeats
                answers.append(
                    DrawnLabel(
                        group=str(group), passed=passed, judge_passed=judged, drawn="random", repeats=repeats
                    )
                )
        sums.append(min(total, layout.cases))
    return random.sample(answers, layout.labels), sums, len(answers)


# --- pass rates that are corrected by calibrations ---------------------------------------------------------

CORRECTED_RATES = tuple(place / 20 for place in range(2, 20))
GOOD_JUDGES = ((0.9, 0.8), *JUDGES[:-1])


def corrected(samples: int = 400) -> Iterator[str]:
    """The coverage of the corrected pass rate, by the number of labels of each kind."""
    yield "| labels of each kind | answers | mean | least | width |"
    yield "|--:|--:|--:|--:|--:|"
    for labels, answers in product((10, 20, 50, 100), (50, 200, 1000)):
        now = Coverage()
        for (right, wrong), truth in product(GOOD_JUDGES, CORRECTED_RATES):
            random = Random(f"{labels} {answers} {right} {wrong} {truth}")
            chance = truth * right + (1 - truth) * (1 - wrong)
            now.hits.append([])
            for _ in range(samples):
                true_passes, true_fails = _binomial(random, labels, right), _binomial(random, labels, wrong)
                calibration = Calibration(
                    judge="",
                    name="",
                    at=datetime(2026, 1, 1, tzinfo=UTC),
                    labels="",
                    count=2 * labels,
                    agreed=true_passes + true_fails,
                    passed=labels,
                    true_passes=true_passes,
                )
                rate = corrected_pass_rate(_binomial(random, answers, chance), answers, calibration)
                if rate is not None:
                    now.add(rate[1:], truth)
        yield f"| {labels} | {answers} | " + " | ".join([*now.cells, now.width]) + " |"


def _binomial(random: Random, count: int, chance: float) -> int:
    return sum(random.random() < chance for _ in range(count))


TABLES: dict[str, Callable[[], Iterator[str]]] = {
    "passk": passk,
    "kappa": kappas,
    "flags": flags,
    "people": people,
    "related": related_answers,
    "corrected": corrected,
}


def main() -> None:
    """Print the tables that are named, or all."""
    for name in sys.argv[1:] or TABLES:
        print(f"{name}\n")
        for line in TABLES[name]():
            print(line, flush=True)
        print()


if __name__ == "__main__":
    main()

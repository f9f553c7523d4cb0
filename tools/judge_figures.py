"""How often the numbers on judges and on pass@k hold, as Markdown tables for the documentation.

Usage: python tools/judge_figures.py [TABLE…]; all of them take about two minutes. Fixed seeds.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import product
from math import fsum, sqrt
from random import Random

from proctor.calibration import (
    AnswerVerdicts,
    DrawnLabel,
    changed_p_value,
    find_biases,
    measure_shift,
    net_p_value,
    people_pass_rate,
)
from proctor.model import Calibration, LabelDraw, VerdictShift
from proctor.services.judges.review import ReviewableAnswer, ReviewAnswers
from proctor.stats import Z_95, bootstrap, bounded_interval, kappa, pass_at_k, pass_hat_k, wilson

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


def passk(samples: int = 300) -> Iterator[str]:
    """The coverage of pass@k and pass^k over mixtures of tasks, 10 answers each.

    The bootstrap takes long, and is of pass@k alone; what there is now is tried ten times as often.
    """
    yield "| tasks | k | bootstrap: mean | least | now: mean | least |"
    yield "|--:|--:|--:|--:|--:|--:|"
    for tasks, k in product((5, 10, 20, 50), (1, 5, 10)):
        before, now = Coverage(), Coverage()
        for name, draw in TASK_RATES.items():
            random = Random(f"{tasks} {k} {name}")
            rates = [draw(random) for _ in range(100_000)]
            any_passes = fsum(1 - (1 - rate) ** k for rate in rates) / len(rates)
            all_pass = fsum(rate**k for rate in rates) / len(rates)
            before.hits.append([])
            drawn = [
                [sum(random.random() < rate for _ in range(10)) for rate in random.choices(rates, k=tasks)]
                for _ in range(10 * samples)
            ]
            for passed in drawn[:samples]:
                before.add(bootstrap_before([pass_at_k(10, count, k) for count in passed]), any_passes)
            for estimate, truth in ((pass_at_k, any_passes), (pass_hat_k, all_pass))[: 1 if k == 1 else 2]:
                now.hits.append([])
                for passed in drawn:
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
    rest = 1 - value
    variance = (
        both * (1 - (row + column) * rest) ** 2
        + neither * (1 - (2 - row - column) * rest) ** 2
        + first * ((column + 1 - row) * rest) ** 2
        + second * ((row + 1 - column) * rest) ** 2
        - (value - chance * rest) ** 2
    )
    error = sqrt(max(0.0, variance) / count) / (1 - chance)
    if error > 1e-9:
        return value - Z_95 * error, value + Z_95 * error
    low, high = wilson((both + neither) * count, count) or (0.0, 1.0)
    return (low - chance) / (1 - chance), (high - chance) / (1 - chance)


def kappas(samples: int = 400) -> Iterator[str]:
    """The coverage of Cohen's kappa of pass and fail, over true tables."""
    yield "| items | large-sample: mean | least | now: mean | least |"
    yield "|--:|--:|--:|--:|--:|"
    for items in (10, 20, 40, 100):
        before, now = Coverage(), Coverage()
        for (row, column), truth in product(MARGINS, KAPPAS):
            chance = row * column + (1 - row) * (1 - column)
            both = (chance + truth * (1 - chance) + row + column - 1) / 2
            cells = (both, row - both, column - both, 1 - row - column + both)
            if min(cells) < 0:
                continue
            random = Random(f"{items} {row} {column} {truth}")
            before.hits.append([])
            now.hits.append([])
            kinds = ((True, True), (True, False), (False, True), (False, False))
            for _ in range(samples):
                pairs = random.choices(kinds, cells, k=items)
                agreement = kappa(pairs)
                if agreement is not None:
                    before.add(kappa_before(pairs), truth)
                    now.add((agreement.low, agreement.high), truth)
        yield f"| {items} | " + " | ".join(before.cells + now.cells) + " |"


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
                heard = [_hear(random, place % 2 == 0, steadiness, leniency) for place in range(labels)]
                shifts = {
                    "position": measure_shift(heard, lambda answer: answer.reversed_verdict),
                    "length": measure_shift(heard, lambda answer: answer.lengthened_verdict),
                    "length_failed": measure_shift(
                        [answer for answer in heard if not answer.label],
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
SIZES = ((100, 20), (200, 20), (200, 40), (200, 100), (1000, 40), (60, 40))
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
            for sample in range(samples):
                run = _Run(random, judgments, truth, right, wrong)
                drawn = run.draw(labels, draw, str(sample))
                even = [
                    DrawnLabel(
                        group=each.group, passed=each.passed, judge_passed=each.judge_passed, drawn="random"
                    )
                    for each in drawn
                ]
                alone.add(wilson(sum(label.passed for label in drawn), labels), truth)
                unweighted.add(run.rate(even), truth)
                now.add(run.rate(drawn), truth)
        cells = [alone.cells[0], alone.width, unweighted.cells[0], *now.cells, now.width]
        yield f"| {judgments} | {labels} | {draw} | " + " | ".join(cells) + " |"


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

    def draw(self, labels: int, draw: LabelDraw, run_id: str) -> list[DrawnLabel]:
        """The labels of the answers that the page Review shows first."""
        return [
            DrawnLabel(
                group=answer.case_id,
                passed=self.passed[answer.position],
                judge_passed=self.judged[answer.position],
                drawn=draw,
                doubt=self.answers.relative_chance(answer),
            )
            for answer in self.answers.order(run_id, "ana", draw)[:labels]
        ]

    def rate(self, labels: Sequence[DrawnLabel]) -> Interval | None:
        """The interval of what people would pass."""
        count = len(self.judged)
        rate = people_pass_rate(labels, judge_rate=sum(self.judged) / count, judgments=count, cases=count)
        return None if rate is None else rate.ci95


TABLES = {"passk": passk, "kappa": kappas, "flags": flags, "people": people}


def main() -> None:
    """Print the tables that are named, or all."""
    for name in sys.argv[1:] or TABLES:
        print(f"{name}\n")
        for line in TABLES[name]():
            print(line, flush=True)
        print()


if __name__ == "__main__":
    main()

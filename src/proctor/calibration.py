"""Measures a judge against people's labels: agreement, and bias by position and length. Pure.

Turns verdicts into the counts of a `Calibration`, and these counts into shares with intervals.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from itertools import cycle
from math import fsum, inf, sqrt
from typing import Literal, NamedTuple

from msgspec import Struct

from proctor.model import Calibration, LabelDraw, VerdictShift
from proctor.stats import (
    Z_95,
    LabelledItem,
    alpha,
    holm,
    kappa,
    mcnemar,
    newcombe_paired,
    prediction_powered,
    wilson,
)

SIGNIFICANCE_LEVEL = 0.05
"""Differences with a p-value below this are reported."""
MIN_DRAWN_LABELS = 10
"""The minimum number of labels of a run's own answers from which a pass rate is estimated."""
LENGTH_FACTOR = 3
"""A lengthened answer is this many times as long as the original, in characters."""
_MIN_PADDED_LENGTH = 400
"""The minimum length of a lengthened answer, in characters."""
_PADDING = (
    "That is the answer, as it was asked for.",
    "It has been put into words with care, so that it can be read in one go.",
    "Nothing of what stands above is taken back here, and nothing is added to it.",
    "Whoever reads it a second time will find in it what was there the first time.",
    "The order of the sentences is the one in which they came, and their number is what it is.",
    "With this, what there was to say has been said, and the answer ends where it ends.",
)


class AnswerVerdicts(Struct, frozen=True, kw_only=True):
    """The labels of one answer and a judge's verdicts on it; None stands for a reply without a verdict."""

    human_verdicts: tuple[bool, ...]
    """Whether the answer passes, one label for each person."""
    judge_verdicts: tuple[bool | None, ...] = ()
    """The verdicts on the usual prompt, one for each repeat; empty if the judge was not called."""
    reversed_verdict: bool | None = None
    """The verdict on the prompt with its sections reversed."""
    lengthened_verdict: bool | None = None
    """The verdict on the lengthened answer."""
    for_doubt: bool = False
    """Whether the answer was drawn because judges doubt it."""

    @property
    def label(self) -> bool | None:
        """The majority of the labels; None for a tie."""
        return majority(self.human_verdicts)


def majority(verdicts: Sequence[bool]) -> bool | None:
    """Returns the majority; None for a tie and for no verdicts."""
    passes = sum(verdicts)
    fails = len(verdicts) - passes
    return None if passes == fails else passes > fails


class Proportion(NamedTuple):
    """A number of hits out of a total."""

    hits: int
    total: int

    @property
    def value(self) -> float | None:
        """The share, from 0 to 1; None if the total is 0."""
        return self.hits / self.total if self.total else None

    @property
    def ci95(self) -> tuple[float, float] | None:
        """The Wilson interval."""
        return wilson(self.hits, self.total)


class IntervalEstimate(NamedTuple):
    """A number with the ends of its 95 % interval."""

    value: float
    low: float
    high: float


# --- verdicts to counts ------------------------------------------------------------------------------------


def make_calibration(
    answers: Sequence[AnswerVerdicts],
    *,
    judge: str,
    name: str,
    at: datetime,
    labels: str,
    prompts: Sequence[str],
) -> Calibration:
    """Returns the calibration of a judge from its verdicts on labelled answers.

    The first verdict on an answer is compared with its label. An answer whose labels are tied has no label
    and counts only for the agreement among people.

    Args:
        answers: the labelled answers.
        judge: the digest of the judge's target.
        name: the name that the user gave it.
        at: when the judge was called.
        labels: the digest of the labels.
        prompts: the digests of the judge prompts, in any order.
    """
    judged = [answer for answer in answers if answer.judge_verdicts and answer.label is not None]
    pairs = [
        (answer.label, answer.judge_verdicts[0]) for answer in judged if answer.judge_verdicts[0] is not None
    ]
    beyond_chance = kappa(pairs)
    repeated = [verdict for verdict in map(_readable_verdicts, judged) if len(verdict) > 1]
    label_sets = [answer.human_verdicts for answer in answers if len(answer.human_verdicts) > 1]
    return Calibration(
        judge=judge,
        name=name,
        at=at,
        labels=labels,
        count=len(pairs),
        unscored=len(judged) - len(pairs),
        for_doubt=sum(answer.for_doubt for answer in judged),
        agreed=sum(label == verdict for label, verdict in pairs),
        passed=sum(label is True for label, _ in pairs),
        true_passes=sum(label is True and verdict is True for label, verdict in pairs),
        kappa=None if beyond_chance is None else beyond_chance.value,
        kappa_ci95=None if beyond_chance is None else (beyond_chance.low, beyond_chance.high),
        prompts=tuple(sorted(set(prompts))),
        repeats=max((len(answer.judge_verdicts) for answer in judged), default=1),
        repeated=len(repeated),
        steady=sum(len(set(verdict)) == 1 for verdict in repeated),
        position=measure_shift(judged, lambda answer: answer.reversed_verdict),
        length=measure_shift(judged, lambda answer: answer.lengthened_verdict),
        length_failed=measure_shift(
            [answer for answer in judged if answer.label is False], lambda answer: answer.lengthened_verdict
        ),
        people_twice=len(label_sets),
        people_agreed=sum(len(set(verdicts)) == 1 for verdicts in label_sets),
        people_alpha=alpha(label_sets),
    )


def _readable_verdicts(answer: AnswerVerdicts) -> list[bool]:
    return [verdict for verdict in answer.judge_verdicts if verdict is not None]


def measure_shift(
    answers: Sequence[AnswerVerdicts], other: Callable[[AnswerVerdicts], bool | None]
) -> VerdictShift | None:
    """Counts how verdicts change between the usual prompt and a variant; None if no answer has both verdicts.

    Args:
        answers: the labelled answers.
        other: returns the verdict on the variant.
    """
    table = dict.fromkeys(((True, True), (False, True), (True, False), (False, False)), 0)
    changed_by_variant = changed_on_repeat = 0
    for answer in answers:
        before, after = (answer.judge_verdicts or (None,))[0], other(answer)
        if before is None or after is None:
            continue
        table[before, after] += 1
        again = answer.judge_verdicts[1] if len(answer.judge_verdicts) > 1 else None
        if again is not None:
            changed_by_variant += after != before == again
            changed_on_repeat += after == before != again
    if not any(table.values()):
        return None
    return VerdictShift(
        both=table[True, True],
        to_pass=table[False, True],
        to_fail=table[True, False],
        neither=table[False, False],
        moved=changed_by_variant,
        restless=changed_on_repeat,
    )


# --- counts to measures ------------------------------------------------------------------------------------


def agreement(calibration: Calibration) -> Proportion:
    """Returns how often the judge agrees with people."""
    return Proportion(calibration.agreed, calibration.count)


def sensitivity(calibration: Calibration) -> Proportion:
    """Returns how often the judge passes answers that people pass."""
    return Proportion(calibration.true_passes, calibration.passed)


def specificity(calibration: Calibration) -> Proportion:
    """Returns how often the judge fails answers that people fail."""
    return Proportion(calibration.agreed - calibration.true_passes, calibration.count - calibration.passed)


def base_rate(calibration: Calibration) -> Proportion:
    """Returns how many of the answers people pass."""
    return Proportion(calibration.passed, calibration.count)


def consistency(calibration: Calibration) -> Proportion:
    """Returns how many answers got the same verdict each time."""
    return Proportion(calibration.steady, calibration.repeated)


def human_agreement(calibration: Calibration) -> Proportion:
    """Returns how many answers got the same label from everyone who labelled them."""
    return Proportion(calibration.people_agreed, calibration.people_twice)


def changed_share(shift: VerdictShift) -> Proportion:
    """Returns how many verdicts change."""
    return Proportion(shift.to_pass + shift.to_fail, shift.count)


def net_shift(shift: VerdictShift) -> IntervalEstimate:
    """Returns the share of answers that change to pass, less the share that change to fail, from -1 to 1.

    The interval is Newcombe's for paired shares.
    """
    interval = newcombe_paired(shift.both, shift.to_pass, shift.to_fail, shift.neither)
    assert interval is not None
    return IntervalEstimate((shift.to_pass - shift.to_fail) / shift.count, *interval)


def net_p_value(shift: VerdictShift) -> float:
    """Returns the two-sided p-value of the sign test: that as many verdicts change to pass as to fail."""
    return mcnemar(shift.to_pass, shift.to_fail)


def changed_p_value(shift: VerdictShift) -> float:
    """Returns the p-value of McNemar's test: that the variant changes no more verdicts than a repeat does."""
    return mcnemar(shift.moved, shift.restless)


class BiasTest(NamedTuple):
    """The tests of one variant of the prompt, adjusted by Holm's method for those of the others."""

    bias: Literal["pass", "fail", "change"] | None
    """The direction in which it changes verdicts beyond chance; `change` if it has none."""
    net_p: float
    """`net_p_value`, adjusted."""
    changed_p: float
    """`changed_p_value`, adjusted."""


ShiftName = Literal["position", "length", "length_failed"]
"""The field of a `Calibration` that has a shift."""


def find_biases(calibration: Calibration) -> dict[ShiftName, BiasTest]:
    """Returns the tests of each measured shift, so that 5 % of unbiased judges get any `bias`, or fewer.

    Position and length are tested together. `length_failed` is about a part of the answers of `length`, and
    is tested where `length` is biased. Tests of too few changes to show anything are not counted, as the
    number of changes says nothing of their direction.

    Source: S. Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of
    Statistics 6 (1979), 65-70; what is not counted is as in R. E. Tarone, "A modified Bonferroni method for
    discrete data", Biometrics 46 (1990), 515-522.
    """
    tests = _test_shifts({"position": calibration.position, "length": calibration.length})
    part = _test_shifts({"length_failed": calibration.length_failed})
    if "length" not in tests or tests["length"].bias is None:
        part = {name: test._replace(bias=None) for name, test in part.items()}
    return tests | part


def _test_shifts(shifts: Mapping[ShiftName, VerdictShift | None]) -> dict[ShiftName, BiasTest]:
    measured = {name: shift for name, shift in shifts.items() if shift is not None}
    p_values = list[float]()
    counted = list[int]()
    for shift in measured.values():
        for first, second in ((shift.to_pass, shift.to_fail), (shift.moved, shift.restless)):
            if mcnemar(first + second, 0) < SIGNIFICANCE_LEVEL:
                counted.append(len(p_values))
            p_values.append(mcnemar(first, second))
    for place, adjusted in zip(counted, holm([p_values[place] for place in counted]), strict=True):
        p_values[place] = adjusted
    pairs = zip(p_values[::2], p_values[1::2], strict=True)
    return {
        name: BiasTest(_bias(shift, net_p, changed_p), net_p, changed_p)
        for (name, shift), (net_p, changed_p) in zip(measured.items(), pairs, strict=True)
    }


def _bias(shift: VerdictShift, net_p: float, changed_p: float) -> Literal["pass", "fail", "change"] | None:
    if net_p < SIGNIFICANCE_LEVEL:
        return "pass" if shift.to_pass > shift.to_fail else "fail"
    return "change" if shift.moved > shift.restless and changed_p < SIGNIFICANCE_LEVEL else None


def corrected_pass_rate(passed: float, total: float, calibration: Calibration) -> IntervalEstimate | None:
    """Estimates the share of answers that people would pass from the share that the judge passes.

    With the judge's share p, sensitivity s and specificity t it is (p + t - 1) / (s + t - 1), within 0..1.
    The interval includes the uncertainty of all three; it assumes that the labelled answers are not among
    those that are counted.

    Args:
        passed: how many answers the judge passes; an effective number if they have repeats or clusters.
        total: the number of answers, effective in the same way.
        calibration: the judge's calibration.

    Returns:
        None without answers, and if the judge is not known to be better than chance: the lower ends of its
        sensitivity and specificity add up to 1 or less.

    Source: W. J. Rogan and B. Gladen, "Estimating prevalence from the results of a screening test", American
    Journal of Epidemiology 107 (1978), 71-76; the interval is that of Z. Lang and J. Reiczigel, "Confidence
    limits for prevalence of disease adjusted for estimated sensitivity and specificity", Preventive
    Veterinary Medicine 113 (2014), 13-22.
    """
    right, wrong = sensitivity(calibration), specificity(calibration)
    if not total or right.ci95 is None or wrong.ci95 is None or right.ci95[0] + wrong.ci95[0] <= 1:
        return None
    share = (passed / total + wrong.hits / wrong.total - 1) / (
        right.hits / right.total + wrong.hits / wrong.total - 1
    )
    weight = total + Z_95**2
    apparent = (passed + Z_95**2 / 2) / weight
    s, t = (right.hits + 1) / (right.total + 2), (wrong.hits + 1) / (wrong.total + 2)
    of_s, of_t = s * (1 - s) / (right.total + 2), t * (1 - t) / (wrong.total + 2)
    middle = (apparent + t - 1) / (s + t - 1)
    shift = 2 * Z_95**2 * (middle * of_s - (1 - middle) * of_t)
    variance = apparent * (1 - apparent) / weight + middle**2 * of_s + (1 - middle) ** 2 * of_t
    spread = Z_95 * sqrt(variance) / (s + t - 1)
    ends = (share, middle + shift - spread, middle + shift + spread)
    value, low, high = (min(1.0, max(0.0, end)) for end in ends)
    return IntervalEstimate(value, min(low, value), max(high, value))


# --- the pass rate that people would give ------------------------------------------------------------------


class DrawnLabel(Struct, frozen=True, kw_only=True):
    """The label of an answer that was drawn from a run, and the judgments of the run's judges."""

    group: str
    """Its case, or what its case has in common with others: answers of a group may depend on one another."""
    passed: bool
    """The majority of its labels."""
    judge_passed: bool
    drawn: LabelDraw
    doubt: float = 1.0
    """How often a draw for doubt takes the answer, where it takes the mean answer once."""
    repeats: int = 1
    """How many answers to the case are measured; together they count as one."""
    group_rate: float | None = None
    """The share that the judges pass of the group's answers; None if the group has no other answer."""
    group_share: float | None = None
    """The share of the run's cases that are in the group; None if the group has no other answer."""


class PeoplePassRate(Struct, frozen=True, kw_only=True):
    """The share of a run's answers that people would pass, from labels of some and judgments of all."""

    value: float
    ci95: tuple[float, float]
    labels: int
    """The number of labelled answers."""
    for_doubt: int
    """How many of them were drawn for doubt."""
    judgments: int
    """The number of answers that judges decided."""
    not_drawn: int = 0
    """The number of labelled answers that are left out, as it is not known how they were chosen."""
    held_out: int = 0
    """The number of judged answers that are held out, and left out."""


def people_pass_rate(
    labels: Sequence[DrawnLabel], *, judge_rate: float, judgments: int, cases: float
) -> PeoplePassRate | None:
    """Estimates the share of answers that people would pass, in which each case counts once.

    See `prediction_powered`: the judges' verdicts on all answers, corrected by the labels of some. A label
    counts by the chance with which its answer was drawn, so that it does not matter which the judges doubt.

    Args:
        labels: the labels of drawn answers.
        judge_rate: the share of all answers that the judges pass.
        judgments: the number of all answers.
        cases: the effective number of their cases: with repeats it is more than their number, with clusters
            less.

    Returns:
        None with fewer than `MIN_DRAWN_LABELS` labels.
    """
    if len(labels) < MIN_DRAWN_LABELS:
        return None
    chances = drawing_chances(labels, judgments)
    items = [
        LabelledItem(
            label=float(label.passed),
            prediction=float(label.judge_passed),
            weight=1 / (chance * label.repeats),
            group=label.group,
            group_prediction=label.group_rate,
            group_share=label.group_share,
        )
        for label, chance in zip(labels, chances, strict=True)
    ]
    estimate = prediction_powered(items, judge_rate, cases)
    if estimate is None:
        return None
    return PeoplePassRate(
        value=estimate.value,
        ci95=(estimate.low, estimate.high),
        labels=len(labels),
        for_doubt=sum(label.drawn == "doubt" for label in labels),
        judgments=judgments,
    )


def drawing_chances(labels: Sequence[DrawnLabel], answers: int) -> list[float]:
    """Returns with which chance each labelled answer was drawn, above 0 and at most 1.

    An answer is drawn at random, each with the same chance, or else for doubt, with a chance in proportion to
    its `doubt`, at most 1. The chances of all answers add up to the number that was drawn so.

    Args:
        labels: all labelled answers.
        answers: the number of all answers; their `doubt` has the mean 1.
    """
    random = sum(label.drawn == "random" for label in labels)
    by_doubt = [label.doubt for label in labels if label.drawn == "doubt"]
    share = min(1.0, random / answers)
    if not by_doubt:
        return [share] * len(labels)
    rest = max(0.0, answers - fsum(label.doubt for label in labels))
    factor = 0.0
    for _ in range(len(by_doubt) + 1):  # each step makes an answer certain, or is the last
        certain = sum(factor * doubt >= 1 for doubt in by_doubt)
        size = fsum(doubt for doubt in by_doubt if factor * doubt < 1) + rest
        next_factor = (len(by_doubt) - certain) / size if size > 0 else inf
        if next_factor <= factor:
            break
        factor = next_factor
    return [share + (1 - share) * min(1.0, factor * label.doubt) for label in labels]


# --- answers made longer -----------------------------------------------------------------------------------


def lengthen(answer: str) -> str:
    """Returns the answer followed by sentences without content, at least three times as long in total."""
    min_length = max(LENGTH_FACTOR * len(answer), _MIN_PADDED_LENGTH)
    paragraph: list[str] = []
    length = len(answer)
    for sentence in cycle(_PADDING):
        if length >= min_length:
            break
        paragraph.append(sentence)
        length += len(sentence) + 1
    return f"{answer}\n\n{' '.join(paragraph)}"

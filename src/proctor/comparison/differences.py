"""Statistics of paired trials: differences of pass rates, with intervals and tests, and of other metrics.

Pairs with a trial that is ERROR or UNSCORED are in none of these numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import fsum
from typing import Literal, NamedTuple

from msgspec import Struct

from proctor.comparison.outcomes import TrialOutcome
from proctor.comparison.pairing import PairedCase
from proctor.model import Verdict
from proctor.stats import (
    PairNoise,
    agresti_min_interval,
    mcnemar,
    mean_interval,
    newcombe_paired,
    permutation,
    quantile,
    sign_test,
    smallest_difference_repeated,
    wilson,
)

Interval = tuple[float, float]
Direction = Literal["better", "perhaps better", "unclear", "perhaps worse", "worse"]
"""The direction of a difference; "perhaps" if only its interval shows it, and the test does not."""

_ALPHA = 0.05
"""The significance level."""
_POWER = 0.8
"""The chance to find the smallest difference."""


class RunPassRate(Struct, frozen=True, kw_only=True):
    """The pass rate of one run over the measured pairs."""

    passed: int
    """The number of passed trials."""
    rate: float
    """The mean over cases of the share of their trials that passed."""
    ci95: Interval
    """The Wilson interval, over cases."""


class PassRateDifference(Struct, frozen=True, kw_only=True):
    """The candidate's pass rate less the baseline's, as a share of 1."""

    cases: int
    """The number of cases with measured pairs; without any, optional fields are None."""
    pairs: int
    """The number of measured pairs."""
    fixed: int = 0
    """The number of pairs in which only the candidate passed."""
    broken: int = 0
    """The number of pairs in which only the baseline passed."""
    baseline: RunPassRate | None = None
    candidate: RunPassRate | None = None
    value: float | None = None
    ci95: Interval | None = None
    p_value: float | None = None
    p_holm: float | None = None
    """The p-value adjusted by Holm's method, together with those reported beside it."""
    by_case: bool = False
    """Whether cases have several pairs. Then the interval is `agresti_min_interval` and the test a
    permutation test, both over cases, instead of Newcombe's interval and McNemar's test over pairs."""

    @property
    def p_adjusted(self) -> float | None:
        """The adjusted p-value if there is one, else the p-value."""
        return self.p_value if self.p_holm is None else self.p_holm

    @property
    def direction(self) -> Direction:
        """The direction; better or worse only if both the interval and the test show it."""
        p_value = self.p_adjusted
        if self.ci95 is None or p_value is None:
            return "unclear"
        if self.ci95[0] > 0:
            return "better" if p_value < _ALPHA else "perhaps better"
        if self.ci95[1] < 0:
            return "worse" if p_value < _ALPHA else "perhaps worse"
        return "unclear"


class _CasePairs(NamedTuple):
    """The measured pairs of one case, counted by verdicts."""

    pairs: int
    before: int
    after: int
    fixed: int
    broken: int


def pass_rate_difference(cases: Iterable[PairedCase], *, by_case: bool) -> PassRateDifference:
    """Returns the difference of the pass rates over some cases.

    Args:
        cases: the cases.
        by_case: whether any case of the comparison has several pairs, which are not independent.
    """
    tallies = [tally for case in cases if (tally := _count_pairs(case)).pairs]
    if not tallies:
        return PassRateDifference(cases=0, pairs=0, by_case=by_case)
    count = len(tallies)
    fixed, broken = sum(tally.fixed for tally in tallies), sum(tally.broken for tally in tallies)
    before, after = sum(tally.before for tally in tallies), sum(tally.after for tally in tallies)
    pairs = sum(tally.pairs for tally in tallies)
    if by_case:
        case_differences = sorted(((tally.after - tally.before) / tally.pairs for tally in tallies), key=abs)
        value, ci95, p_value = (
            fsum(case_differences) / count,
            agresti_min_interval(case_differences),
            permutation(case_differences),
        )
    else:
        value = (fixed - broken) / count
        ci95 = newcombe_paired(after - fixed, fixed, broken, count - after - broken)
        p_value = mcnemar(fixed, broken)
    return PassRateDifference(
        cases=count,
        pairs=pairs,
        fixed=fixed,
        broken=broken,
        baseline=_run_pass_rate(before, fsum(tally.before / tally.pairs for tally in tallies), count),
        candidate=_run_pass_rate(after, fsum(tally.after / tally.pairs for tally in tallies), count),
        value=value,
        ci95=ci95,
        p_value=p_value,
        by_case=by_case,
    )


def _count_pairs(case: PairedCase) -> _CasePairs:
    pairs = before = after = fixed = broken = 0
    for baseline, candidate in case.pairs:
        if baseline.is_measured and candidate.is_measured:
            was, is_ = baseline.verdict is Verdict.PASS, candidate.verdict is Verdict.PASS
            pairs += 1
            before += was
            after += is_
            fixed += is_ and not was
            broken += was and not is_
    return _CasePairs(pairs, before, after, fixed, broken)


def _run_pass_rate(passed: int, share: float, cases: int) -> RunPassRate:
    share = min(share, float(cases))
    ci95 = wilson(share, cases)
    assert ci95 is not None
    return RunPassRate(passed=passed, rate=share / cases, ci95=ci95)


def smallest_detectable_difference(
    difference: PassRateDifference, cases: Iterable[PairedCase]
) -> float | None:
    """Returns the smallest true difference that would be found with at least 80 % power: a detection limit.

    It is found if the comparison says better or worse. The pairs that differ here are taken to differ by
    chance, both ways alike, but for the part of the observed difference that its interval shows: an observed
    difference that may be chance would else make the noise look smaller than it is. Two cases are added, of
    which one differs, as in `agresti_min_interval`, so that runs without any difference have noise too. The
    pairs that make the true difference come on top.

    Returns:
        A share of 1; None if no difference would be found.
    """
    tallies = [tally for case in cases if (tally := _count_pairs(case)).pairs]
    if not tallies or difference.ci95 is None:
        return None
    noise = smooth_noise(
        fsum(((tally.after - tally.before) / tally.pairs) ** 2 for tally in tallies) / len(tallies),
        fsum((tally.fixed + tally.broken) / tally.pairs for tally in tallies) / len(tallies),
        repeats := len(tallies) / fsum(1 / tally.pairs for tally in tallies),
        cases=len(tallies),
    )
    certain = max(0.0, difference.ci95[0], -difference.ci95[1])
    lasting = max(0.0, noise.lasting - certain)
    chance = max(0.0, noise.chance - max(0.0, certain - noise.lasting))
    return smallest_difference_repeated(len(tallies), repeats, PairNoise(chance, lasting), _POWER)


def smooth_noise(mean_square: float, discordant: float, repeats: float, *, cases: int) -> PairNoise:
    """Returns the noise of two runs, with two cases added of which one differs.

    Args:
        mean_square: the mean over cases of the square of the difference between the shares that passed.
        discordant: the mean over cases of the share of pairs that differ, at least `mean_square`.
        repeats: the number of pairs of a case; the harmonic mean.
        cases: the number of cases.
    """
    mean_square, discordant = ((share * cases + 1) / (cases + 2) for share in (mean_square, discordant))
    lasting = mean_square if repeats == 1 else (repeats * mean_square - discordant) / (repeats - 1)
    lasting = min(discordant, max(0.0, lasting))
    return PairNoise(chance=discordant - lasting, lasting=lasting)


# --- other metrics -----------------------------------------------------------------------------------------


class MetricDifference(Struct, frozen=True, kw_only=True):
    """A metric of trials, such as latency, in both runs; each case counts by the mean of its pairs."""

    cases: int
    pairs: int
    """The number of measured pairs with the metric on both sides."""
    baseline: float
    """The mean."""
    candidate: float
    difference: float
    """The mean of the candidate's less the baseline's."""
    ci95: Interval | None
    """None below two cases, except for scores."""
    median: float
    """The median of the cases' differences."""
    median_ci95: Interval | None
    """None below six cases."""


def metric_difference(
    cases: Iterable[PairedCase], number: Callable[[TrialOutcome], float | None], *, is_share: bool = False
) -> MetricDifference | None:
    """Returns the difference of a metric over some cases; None if no pair has it on both sides.

    Args:
        cases: the cases.
        number: returns the metric of a trial.
        is_share: whether it is within 0..1, so that its interval is `agresti_min_interval`, which always has
            width; otherwise it is the t-interval.
    """
    before, after, pairs = paired_means(cases, number)
    if not before:
        return None
    differences = sorted(is_ - was for was, is_ in zip(before, after, strict=True))
    median = quantile(differences, 0.5)
    assert median is not None
    return MetricDifference(
        cases=len(before),
        pairs=pairs,
        baseline=fsum(before) / len(before),
        candidate=fsum(after) / len(after),
        difference=fsum(differences) / len(differences),
        ci95=agresti_min_interval(differences) if is_share else mean_interval(differences),
        median=median,
        median_ci95=median_interval(differences),
    )


def paired_means(
    cases: Iterable[PairedCase], number: Callable[[TrialOutcome], float | None]
) -> tuple[list[float], list[float], int]:
    """Returns each case's mean of a metric in both runs, and the number of measured pairs that have it."""
    before, after, pairs = list[float](), list[float](), 0
    for case in cases:
        values = [
            (was, is_)
            for baseline, candidate in case.pairs
            if baseline.is_measured and candidate.is_measured
            if (was := number(baseline)) is not None and (is_ := number(candidate)) is not None
        ]
        if values:
            pairs += len(values)
            before.append(fsum(was for was, _ in values) / len(values))
            after.append(fsum(is_ for _, is_ in values) / len(values))
    return before, after, pairs


def median_interval(sorted_values: Sequence[float]) -> Interval | None:
    """Returns the 95 % interval of the median of sorted independent values; None below six values.

    Its ends are the outermost values that the sign test does not reject at 5 %.

    Source: W. R. Thompson, "On confidence ranges for the median and other expectation distributions for
    populations of unknown distribution form", Annals of Mathematical Statistics 7 (1936), 122-128.
    """
    count, low, high = len(sorted_values), 0, len(sorted_values) // 2
    while low < high:  # how many values may be left out at each end
        middle = (low + high + 1) // 2
        if sign_test(middle - 1, count - middle + 1) <= 1 - 0.95:
            low = middle
        else:
            high = middle - 1
    return (sorted_values[low - 1], sorted_values[count - low]) if low else None

"""Statistics of paired trials: differences of pass rates, with intervals and tests, and of other metrics.

Pairs with a trial that is ERROR or UNSCORED are in no difference, but in its two extremes: what it would be
if all of them had gone against the candidate, and if all had gone for it.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import chain, repeat
from math import fsum, sqrt
from operator import sub
from typing import Literal, NamedTuple, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from proctor.comparison.cluster_noise import correlation_within, smooth_cluster_noise
from proctor.comparison.outcome_table import TrialOutcome
from proctor.comparison.pairing import PairedCase
from proctor.model import Run, Verdict
from proctor.stats import (
    PairNoise,
    clustered_difference_interval,
    clustered_error,
    clustered_interval,
    clustered_newcombe,
    deviation,
    group_variances,
    holm,
    mcnemar,
    mean_interval,
    newcombe_paired,
    permutation,
    quantile,
    sign_test,
    smallest_difference_clustered,
    smallest_difference_repeated,
)
from proctor.verdicts import Counts, set_intervals

T = TypeVar("T")
Interval = tuple[float, float]
Metric = Callable[[TrialOutcome], float | None]
"""Returns a metric of an outcome; None if it has none."""
Direction = Literal["better", "perhaps better", "unclear", "perhaps worse", "worse"]
"""The direction of a difference; "perhaps" if only its interval shows it, and the test does not."""
PairedTest = Literal["McNemar, mid-p", "McNemar, exact", "permutation by case", "permutation by cluster"]
PairedInterval = Literal["Newcombe, paired", "Newcombe, over cases", "Newcombe, over clusters"]
_DIRECTIONS: tuple[Direction, ...] = ("worse", "perhaps worse", "unclear", "perhaps better", "better")

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
    """The interval of `Counts.ci95`, over cases."""


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
    """Whether cases have several pairs. Then the interval is `clustered_newcombe` and the test a permutation
    test, both over cases, instead of Newcombe's interval and McNemar's test over pairs."""
    clusters: int | None = None
    """The number of clusters of related cases, of which some hold several. Then interval and test are over
    clusters, `clustered_newcombe` and a permutation test. None if cases are independent."""
    error: float | None = None
    """The standard error of `value`; None below two cases, and below two clusters."""
    unmeasured: int = 0
    """The number of pairs that are in none of these numbers, as a trial is ERROR or UNSCORED."""
    extremes: tuple[PassRateDifference, PassRateDifference] | None = None
    """The difference over all pairs if the unmeasured ones had gone against the candidate, and if they had
    gone for it; None if every pair is measured."""

    @property
    def p_adjusted(self) -> float | None:
        """The adjusted p-value if there is one, else the p-value."""
        return self.p_value if self.p_holm is None else self.p_holm

    @property
    def test(self) -> PairedTest:
        """The test of `p_value`."""
        if self.clusters is not None:
            return "permutation by cluster"
        if self.by_case:
            return "permutation by case"
        return "McNemar, mid-p" if _holds_mid_p(self.fixed, self.broken, self.pairs) else "McNemar, exact"

    @property
    def interval_by(self) -> PairedInterval:
        """What `ci95` is."""
        if self.clusters is not None:
            return "Newcombe, over clusters"
        return "Newcombe, over cases" if self.by_case else "Newcombe, paired"

    @property
    def bounds(self) -> Interval | None:
        """The values of both extremes; twice the value if every pair is measured."""
        low, high = self.extremes or (self, self)
        return None if low.value is None or high.value is None else (low.value, high.value)

    @property
    def scenarios(self) -> tuple[PassRateDifference, ...]:
        """The difference over the measured pairs, and its extremes if there are any."""
        return self, *(self.extremes or ())

    @property
    def direction(self) -> Direction:
        """The direction that holds whatever the unmeasured pairs would have been.

        It is the weakest of the measured pairs and the extremes, and unclear if they do not agree.
        """
        strengths = [_DIRECTIONS.index(scenario.measured_direction) - 2 for scenario in self.scenarios]
        low, high = min(strengths), max(strengths)
        return _DIRECTIONS[2 + (low if low > 0 else min(0, high))]

    @property
    def is_decided(self) -> bool:
        """Whether the unmeasured pairs could not change the direction."""
        return all(scenario.measured_direction == self.measured_direction for scenario in self.scenarios)

    @property
    def measured_direction(self) -> Direction:
        """The direction of the measured pairs; better or worse only if interval and test both show it."""
        p_value = self.p_adjusted
        if self.ci95 is None or p_value is None:
            return "unclear"
        if self.ci95[0] > 0:
            return "better" if p_value < _ALPHA else "perhaps better"
        if self.ci95[1] < 0:
            return "worse" if p_value < _ALPHA else "perhaps worse"
        return "unclear"


def _holds_mid_p(fixed: int, broken: int, pairs: int) -> bool:
    """Returns whether at most half of the pairs differ, so that McNemar's mid-p rejects in at most 5 %."""
    return 2 * (fixed + broken) <= pairs


class _CasePairs(NamedTuple):
    """The measured pairs of one case, counted by verdicts."""

    pairs: int
    before: int
    after: int
    fixed: int
    broken: int
    cluster: str | None

    @property
    def difference(self) -> float:
        """The share of the pairs that the candidate passed, less that of the baseline; there is a pair."""
        return (self.after - self.before) / self.pairs


_Tallies = Sequence[tuple[_CasePairs, int]]
"""Tallies of cases with measured pairs, each with the number of such cases."""


class PairTallies:
    """The tallies of paired cases: equal ones once with their number, unless the cases are in clusters."""

    def __init__(self) -> None:
        """Starts without cases."""
        self._independent = Counter[_CaseTally]()
        self._clustered: list[_CaseTally] = []
        self._pairs = 0

    def add(self, case: PairedCase) -> None:
        """Adds a case."""
        self._pairs += len(case.pairs)
        if case.cluster is not None:
            self._clustered.append(_tally_case(case))
        elif len(case.pairs) == 1:
            ((baseline, candidate),) = case.pairs
            self._independent[_tally_pair(baseline.verdict, candidate.verdict)] += 1
        else:
            self._independent[_tally_case(case)] += 1

    def difference(self, *, by_case: bool, runs: tuple[Run, Run] | None = None) -> PassRateDifference:
        """Returns the difference of the pass rates, with its extremes; see `pass_rate_difference`."""
        tallies = self.measured()
        difference = _tallied_difference(tallies, by_case=by_case)
        if runs is not None and difference.pairs:
            before, after = (
                _run_pass_rate([(passed(tally), tally.pairs, tally.cluster, n) for tally, n in tallies], run)
                for passed, run in ((_passed_before, runs[0]), (_passed_after, runs[1]))
            )
            difference = replace(difference, baseline=before, candidate=after)
        unmeasured = self._pairs - difference.pairs
        if not unmeasured:
            return difference
        against, favoring = (
            _tallied_difference(self._measured(side), by_case=by_case) for side in ("against", "favoring")
        )
        return replace(difference, unmeasured=unmeasured, extremes=(against, favoring))

    def measured(self) -> list[tuple[_CasePairs, int]]:
        """Returns the tallies of the cases with measured pairs, and the number of cases with each."""
        return self._measured("measured")

    def _measured(self, side: Literal["measured", "against", "favoring"]) -> list[tuple[_CasePairs, int]]:
        groups = (*self._independent.items(), *((tally, 1) for tally in self._clustered))
        return [(tally, count) for sides, count in groups if (tally := getattr(sides, side)).pairs]


def _passed_before(tally: _CasePairs) -> int:
    return tally.before


def _passed_after(tally: _CasePairs) -> int:
    return tally.after


def pass_rate_difference(
    cases: Iterable[PairedCase], *, by_case: bool, runs: tuple[Run, Run] | None = None
) -> PassRateDifference:
    """Returns the difference of the pass rates over some cases, with its extremes.

    Args:
        cases: the cases.
        by_case: whether any case of the comparison has several pairs, which are not independent.
        runs: the baseline and the candidate, which say what interval of a pass rate holds; without them the
            pass rates of both are None.
    """
    return tally_pairs(cases).difference(by_case=by_case, runs=runs)


def tally_pairs(cases: Iterable[PairedCase]) -> PairTallies:
    """Returns the tallies of some cases."""
    tallies = PairTallies()
    for case in cases:
        tallies.add(case)
    return tallies


def adjust_together(differences: Sequence[PassRateDifference]) -> list[PassRateDifference]:
    """Returns differences with their p-values adjusted by Holm's method for all of them that have one.

    The extremes are adjusted likewise: all those against the candidates together, and all those for them.
    """
    adjusted = _adjust_measured(differences)
    against, favoring = (
        _adjust_measured(
            [
                difference if difference.extremes is None else difference.extremes[side]
                for difference in differences
            ]
        )
        for side in (0, 1)
    )
    return [
        difference if difference.extremes is None else replace(difference, extremes=extremes)
        for difference, extremes in zip(adjusted, zip(against, favoring, strict=True), strict=True)
    ]


def _adjust_measured(differences: Sequence[PassRateDifference]) -> list[PassRateDifference]:
    p_values = [difference.p_value for difference in differences]
    adjusted = iter(holm([p_value for p_value in p_values if p_value is not None]))
    return [
        difference if p_value is None else replace(difference, p_holm=next(adjusted))
        for difference, p_value in zip(differences, p_values, strict=True)
    ]


def _tallied_difference(tallies: _Tallies, *, by_case: bool) -> PassRateDifference:
    if not tallies:
        return PassRateDifference(cases=0, pairs=0, by_case=by_case)
    count = sum(n for _, n in tallies)
    fixed, broken = (
        sum(tally.fixed * n for tally, n in tallies),
        sum(tally.broken * n for tally, n in tallies),
    )
    after, pairs = sum(tally.after * n for tally, n in tallies), sum(tally.pairs * n for tally, n in tallies)
    clusters = _sum_clusters(_list_clusters(tallies), _list_differences(tallies))
    if clusters is not None or by_case:
        groups = clusters or sorted(_repeat(((tally.difference, 1), n) for tally, n in tallies))
        value = fsum(total for total, _ in groups) / count
        ci95 = clustered_newcombe(
            groups, _sum_shares(tallies), fsum(_repeat((1 / tally.pairs, n) for tally, n in tallies))
        )
        p_value = permutation(sorted((total for total, _ in groups), key=abs))
    else:
        value = (fixed - broken) / count
        ci95 = newcombe_paired(after - fixed, fixed, broken, count - after - broken)
        p_value = mcnemar(fixed, broken, mid_p=_holds_mid_p(fixed, broken, pairs))
    return PassRateDifference(
        cases=count,
        pairs=pairs,
        fixed=fixed,
        broken=broken,
        value=value,
        ci95=ci95,
        p_value=p_value,
        by_case=by_case,
        clusters=None if clusters is None else len(clusters),
        error=_standard_error(tallies, clustered=clusters is not None),
    )


def _repeat(items: Iterable[tuple[T, int]]) -> Iterator[T]:
    """Yields each item as often as its number says."""
    return chain.from_iterable(repeat(item, count) for item, count in items)


def _list_differences(tallies: _Tallies) -> list[float]:
    return list(_repeat((tally.difference, n) for tally, n in tallies))


def _list_clusters(tallies: _Tallies) -> list[str | None] | None:
    """Returns the cluster of each case; None if the cases are independent."""
    if tallies[0][0].cluster is None:
        return None
    return list(_repeat((tally.cluster, n) for tally, n in tallies))


def _sum_shares(tallies: _Tallies) -> tuple[float, float, float, float]:
    """Returns the sums over cases of the shares of their pairs: both passed, fixed, broken, neither."""

    def total(share: Callable[[_CasePairs], float]) -> float:
        return fsum(_repeat((share(tally), n) for tally, n in tallies))

    return (
        total(lambda tally: (tally.after - tally.fixed) / tally.pairs),
        total(lambda tally: tally.fixed / tally.pairs),
        total(lambda tally: tally.broken / tally.pairs),
        total(lambda tally: (tally.pairs - tally.after - tally.broken) / tally.pairs),
    )


def _sum_clusters(
    names: Sequence[str | None] | None, differences: Sequence[float]
) -> list[tuple[float, int]] | None:
    """Returns the sum of the differences of each cluster, and its number of cases; None if all are single.

    Args:
        names: the cluster of each case; None if the cases are independent.
        differences: the difference of each case.
    """
    if names is None:
        return None
    members: dict[str | None, list[float]] = {}
    for name, difference in zip(names, differences, strict=True):
        members.setdefault(name, []).append(difference)
    if len(members) == len(names):
        return None
    return sorted((fsum(values), len(values)) for values in members.values())


def _standard_error(tallies: _Tallies, *, clustered: bool) -> float | None:
    """Returns the standard error of the mean difference; None below two cases, and below two clusters."""
    differences = _list_differences(tallies)
    names = _list_clusters(tallies)
    if clustered and names is not None:
        return clustered_error(differences, names)
    spread = deviation(differences)
    return None if spread is None else spread / sqrt(len(differences))


class _CaseTally(NamedTuple):
    """The pairs of one case, as they are measured and in both extremes."""

    measured: _CasePairs
    against: _CasePairs
    """If what was not measured had gone against the candidate."""
    favoring: _CasePairs


def _tally_case(case: PairedCase) -> _CaseTally:
    return _CaseTally(_count_pairs(case), _count_pairs(case, passes=False), _count_pairs(case, passes=True))


@cache
def _tally_pair(before: Verdict, after: Verdict) -> _CaseTally:
    """Returns the tally of a case with one pair and without a cluster."""
    pair = TrialOutcome(0, before), TrialOutcome(0, after)
    return _tally_case(PairedCase(id="", category=None, tags=(), split=None, pairs=(pair,)))


def _count_pairs(case: PairedCase, *, passes: bool | None = None) -> _CasePairs:
    """Counts the pairs of a case.

    Args:
        case: the case.
        passes: whether unmeasured trials of the candidate count as passed, and those of the baseline as
            failed, or the other way round; None counts the measured pairs alone.
    """
    pairs = before = after = fixed = broken = 0
    for baseline, candidate in case.pairs:
        was = _has_passed(baseline, None if passes is None else not passes)
        is_ = _has_passed(candidate, passes)
        if was is not None and is_ is not None:
            pairs += 1
            before += was
            after += is_
            fixed += is_ and not was
            broken += was and not is_
    return _CasePairs(pairs, before, after, fixed, broken, case.cluster)


def _has_passed(outcome: TrialOutcome, unmeasured: bool | None) -> bool | None:
    """Returns whether a trial passed; `unmeasured` for one that is ERROR or UNSCORED."""
    return outcome.verdict is Verdict.PASS if outcome.is_measured else unmeasured


def _run_pass_rate(cases: Sequence[tuple[int, int, str | None, int]], run: Run) -> RunPassRate:
    """Returns the pass rate of cases.

    Args:
        cases: the passed and all measured trials of a case, its cluster, and the number of such cases.
        run: the run.
    """
    shapes = Counter[tuple[int, int, int, int]]()
    for passed, trials, _, n in cases:
        shapes[passed, trials - passed, 0, 0] += n
    counts = Counts.from_cases(shapes)
    for passed, trials, cluster, _ in cases:
        if cluster is not None:
            counts.clusters = {} if counts.clusters is None else counts.clusters
            total, size = counts.clusters.get(cluster, (0.0, 0))
            counts.clusters[cluster] = total + passed / trials, size + 1
    set_intervals([counts], run)
    assert counts.pass_rate is not None
    assert counts.ci95 is not None
    return RunPassRate(passed=counts.passed, rate=counts.pass_rate, ci95=counts.ci95)


def smallest_detectable_difference(difference: PassRateDifference, paired: PairTallies) -> float | None:
    """Returns the smallest true difference that would be found with at least 80 % power: a detection limit.

    It is found if the comparison says better or worse. The pairs that differ here are taken to differ by
    chance, both ways alike, but for the part of the observed difference that its interval shows: an observed
    difference that may be chance would else make the noise look smaller than it is. Two cases are added, of
    which one differs, as in `agresti_min_interval`, so that runs without any difference have noise too. The
    pairs that make the true difference come on top. Cases of a cluster are taken to differ together as much
    as they do here, and those that make the true difference as much as they pass together.

    Returns:
        A share of 1; None if no difference would be found.
    """
    tallies = paired.measured()
    if not tallies or difference.ci95 is None:
        return None
    count = sum(n for _, n in tallies)
    squares = _repeat((((tally.after - tally.before) / tally.pairs) ** 2, n) for tally, n in tallies)
    discordant = _repeat(((tally.fixed + tally.broken) / tally.pairs, n) for tally, n in tallies)
    noise = smooth_noise(
        fsum(squares) / count,
        fsum(discordant) / count,
        repeats := count / fsum(_repeat((1 / tally.pairs, n) for tally, n in tallies)),
        cases=count,
    )
    certain = max(0.0, difference.ci95[0], -difference.ci95[1])
    lasting = max(0.0, noise.lasting - certain)
    chance = max(0.0, noise.chance - max(0.0, certain - noise.lasting))
    noise = PairNoise(chance, lasting)
    if difference.clusters is None:
        return smallest_difference_repeated(count, repeats, noise, _POWER)
    groups = [tally.cluster for tally, _ in tallies]
    rates = [(tally.before + tally.after) / (2 * tally.pairs) for tally, _ in tallies]
    by_chance = fsum(
        rate * (1 - rate) / (2 * tally.pairs - 1) for rate, (tally, _) in zip(rates, tallies, strict=True)
    )
    relation = correlation_within(rates, groups, by_chance / count)
    variances = group_variances([tally.difference for tally, _ in tallies], groups)
    covariance = 0.0 if variances is None else variances.between
    clusters = smooth_cluster_noise(covariance, relation, noise, count, groups)
    return smallest_difference_clustered(count, repeats, noise, clusters, _POWER)


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


class MetricPairs:
    """A metric of the measured pairs of cases, as the mean of each case in both runs."""

    def __init__(self) -> None:
        """Starts without cases."""
        self._before, self._after = array("d"), array("d")
        self._pairs = 0
        self._clusters: list[str | None] | None = None

    def add(self, values: Sequence[tuple[float, float]], cluster: str | None) -> None:
        """Adds a case.

        Args:
            values: the metric of its pairs in both runs; there is a pair.
            cluster: the cluster of the case; None if the cases are independent.
        """
        if len(values) == 1:
            before, after = values[0]
        else:
            before = fsum(was for was, _ in values) / len(values)
            after = fsum(is_ for _, is_ in values) / len(values)
        self._before.append(before)
        self._after.append(after)
        self._pairs += len(values)
        if cluster is not None:
            self._clusters = [] if self._clusters is None else self._clusters
            self._clusters.append(cluster)

    def __len__(self) -> int:
        """Returns the number of cases."""
        return len(self._before)

    def difference(self, *, is_share: bool = False, has_intervals: bool = True) -> MetricDifference | None:
        """Returns the difference of the metric; None without a case.

        Args:
            is_share: whether it is within 0..1, so that its interval is `clustered_difference_interval`,
                which always has width; otherwise it is the t-interval. Both are over clusters if there are
                any.
            has_intervals: whether there are intervals; else they are None.
        """
        before, after = self._before, self._after
        if not before:
            return None
        differences = sorted(map(sub, after, before))
        median = quantile(differences, 0.5)
        assert median is not None
        return MetricDifference(
            cases=len(before),
            pairs=self._pairs,
            baseline=fsum(before) / len(before),
            candidate=fsum(after) / len(after),
            difference=fsum(differences) / len(differences),
            ci95=self._interval(differences, is_share=is_share) if has_intervals else None,
            median=median,
            median_ci95=median_interval(differences) if has_intervals else None,
        )

    def medians(self) -> tuple[float, float]:
        """Returns the median over cases in both runs; there is a case."""
        medians = quantile(sorted(self._before), 0.5), quantile(sorted(self._after), 0.5)
        assert medians[0] is not None
        assert medians[1] is not None
        return medians[0], medians[1]

    def _interval(self, sorted_differences: Sequence[float], *, is_share: bool) -> Interval | None:
        names = self._clusters
        differences = list(map(sub, self._after, self._before))
        clusters = _sum_clusters(names, differences)
        if is_share:
            groups = clusters or [(difference, 1) for difference in sorted_differences]
            return clustered_difference_interval(groups)
        if clusters is None or names is None:
            return mean_interval(sorted_differences)
        return clustered_interval(differences, names)


def read_metric(case: PairedCase, metric: Metric) -> list[tuple[float, float]]:
    """Returns a metric of the measured pairs of a case that have it in both runs."""
    return [
        (was, is_)
        for baseline, candidate in case.pairs
        if baseline.is_measured and candidate.is_measured
        if (was := metric(baseline)) is not None and (is_ := metric(candidate)) is not None
    ]


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

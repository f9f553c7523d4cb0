"""Plans a comparison: how far runs of a suite differ by chance, and what cases and repeats show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import ceil, fsum, sqrt
from typing import Literal

from msgspec import Struct

from proctor.comparison.cluster_noise import correlation_within, smooth_cluster_noise
from proctor.comparison.outcomes import RunOutcomes
from proctor.model import Verdict
from proctor.stats import (
    ClusterNoise,
    GroupVariances,
    PairNoise,
    VarianceComponents,
    cases_needed_repeated,
    clusters_needed,
    group_variances,
    smallest_difference_clustered,
    smallest_difference_repeated,
    variance_components,
    wilson,
)

DEFAULT_REPEATS = (1, 2, 3, 5, 10)
"""The numbers of repeats that are planned."""

CaseTally = tuple[int, int]
"""The numbers of passed and of measured trials of a case."""
TallyByCase = Mapping[str, CaseTally]
"""The tallies of one target's cases by their ids."""

NoiseBasis = Literal["targets", "repeats", "rate", "nothing"]
"""What the noise was measured on: runs of different targets; repeats of one; only one pass rate; nothing."""


class StudyNoise(Struct, frozen=True, kw_only=True):
    """How far two runs of a suite differ where neither is better, measured on stored runs or assumed."""

    basis: NoiseBasis
    noise: PairNoise
    is_chance_known: bool
    """Whether repeats were measured, so that it is known what they average out. If not, all noise counts as
    lasting."""
    cases: int = 0
    """The number of cases that were measured, in all runs of the baseline's target."""
    pass_rate: float | None = None
    """The mean over the baseline's cases of the share of their trials that passed; None without a run."""
    baseline_cases: int = 0
    """The number of cases that the baseline measured."""
    targets: int = 0
    """The number of other targets with which the baseline's was compared."""
    components: VarianceComponents | None = None
    """The variance of the baseline target's trials, between cases and within them; None without repeats."""
    clusters: ClusterNoise | None = None
    """How far the cases of a cluster differ together; None if the cases are independent."""


class StudyRow(Struct, frozen=True, kw_only=True):
    """What one number of repeats shows and takes; numbers are None where they are not known."""

    repeats: int
    smallest: float | None
    """The smallest difference of two pass rates that the suite shows, as a share of 1."""
    suite_trials: int
    """The trials of a run of the suite."""
    suite_cost_usd: float | None
    suite_seconds: float | None
    clusters: int | None
    """The number of clusters that show the difference that is to be found; None also without clusters."""
    cases: int | None
    """The number of cases that show it."""
    trials: int | None
    """The trials of a run of these cases."""
    cost_usd: float | None


class StudyPlan(Struct, frozen=True, kw_only=True):
    """How many cases and repeats show a difference, and what a suite shows."""

    difference: float
    """The difference to find, as a share of 1."""
    power: float
    """The chance to find it."""
    suite_cases: int
    suite_clusters: int | None
    """The number of clusters of the suite's cases; None if the cases are independent."""
    noise: StudyNoise
    rows: tuple[StudyRow, ...]


class StudyCosts(Struct, frozen=True, kw_only=True):
    """What a trial took so far, on average."""

    cost_usd: float | None = None
    """The cost with judges; None if a price is not known."""
    latency_s: float | None = None
    """The latency of the target; None if no request was sent."""
    concurrency: int = 1
    """How many requests are sent at the same time."""

    def total_usd(self, trials: int) -> float | None:
        """Returns the cost of a number of trials."""
        return None if self.cost_usd is None else trials * self.cost_usd

    def total_seconds(self, trials: int) -> float | None:
        """Returns how long a number of trials takes."""
        places = max(1, min(self.concurrency, trials))
        return None if self.latency_s is None else trials * self.latency_s / places


def tally_cases(runs: Iterable[RunOutcomes]) -> dict[str, CaseTally]:
    """Returns the tally of each case with a measured trial, over all of the runs."""
    tallies: dict[str, CaseTally] = {}
    for outcomes in runs:
        for case in outcomes.cases:
            measured = [trial.verdict is Verdict.PASS for trial in case.trials if trial.is_measured]
            if measured:
                passed, trials = tallies.get(case.id, (0, 0))
                tallies[case.id] = passed + sum(measured), trials + len(measured)
    return tallies


def measure_noise(
    baseline: TallyByCase,
    repeated: TallyByCase,
    rivals: Sequence[TallyByCase],
    clusters: Mapping[str, str] | None = None,
) -> StudyNoise:
    """Measures how far two runs of a suite differ where neither is better.

    Chance is twice the variance of a trial within its case. Where another target was run, pairs of trials
    of both differ in a share of the cases. One standard error less than their difference is taken off; what
    is then more than chance is lasting. It is the mean over the other targets. Two cases are added, of which
    one differs, as in the detection limit of a comparison.

    Args:
        baseline: the run that a further run will be compared with.
        repeated: all runs of its target, without reused answers.
        rivals: the runs of each other target.
        clusters: the cluster of each case of the suite by its id; None if the cases are independent.
    """
    rates = [passed / trials for passed, trials in baseline.values()]
    pass_rate = fsum(rates) / len(rates) if rates else None
    repeated = repeated or baseline
    components = variance_components(Counter(repeated.values()))
    chance = components or _pooled_components(rivals)
    shares = [share for rival in rivals if (share := _differing_share(repeated, rival)) is not None]
    cases = len(repeated)
    basis: NoiseBasis
    if shares:
        total = fsum(shares) / len(shares)
        varying = 0.0 if chance is None else 2 * chance.within
        basis, noise = "targets", PairNoise(varying, max(0.0, total - varying))
    elif chance is not None:
        basis, noise = "repeats", PairNoise(2 * chance.within, 0.0)
    else:
        basis, noise = "nothing" if pass_rate is None else "rate", PairNoise(0.0, _unrelated_share(rates))
    if basis in ("targets", "repeats"):
        noise = PairNoise(noise.chance * cases / (cases + 2), (noise.lasting * cases + 1) / (cases + 2))
    within = 0.0 if chance is None else chance.within
    return StudyNoise(
        basis=basis,
        noise=noise,
        is_chance_known=chance is not None,
        cases=cases,
        pass_rate=pass_rate,
        baseline_cases=len(baseline),
        targets=len(shares),
        components=components,
        clusters=None if not clusters else _measure_clusters(repeated, rivals, clusters, noise, within),
    )


def _measure_clusters(
    repeated: TallyByCase,
    rivals: Sequence[TallyByCase],
    clusters: Mapping[str, str],
    noise: PairNoise,
    within: float,
) -> ClusterNoise:
    """Measures how far the cases of a cluster go together.

    The covariance of their differences is the mean over the other targets. Without any, it is that of two
    runs that differ by what is lasting in `noise`, and correlate within clusters as one run does.

    Args:
        repeated: all runs of the baseline's target.
        rivals: the runs of each other target.
        clusters: the cluster of each case of the suite by its id.
        noise: how far two runs differ.
        within: the variance of a trial within its case; 0 if it is not known.
    """
    rates = {case: passed / trials for case, (passed, trials) in repeated.items() if case in clusters}
    few_trials = fsum(1 / repeated[case][1] for case in rates) / max(1, len(rates))
    relation = correlation_within(
        list(rates.values()), [clusters[case] for case in rates], within * few_trials
    )
    variances = filter(None, [_difference_variances(rates, rival, clusters) for rival in rivals])
    shared = [variance.between for variance in variances]
    covariance = fsum(shared) / len(shared) if shared else relation * noise.lasting
    return smooth_cluster_noise(covariance, relation, noise, len(rates), list(clusters.values()))


def _difference_variances(
    rates: Mapping[str, float], rival: TallyByCase, clusters: Mapping[str, str]
) -> GroupVariances | None:
    """Returns the variance of the differences of cases that two targets have; None if clusters show none."""
    differences = {
        case: rival[case][0] / rival[case][1] - rate for case, rate in rates.items() if case in rival
    }
    return group_variances(list(differences.values()), [clusters[case] for case in differences])


def _pooled_components(tallies: Iterable[TallyByCase]) -> VarianceComponents | None:
    shapes = Counter[CaseTally]()
    for by_case in tallies:
        shapes.update(by_case.values())
    return variance_components(shapes)


def _differing_share(first: TallyByCase, second: TallyByCase) -> float | None:
    """Returns the share of pairs of trials that differ, less what makes one side better."""
    pairs = [
        (passed / trials, second[case][0] / second[case][1])
        for case, (passed, trials) in first.items()
        if case in second
    ]
    if len(pairs) < 2:
        return None
    count = len(pairs)
    differing = fsum(before + after - 2 * before * after for before, after in pairs) / count
    difference = fsum(after - before for before, after in pairs) / count
    squares = fsum((after - before) ** 2 for before, after in pairs) / count
    error = sqrt(max(0.0, squares - difference * difference) / count)
    return max(0.0, differing - max(0.0, abs(difference) - error))


def _unrelated_share(rates: Sequence[float]) -> float:
    """Returns the share of pairs that differ if two runs have nothing to do with one another.

    The pass rate is the end of its interval that is nearer to one half, where most pairs differ.
    """
    low, high = wilson(min(fsum(rates), len(rates)), len(rates)) or (0.0, 1.0)
    rate = min(max(0.5, low), high)
    return 2 * rate * (1 - rate)


def plan_study(
    noise: StudyNoise,
    own_repeats: Mapping[int, int],
    costs: StudyCosts,
    *,
    difference: float,
    power: float,
    repeats: Sequence[int],
) -> StudyPlan:
    """Plans a comparison for several numbers of repeats.

    Args:
        noise: how far two runs of the suite differ.
        own_repeats: the number of the suite's cases by their own number of repeats, which is the least.
        costs: what a trial takes.
        difference: the difference to find, as a share of 1.
        power: the chance to find it.
        repeats: the numbers of repeats.

    Raises:
        ValueError: the difference or the power cannot be.
    """
    suite_cases, clusters = sum(own_repeats.values()), noise.clusters
    rows = []
    for count in repeats:
        is_known = count == 1 or noise.is_chance_known
        needed, needed_clusters = _needed_cases(difference, count, noise, power) if is_known else (None, None)
        suite_trials = sum(cases * max(own, count) for own, cases in own_repeats.items())
        trials = None if needed is None else round(needed * suite_trials / max(1, suite_cases))
        rows.append(
            StudyRow(
                repeats=count,
                smallest=_smallest_difference(suite_cases, count, noise, power) if is_known else None,
                suite_trials=suite_trials,
                suite_cost_usd=costs.total_usd(suite_trials),
                suite_seconds=costs.total_seconds(suite_trials),
                clusters=needed_clusters,
                cases=needed,
                trials=trials,
                cost_usd=None if trials is None else costs.total_usd(trials),
            )
        )
    return StudyPlan(
        difference=difference,
        power=power,
        suite_cases=suite_cases,
        suite_clusters=None if clusters is None else round(suite_cases / clusters.mean_size),
        noise=noise,
        rows=tuple(rows),
    )


def _needed_cases(
    difference: float, repeats: int, noise: StudyNoise, power: float
) -> tuple[int | None, int | None]:
    """Returns the numbers of cases and of clusters that show a difference; None if no number does."""
    if noise.clusters is None:
        return cases_needed_repeated(difference, repeats, noise.noise, power), None
    count = clusters_needed(difference, repeats, noise.noise, noise.clusters, power)
    return None if count is None else ceil(count * noise.clusters.mean_size), count


def _smallest_difference(cases: int, repeats: int, noise: StudyNoise, power: float) -> float | None:
    if noise.clusters is None:
        return smallest_difference_repeated(cases, repeats, noise.noise, power)
    return smallest_difference_clustered(cases, repeats, noise.noise, noise.clusters, power)

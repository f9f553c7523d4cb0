"""Print how often planned comparisons find what they were planned for: `python tools/study_figures.py`.

The tables of docs/guides/plan-a-comparison.md. Comparisons are simulated; `compare` decides them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from math import fsum, sqrt
from random import Random

from msgspec import Struct
from msgspec.structs import replace

from proctor.comparison.differences import (
    PassRateDifference,
    pass_rate_difference,
    smallest_detectable_difference,
    tally_pairs,
)
from proctor.comparison.outcome_table import TrialOutcome
from proctor.comparison.pairing import PairedCase
from proctor.comparison.study_size import CaseTally, measure_noise
from proctor.model import Verdict
from proctor.stats import (
    ClusterNoise,
    PairNoise,
    cases_needed_repeated,
    clusters_needed,
    smallest_difference,
    smallest_difference_clustered,
    smallest_difference_repeated,
    t_95,
)

ROUNDS = 2000
POWER = 0.8


class World(Struct, frozen=True):
    """Cases of which some vary from trial to trial, and some are changed by a candidate."""

    name: str
    varying: float
    """The share of cases that pass by chance, a third each in 20, 50 and 80 % of their trials."""
    lasting: float
    """The share of cases that one of two equally good targets always passes and the other never."""
    spread: bool = False
    """Whether a difference is one of all cases that vary, and not of cases that change altogether."""

    @property
    def noise(self) -> PairNoise:
        """How far two equally good runs differ."""
        return PairNoise(2 * self.varying * (0.16 + 0.25 + 0.16) / 3, self.lasting)

    def draw(self, random: Random, cases: int, difference: float) -> list[tuple[float, float]]:
        """The chances of each case to pass for the baseline and for the candidate."""
        shift = difference / self.varying if self.spread else 0.0
        up = self.lasting / 2 + (0.0 if self.spread else difference)
        return [self._draw_case(random, shift, up) for _ in range(cases)]

    def _draw_case(self, random: Random, shift: float, up: float) -> tuple[float, float]:
        place = random.random()
        if place < self.varying:
            rate = random.choice((0.2, 0.5, 0.8))
            return rate - shift / 2, rate + shift / 2
        place -= self.varying
        if place < up:
            return 0.0, 1.0
        if place < up + self.lasting / 2:
            return 1.0, 0.0
        return (1.0, 1.0) if random.random() < 0.75 else (0.0, 0.0)


WORLDS = (
    World("2 in 10 cases vary", 0.2, 0.0),
    World("5 in 10 vary", 0.5, 0.0),
    World("2 in 10 vary, 1 in 10 changes", 0.2, 0.1),
    World("none varies, 1 in 10 changes", 0.0, 0.1),
)
SPREAD = World("5 in 10 vary, and all of them a little better", 0.5, 0.0, spread=True)


def pair_trials(random: Random, cases: Sequence[tuple[float, float]], repeats: int) -> list[PairedCase]:
    """Simulates the trials of both runs."""

    def trial(repeat: int, rate: float) -> TrialOutcome:
        return TrialOutcome(repeat, Verdict.PASS if random.random() < rate else Verdict.FAIL)

    return [
        PairedCase(
            id="",
            category=None,
            tags=(),
            split=None,
            pairs=tuple((trial(repeat, before), trial(repeat, after)) for repeat in range(repeats)),
        )
        for before, after in cases
    ]


def is_found(random: Random, world: World, cases: int, repeats: int, difference: float) -> bool:
    """Whether one simulated comparison says that the candidate is better."""
    pairs = pair_trials(random, world.draw(random, cases, difference), repeats)
    return pass_rate_difference(pairs, by_case=repeats > 1).direction == "better"


def share_found(world: World, cases: int, repeats: int, difference: float, rounds: int = ROUNDS) -> float:
    """How often simulated comparisons say that the candidate is better."""
    random = Random(f"{world.name} {cases} {repeats} {difference}")
    return sum(is_found(random, world, cases, repeats, difference) for _ in range(rounds)) / rounds


def planned_cases(difference: float = 0.1) -> Iterator[str]:
    """The power of the planned number of cases, where the noise is known."""
    yield "| 10 pp; noise | repeats | planned cases | found |"
    yield "|---|--:|--:|--:|"
    for world in (*WORLDS, SPREAD):
        for repeats in (1, 3, 5):
            cases = cases_needed_repeated(difference, repeats, world.noise)
            assert cases is not None
            power = share_found(world, cases, repeats, difference)
            yield f"| {world.name} | {repeats} | {cases} | {power:.1%} |"


def limits(cases: int = 200) -> Iterator[str]:
    """How often a difference of what a suite shows is found, and one of four fifths of it."""
    yield "| 200 cases; noise | repeats | shows | found | four fifths of it found |"
    yield "|---|--:|--:|--:|--:|"
    for world in WORLDS:
        for repeats in (1, 3):
            size = smallest_difference_repeated(cases, repeats, world.noise)
            assert size is not None
            shares = [share_found(world, cases, repeats, part * size) for part in (1.0, 0.8)]
            yield f"| {world.name} | {repeats} | {100 * size:.1f} pp | {shares[0]:.1%} | {shares[1]:.1%} |"


def pilots(difference: float = 0.1, pilot_cases: int = 100, rounds: int = 150) -> Iterator[str]:
    """The power of the number of cases that is planned from stored runs."""
    yield "| 10 pp; noise | repeats | planned cases, middle half | found |"
    yield "|---|--:|--:|--:|"
    for world in WORLDS:
        for repeats in (1, 3):
            random, planned_sizes, found_count = Random(world.name), list[int](), 0
            for _ in range(rounds):
                cases = world.draw(random, pilot_cases, 0.0)
                first = _tally(random, [before for before, _ in cases], 3)
                second = _tally(random, [after for _, after in cases], 1)
                noise = measure_noise(first, first, [second]).noise
                planned_sizes.append(_needed(difference, repeats, noise))
                found_count += sum(
                    is_found(random, world, planned_sizes[-1], repeats, difference) for _ in range(10)
                )
            planned_sizes.sort()
            middle = f"{planned_sizes[rounds // 4]} to {planned_sizes[3 * rounds // 4]}"
            yield f"| {world.name} | {repeats} | {middle} | {found_count / rounds / 10:.1%} |"


@cache
def _needed(difference: float, repeats: int, noise: PairNoise) -> int:
    cases = cases_needed_repeated(difference, repeats, noise)
    assert cases is not None
    return cases


def _tally(random: Random, rates: Sequence[float], repeats: int) -> dict[str, CaseTally]:
    return {
        str(case): (sum(random.random() < rate for _ in range(repeats)), repeats)
        for case, rate in enumerate(rates)
    }


def sentences(rounds: int = 150) -> Iterator[str]:
    """How often the difference that compare names would be found: of two equal runs, then of a better one."""
    yield "| equal runs; noise | cases | repeats | found, before | found |"
    yield "|---|--:|--:|--:|--:|"
    for world in WORLDS:
        for cases, repeats in ((50, 1), (200, 1), (200, 3)):
            random, shares = Random(f"{world.name} {cases}"), [list[bool](), list[bool]()]
            for _ in range(rounds):
                pairs = pair_trials(random, world.draw(random, cases, 0.0), repeats)
                whole = pass_rate_difference(pairs, by_case=repeats > 1)
                sizes = _limit_before(whole, pairs), smallest_detectable_difference(whole, tally_pairs(pairs))
                for detections, size in zip(shares, sizes, strict=True):
                    assert size is not None
                    detections += [is_found(random, world, cases, repeats, size) for _ in range(8)]
            cells = [f"{fsum(detections) / len(detections):.1%}" for detections in shares]
            yield f"| {world.name} | {cases} | {repeats} | {cells[0]} | {cells[1]} |"


def _limit_before(whole: PassRateDifference, pairs: Sequence[PairedCase]) -> float | None:
    """What compare named before: it took the observed difference out of the noise."""
    if not whole.by_case:
        return _pair_limit_before(whole.cases, 2 * min(whole.fixed, whole.broken) / whole.cases)
    assert whole.value is not None
    squares = fsum(_case_difference(case) ** 2 for case in pairs)
    count = whole.cases + 2
    variance = (squares + 1) / count - (whole.value * whole.cases / count) ** 2
    return (t_95(count - 1) + 0.8416212335729143) * sqrt(variance / count)


def _case_difference(case: PairedCase) -> float:
    passes = [(before.verdict is Verdict.PASS, after.verdict is Verdict.PASS) for before, after in case.pairs]
    return sum(after - before for before, after in passes) / len(passes)


@cache
def _pair_limit_before(cases: int, noise: float) -> float | None:
    return smallest_difference(cases, lambda size: min(1.0, noise + size), POWER)


CLUSTER_SIZE = 5


class ClusteredWorld(Struct, frozen=True):
    """Cases of a world in clusters of five."""

    world: World
    relation: float
    """The correlation within clusters: each case is the cluster's own with a chance of its root."""

    @property
    def clusters(self) -> ClusterNoise:
        """How far the cases of a cluster differ together."""
        return ClusterNoise(self.relation * self.world.lasting, self.relation, CLUSTER_SIZE, CLUSTER_SIZE)

    def draw(self, random: Random, clusters: int, difference: float) -> list[tuple[float, float]]:
        """The chances of each case to pass for the baseline and for the candidate, cluster by cluster."""
        rates = list[tuple[float, float]]()
        for _ in range(clusters):
            common, *own = self.world.draw(random, CLUSTER_SIZE + 1, difference)
            rates += [common if random.random() < sqrt(self.relation) else rate for rate in own]
        return rates

    def draw_pairs(
        self, random: Random, clusters: int, repeats: int, difference: float
    ) -> tuple[PassRateDifference, list[PairedCase]]:
        """A simulated comparison, and its pairs."""
        pairs = pair_trials(random, self.draw(random, clusters, difference), repeats)
        pairs = [replace(case, cluster=str(place // CLUSTER_SIZE)) for place, case in enumerate(pairs)]
        return pass_rate_difference(pairs, by_case=repeats > 1), pairs

    def is_found(self, random: Random, clusters: int, repeats: int, difference: float) -> bool:
        """Whether one simulated comparison says that the candidate is better."""
        return self.draw_pairs(random, clusters, repeats, difference)[0].direction == "better"

    def plan_from_pilot(self, random: Random, clusters: int, repeats: int, difference: float) -> int:
        """The number of clusters that is planned from three repeats of one target and a run of another."""
        rates = self.draw(random, clusters, 0.0)
        first = _tally(random, [before for before, _ in rates], 3)
        second = _tally(random, [after for _, after in rates], 1)
        names = {case: str(int(case) // CLUSTER_SIZE) for case in first}
        noise = measure_noise(first, first, [second], names)
        assert noise.clusters is not None
        count = clusters_needed(difference, repeats, noise.noise, noise.clusters)
        assert count is not None
        return count


def clustered(difference: float = 0.1, suite: int = 40, rounds: int = 50) -> Iterator[str]:
    """How often comparisons over clusters of five find what they were planned for, or what is named."""
    yield (
        "| noise; correlation | repeats | clusters for 10 pp | found | planned from 40 | found "
        "| 40 clusters show | found | compare's sentence |"
    )
    yield "|---|--:|--:|--:|--:|--:|--:|--:|--:|"
    for world in WORLDS[1:]:
        for relation, repeats in ((0.3, 1), (0.3, 3), (0.0, 1), (0.0, 3)):
            cases, random = ClusteredWorld(world, relation), Random(f"{world.name} {relation} {repeats}")
            count = clusters_needed(difference, repeats, world.noise, cases.clusters)
            size = smallest_difference_clustered(suite * CLUSTER_SIZE, repeats, world.noise, cases.clusters)
            assert count is not None
            assert size is not None
            shares = [
                fsum(cases.is_found(random, *numbers) for _ in range(ROUNDS // 2)) * 2 / ROUNDS
                for numbers in ((count, repeats, difference), (suite, repeats, size))
            ]
            planned_sizes, detections, named_detections = list[int](), list[bool](), list[bool]()
            for _ in range(rounds):
                planned_sizes.append(cases.plan_from_pilot(random, suite, repeats, difference))
                detections += [
                    cases.is_found(random, planned_sizes[-1], repeats, difference) for _ in range(8)
                ]
                whole, pairs = cases.draw_pairs(random, suite, repeats, 0.0)
                limit = smallest_detectable_difference(whole, tally_pairs(pairs))
                assert limit is not None
                named_detections += [cases.is_found(random, suite, repeats, limit) for _ in range(8)]
            planned_sizes.sort()
            middle = f"{planned_sizes[rounds // 4]} to {planned_sizes[3 * rounds // 4]}"
            yield (
                f"| {world.name}; {relation:g} | {repeats} | {count} | {shares[0]:.1%} | {middle} "
                f"| {fsum(detections) / len(detections):.1%} | {100 * size:.1f} pp | {shares[1]:.1%} "
                f"| {fsum(named_detections) / len(named_detections):.1%} |"
            )


def main() -> None:
    """Print every table."""
    tables = {
        "Planned cases": planned_cases(),
        "What a suite shows": limits(),
        "Planned from stored runs": pilots(),
        "The sentence of compare": sentences(),
        "Clusters": clustered(),
    }
    for title, table in tables.items():
        print(f"{title}\n")
        for line in table:
            print(line, flush=True)
        print()


if __name__ == "__main__":
    main()

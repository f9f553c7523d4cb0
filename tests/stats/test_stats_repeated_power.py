"""Power with repeats: against the single pair, against simulated comparisons, and laws."""

from __future__ import annotations

from random import Random

import pytest

from proctor.stats import (
    PairNoise,
    agresti_min_interval,
    cases_needed_repeated,
    permutation,
    power_paired,
    power_repeated,
    smallest_difference_repeated,
)

NOISES = [PairNoise(0.15, 0.0), PairNoise(0.1, 0.1), PairNoise(0.02, 0.02)]


@pytest.mark.parametrize("noise", NOISES)
def test_with_one_trial_or_without_chance_it_is_the_power_of_pairs(noise: PairNoise) -> None:
    single = power_paired(120, 0.1, noise.chance + noise.lasting + 0.1)
    assert power_repeated(120, 1, 0.1, noise) == single
    assert power_repeated(120, 1, -0.1, noise) == single
    still = PairNoise(0.0, noise.lasting)
    assert power_repeated(120, 5, 0.1, still) == power_paired(120, 0.1, noise.lasting + 0.1)


@pytest.mark.parametrize(
    ("noise", "repeats", "cases"),
    [
        (PairNoise(0.076, 0.0), 3, 91),
        (PairNoise(0.076, 0.0), 5, 78),
        (PairNoise(0.19, 0.0), 3, 124),
        (PairNoise(0.076, 0.1), 3, 176),
        (PairNoise(0.0076, 0.02), 10, 82),
        (PairNoise(0.019, 0.0), 5, 67),
    ],
)
def test_the_cases_of_simulated_studies(noise: PairNoise, repeats: int, cases: int) -> None:
    """`tools/study_figures.py` simulated the first four: 79.2 to 83.3 % of comparisons found 10 points."""
    assert cases_needed_repeated(0.1, repeats, noise) == pytest.approx(cases, abs=1)


def simulated_power(cases: int, repeats: int, difference: float, noise: PairNoise, rounds: int) -> float:
    """How often the comparison of simulated runs shows the difference.

    Cases that vary pass half of the time in both runs; `lasting` change both ways, the others one way.
    """
    random, hits = Random(cases), 0
    for _ in range(rounds):
        differences = []
        for _ in range(cases):
            place = random.random()
            if place < 2 * noise.chance:
                trials = [random.random() < 0.5 for _ in range(2 * repeats)]
                differences.append((sum(trials[:repeats]) - sum(trials[repeats:])) / repeats)
            else:
                place -= 2 * noise.chance
                up, down = noise.lasting / 2 + difference, noise.lasting / 2
                differences.append(1.0 if place < up else -1.0 if place < up + down else 0.0)
        differences.sort(key=abs)
        interval = agresti_min_interval(differences)
        assert interval is not None
        hits += interval[0] > 0 and permutation(differences) < 0.05
    return hits / rounds


@pytest.mark.slow
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("repeats", [2, 5])
def test_the_planned_number_of_cases_has_the_power(noise: PairNoise, repeats: int) -> None:
    cases = cases_needed_repeated(0.1, repeats, noise)
    assert cases is not None
    assert simulated_power(cases, repeats, 0.1, noise, 800) == pytest.approx(0.8, abs=0.045)


@pytest.mark.parametrize("noise", NOISES)
def test_more_repeats_need_fewer_cases_and_show_smaller_differences(noise: PairNoise) -> None:
    cases = [cases_needed_repeated(0.1, repeats, noise) or 0 for repeats in (1, 2, 3, 5, 10)]
    assert cases == sorted(cases, reverse=True)
    sizes = [smallest_difference_repeated(200, repeats, noise) or 1.0 for repeats in (1, 2, 3, 5, 10)]
    assert sizes == pytest.approx(sorted(sizes, reverse=True), abs=2e-3)


def test_the_smallest_difference_is_the_first_one_with_that_power() -> None:
    noise = PairNoise(0.2, 0.03)
    smallest = smallest_difference_repeated(150, 3, noise, 0.9)
    assert smallest is not None
    assert power_repeated(150, 3, smallest, noise) >= 0.9 > power_repeated(150, 3, smallest - 1e-4, noise)
    cases = cases_needed_repeated(smallest, 3, noise, 0.9)
    assert cases == pytest.approx(150, abs=1)


def test_no_more_pairs_differ_than_of_answers_that_have_nothing_to_do_with_one_another() -> None:
    assert PairNoise(0.0, 0.5).discordant(0.2) == pytest.approx(0.52)
    assert PairNoise(0.1, 0.05).discordant(-0.2) == pytest.approx(0.35)
    assert PairNoise(0.6, 0.1).discordant(0.2) == pytest.approx(0.7)
    assert PairNoise(0.0, 0.0).discordant(1.0) == 1.0


@pytest.mark.parametrize("repeats", [1, 3])
def test_a_million_cases_are_no_harder(repeats: int) -> None:
    smallest = smallest_difference_repeated(1_000_000, repeats, PairNoise(0.1, 0.1))
    assert smallest == pytest.approx(2.8 * ((0.1 / repeats + 0.1) / 1_000_000) ** 0.5, rel=0.02)


def test_what_cannot_be_found_has_no_number() -> None:
    assert smallest_difference_repeated(3, 5, PairNoise(0.1, 0.0)) is None
    assert cases_needed_repeated(0.0, 3, PairNoise(0.1, 0.0)) is None


@pytest.mark.parametrize("arguments", [(-1, 2, 0.1), (10, 0.5, 0.1), (10, 2, 1.1)])
def test_numbers_that_cannot_be_are_refused(arguments: tuple[int, float, float]) -> None:
    with pytest.raises(ValueError, match="cases must be 0 or more"):
        power_repeated(*arguments, PairNoise(0.1, 0.0))
    with pytest.raises(ValueError, match="power must be"):
        smallest_difference_repeated(10, 2, PairNoise(0.1, 0.0), 1.0)

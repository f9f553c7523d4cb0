"""Plans of comparisons: the noise that stored runs show, and what it takes to find a difference."""

from __future__ import annotations

from random import Random

import pytest

from proctor.comparison.study_size import (
    CaseTally,
    StudyCosts,
    StudyNoise,
    measure_noise,
    plan_study,
    tally_cases,
)
from proctor.stats import ClusterNoise, PairNoise, cases_needed
from support.outcomes import make_outcomes


def tallies(*shapes: tuple[int, int, int]) -> dict[str, CaseTally]:
    """The tallies of so many cases of each shape: number, passed and trials."""
    rows = [(passed, trials) for count, passed, trials in shapes for _ in range(count)]
    return {f"c{place}": shape for place, shape in enumerate(rows)}


def make_noise(chance: float, lasting: float, **fields: object) -> StudyNoise:
    return StudyNoise(basis="targets", noise=PairNoise(chance, lasting), is_chance_known=True, **fields)  # type: ignore[arg-type]


# --- noise -------------------------------------------------------------------------------------------------


def test_trials_are_counted_by_case_over_all_runs_and_only_if_they_were_measured() -> None:
    runs = [make_outcomes("a", {"x": "+-!", "y": "??"}), make_outcomes("b", {"x": "+", "z": "-"})]
    assert tally_cases(runs) == {"x": (2, 3), "z": (0, 1)}


def test_without_a_run_half_of_the_cases_pass_and_runs_have_nothing_to_do_with_one_another() -> None:
    noise = measure_noise({}, {}, [])
    assert (noise.basis, noise.noise, noise.pass_rate) == ("nothing", PairNoise(0.0, 0.5), None)
    assert not noise.is_chance_known


def test_of_one_run_without_repeats_only_the_pass_rate_is_known() -> None:
    baseline = tallies((90, 1, 1), (10, 0, 1))
    noise = measure_noise(baseline, baseline, [])
    assert (noise.basis, noise.pass_rate, noise.is_chance_known) == ("rate", 0.9, False)
    # Its interval is 82.6 to 94.5 %: nearer to one half more pairs differ.
    assert noise.noise == pytest.approx((0.0, 2 * 0.826 * 0.174), abs=1e-3)
    middling = tallies((55, 1, 1), (45, 0, 1))
    assert measure_noise(middling, middling, []).noise == PairNoise(0.0, 0.5)


def test_repeats_tell_how_far_runs_of_one_target_differ_by_chance() -> None:
    baseline = tallies((60, 4, 4), (20, 2, 4), (20, 0, 4))
    noise = measure_noise(baseline, baseline, [])
    assert (noise.basis, noise.is_chance_known, noise.pass_rate) == ("repeats", True, 0.7)
    # Of two trials of a case that passes 2 of 4 the chance to differ is 2/3; two cases are added.
    assert noise.noise.chance == pytest.approx(0.2 * 2 / 3 * 100 / 102)
    assert noise.noise.lasting == pytest.approx(1 / 102)
    assert noise.components is not None


def test_a_further_run_of_the_target_is_a_repeat_and_needs_no_other() -> None:
    run = tallies((5, 1, 1), (5, 0, 1))
    assert measure_noise(run, tallies((5, 2, 2), (5, 1, 2)), []).basis == "repeats"


def test_another_target_tells_what_differs_besides_chance() -> None:
    baseline = tallies((40, 2, 2), (40, 0, 2))
    other = {case: (1 - passed // 2 if place % 8 == 0 else passed // 2, 1)
             for place, (case, (passed, _)) in enumerate(baseline.items())}  # fmt: skip
    noise = measure_noise(baseline, baseline, [other])
    assert (noise.basis, noise.targets) == ("targets", 1)
    assert noise.noise == pytest.approx((0.0, (80 / 8 + 1) / 82))


def test_clusters_tell_how_far_their_cases_go_together() -> None:
    names = {f"c{place}": str(place // 5) for place in range(100)}
    whole = tallies(*((5, 4 * (cluster % 2), 4) for cluster in range(20)))  # all cases of a cluster are alike
    alike = measure_noise(whole, whole, [], names).clusters
    assert alike is not None
    assert (alike.relation, alike.mean_size, alike.case_size) == (1, 5, 5)
    alternating = {case: (4 * (int(case[1:]) % 2), 4) for case in names}
    unlike = measure_noise(alternating, alternating, [], names).clusters
    assert unlike is not None
    assert unlike.relation == unlike.covariance == 0
    assert measure_noise(whole, whole, []).clusters is None


def test_where_another_target_differs_by_cluster_the_differences_go_together() -> None:
    names = {f"c{place}": str(place // 5) for place in range(100)}
    baseline = tallies((50, 1, 1), (50, 0, 1))
    by_cluster = {
        case: (1 - passed if int(names[case]) % 5 == 0 else passed, 1)
        for case, (passed, _) in baseline.items()
    }
    noise = measure_noise(baseline, baseline, [by_cluster], names)
    assert noise.clusters is not None
    assert noise.clusters.covariance == pytest.approx(noise.noise.lasting, abs=0.02)


def test_without_a_run_cases_of_a_cluster_are_taken_as_alike() -> None:
    cluster_noise = measure_noise({}, {}, [], {"a": "1", "b": "1", "c": "2"}).clusters
    assert cluster_noise is not None
    assert (cluster_noise.relation, cluster_noise.mean_size, cluster_noise.case_size) == (1, 1.5, 5 / 3)


def test_a_plan_over_clusters_needs_more_cases_and_says_how_many_clusters() -> None:
    clusters = ClusterNoise(0.03, 0.3, 5, 5)
    alone, clustered = (
        plan_study(noise, {1: 200}, StudyCosts(), difference=0.1, power=0.8, repeats=(1, 3))
        for noise in (make_noise(0.1, 0.1), make_noise(0.1, 0.1, clusters=clusters))
    )
    assert (alone.suite_clusters, clustered.suite_clusters) == (None, 40)
    for single, row in zip(alone.rows, clustered.rows, strict=True):
        assert single.clusters is None
        assert row.clusters is not None
        assert row.cases == 5 * row.clusters
        assert row.cases > single.cases  # type: ignore[operator]
        assert row.smallest > single.smallest  # type: ignore[operator]


def test_of_a_difference_all_but_one_standard_error_is_no_noise() -> None:
    baseline = tallies((100, 1, 1))
    better = {case: (int(place >= 30), 1) for place, case in enumerate(baseline)}
    noise = measure_noise(baseline, baseline, [better])
    assert noise.noise.lasting == pytest.approx((0.0458 * 100 + 1) / 102, abs=1e-3)
    assert not noise.is_chance_known


def test_the_noise_of_simulated_runs_is_right_on_average() -> None:
    random, sums, rounds = Random(3), [0.0, 0.0], 200
    for _ in range(rounds):
        first, second = dict[str, CaseTally](), dict[str, CaseTally]()
        for place in range(100):
            kind = random.random()
            rates = (
                (0.5, 0.5)
                if kind < 0.3
                else (1.0, 0.0)
                if kind < 0.35
                else (0.0, 1.0)
                if kind < 0.4
                else (1.0, 1.0)
            )
            first[f"c{place}"] = sum(random.random() < rates[0] for _ in range(3)), 3
            second[f"c{place}"] = int(random.random() < rates[1]), 1
        noise = measure_noise(first, first, [second]).noise
        sums = [sums[0] + noise.chance, sums[1] + noise.lasting]
    assert sums[0] / rounds == pytest.approx(0.15, abs=0.015)
    assert sums[1] / rounds == pytest.approx(0.1, abs=0.02)


# --- plans -------------------------------------------------------------------------------------------------


def test_a_plan_without_repeats_is_that_of_mcnemars_test() -> None:
    plan = plan_study(make_noise(0.1, 0.05), {1: 200}, StudyCosts(), difference=0.05, power=0.8, repeats=(1,))
    (row,) = plan.rows
    assert row.cases == cases_needed(0.05, 0.2) == 658
    assert (row.suite_trials, row.trials, row.cost_usd) == (200, 658, None)
    assert row.smallest is not None
    assert cases_needed(row.smallest, 0.15 + row.smallest) == pytest.approx(200, abs=1)


def test_costs_follow_the_trials_of_a_case_with_repeats_of_its_own() -> None:
    costs = StudyCosts(cost_usd=0.01, latency_s=2.0, concurrency=10)
    plan = plan_study(make_noise(0.2, 0.01), {1: 50, 5: 50}, costs, difference=0.1, power=0.8, repeats=(1, 3))
    assert [row.suite_trials for row in plan.rows] == [300, 400]
    assert [row.suite_cost_usd for row in plan.rows] == pytest.approx([3.0, 4.0])
    assert [row.suite_seconds for row in plan.rows] == pytest.approx([60.0, 80.0])
    for row in plan.rows:
        assert row.cases is not None
        assert row.trials == round(row.cases * row.suite_trials / 100)
        assert row.cost_usd == pytest.approx(row.trials * 0.01)


def test_what_repeats_gain_is_not_planned_where_it_is_not_known() -> None:
    run = tallies((90, 1, 1), (10, 0, 1))
    plan = plan_study(
        measure_noise(run, run, []), {1: 100}, StudyCosts(), difference=0.1, power=0.8, repeats=(1, 3)
    )
    assert [(row.cases is None, row.smallest is None) for row in plan.rows] == [(False, False), (True, True)]


def test_a_suite_that_is_too_small_shows_nothing() -> None:
    plan = plan_study(make_noise(0.1, 0.1), {1: 4}, StudyCosts(), difference=0.1, power=0.8, repeats=(1,))
    assert plan.rows[0].smallest is None

"""The difference of two runs with its interval and test, and the laws that it keeps."""

from __future__ import annotations

from itertools import product
from math import comb, isclose
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from proctor.comparison.compare import Comparison, compare_runs
from proctor.comparison.differences import median_interval
from proctor.comparison.outcomes import RunOutcomes
from proctor.stats import (
    agresti_min_interval,
    clustered_difference_interval,
    mcnemar,
    newcombe_paired,
    power_paired,
)
from support.outcomes import make_outcomes


def test_single_pairs_have_newcombes_interval_and_mcnemars_test() -> None:
    comparison = compare_runs(
        make_outcomes("a", "+" * 36 + "-" * 12 + "+" * 2), make_outcomes("b", "+" * 48 + "-" * 2)
    )
    whole = comparison.whole
    assert (whole.fixed, whole.broken) == (12, 2)
    assert whole.value == pytest.approx(0.2)
    assert whole.ci95 == newcombe_paired(36, 12, 2, 0)
    assert whole.p_value == mcnemar(12, 2, mid_p=True)
    assert whole.test == "McNemar, mid-p"
    assert whole.direction == "better"
    assert whole.baseline is not None
    assert whole.candidate is not None
    assert (whole.baseline.rate, whole.candidate.rate) == (0.76, 0.96)


def test_the_test_is_mid_p_while_at_most_half_of_the_pairs_differ() -> None:
    half = compare_runs(make_outcomes("a", "-" * 5 + "+" * 5), make_outcomes("b", "+" * 10)).whole
    assert (half.test, half.p_value) == ("McNemar, mid-p", mcnemar(5, 0, mid_p=True))
    more = compare_runs(make_outcomes("a", "-" * 6 + "+" * 4), make_outcomes("b", "+" * 10)).whole
    assert (more.test, more.p_value) == ("McNemar, exact", mcnemar(6, 0))


def test_what_was_not_measured_gives_the_difference_two_extremes() -> None:
    whole = compare_runs(make_outcomes("a", "+" * 20 + "!-+"), make_outcomes("b", "+" * 19 + "?-!+")).whole
    assert (whole.pairs, whole.unmeasured, whole.value) == (20, 3, 0)
    assert whole.extremes is not None
    low, high = whole.extremes
    assert (low.pairs, low.broken, low.fixed) == (high.pairs, 2, 0) == (23, 2, 0)
    assert (high.broken, high.fixed) == (0, 1)
    assert whole.bounds == pytest.approx((-2 / 23, 1 / 23))


def test_a_direction_is_the_weakest_that_holds_at_both_extremes() -> None:
    def directions(before: str, after: str) -> tuple[str, str, bool]:
        whole = compare_runs(make_outcomes("a", before), make_outcomes("b", after)).whole
        return whole.measured_direction, whole.direction, whole.is_decided

    assert directions("-" * 20 + "+" * 20, "+" * 39 + "!") == ("better", "better", True)
    assert directions("-" * 8 + "+" * 32, "+" * 30 + "!" * 10) == ("better", "unclear", False)
    assert directions("+" * 40, "+" * 20 + "!" * 20) == ("unclear", "unclear", False)
    assert directions("!" * 40, "+" * 40) == ("unclear", "unclear", False)


@given(st.text("+-!?", min_size=1, max_size=25), st.text("+-!?", min_size=1, max_size=25), st.data())
def test_every_outcome_of_what_was_not_measured_is_within_the_bounds(
    first: str, second: str, data: st.DataObject
) -> None:
    whole = compare_runs(make_outcomes("a", first), make_outcomes("b", second)).whole
    completed_signs = [
        "".join(data.draw(st.sampled_from("+-")) if c in "!?" else c for c in signs)
        for signs in (first, second)
    ]
    completed = compare_runs(
        make_outcomes("a", completed_signs[0]), make_outcomes("b", completed_signs[1])
    ).whole
    assert whole.bounds is not None
    assert completed.value is not None
    assert whole.bounds[0] - 1e-9 <= completed.value <= whole.bounds[1] + 1e-9


def test_repeats_count_by_case_each_case_alike() -> None:
    comparison = compare_runs(
        make_outcomes("a", {"x": "----", "y": "+", "z": "-"}),
        make_outcomes("b", {"x": "++++", "y": "+", "z": "-"}),
    )
    assert comparison.whole.value == pytest.approx(1 / 3)
    # Repeats that agree are worth one trial: of the three cases only x is fixed, y passes, and z fails.
    assert comparison.whole.ci95 == pytest.approx(newcombe_paired(1, 1, 0, 1))
    assert comparison.whole.interval_by == "Newcombe, over cases"
    assert comparison.whole.p_value == 1.0  # one case that differs can as well differ the other way


def test_repeats_that_agree_show_what_one_trial_of_each_case_shows() -> None:
    cases = {"x": 50, "y": 50}
    baseline, candidate = (
        make_outcomes(name, {case: sign * n for case, n in cases.items()})
        for name, sign in (("a", "-"), ("b", "+"))
    )
    comparison = compare_runs(baseline, candidate)
    assert (comparison.whole.pairs, comparison.whole.value) == (100, 1.0)
    assert comparison.whole.ci95 == newcombe_paired(0, 2, 0, 0)  # that of one trial each
    assert comparison.whole.p_value == 0.5
    assert comparison.whole.direction == "perhaps better"


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=30))
def test_the_interval_over_cases_has_width_stays_within_bounds_and_holds_the_mean(
    values: list[float],
) -> None:
    bounds = agresti_min_interval(values)
    assert bounds is not None
    low, high = bounds
    assert -1 <= low < high <= 1
    assert low - 1e-12 <= sum(values) / len(values) <= high + 1e-12
    mirrored = agresti_min_interval([-value for value in values])
    assert mirrored == pytest.approx((-high, -low))


def test_the_interval_over_cases_has_known_values() -> None:
    assert agresti_min_interval([]) is None
    # Five cases and two more of +1 and -1, half each, and 0: mean 0, variance 1/7, t with 6 degrees 2.446912.
    assert agresti_min_interval([0.0] * 5) == pytest.approx((-2.446912 / 7, 2.446912 / 7), abs=1e-6)


def test_the_interval_of_a_median_has_the_published_ranks() -> None:
    assert median_interval([1, 2, 3, 4, 5]) is None
    assert median_interval([1, 2, 3, 4, 5, 6]) == (1, 6)
    assert median_interval(list(range(1, 21))) == (6, 15)  # the 6th of 20 at each end, as tables have it
    assert median_interval(list(range(1, 101))) == (40, 61)


def test_parts_are_tested_together() -> None:
    names = {f"c{place}": "left" if place < 8 else "right" for place in range(16)}
    baseline, candidate = make_outcomes("a", "-" * 16), make_outcomes("b", "+" * 8 + "-" * 8, category=names)
    comparison = compare_runs(baseline, candidate)
    left_part, right_part = comparison.parts
    assert (left_part.name, left_part.difference.p_value, left_part.difference.p_holm) == (
        "left",
        1 / 128,
        2 / 128,
    )
    assert (right_part.difference.p_value, right_part.difference.p_holm) == (1.0, 1.0)


def test_a_case_is_in_every_one_of_its_tags() -> None:
    tags = {"x": ("a", "b"), "y": ("b",)}
    comparison = compare_runs(
        make_outcomes("a", {"x": "+", "y": "+"}),
        make_outcomes("b", {"x": "-", "y": "+"}, tags=tags),
        by="tag",
    )
    assert [(part.name, part.difference.pairs) for part in comparison.parts] == [("a", 1), ("b", 2)]


def test_scores_are_told_where_any_is_graded() -> None:
    cases = "+++"
    baseline = make_outcomes("a", cases, numbers={f"c{n}": {"score": 1.0} for n in range(3)})
    assert compare_runs(baseline, baseline).score is None
    candidate = make_outcomes("b", cases, numbers={f"c{n}": {"score": 0.5} for n in range(2)})
    measure = compare_runs(baseline, candidate).score
    assert measure is not None
    assert (measure.pairs, measure.baseline, measure.candidate, measure.difference) == (2, 1.0, 0.5, -0.5)
    assert measure.ci95 == pytest.approx(agresti_min_interval([-0.5, -0.5]))


def test_latency_and_cost_are_of_the_pairs_that_have_them() -> None:
    cases = "+-!+"
    baseline = make_outcomes("a", cases, numbers={f"c{n}": {"latency_ms": 100.0 * (n + 1)} for n in range(3)})
    candidate = make_outcomes(
        "b", cases, numbers={f"c{n}": {"latency_ms": 110.0 * (n + 1), "cost_usd": 1.0} for n in range(4)}
    )
    comparison = compare_runs(baseline, candidate)
    assert comparison.cost_usd is None
    assert comparison.latency_ms is not None
    assert (comparison.latency_ms.pairs, comparison.latency_ms.difference, comparison.latency_ms.median) == (
        2,
        15.0,
        15.0,
    )
    assert comparison.latency_ms.median_ci95 is None


def test_the_smallest_difference_is_one_that_would_be_found() -> None:
    def smallest(cases: int) -> float | None:
        return compare_runs(make_outcomes("a", "+" * cases), make_outcomes("b", "+" * cases)).smallest

    # Six cases that differ one way are the fewest that are significant: all six would have to.
    assert smallest(5) is None
    six, forty, thousand = smallest(6), smallest(40), smallest(1000)
    assert six is not None
    assert forty is not None
    assert thousand is not None
    # Two cases are added, of which one differs: 40 equal cases do not show that none can differ by chance.
    assert power_paired(6, six, (1 + six * six) / 2) == pytest.approx(0.8, abs=1e-3)
    assert power_paired(40, forty, forty + 1 / 42) == pytest.approx(0.8, abs=1e-3)
    assert thousand < 0.011


def test_an_observed_difference_that_may_be_chance_is_noise_for_the_smallest_difference() -> None:
    def smallest(fixed: int, broken: int) -> float:
        same = "+" * (200 - fixed - broken)
        before = make_outcomes("a", "-" * fixed + "+" * broken + same)
        after = make_outcomes("b", "+" * fixed + "-" * broken + same)
        difference = compare_runs(before, after).smallest
        assert difference is not None
        return difference

    assert smallest(10, 4) == pytest.approx(smallest(7, 7), abs=1e-5)
    # Of a difference that is shown, only what its interval does not rule out is noise.
    assert smallest(0, 14) < smallest(7, 7)
    assert smallest(0, 14) > smallest(0, 0)


def test_repeats_make_the_smallest_difference_smaller_as_far_as_chance_is_the_noise() -> None:
    def smallest(before: dict[str, str], after: dict[str, str]) -> float:
        difference = compare_runs(make_outcomes("a", before), make_outcomes("b", after)).smallest
        assert difference is not None
        return difference

    signs = ["+-+-", "-++-", "--++", "-+-+"]
    noisy = {f"c{n}": signs[n % 4] for n in range(80)}, {f"c{n}": signs[(n + 1) % 4] for n in range(80)}
    once = tuple({name: trials[0] for name, trials in run.items()} for run in noisy)
    assert smallest(*noisy) < 0.8 * smallest(*once)
    fixed = {f"c{n}": "++++" if n % 2 else "----" for n in range(80)}
    changed = {**fixed, "c0": "++++", "c1": "----"}
    once = tuple({name: trials[0] for name, trials in run.items()} for run in (fixed, changed))
    assert smallest(fixed, changed) == pytest.approx(smallest(*once), rel=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_a_difference_of_the_limit_is_found_four_times_in_five(noise: float) -> None:
    """Averages over all comparisons of two equal runs of 30 cases how often their limit is found."""
    expected_finds = weight = 0.0
    for fixed, broken in product(range(9), repeat=2):
        same = 30 - fixed - broken
        before = make_outcomes("a", "-" * fixed + "+" * (30 - fixed))
        after = make_outcomes("b", "+" * fixed + "-" * broken + "+" * same)
        limit = compare_runs(before, after).smallest
        assert limit is not None
        ways = comb(30, fixed) * comb(30 - fixed, broken)
        chance = ways * (noise / 2) ** (fixed + broken) * (1 - noise) ** same
        expected_finds += chance * power_paired(30, limit, min(1.0, noise + limit))
        weight += chance
    assert weight > 0.99
    assert 0.8 <= expected_finds / weight < 0.9


def test_more_noise_needs_more_cases() -> None:
    quiet = compare_runs(make_outcomes("a", "+" * 60), make_outcomes("b", "+" * 60)).smallest
    noisy = compare_runs(make_outcomes("a", "+-" * 30), make_outcomes("b", "-+" * 10 + "+-" * 20)).smallest
    assert quiet is not None
    assert noisy is not None
    assert noisy > quiet


# --- laws --------------------------------------------------------------------------------------------------

SIGNS = st.text("+-!?", min_size=0, max_size=3)
RUNS = st.dictionaries(st.sampled_from([f"c{n}" for n in range(12)]), SIGNS, max_size=12)
CATEGORY = {f"c{n}": "odd" if n % 2 else "even" for n in range(12)}


def outcome(comparison: Comparison) -> tuple[Any, ...]:
    whole = comparison.whole
    return whole.pairs, whole.value, whole.ci95, whole.p_value, set(comparison.fixed), set(comparison.broken)


@given(RUNS, RUNS)
def test_turned_round_a_comparison_is_its_mirror_image(first: Any, second: Any) -> None:
    baseline, candidate = (
        make_outcomes("a", first, category=CATEGORY),
        make_outcomes("b", second, category=CATEGORY),
    )
    forward, backward = compare_runs(baseline, candidate), compare_runs(candidate, baseline)
    assert set(forward.fixed) == set(backward.broken)
    assert forward.unpaired.only_baseline == backward.unpaired.only_candidate
    assert len(forward.not_measured) == len(backward.not_measured)
    assert [part.name for part in forward.parts] == [part.name for part in backward.parts]
    for this, that in (
        (forward.whole, backward.whole),
        *(
            (part.difference, mirrored.difference)
            for part, mirrored in zip(forward.parts, backward.parts, strict=True)
        ),
    ):
        assert this.pairs == that.pairs
        if this.value is None or this.ci95 is None or that.value is None or that.ci95 is None:
            assert this.value is that.value is None
            continue
        assert isclose(this.value, -that.value, abs_tol=1e-12)
        assert this.ci95 == pytest.approx((-that.ci95[1], -that.ci95[0]))
        assert this.p_value == pytest.approx(that.p_value)
        assert this.p_holm == pytest.approx(that.p_holm)
        assert {this.direction, that.direction} <= {"unclear"} or "better" in this.direction + that.direction


@given(RUNS)
def test_a_run_is_no_different_from_itself(cases: Any) -> None:
    comparison = compare_runs(make_outcomes("a", cases), make_outcomes("a", cases))
    assert comparison.fixed == comparison.broken == ()
    assert comparison.unpaired.only_baseline == comparison.unpaired.only_candidate == ()
    assert comparison.whole.value in (0.0, None)
    assert comparison.whole.direction == "unclear"


@pytest.mark.slow
@given(RUNS, RUNS, st.randoms())
def test_the_order_of_cases_and_trials_does_not_matter(first: Any, second: Any, chance: Any) -> None:
    def shuffle(facts: RunOutcomes) -> RunOutcomes:
        cases = [
            replace(case, trials=tuple(chance.sample(case.trials, len(case.trials)))) for case in facts.cases
        ]
        return replace(facts, cases=tuple(chance.sample(cases, len(cases))))

    baseline, candidate = make_outcomes("a", first), make_outcomes("b", second)
    assert outcome(compare_runs(shuffle(baseline), shuffle(candidate))) == outcome(
        compare_runs(baseline, candidate)
    )


@pytest.mark.slow
@given(st.tuples(*[st.integers(0, 40)] * 4))
def test_nothing_is_claimed_that_the_interval_does_not_show(counts: tuple[int, ...]) -> None:
    both_pass, fixed, broken, both_fail = counts
    baseline = make_outcomes("a", "+" * both_pass + "-" * fixed + "+" * broken + "-" * both_fail)
    candidate = make_outcomes("b", "+" * both_pass + "+" * fixed + "-" * broken + "-" * both_fail)
    whole = compare_runs(baseline, candidate).whole
    if whole.ci95 is not None and whole.ci95[0] <= 0 <= whole.ci95[1]:
        assert whole.direction == "unclear"
    if whole.direction in ("better", "worse"):
        assert whole.p_value is not None
        assert whole.p_value < 0.05


# --- clusters ----------------------------------------------------------------------------------------------


def test_related_cases_have_an_interval_and_a_test_over_their_clusters() -> None:
    clusters = {f"c{n}": f"text {n // 5}" for n in range(40)}
    before, after = "-" * 15 + "+" * 25, "+" * 40
    unclustered = compare_runs(make_outcomes("a", before), make_outcomes("b", after)).whole
    clustered = compare_runs(make_outcomes("a", before), make_outcomes("b", after, clusters=clusters)).whole
    assert (unclustered.clusters, unclustered.direction) == (None, "better")
    assert (clustered.clusters, clustered.direction) == (8, "unclear")
    assert (clustered.test, clustered.interval_by) == ("permutation by cluster", "Newcombe, over clusters")
    assert clustered.p_value == 0.25  # three of three clusters that differ do so in one direction
    assert clustered.value == unclustered.value == 0.375
    # Cases of a cluster agree here, so the clusters count: three are fixed, five pass in both runs.
    assert clustered.ci95 == pytest.approx(newcombe_paired(5, 3, 0, 0))
    assert clustered.error is not None
    assert unclustered.error is not None
    assert clustered.error > 2 * unclustered.error


def test_clusters_of_one_case_change_nothing() -> None:
    single = {f"c{n}": f"text {n}" for n in range(9)}
    signs = ("++--+-+-+", "+++-+-++-")
    plain, clustered = (
        compare_runs(
            *[
                make_outcomes(name, case_signs, clusters=by)
                for name, case_signs in zip("ab", signs, strict=True)
            ]
        )
        for by in ({}, single)
    )
    assert plain.whole == clustered.whole


@pytest.mark.parametrize(("metric", "attribute"), [("score", "score"), ("cost_usd", "cost_usd")])
def test_scores_and_costs_of_related_cases_have_an_interval_over_their_clusters(
    metric: str, attribute: str
) -> None:
    clusters = {f"c{n}": f"text {n // 5}" for n in range(20)}
    rises = {f"c{n}": {metric: 0.2 + 0.1 * (n // 5)} for n in range(20)}
    flat = {f"c{n}": {metric: 0.2} for n in range(20)}
    unclustered, clustered = (
        getattr(
            compare_runs(
                make_outcomes("a", "+" * 20, numbers=flat, clusters=by),
                make_outcomes("b", "+" * 20, numbers=rises, clusters=by),
            ),
            attribute,
        )
        for by in ({}, clusters)
    )
    assert clustered.difference == unclustered.difference
    assert clustered.ci95[1] - clustered.ci95[0] > 2 * (unclustered.ci95[1] - unclustered.ci95[0])


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=30))
def test_the_interval_of_scores_over_clusters_of_one_case_is_that_over_cases(values: list[float]) -> None:
    clustered = clustered_difference_interval([(value, 1) for value in values])
    assert clustered == pytest.approx(agresti_min_interval(values), abs=1e-12)


def test_the_smallest_difference_over_clusters_is_larger_if_their_cases_differ_together() -> None:
    clusters = {f"c{n}": f"text {n // 5}" for n in range(200)}
    baseline = "+-" * 50 + "-+" * 50

    def smallest(candidate: str) -> float:
        difference = compare_runs(
            make_outcomes("a", baseline), make_outcomes("b", candidate, clusters=clusters)
        ).smallest
        assert difference is not None
        return difference

    spread = "-+" + baseline[2:50] + "-+" + baseline[52:150] + "+-" + baseline[152:]
    together = "-----+++++" + baseline[10:]
    assert smallest(baseline) < smallest(spread) < smallest(together)

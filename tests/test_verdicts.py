"""Trials to verdicts, verdicts to numbers, numbers to exit codes."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from proctor.codec import decode, encode
from proctor.errors import ExitCode
from proctor.latency import LatencySummary
from proctor.model import (
    CHOICE_METRICS,
    Failure,
    Judgment,
    Output,
    PassRule,
    Score,
    Settings,
    Suite,
    Trial,
    Usage,
    Verdict,
)
from proctor.run_gate import run_exit_code, worst_exit_code
from proctor.stats import t_95, wilson
from proctor.verdicts import (
    NO_TRIALS,
    Counts,
    Tally,
    TallyState,
    decide_verdict,
    failed_gates,
    is_reused,
    pass_rules_for,
    trial_score,
)
from support.builders import make_case, make_counts, make_run, make_score, make_trial

PASS, FAIL, ERROR, UNSCORED = Verdict.PASS, Verdict.FAIL, Verdict.ERROR, Verdict.UNSCORED
ALL = PassRule()


def row(value: float | None, weight: float = 1.0, required: float | None = None) -> Score:
    outcome = UNSCORED if value is None else PASS if value == 1 else FAIL
    return Score(grader="g", name="g", value=value, outcome=outcome, weight=weight, required=required)


def partly(value: float, weight: float = 1.0) -> Score:
    """A score that passes below 1, as one with a threshold of its own does."""
    return Score(grader="g", name="g", value=value, outcome=PASS, weight=weight)


# --- the order of the rules --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scores", "verdict"),
    [
        # a gate that is not met fails, whatever could not be scored beside it
        ([row(0.4, required=0.5), row(None)], FAIL),
        ([row(None), row(0.4, required=0.5)], FAIL),
        ([row(0.0, weight=0, required=0.5), row(1.0)], FAIL),
        # a gate that is met, exactly too, leaves it to the rest
        ([row(1.0, required=1.0)], PASS),
        ([partly(0.5), row(0.5, required=0.5), row(None)], UNSCORED),
        ([row(1.0, weight=0, required=0.5), row(1.0)], PASS),
        # what counts and could not be scored makes the trial unscored, before anything else can fail it
        ([row(0.0), row(None)], UNSCORED),
        ([row(None), row(1.0)], UNSCORED),
        ([row(None, required=0.5), row(1.0)], UNSCORED),
        ([row(None, weight=0, required=0.5), row(1.0)], UNSCORED),
        # what does not count changes nothing
        ([row(None, weight=0), row(1.0)], PASS),
        ([row(0.0, weight=0), row(1.0)], PASS),
        ([row(1.0, weight=0), row(0.0)], FAIL),
        # where nothing counts, nothing was measured
        ([], UNSCORED),
        ([row(1.0, weight=0)], UNSCORED),
        ([row(1.0, weight=0), row(0.0, weight=0)], UNSCORED),
        # every assertion must pass
        ([row(1.0), row(1.0)], PASS),
        ([row(1.0), row(0.99)], FAIL),
        ([partly(0.6)], PASS),
    ],
)
def test_a_verdict_follows_the_first_rule_that_holds(scores: list[Score], verdict: Verdict) -> None:
    assert decide_verdict(make_trial("four", *scores), ALL) is verdict


def test_a_score_whose_outcome_is_an_error_is_no_pass() -> None:
    broken = Score(grader="g", name="g", outcome=ERROR)
    assert decide_verdict(make_trial("four", broken), ALL) is UNSCORED


@pytest.mark.parametrize("rule", [ALL, PassRule(threshold=0.0)])
@pytest.mark.parametrize("scores", [[], [row(1.0)], [row(0.0, required=1.0)], [row(None)]])
def test_a_trial_without_an_output_is_an_error_with_any_scores(scores: list[Score], rule: PassRule) -> None:
    assert decide_verdict(make_trial(None, *scores), rule) is ERROR


@pytest.mark.parametrize(
    ("threshold", "scores", "verdict"),
    [
        (0.8, [row(1.0), row(0.6)], PASS),
        (0.8, [row(1.0), row(0.59)], FAIL),
        (0.5, [row(1.0, weight=3), row(0.0, weight=3)], PASS),
        (0.75, [row(1.0, weight=3), row(0.0)], PASS),
        (0.76, [row(1.0, weight=3), row(0.0)], FAIL),
        (0.5, [row(1.0), row(0.0, weight=0)], PASS),
        (0.0, [row(0.0)], PASS),
        (1.0, [row(1.0, weight=1 / 3)] * 3, PASS),
        (1.0, [row(1.0, weight=0.1)] * 10, PASS),
        # 7 of 8, each a third, are 0.8749999999999999 in binary
        (0.875, [row(1.0, weight=1 / 3)] * 7 + [row(0.0, weight=1 / 3)], PASS),
        (0.7, [row(value) for value in (1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0)], PASS),
        (1.0, [row(1.0), row(0.999)], FAIL),
        # the threshold asks for the mean alone, not for each assertion
        (0.5, [row(0.5), row(0.5)], PASS),
        # gates and what could not be scored come first here too
        (0.1, [row(1.0), row(0.4, required=0.5)], FAIL),
        (0.1, [row(1.0), row(None)], UNSCORED),
        (0.9, [row(0.6, weight=0, required=0.5)], PASS),
        (0.9, [], UNSCORED),
    ],
)
def test_a_threshold_is_reached_by_the_weighted_mean(
    threshold: float, scores: list[Score], verdict: Verdict
) -> None:
    assert decide_verdict(make_trial("four", *scores), PassRule(threshold=threshold)) is verdict


@pytest.mark.parametrize(
    ("scores", "mean"),
    [
        ([], None),
        ([row(None)], None),
        ([row(1.0, weight=0)], None),
        ([row(1.0), row(0.0)], 0.5),
        ([row(1.0, weight=3), row(0.0)], 0.75),
        ([row(1.0), row(None, weight=9)], 1.0),
    ],
)
def test_a_score_is_the_weighted_mean_of_the_scores_that_have_a_value_and_weight(
    scores: list[Score], mean: float | None
) -> None:
    assert trial_score(make_trial("four", *scores)) == mean


WEIGHTED = st.lists(st.tuples(st.floats(0, 1), st.floats(0.01, 100)), min_size=1, max_size=8)


@given(WEIGHTED, st.randoms())
def test_the_order_of_the_scores_changes_nothing(pairs: list[tuple[float, float]], random: Any) -> None:
    scores = [row(value, weight) for value, weight in pairs]
    shuffled = random.sample(scores, len(scores))
    first, second = make_trial("x", *scores), make_trial("x", *shuffled)
    assert trial_score(first) == pytest.approx(trial_score(second))
    assert decide_verdict(first, ALL) is decide_verdict(second, ALL)


@given(WEIGHTED)
def test_full_marks_pass_every_threshold_whatever_the_weights(pairs: list[tuple[float, float]]) -> None:
    perfect = make_trial("x", *[row(1.0, weight) for _, weight in pairs])
    assert decide_verdict(perfect, PassRule(threshold=1.0)) is PASS


# --- numbers -----------------------------------------------------------------------------------------------


def test_counts_of_nothing_have_no_rate() -> None:
    counts = Counts()
    assert (counts.total, counts.pass_rate, counts.ci95, counts.bounds) == (0, None, None, None)


def test_unmeasured_trials_are_in_the_total_and_in_no_rate() -> None:
    counts = make_counts(passed=7, failed=1, errors=1, unscored=1)
    assert (counts.total, counts.passed, counts.failed, counts.errors, counts.unscored) == (10, 7, 1, 1, 1)
    assert (counts.cases, counts.unmeasured, counts.pass_rate, counts.ci95) == (8, 2, 7 / 8, wilson(7, 8))
    assert counts.bounds == (0.7, 0.9)


def test_without_measured_trials_there_is_no_rate_and_the_bounds_are_0_and_1() -> None:
    counts = make_counts(errors=3, unscored=2)
    assert (counts.cases, counts.pass_rate, counts.ci95, counts.bounds) == (0, None, None, (0.0, 1.0))


def count_cases(cases: list[list[Verdict]], clusters: list[str] | None = None) -> Counts:
    counts = Counts()
    for place, verdicts in enumerate(cases):
        shape = NO_TRIALS
        for verdict in verdicts:
            shape = counts.add(verdict, shape, None if clusters is None else clusters[place])
    return counts


def test_a_case_counts_once_however_often_it_was_asked() -> None:
    counts = count_cases([[PASS] * 50, *([[PASS]] * 4), *([[FAIL]] * 15)])
    assert (counts.passed, counts.total, counts.cases, counts.pass_rate) == (54, 69, 20, 0.25)
    assert counts.ci95 == pytest.approx(wilson(5, 20), abs=0.02)


def test_repeats_of_a_case_that_could_not_be_measured_leave_the_rest_of_it() -> None:
    counts = count_cases([[PASS, FAIL, ERROR, ERROR]] * 4)
    assert (counts.cases, counts.pass_rate, counts.bounds) == (4, 0.5, (0.25, 0.75))


def test_repeats_that_differ_narrow_the_interval_and_repeats_that_agree_do_not() -> None:
    agreeing = count_cases([[PASS] * 4] * 10 + [[FAIL] * 4] * 10)
    differing = count_cases([[PASS, PASS, FAIL, FAIL]] * 10 + [[PASS, FAIL, PASS, FAIL]] * 10)
    varying = count_cases([[PASS, PASS, PASS, FAIL]] * 10 + [[FAIL, FAIL, FAIL, PASS]] * 10)
    assert agreeing.ci95 == pytest.approx(wilson(10, 20))
    widths = [high - low for low, high in filter(None, (agreeing.ci95, varying.ci95, differing.ci95))]
    assert widths == sorted(widths, reverse=True)
    assert len(set(widths)) == 3


def test_cases_of_a_cluster_that_agree_count_as_one() -> None:
    cases = [[PASS]] * 15 + [[FAIL]] * 15
    clusters = [f"document {place // 5}" for place in range(30)]
    assert count_cases(cases, clusters).ci95 == pytest.approx(wilson(3, 6))
    assert count_cases(cases).ci95 == wilson(15, 30)


def test_few_clusters_that_agree_by_chance_are_no_independent_cases() -> None:
    cases = [[PASS]] * 4 + [[FAIL]] + [[FAIL]] + [[PASS]] * 4
    counts = count_cases(cases, [f"document {place // 5}" for place in range(10)])
    assert counts.ci95 == pytest.approx(wilson(1.6, 2))
    repeats = count_cases([[PASS, FAIL]] * 9)
    assert repeats.ci95 == pytest.approx(wilson(4.5, 9))


@pytest.mark.parametrize("groups", [2, 3, 5, 9])
def test_few_clusters_that_nearly_agree_are_counted_by_the_t_of_so_many(groups: int) -> None:
    cases = [[PASS] if place % 50 < 40 + (place < 50) else [FAIL] for place in range(50 * groups)]
    counts = count_cases(cases, [str(place // 50) for place in range(50 * groups)])
    assert counts.effective_cases is not None
    limit = len(cases) * (t_95(len(cases) - 1) / t_95(groups - 1)) ** 2
    assert counts.effective_cases[1] == pytest.approx(max(groups, limit))


CASES = st.lists(st.lists(st.sampled_from(list(Verdict)), min_size=1, max_size=5), min_size=1, max_size=20)


@given(CASES, st.booleans())
def test_interval_and_bounds_contain_the_rate(cases: list[list[Verdict]], clustered: bool) -> None:
    counts = count_cases(cases, [str(place // 3) for place in range(len(cases))] if clustered else None)
    if counts.pass_rate is None:
        assert counts.ci95 is None
        return
    for ends in (counts.ci95, counts.bounds):
        assert ends is not None
        assert 0 <= ends[0] <= counts.pass_rate + 1e-12
        assert counts.pass_rate - 1e-12 <= ends[1] <= 1


@given(CASES, st.randoms())
def test_the_order_in_which_trials_end_changes_nothing(cases: list[list[Verdict]], random: Any) -> None:
    trials = [place for place, verdicts in enumerate(cases) for _ in verdicts]
    random.shuffle(trials)
    counts, shapes = Counts(), [NO_TRIALS] * len(cases)
    remaining = [list(verdicts) for verdicts in cases]
    for place in trials:
        shapes[place] = counts.add(remaining[place].pop(), shapes[place])
    assert counts == count_cases(cases)


@given(CASES)
def test_counts_from_numbers_of_cases_are_those_of_their_trials(cases: list[list[Verdict]]) -> None:
    numbers = Counter(tuple(map(verdicts.count, (PASS, FAIL, ERROR, UNSCORED))) for verdicts in cases)
    assert Counts.from_cases(numbers) == count_cases(cases)  # type: ignore[arg-type]


@given(CASES, CASES)
def test_counts_of_two_parts_add_up(first: list[list[Verdict]], second: list[list[Verdict]]) -> None:
    assert count_cases(first).plus(count_cases(second)) == count_cases(first + second)


def test_a_tally_adds_up_a_run() -> None:
    tally = Tally(lambda _case: ALL)
    easy = make_case("a", category="math", tags=("easy",), repeats=2)
    verdicts = [
        tally.add(
            make_answered_trial(10.0, row(1.0), split="dev"),
            make_case("a", category="math", tags=("easy", "short"), repeats=2),
        ),
        tally.add(make_answered_trial(30.0, row(0.5), split="dev", repeat=1), easy),
        tally.add(make_trial(None, split="holdout"), make_case("b", category="words")),
        tally.add(make_answered_trial(20.0, row(None), split="holdout"), make_case("c", tags=("easy",))),
    ]
    assert verdicts == [PASS, FAIL, ERROR, UNSCORED]
    whole = tally.all
    assert (whole.passed, whole.failed, whole.errors, whole.unscored, whole.cases) == (1, 1, 1, 1, 1)
    dev, holdout = tally.splits["dev"], tally.splits["holdout"]
    assert (dev.passed, dev.failed, dev.cases) == (1, 1, 1)
    assert (holdout.errors, holdout.unscored, holdout.cases) == (1, 1, 0)
    assert {name: counts.total for name, counts in tally.categories.items()} == {"math": 2, "words": 1}
    assert {name: counts.total for name, counts in tally.tags.items()} == {"easy": 3, "short": 1}
    assert tally.mean_score == 0.75
    assert (tally.asked_count, tally.graded_count, tally.reused_count) == (4, 3, 0)
    assert (tally.target_usage.calls, tally.target_usage.input_tokens, tally.target_usage.output_tokens) == (
        3,
        30,
        6,
    )
    assert tally.latency_ms() == LatencySummary(p50=20.0, p95=29.0, mean=20.0, answers=3)
    assert tally.known_cost_usd == pytest.approx(0.03)
    assert tally.models == {"m-1"}
    assert tally.refused_params == {"seed"}


def make_answered_trial(latency_ms: float, *scores: Score, **fields: Any) -> Trial:
    output = Output(
        text="x",
        usage=Usage(input_tokens=10, output_tokens=2),
        latency_ms=latency_ms,
        cost_usd=0.01,
        model="m-1",
        refused_params=("seed",),
    )
    return make_trial("x", *scores, **({"output": output} | fields))


def test_a_tally_of_nothing_knows_nothing() -> None:
    tally = Tally(lambda _case: ALL)
    assert tally.mean_score is None
    assert tally.known_cost_usd is None
    assert tally.latency_ms() == LatencySummary()


def test_one_unknown_price_makes_the_whole_cost_unknown() -> None:
    tally = Tally(lambda _case: ALL)
    tally.add(make_answered_trial(1.0, row(1.0)), make_case())
    assert tally.known_cost_usd == 0.01
    tally.add(make_trial("free?", row(1.0)), make_case())
    assert tally.known_cost_usd is None


def test_a_trial_that_failed_costs_nothing_and_is_no_cost_by_itself() -> None:
    tally = Tally(lambda _case: ALL)
    tally.add(make_trial(None), make_case())
    assert tally.known_cost_usd is None
    tally.add(make_answered_trial(1.0, row(1.0)), make_case())
    assert tally.known_cost_usd == 0.01


def make_judged_score(*costs: float | None, **fields: Any) -> Score:
    """Makes a score with a judgment for each cost, of 5 input tokens and 1 output token."""
    judgment_fields: dict[str, Any] = {"judge": "j", "prompt_digest": "sha256:0"} | fields
    usage = Usage(input_tokens=5, output_tokens=1)
    judgments = tuple(Judgment(usage=usage, cost_usd=cost, **judgment_fields) for cost in costs)
    return Score(grader="llm_judge", name="kind", value=1.0, outcome=PASS, judgments=judgments)


@pytest.mark.parametrize(
    ("target", "judges", "whole", "least"),
    [(0.01, 0.5, 0.51, 0.51), (0.01, None, None, 0.01), (None, 0.5, None, 0.5), (None, None, None, 0.0)],
)
def test_costs_of_the_target_and_of_the_judges_are_counted_apart(
    target: float | None, judges: float | None, whole: float | None, least: float
) -> None:
    tally = Tally(lambda _case: ALL)
    output = Output(text="x", usage=Usage(input_tokens=10, output_tokens=2), cost_usd=target)
    tally.add(make_trial("x", make_judged_score(judges), output=output), make_case())
    assert (tally.target_cost_usd, tally.judge_usage.cost_usd) == (target, judges)
    assert tally.known_cost_usd == (whole if whole is None else pytest.approx(whole))
    assert tally.least_cost_usd == pytest.approx(least)


def test_costs_and_scores_are_the_same_in_whatever_order_trials_end() -> None:
    trials = [
        make_trial(
            "x",
            make_judged_score(0.1 / count),
            replace(make_judged_score(0.2), value=count / 7),
            case_id=str(count),
        )
        for count in range(1, 8)
    ]
    tallies = [Tally(lambda _case: ALL) for _ in range(2)]
    for tally, order in zip(tallies, (trials, reversed(trials)), strict=True):
        for trial in order:
            tally.add(trial, make_case(trial.case_id))
    first, second = tallies
    assert (first.mean_score, first.least_cost_usd) == (second.mean_score, second.least_cost_usd)


def test_calls_and_tokens_of_judges_are_not_the_targets() -> None:
    tally = Tally(lambda _case: ALL)
    tally.add(make_answered_trial(1.0, make_judged_score(0.1, 0.1), make_judged_score(0.1)), make_case())
    target_usage, judge_usage = tally.target_usage, tally.judge_usage
    assert (target_usage.calls, target_usage.input_tokens, target_usage.output_tokens) == (1, 10, 2)
    assert (judge_usage.calls, judge_usage.input_tokens, judge_usage.output_tokens) == (3, 15, 3)


def test_judges_agree_or_not_where_several_of_their_replies_could_be_read() -> None:
    tally = Tally(lambda _case: ALL)
    for passes in ((True,), (True, None), (True, True), (True, False, True)):
        judgments = tuple(Judgment(judge="j", prompt_digest="sha256:0", passed=passed) for passed in passes)
        tally.add(make_trial("x", make_score(1.0, judgments=judgments)), make_case())
    assert (tally.judge_stats.panels, tally.judge_stats.unanimous) == (2, 1)


def test_cached_answers_are_neither_requests_nor_costs() -> None:
    tally = Tally(lambda _case: ALL)
    usage = Usage(input_tokens=10, output_tokens=2)
    cached_output = Output(text="x", usage=usage, cost_usd=0.01, latency_ms=8.0, cached=True)
    tally.add(make_trial("x", make_judged_score(0.5, cached=True), output=cached_output), make_case())
    assert (tally.asked_count, tally.cached_count, tally.target_usage.cached, tally.judge_usage.cached) == (
        0,
        1,
        1,
        1,
    )
    assert (tally.target_usage.calls, tally.judge_usage.calls, tally.target_usage.input_tokens) == (0, 0, 0)
    assert (tally.known_cost_usd, tally.latency_ms()) == (0.0, LatencySummary(left_out=1))
    tally.add(
        make_trial("x", make_judged_score(None, cached=True), output=replace(cached_output, cost_usd=None)),
        make_case(),
    )
    assert tally.known_cost_usd == 0.0


@pytest.mark.parametrize(
    ("stage", "kind", "asked_count"),
    [
        ("target", "timeout", 1),
        ("target", "budget", 0),
        ("target", "not-asked", 0),
        ("setup", "workspace", 0),
    ],
)
def test_a_trial_that_failed_before_its_target_was_asked_is_not_counted_as_asked(
    stage: Any, kind: str, asked_count: int
) -> None:
    tally = Tally(lambda _case: ALL)
    tally.add(make_trial(None, failure=Failure(stage=stage, kind=kind, message="No.")), make_case())
    assert (tally.asked_count, tally.all.errors) == (asked_count, 1)


def test_an_output_used_again_counts_but_neither_costs_nor_was_asked() -> None:
    tally = Tally(lambda _case: ALL)
    tally.add(make_answered_trial(8.0, row(1.0), source_run="earlier"), make_case())
    assert (tally.asked_count, tally.reused_count, tally.graded_count, tally.all.passed) == (0, 1, 1, 1)
    assert (tally.target_usage.input_tokens, tally.known_cost_usd) == (0, 0.0)
    assert tally.latency_ms() == LatencySummary(left_out=1)


def test_latencies_are_those_that_were_measured_in_the_run() -> None:
    tally = Tally(lambda _case: ALL)
    tally.add(make_answered_trial(400.0, row(1.0)), make_case("a"))
    tally.add(make_answered_trial(60.0, row(1.0), source_run="earlier"), make_case("b"))
    cached = Output(text="x", latency_ms=62.0, cached=True)
    tally.add(make_trial("x", row(1.0), output=cached), make_case("c"))
    tally.add(make_trial(None), make_case("d"))
    expected = LatencySummary(p50=400.0, p95=400.0, mean=400.0, answers=1, left_out=2)
    assert tally.latency_ms() == expected
    assert (list(tally.latencies_ms), tally.answer_count) == ([400.0], 3)
    run = make_run()
    assert Tally.restore(run, tally.state()).latency_ms() == expected


@pytest.mark.parametrize(("is_kept", "calls", "graded"), [(True, 0, 0), (False, 2, 1)])
def test_judging_an_output_again_costs_and_taking_its_scores_over_does_not(
    is_kept: bool, calls: int, graded: int
) -> None:
    tally = Tally(lambda _case: ALL)
    tally.add(
        make_answered_trial(8.0, make_judged_score(0.5, 0.25), source_run="earlier"),
        make_case(),
        kept=is_kept,
    )
    assert (tally.target_usage.calls, tally.judge_usage.calls, tally.graded_count) == (0, calls, graded)
    assert tally.known_cost_usd == (0.0 if is_kept else 0.75)


@pytest.mark.parametrize("hours", [-2, 0, 2])
def test_scores_are_taken_over_where_another_run_made_them_whatever_the_clock_says(hours: int) -> None:
    run = make_run()
    moment = run.started_at + timedelta(hours=hours)
    assert not is_reused(make_trial("x", started_at=moment), run)
    assert is_reused(make_trial("x", started_at=moment, source_run="other", graded_in="other"), run)
    assert not is_reused(make_trial("x", started_at=moment, source_run="other", graded_in=run.id), run)
    older = make_trial("x", started_at=moment, source_run="other")  # of a store that does not know who graded
    assert is_reused(older, run) is (hours < 0)


@pytest.mark.parametrize(
    ("of_suite", "of_case", "of_run", "threshold"),
    [
        (None, None, None, None),
        (0.8, None, None, 0.8),
        (0.8, None, 0.5, 0.5),
        (None, None, 0.5, 0.5),
        (0.8, None, 0.0, 0.0),
        (None, 0.7, None, 0.7),
        (0.8, 0.7, None, 0.7),
        (0.8, 0.7, 0.9, 0.9),
    ],
)
def test_the_runs_threshold_outranks_the_cases_rule_and_that_the_suites(
    of_suite: float | None, of_case: float | None, of_run: float | None, threshold: float | None
) -> None:
    suite = Suite(name="s", dialect="pramana", pass_rule=PassRule(threshold=of_suite))
    run = make_run(suite=suite, settings=Settings(threshold=of_run))
    case = make_case(pass_rule=None if of_case is None else PassRule(threshold=of_case))
    assert pass_rules_for(run)(case) == PassRule(threshold=threshold)
    below = make_trial("x", row(1.0), row(0.5))
    assert Tally(pass_rules_for(run)).add(below, case) is (
        FAIL if threshold is None or threshold > 0.75 else PASS
    )


# --- exit codes --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("counts", "settings", "code"),
    [
        ({"passed": 3}, {}, ExitCode.OK),
        ({}, {}, ExitCode.OK),
        ({"passed": 3, "failed": 1}, {}, ExitCode.FAILED),
        ({"passed": 3, "errors": 1}, {}, ExitCode.NOT_MEASURED),
        ({"passed": 3, "unscored": 1}, {}, ExitCode.NOT_MEASURED),
        ({"failed": 3, "errors": 1}, {}, ExitCode.NOT_MEASURED),
        # so many may be without a verdict
        ({"passed": 3, "errors": 1}, {"allow_errors": 1}, ExitCode.OK),
        ({"passed": 3, "errors": 1, "unscored": 1}, {"allow_errors": 1}, ExitCode.NOT_MEASURED),
        ({"passed": 3, "errors": 1, "unscored": 1}, {"allow_errors": 2}, ExitCode.OK),
        ({"failed": 1, "errors": 1}, {"allow_errors": 1}, ExitCode.FAILED),
        # a gate decides instead of the failures
        ({"passed": 3, "failed": 1}, {"min_pass_rate": 0.75}, ExitCode.OK),
        ({"passed": 3, "failed": 1}, {"min_pass_rate": 0.76}, ExitCode.FAILED),
        ({"passed": 4}, {"min_pass_rate": 1.0}, ExitCode.OK),
        ({"failed": 4}, {"min_pass_rate": 0.0}, ExitCode.OK),
        ({"passed": 1, "failed": 2}, {"min_pass_rate": 1 / 3}, ExitCode.OK),
        # and never over what was not measured
        ({"passed": 9, "errors": 1}, {"min_pass_rate": 0.5}, ExitCode.NOT_MEASURED),
        ({"passed": 9, "errors": 1}, {"min_pass_rate": 0.9, "allow_errors": 1}, ExitCode.OK),
        # which may decide it either way, or not
        ({"passed": 9, "errors": 1}, {"min_pass_rate": 0.91, "allow_errors": 1}, ExitCode.NOT_MEASURED),
        ({"failed": 9, "errors": 1}, {"min_pass_rate": 0.11, "allow_errors": 1}, ExitCode.FAILED),
        ({"errors": 4, "unscored": 1}, {"allow_errors": 9}, ExitCode.NOT_MEASURED),
        ({}, {"min_pass_rate": 0.5}, ExitCode.NOT_MEASURED),
    ],
)
def test_an_exit_code_says_what_a_caller_must_not_overlook(
    counts: dict[str, int], settings: dict[str, Any], code: ExitCode
) -> None:
    assert run_exit_code(make_counts(**counts), Settings(**settings)) is code


RANKED = [
    ExitCode.OK,
    ExitCode.NOTHING_SELECTED,
    ExitCode.FAILED,
    ExitCode.NOT_MEASURED,
    ExitCode.USAGE,
    ExitCode.INTERRUPTED,
]


@pytest.mark.parametrize(("better", "worse"), list(combinations(RANKED, 2)))
def test_of_several_codes_the_worse_one_counts_in_any_order(better: ExitCode, worse: ExitCode) -> None:
    assert worst_exit_code([better, worse, better]) is worst_exit_code([worse, better]) is worse


def test_the_worst_of_no_codes_is_ok() -> None:
    assert worst_exit_code([]) is ExitCode.OK
    assert (
        worst_exit_code([ExitCode.OK, ExitCode.FAILED, ExitCode.NOT_MEASURED, ExitCode.OK])
        is ExitCode.NOT_MEASURED
    )


def test_a_gate_that_failed_is_named_and_the_weighted_score_stays() -> None:
    gated = Score(grader="g", name="safe", value=0.5, outcome=FAIL, weight=1.0, required=0.8)
    trial = make_trial("x", gated, row(1.0, weight=9.0))
    assert decide_verdict(trial, PassRule(threshold=0.8)) is FAIL
    assert failed_gates(trial) == ["safe"]
    assert trial_score(trial) == pytest.approx(0.95)


def test_the_measures_of_multiple_choice_are_counted_once_for_each_answer() -> None:
    def choose(**details: float) -> Score:
        return Score(grader="multiple_choice", name="multiple_choice", outcome=FAIL, details=details)

    tally = Tally(lambda _case: ALL)
    right = choose(acc=1.0, acc_norm=1.0, acc_bytes=0.0)
    for scores in ((right, right), (choose(acc=0.0, acc_norm=1.0, acc_bytes=0.0),), (choose(),), (row(1.0),)):
        tally.add(make_trial("x", *scores), make_case())
    accuracy = tally.choice_accuracy
    assert accuracy.answers == 2
    assert [accuracy.rate(metric) for metric in CHOICE_METRICS] == [0.5, 1.0, 0.0]
    assert decode(encode(tally.state()), TallyState).choice_accuracy == accuracy
    assert Tally(lambda _case: ALL).choice_accuracy.answers == 0

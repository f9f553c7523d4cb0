"""Which cases are worse, by a test that may be made every day, and what changed on either side."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from proctor.drift.change_point import place_weight
from proctor.drift.confounders import RecordedChange
from proctor.drift.detector import detect_drift
from proctor.drift.observations import RunObservation
from proctor.model import Output, Score, Selection, Settings, Suite, TargetSpec, Trial, Verdict
from proctor.reports.drift.report import DriftReport, describe_drift
from support.series import make_series

PAGE = Path(__file__).parent.parent.parent / "docs" / "explanation/drift-figures.md"
Series = Callable[..., list[RunObservation]]


def fail_first(count: int, total: int = 40) -> list[str]:
    """Answers of which the first `count` fail."""
    return [f"no {number}" for number in range(count)] + ["yes"] * (total - count)


def test_cases_that_got_worse_and_better_are_named() -> None:
    first = ["no", *["yes"] * 39]
    flips = detect_drift(make_series(first, ["yes", *["no 2"] * 3, *["yes"] * 36])).last.flips
    assert flips is not None
    assert (flips.worse, flips.better) == (("c1", "c2", "c3"), ("c0",))
    assert flips.difference == pytest.approx(-2 / 40)
    assert flips.ci95 is not None
    assert flips.ci95[0] < flips.difference < flips.ci95[1]


def test_a_case_is_held_against_the_first_verdict_on_it() -> None:
    rows = [None, "yes"], ["yes", "no 1"], ["no 2", "no 1"]
    flips = detect_drift(make_series(*rows)).last.flips
    assert flips is not None
    assert (flips.cases, set(flips.worse)) == (2, {"c0", "c1"})


@pytest.mark.parametrize("nights", [2, 5, 20])
def test_a_change_is_judged_by_the_share_of_the_error_that_its_place_has(nights: int) -> None:
    """One night after many: seven cases that each had one place of many to change at, and all chose this."""
    change = detect_drift(make_series(*[fail_first(0)] * nights, fail_first(7))).pass_rate_change
    assert change is not None
    assert change.split.p_cases == pytest.approx(2 * (1 / (nights + 1)) ** 7, rel=1e-3)
    assert change.weight == pytest.approx(1 / (2 * nights * (nights + 1) * 1 * 2))
    assert change.p_value == min(1, max(change.split.p_cases, change.split.p_nights) / change.weight)


def test_the_shares_of_all_places_of_all_series_add_up_to_one() -> None:
    total = sum(place_weight(before, after) for before in range(1, 400) for after in range(1, 400))
    assert total == pytest.approx(1, abs=0.01)
    assert total < 1


def test_a_shown_drop_is_drift_whatever_is_identical() -> None:
    drift = detect_drift(make_series(*[fail_first(0, 400)] * 30, *[fail_first(20, 400)] * 3))
    assert drift.last.lowest is not None
    assert (drift.last.lowest.level, drift.state) == ("stable", "drifting")
    assert (drift.by_answers, drift.by_verdicts, int(drift.exit_code)) == (False, True, 1)
    assert drift.since == drift.points[30].started_at
    better = detect_drift(make_series(*[fail_first(20, 400)] * 30, *[fail_first(0, 400)] * 3))
    assert better.pass_rate_change is not None
    assert (better.state, better.pass_rate_change.is_significant, better.by_verdicts) == (
        "stable",
        True,
        False,
    )


def test_a_drop_that_a_bad_night_could_be_is_to_be_watched_until_it_lasts() -> None:
    """Twenty of 400 cases are far more than chance in each case, and no more than nights may differ."""
    for nights, state in ((1, "watch"), (3, "drifting")):
        drift = detect_drift(make_series(*[fail_first(0, 400)] * 30, *[fail_first(20, 400)] * nights))
        assert (drift.state, drift.is_suspected) == (state, state == "watch")
        assert drift.since == drift.points[30].started_at
        assert ("one bad night" in " ".join(describe_drift(DriftReport(drift=drift)))) is (state == "watch")


def test_a_collapse_is_shown_by_two_runs() -> None:
    assert detect_drift(make_series(fail_first(0), fail_first(40))).by_verdicts
    half = detect_drift(make_series(fail_first(0), fail_first(20)))
    assert (half.state, half.is_suspected) == ("watch", True)


@pytest.mark.slow
def test_a_small_drop_late_in_a_long_series_is_shown_and_stays_shown() -> None:
    """A tenth of forty cases, after two hundred nights: far too few to be told from one night alone."""
    for after in (2, 30):
        drift = detect_drift(make_series(*[fail_first(0)] * 200, *[fail_first(4)] * after))
        assert (drift.last.lowest.level if drift.last.lowest else "", drift.state) == ("watch", "drifting")
        assert drift.since == drift.points[200].started_at


def test_a_drop_that_is_over_is_no_drift() -> None:
    runs = [*[fail_first(0)] * 20, *[fail_first(9)] * 5]
    assert detect_drift(make_series(*runs)).by_verdicts
    for nights in (1, 5):
        drift = detect_drift(make_series(*runs, *[fail_first(0)] * nights))
        assert (drift.by_verdicts, drift.is_suspected, drift.state == "drifting") == (False, False, False)


def test_identical_answers_with_other_verdicts_are_regraded_and_no_drift() -> None:
    def make_graded_trial(value: float) -> Trial:
        outcome = Verdict.PASS if value else Verdict.FAIL
        score = Score(grader="judge", name="judge", value=value, outcome=outcome)
        return Trial(
            case_id="",
            position=0,
            sent="",
            output=Output(text="same"),
            scores=(score,),
            started_at=make_series(["a"])[0].run.started_at,
        )

    drift = detect_drift(
        make_series([make_graded_trial(1)] * 20, [make_graded_trial(1)] * 20, [make_graded_trial(0)] * 20)
    )
    flips = drift.last.flips
    assert flips is not None
    assert (flips.worse, len(flips.regraded), flips.difference) == ((), 20, 0)
    assert (drift.state, drift.change_point) == ("stable", None)


def test_a_case_of_several_repeats_counts_once_by_their_mean() -> None:
    flips = detect_drift(
        make_series([["yes", "yes"], ["no", "yes"]], [["no 1", "yes"], ["yes 1", "no 1"]])
    ).last.flips
    assert flips is not None
    assert (flips.cases, flips.worse, flips.better) == (2, ("c0",), ())
    assert flips.difference == pytest.approx(-0.25)


@pytest.mark.parametrize("repeats", [1, 2, 5])
@pytest.mark.parametrize("answer", ["yes", "no"])
def test_the_interval_of_the_difference_has_width_where_nothing_changed(answer: str, repeats: int) -> None:
    run = [[answer] * repeats] * 10
    flips = detect_drift(make_series(run, run)).last.flips
    assert flips is not None
    assert flips.ci95 is not None
    low, high = flips.ci95
    assert low < flips.difference == 0 < high


def test_the_interval_of_the_difference_has_width_where_half_of_each_case_changed() -> None:
    before, after = [["yes", "yes"]] * 10, [["yes", "no"]] * 10
    flips = detect_drift(make_series(before, after)).last.flips
    assert flips is not None
    assert flips.ci95 is not None
    assert flips.ci95[0] < flips.difference == -0.5 < flips.ci95[1] < 0


def test_a_rule_over_repeats_makes_one_verdict_of_a_case() -> None:
    suite = Suite(name="s", dialect="agentv", digest="sha256:5", repeats_rule="any")
    rows = [["no", "yes"], ["no", "no"]], [["no 1", "no 2"], ["no", "no"]]
    drift = detect_drift(make_series(*rows, suite=suite))
    assert [step.observation.passed.passed for step in drift.points] == [1, 0]
    assert drift.last.flips is not None
    assert drift.last.flips.worse == ("c0",)


def test_verdicts_are_compared_only_where_judges_are_the_same() -> None:
    other = {"judges": (TargetSpec(name="second", kind="echo"),)}
    rows = fail_first(0), fail_first(0), fail_first(9), fail_first(9), fail_first(12)
    drift = detect_drift(make_series(*rows, runs={2: other, 3: other, 4: other}))
    assert [step.flips is None for step in drift.points] == [True, True, True, False, False]
    assert drift.last.flips is not None
    assert len(drift.last.flips.worse) == 3
    alone = detect_drift(make_series(fail_first(0), fail_first(9), runs={1: other}))
    assert (alone.last.flips, alone.pass_rate_change) == (None, None)
    assert alone.state == "watch"  # by its answers


# --- the promise, by simulation ----------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("place", range(7))
def test_an_unchanged_target_seldom_alarms_on_any_night(figures: dict[str, Any], place: int) -> None:
    """Whatever the nights add to all cases, and whatever the cases of one document share."""
    assert figures["unchanged"](figures["WITHIN"][place], 50, series=20, count=30).adjusted <= 3


def test_cases_that_move_together_from_night_to_night_do_not_alarm(figures: dict[str, Any]) -> None:
    """The test that takes each case by itself alarms on most such series."""
    nights = figures["Nights"]("sd of 10 points", deviation=0.1)
    alarms = figures["unchanged"](nights, 100, series=8, count=20)
    assert alarms.by_cases >= 4
    assert alarms.adjusted == 0


@pytest.mark.parametrize("night", [5, 80])
def test_a_drop_of_twenty_points_is_shown_within_days_however_long_the_watch(
    figures: dict[str, Any], night: int
) -> None:
    delays = figures["delays"](figures["STEADY"], 100, 0.2, night, 8)
    assert max(now for _, now in delays) <= 3


@pytest.mark.slow
def test_the_page_has_the_figures_of_now(figures: dict[str, Any]) -> None:
    """Only the figures that are quick to compute; tools/drift_figures.py writes all of them."""
    row = figures["delays_row"](figures["STEADY"], 50, 0.2, 10, figures["DELAYS"])
    assert row in PAGE.read_text(encoding="utf-8").splitlines()


# --- both sides --------------------------------------------------------------------------------------------


def list_changes(series: Series, fields: dict[str, Any]) -> list[tuple[str, str, str, str]]:
    changes = detect_drift(
        series(fail_first(0), fail_first(0), fail_first(0), runs={1: fields, 2: fields})
    ).recorded_changes
    assert all(isinstance(change, RecordedChange) and change.place == 1 for change in changes)
    return [(change.side, change.what, change.was, change.now) for change in changes]


@pytest.mark.parametrize(
    ("fields", "what", "was", "now"),
    [
        ({"versions": {"proctor": "2", "new": "1"}}, "version of proctor", "1", "2"),
        ({"judges": (TargetSpec(name="j", kind="echo"),)}, "judges", "none", "j"),
        ({"settings": Settings(repeats=3)}, "repeats", "as the suite says", "3"),
        ({"settings": Settings(threshold=0.5)}, "threshold", "as the suite says", "0.5"),
        ({"settings": Settings(concurrency=1)}, "concurrency", "32", "1"),
        ({"settings": Settings(judge_rule="all")}, "judge rule", "majority", "all"),
        ({"settings": Settings(selection=Selection(split="dev"))}, "selection", "all", '{"split":"dev"}'),
    ],
)
def test_what_changed_on_your_side_is_named(fields: dict[str, Any], what: str, was: str, now: str) -> None:
    assert list_changes(
        lambda *rows, **options: make_series(*rows, versions={"proctor": "1"}, **options), fields
    ) == [("yours", what, was, now)]


def test_judges_of_one_name_are_told_apart() -> None:
    before = {"judges": (TargetSpec(name="j", kind="echo"),)}
    after = {"judges": (TargetSpec(name="j", kind="echo", model="other"),)}
    (change,) = detect_drift(
        make_series(fail_first(0), fail_first(0), runs={0: before, 1: after})
    ).recorded_changes
    assert change.was.startswith("j (sha256:")
    assert change.was != change.now


def test_what_the_endpoint_says_of_itself_is_on_the_targets_side() -> None:
    def row(model: str | None, fingerprint: str | None) -> list[Output]:
        return [Output(text="yes", model=model, fingerprint=fingerprint)] * 3

    changes = detect_drift(
        make_series(row("m-1", "f"), row(None, None), row("m-1", "f"), row("m-2", "g"))
    ).recorded_changes
    assert [(change.place, change.side, change.what, change.was, change.now) for change in changes] == [
        (3, "target", "reported model", "m-1", "m-2"),
        (3, "target", "system fingerprint", "f", "g"),
    ]

"""Shares of identical answers, the noise behind them, and the state of a series."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from proctor.drift.detector import detect_drift
from proctor.drift.identical_answers import identical_share, share_within_run
from proctor.drift.observations import answer_digest
from proctor.errors import ExitCode
from proctor.model import Output, Params, Settings, TargetSpec, ToolCall, Trial
from proctor.reports.drift.report import DriftReport, describe_drift
from support.series import make_series

MINUTE = timedelta(minutes=1)
BEGAN = datetime(2026, 9, 1, tzinfo=UTC)


def change_first(count: int, total: int = 100, other: str = "yes, too") -> list[str]:
    """Answers of which the first `count` are `other`."""
    return [other] * count + ["yes"] * (total - count)


def repeat_answers(answers: list[Any]) -> list[list[Any]]:
    """Each answer twice, as from a target that repeats itself."""
    return [[answer, answer] for answer in answers]


# --- what is identical -------------------------------------------------------------------------------------


@given(text=st.text(max_size=9), other=st.text(max_size=9))
def test_answers_are_identical_when_their_texts_are(text: str, other: str) -> None:
    same = answer_digest(Output(text=text)) == answer_digest(Output(text=other, latency_ms=3, model="m"))
    assert same == (text == other)


CALL = ToolCall(name="find", arguments={"q": "a", "n": 1}, id="1", duration_ms=3)


@pytest.mark.parametrize(
    ("other", "same"),
    [
        (Output(text="", tool_calls=(replace(CALL, id="2", duration_ms=9, output="x"),)), True),
        (Output(text="", tool_calls=(replace(CALL, arguments={"n": 1, "q": "a"}),)), True),
        (Output(text="", tool_calls=(replace(CALL, arguments={"q": "b", "n": 1}),)), False),
        (Output(text="", tool_calls=(CALL, CALL)), False),
        (Output(text=""), False),
        (Output(text="", tool_calls=(CALL,), file_changes="+x"), False),
    ],
)
def test_calls_of_tools_and_changed_files_are_a_part_of_an_answer(other: Output, same: bool) -> None:
    assert (answer_digest(Output(text="", tool_calls=(CALL,))) == answer_digest(other)) is same


def test_each_repeat_is_held_against_its_own_and_a_case_counts_once() -> None:
    first, second = make_series([["a", "b"], ["a"]], [["a", "c"], ["b"]])
    share = identical_share(first, second)
    assert share is not None
    assert (share.identical, share.cases) == (0.5, 2)


def test_only_cases_of_both_runs_are_compared() -> None:
    first, second = make_series(["a", "b", None], ["a", None, "c"])
    share = identical_share(first, second)
    assert share is not None
    assert (share.identical, share.cases) == (1, 1)
    assert identical_share(*make_series([None], ["a"])) is None


def not_asked(**fields: Any) -> Trial:
    return Trial(case_id="", position=0, sent="", started_at=BEGAN, **fields)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (not_asked(output=Output(text="yes"), source_run="r0"), "taken_over"),
        (Output(text="yes", cached=True), "cached"),
        (Output(text="yes", target="spare"), "elsewhere"),
        (not_asked(output=Output(text="yes"), target="own"), "elsewhere"),
        (None, "errors"),
    ],
)
def test_what_the_target_was_not_asked_anew_is_no_evidence(answer: Any, reason: str) -> None:
    drift = detect_drift(
        make_series(["yes"] * 4, ["yes", "yes", "yes", answer], ["yes", "other", "yes", answer])
    )
    assert getattr(drift.last.observation.excluded, reason) == 1
    assert drift.last.with_first is not None
    assert (drift.last.with_first.identical, drift.last.with_first.cases) == (2, 3)
    assert drift.last.observation.passed.total == 3


# --- the state ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("others", "alone", "repeated", "code"),
    [
        (0, "stable", "stable", 0),
        (5, "stable", "stable", 0),
        (6, "watch", "watch", 0),
        (20, "watch", "watch", 0),
        (21, "watch", "drifting", 1),
        (100, "watch", "drifting", 1),
    ],
)
def test_the_state_is_that_of_the_family_of_dialect_pramana_where_repeats_show_that_it_is_no_noise(
    others: int, alone: str, repeated: str, code: int
) -> None:
    once = detect_drift(make_series(change_first(0), change_first(others)))
    assert (once.state, once.exit_code, once.by_answers) == (alone, 0, False)
    drift = detect_drift(make_series(repeat_answers(change_first(0)), repeat_answers(change_first(others))))
    assert (drift.state, drift.exit_code, drift.by_answers) == (repeated, code, code == 1)


def test_other_words_without_repeats_are_to_be_watched_since_they_came() -> None:
    """However many they are, however long they last, and whether they come back."""
    for rows in ([0, 0, 40], [0, 0, 100, 100, 100], [0, 40, 0]):
        drift = detect_drift(make_series(*map(change_first, rows)))
        assert (drift.state, drift.exit_code, drift.by_answers) == ("watch", 0, False)
        assert drift.since == next(
            step.started_at for step, other in zip(drift.points, rows, strict=True) if other
        )
        assert "--repeat 2" in " ".join(describe_drift(DriftReport(drift=drift)))


def test_verdicts_that_change_are_drift_without_repeats() -> None:
    fails = ["no"] * 30 + ["yes"] * 70
    drift = detect_drift(make_series(change_first(0), change_first(0), *[fails] * 3))
    assert (drift.state, drift.by_verdicts, drift.by_answers) == ("drifting", True, False)
    assert "--repeat" not in " ".join(describe_drift(DriftReport(drift=drift)))


def test_few_other_words_of_a_target_that_mostly_repeats_its_answers_are_drift_once_they_last() -> None:
    before, after = repeat_answers(change_first(0, 20)), repeat_answers(change_first(5, 20))
    odd = [["yes", "yes, now"]] * 2 + before[2:]
    first = detect_drift(make_series(before, odd, after))
    assert (first.state, first.exit_code) == ("watch", 0)
    assert "so a few changed ones can be chance" in " ".join(describe_drift(DriftReport(drift=first)))
    later = detect_drift(make_series(before, odd, *[after] * 6))
    assert (later.state, later.since) == ("drifting", later.points[2].started_at)


def test_the_lower_of_the_two_shares_counts() -> None:
    drift = detect_drift(
        make_series(
            repeat_answers(change_first(0)),
            repeat_answers(change_first(40)),
            repeat_answers(change_first(40)),
        )
    )
    assert (drift.state, drift.last.lowest) == ("drifting", drift.last.with_first)
    back = detect_drift(make_series(change_first(0), change_first(40), change_first(0)))
    assert (back.state, back.last.lowest) == ("watch", back.last.with_before)
    assert (
        detect_drift(make_series(change_first(0), change_first(40), change_first(0), change_first(0))).state
        == "stable"
    )


def test_a_short_run_hides_nothing() -> None:
    """Each case is held against the first run, and the last one, that has it."""
    drift = detect_drift(
        make_series(
            repeat_answers(change_first(0)[:3]),
            repeat_answers(change_first(0)),
            repeat_answers(change_first(40)),
        )
    )
    assert (drift.state, drift.last.with_first) == ("drifting", drift.last.with_before)
    between = detect_drift(make_series(change_first(0), change_first(1)[:3], change_first(1)))
    assert between.last.with_before is not None
    assert (between.last.with_before.cases, between.state) == (100, "stable")


def test_since_is_when_the_unbroken_row_of_such_runs_began() -> None:
    steady = make_series(change_first(0), change_first(0), change_first(0))
    assert detect_drift(steady).since == steady[0].run.started_at
    drift = detect_drift(
        make_series(change_first(0), change_first(0), change_first(40), change_first(40), change_first(40))
    )
    assert drift.since == drift.points[2].started_at
    back = detect_drift(
        make_series(change_first(0), change_first(40), change_first(0), change_first(0), change_first(0))
    )
    assert back.since == back.points[3].started_at


def test_a_run_that_could_not_be_measured_outranks_drift() -> None:
    rows = repeat_answers(change_first(0)), [*repeat_answers(change_first(60)[:-1]), None]
    drift = detect_drift(make_series(*rows))
    assert (drift.state, drift.exit_code) == ("drifting", ExitCode.NOT_MEASURED)
    allowed = detect_drift(make_series(*rows, settings=Settings(allow_errors=1)))
    assert allowed.exit_code is ExitCode.FAILED
    unmeasured = detect_drift(make_series(change_first(0), [None] * 100))
    assert (unmeasured.state, unmeasured.exit_code) == ("unknown", ExitCode.NOT_MEASURED)


def test_one_run_has_not_drifted() -> None:
    with pytest.raises(ValueError, match="two runs"):
        detect_drift(make_series(change_first(0)))


# --- the promise, by simulation ----------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("cases", "share"), [(3, 0.2), (10, 0.2), (20, 0.1), (40, 1.0)])
@pytest.mark.parametrize("repeats", [(1, 1), (2, 1), (2, 2)])
def test_a_target_that_words_its_answers_anew_does_not_alarm_in_thirty_nights(
    figures: dict[str, Any], cases: int, share: float, repeats: tuple[int, int]
) -> None:
    assert figures["rewording"](cases, share, repeats, series=5) == (0, 0)


# --- noise -------------------------------------------------------------------------------------------------


def make_flaky_cases(*answers: str) -> list[list[str]]:
    """Forty cases, each with a repeat for each of the answers."""
    return [list(answers)] * 40


def test_repeats_within_a_run_show_that_a_target_does_not_repeat_itself() -> None:
    drift = detect_drift(make_series(make_flaky_cases("a", "b", "c"), make_flaky_cases("b", "c", "a")))
    assert drift.noise is not None
    assert drift.noise.share == 0
    assert (drift.state, drift.exit_code) == ("noisy", 0)


def test_repeats_with_seeds_of_their_own_tell_nothing_of_noise() -> None:
    runs = make_flaky_cases("a", "b"), make_flaky_cases("c", "d")
    warm = TargetSpec(name="t", kind="openai", params=Params(temperature=0.7))
    drift = detect_drift(make_series(*runs, target=warm))
    assert (drift.noise, drift.repeats, drift.state) == (None, None, "watch")
    unseeded = replace(warm, params=Params(temperature=0.7, seed=None))
    assert detect_drift(make_series(*runs, target=unseeded)).state == "noisy"


STEADY, UNSTEADY = make_flaky_cases("a", "a"), make_flaky_cases("b", "c")


@pytest.mark.parametrize(
    ("rows", "state"),
    [
        ([STEADY, UNSTEADY, UNSTEADY, UNSTEADY], "drifting"),  # it has become so, which is a change
        # seen in one run of three only
        ([make_flaky_cases("a", "d"), make_flaky_cases("b", "b"), make_flaky_cases("b", "b")], "watch"),
        ([make_flaky_cases("a", "d"), make_flaky_cases("b", "b"), UNSTEADY], "noisy"),
    ],
)
def test_noise_is_seen_in_the_first_run_with_repeats_and_in_half_of_them(rows: list[Any], state: str) -> None:
    assert detect_drift(make_series(*rows)).state == state


def test_a_noisy_target_may_be_asked_once_on_most_nights() -> None:
    assert (
        detect_drift(
            make_series(make_flaky_cases("a", "b"), *[make_flaky_cases(str(night)) for night in range(9)])
        ).state
        == "noisy"
    )


def test_more_than_the_noise_is_drift() -> None:
    """Two answers in one run are identical for 30 of 40 cases; then none is what it was."""
    before = [["a", "a"]] * 30 + [["a", "b"]] * 10
    after = [["x", "x"]] * 30 + [["x", "y"]] * 10
    assert detect_drift(make_series(before, after)).state == "noisy"  # one night could have words of its own
    drift = detect_drift(make_series(before, *[after] * 3))
    assert drift.noise is not None
    assert (drift.noise.share, drift.state, drift.by_answers) == (0.75, "drifting", True)
    like = detect_drift(make_series(before, [["a", "a"]] * 30 + [["b", "a"]] * 10))
    assert like.state == "noisy"


def test_a_target_that_words_each_night_anew_does_not_drift_on_every_night() -> None:
    """Its repeats are identical in each night, so that identity with another night says little."""
    nights = [repeat_answers(change_first(60, other=f"yes, on night {night}")) for night in range(6)]
    drift = detect_drift(make_series(*nights))
    assert (drift.state, drift.rewords_nightly, drift.by_answers) == ("noisy", True, False)
    assert "from night to night" in " ".join(describe_drift(DriftReport(drift=drift)))
    once = detect_drift(make_series(nights[0], *[nights[1]] * 4))
    assert (once.state, once.rewords_nightly) == ("drifting", False)


def test_repeats_of_an_earlier_run_do_not_show_that_the_last_one_has_no_noise() -> None:
    drift = detect_drift(make_series(repeat_answers(change_first(0)), change_first(40)))
    assert (drift.state, drift.exit_code, drift.last_repeats) == ("watch", 0, None)
    assert "--repeat 2" in " ".join(describe_drift(DriftReport(drift=drift)))


@pytest.mark.parametrize(("cases", "state"), [(7, "watch"), (8, "drifting")])
def test_few_repeats_do_not_show_that_a_target_repeats_its_answers(cases: int, state: str) -> None:
    first, second = repeat_answers(change_first(0, cases)), repeat_answers(change_first(cases, cases))
    assert detect_drift(make_series(first, second)).state == state


@pytest.mark.slow
def test_a_change_of_a_noisy_target_is_dated_and_a_small_one_is_not_drift() -> None:
    """Sixty of a hundred answers are always the same; then a third of these are others, or a sixth."""

    def night(number: int, other: int) -> list[list[str]]:
        own = [[f"{number}", f"{number}, too"]] * 40
        return [["yes, 2"] * 2] * other + [["yes"] * 2] * (60 - other) + own

    for other, state in ((20, "drifting"), (10, "noisy")):
        drift = detect_drift(
            make_series(*[night(n, 0) for n in range(12)], *[night(n, other) for n in range(12, 20)])
        )
        assert drift.change_point is not None
        assert (drift.change_point.after, drift.state) == (12, state)
        assert drift.since == (drift.points[12].started_at if other == 20 else None)


@given(st.lists(st.lists(st.sampled_from("ab"), min_size=2, max_size=4), min_size=1, max_size=5))
def test_agreement_within_a_run_is_the_share_of_identical_pairs(cases: list[list[str]]) -> None:
    agreement = share_within_run(*make_series(cases))
    assert agreement is not None
    pairs = [[first == second for first, second in combinations(answers, 2)] for answers in cases]
    assert agreement.share == pytest.approx(
        sum(sum(matches) / len(matches) for matches in pairs) / len(cases)
    )

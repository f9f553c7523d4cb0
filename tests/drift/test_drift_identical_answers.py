"""How many answers are identical, what noise explains of it, and what the state is called."""

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


def some(count: int, total: int = 100, other: str = "yes, too") -> list[str]:
    """Answers of which the first so many are others."""
    return [other] * count + ["yes"] * (total - count)


def twice(answers: list[Any]) -> list[list[Any]]:
    """The same answers of a target that repeats them."""
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
    found = identical_share(first, second)
    assert found is not None
    assert (found.identical, found.cases) == (0.5, 2)


def test_only_cases_of_both_runs_are_compared() -> None:
    first, second = make_series(["a", "b", None], ["a", None, "c"])
    found = identical_share(first, second)
    assert found is not None
    assert (found.identical, found.cases) == (1, 1)
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
    found = detect_drift(
        make_series(["yes"] * 4, ["yes", "yes", "yes", answer], ["yes", "other", "yes", answer])
    )
    assert getattr(found.last.observation.excluded, reason) == 1
    assert found.last.with_first is not None
    assert (found.last.with_first.identical, found.last.with_first.cases) == (2, 3)
    assert found.last.observation.passed.total == 3


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
    once = detect_drift(make_series(some(0), some(others)))
    assert (once.state, once.exit_code, once.by_answers) == (alone, 0, False)
    found = detect_drift(make_series(twice(some(0)), twice(some(others))))
    assert (found.state, found.exit_code, found.by_answers) == (repeated, code, code == 1)


def test_other_words_without_repeats_are_to_be_watched_since_they_came() -> None:
    """However many they are, however long they last, and whether they come back."""
    for rows in ([0, 0, 40], [0, 0, 100, 100, 100], [0, 40, 0]):
        found = detect_drift(make_series(*map(some, rows)))
        assert (found.state, found.exit_code, found.by_answers) == ("watch", 0, False)
        assert found.since == next(
            step.started_at for step, other in zip(found.points, rows, strict=True) if other
        )
        assert "--repeat 2" in " ".join(describe_drift(DriftReport(drift=found)))


def test_verdicts_that_change_are_drift_without_repeats() -> None:
    fails = ["no"] * 30 + ["yes"] * 70
    found = detect_drift(make_series(some(0), some(0), *[fails] * 3))
    assert (found.state, found.by_verdicts, found.by_answers) == ("drifting", True, False)
    assert "--repeat" not in " ".join(describe_drift(DriftReport(drift=found)))


def test_few_other_words_of_a_target_that_mostly_repeats_its_answers_are_drift_once_they_last() -> None:
    before, after = twice(some(0, 20)), twice(some(5, 20))
    odd = [["yes", "yes, now"]] * 2 + before[2:]
    first = detect_drift(make_series(before, odd, after))
    assert (first.state, first.exit_code) == ("watch", 0)
    assert "so a few changed ones can be chance" in " ".join(describe_drift(DriftReport(drift=first)))
    later = detect_drift(make_series(before, odd, *[after] * 6))
    assert (later.state, later.since) == ("drifting", later.points[2].started_at)


def test_the_lower_of_the_two_shares_counts() -> None:
    moved = detect_drift(make_series(twice(some(0)), twice(some(40)), twice(some(40))))
    assert (moved.state, moved.last.lowest) == ("drifting", moved.last.with_first)
    back = detect_drift(make_series(some(0), some(40), some(0)))
    assert (back.state, back.last.lowest) == ("watch", back.last.with_before)
    assert detect_drift(make_series(some(0), some(40), some(0), some(0))).state == "stable"


def test_a_short_run_hides_nothing() -> None:
    """Each case is held against the first run, and the last one, that has it."""
    moved = detect_drift(make_series(twice(some(0)[:3]), twice(some(0)), twice(some(40))))
    assert (moved.state, moved.last.with_first) == ("drifting", moved.last.with_before)
    between = detect_drift(make_series(some(0), some(1)[:3], some(1)))
    assert between.last.with_before is not None
    assert (between.last.with_before.cases, between.state) == (100, "stable")


def test_since_is_when_the_unbroken_row_of_such_runs_began() -> None:
    steady = make_series(some(0), some(0), some(0))
    assert detect_drift(steady).since == steady[0].run.started_at
    found = detect_drift(make_series(some(0), some(0), some(40), some(40), some(40)))
    assert found.since == found.points[2].started_at
    back = detect_drift(make_series(some(0), some(40), some(0), some(0), some(0)))
    assert back.since == back.points[3].started_at


def test_a_run_that_could_not_be_measured_outranks_drift() -> None:
    rows = twice(some(0)), [*twice(some(60)[:-1]), None]
    found = detect_drift(make_series(*rows))
    assert (found.state, found.exit_code) == ("drifting", ExitCode.NOT_MEASURED)
    allowed = detect_drift(make_series(*rows, settings=Settings(allow_errors=1)))
    assert allowed.exit_code is ExitCode.FAILED
    nothing = detect_drift(make_series(some(0), [None] * 100))
    assert (nothing.state, nothing.exit_code) == ("unknown", ExitCode.NOT_MEASURED)


def test_one_run_has_not_drifted() -> None:
    with pytest.raises(ValueError, match="two runs"):
        detect_drift(make_series(some(0)))


# --- the promise, by simulation ----------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("cases", "share"), [(3, 0.2), (10, 0.2), (20, 0.1), (40, 1.0)])
@pytest.mark.parametrize("repeats", [(1, 1), (2, 1), (2, 2)])
def test_a_target_that_words_its_answers_anew_does_not_alarm_in_thirty_nights(
    figures: dict[str, Any], cases: int, share: float, repeats: tuple[int, int]
) -> None:
    assert figures["rewording"](cases, share, repeats, series=5) == (0, 0)


# --- noise -------------------------------------------------------------------------------------------------


def flaky(*answers: str) -> list[list[str]]:
    """Forty cases that were asked as often as there are answers."""
    return [list(answers)] * 40


def test_repeats_within_a_run_show_that_a_target_does_not_repeat_itself() -> None:
    found = detect_drift(make_series(flaky("a", "b", "c"), flaky("b", "c", "a")))
    assert found.noise is not None
    assert found.noise.share == 0
    assert (found.state, found.exit_code) == ("noisy", 0)


def test_repeats_with_seeds_of_their_own_tell_nothing_of_noise() -> None:
    runs = flaky("a", "b"), flaky("c", "d")
    warm = TargetSpec(name="t", kind="openai", params=Params(temperature=0.7))
    found = detect_drift(make_series(*runs, target=warm))
    assert (found.noise, found.repeats, found.state) == (None, None, "watch")
    unseeded = replace(warm, params=Params(temperature=0.7, seed=None))
    assert detect_drift(make_series(*runs, target=unseeded)).state == "noisy"


STEADY, UNSTEADY = flaky("a", "a"), flaky("b", "c")


@pytest.mark.parametrize(
    ("rows", "state"),
    [
        ([STEADY, UNSTEADY, UNSTEADY, UNSTEADY], "drifting"),  # it has become so, which is a change
        ([flaky("a", "d"), flaky("b", "b"), flaky("b", "b")], "watch"),  # seen in one run of three only
        ([flaky("a", "d"), flaky("b", "b"), UNSTEADY], "noisy"),
    ],
)
def test_noise_is_seen_in_the_first_run_with_repeats_and_in_half_of_them(rows: list[Any], state: str) -> None:
    assert detect_drift(make_series(*rows)).state == state


def test_a_noisy_target_may_be_asked_once_on_most_nights() -> None:
    assert (
        detect_drift(make_series(flaky("a", "b"), *[flaky(str(night)) for night in range(9)])).state
        == "noisy"
    )


def test_more_than_the_noise_is_drift() -> None:
    """Two answers in one run are identical for 30 of 40 cases; then none is what it was."""
    before = [["a", "a"]] * 30 + [["a", "b"]] * 10
    after = [["x", "x"]] * 30 + [["x", "y"]] * 10
    assert detect_drift(make_series(before, after)).state == "noisy"  # one night could have words of its own
    found = detect_drift(make_series(before, *[after] * 3))
    assert found.noise is not None
    assert (found.noise.share, found.state, found.by_answers) == (0.75, "drifting", True)
    like = detect_drift(make_series(before, [["a", "a"]] * 30 + [["b", "a"]] * 10))
    assert like.state == "noisy"


def test_a_target_that_words_each_night_anew_does_not_drift_on_every_night() -> None:
    """Its repeats are identical in each night, so that identity with another night says little."""
    nights = [twice(some(60, other=f"yes, on night {night}")) for night in range(6)]
    found = detect_drift(make_series(*nights))
    assert (found.state, found.rewords_nightly, found.by_answers) == ("noisy", True, False)
    assert "from night to night" in " ".join(describe_drift(DriftReport(drift=found)))
    once = detect_drift(make_series(nights[0], *[nights[1]] * 4))
    assert (once.state, once.rewords_nightly) == ("drifting", False)


def test_repeats_of_an_earlier_run_do_not_show_that_the_last_one_has_no_noise() -> None:
    found = detect_drift(make_series(twice(some(0)), some(40)))
    assert (found.state, found.exit_code, found.last_repeats) == ("watch", 0, None)
    assert "--repeat 2" in " ".join(describe_drift(DriftReport(drift=found)))


@pytest.mark.parametrize(("cases", "state"), [(7, "watch"), (8, "drifting")])
def test_few_repeats_do_not_show_that_a_target_repeats_its_answers(cases: int, state: str) -> None:
    first, second = twice(some(0, cases)), twice(some(cases, cases))
    assert detect_drift(make_series(first, second)).state == state


@pytest.mark.slow
def test_a_change_of_a_noisy_target_is_dated_and_a_small_one_is_not_drift() -> None:
    """Sixty of a hundred answers are always the same; then a third of these are others, or a sixth."""

    def night(number: int, other: int) -> list[list[str]]:
        own = [[f"{number}", f"{number}, too"]] * 40
        return [["yes, 2"] * 2] * other + [["yes"] * 2] * (60 - other) + own

    for other, state in ((20, "drifting"), (10, "noisy")):
        found = detect_drift(
            make_series(*[night(n, 0) for n in range(12)], *[night(n, other) for n in range(12, 20)])
        )
        assert found.change_point is not None
        assert (found.change_point.after, found.state) == (12, state)
        assert found.since == (found.points[12].started_at if other == 20 else None)


@given(st.lists(st.lists(st.sampled_from("ab"), min_size=2, max_size=4), min_size=1, max_size=5))
def test_agreement_within_a_run_is_the_share_of_identical_pairs(cases: list[list[str]]) -> None:
    found = share_within_run(*make_series(cases))
    assert found is not None
    pairs = [[one == other for one, other in combinations(answers, 2)] for answers in cases]
    assert found.share == pytest.approx(sum(sum(each) / len(each) for each in pairs) / len(cases))

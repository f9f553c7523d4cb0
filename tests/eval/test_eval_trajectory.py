"""Trajectories of search loops: reading their rows, and the counts over them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.eval import Trajectory, TrajectoryIter
from proctor.eval.trajectory import Mode
from support.builders import write_lines

Load = Callable[..., Trajectory]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Reads lines, given as texts or rows, as a trajectory."""

    def read(*lines: Any, **options: Any) -> Trajectory:
        return Trajectory.from_jsonl(write_lines(tmp_path / "t.jsonl", *lines), **options)

    return read


def row(number: Any = 1, score: Any = 1.0, knob: Any = "lr", value: Any = 1, **more: Any) -> dict[str, Any]:
    proposal = {"knob": knob, "new_value": value}
    return {"iter": number, "val_bpb": score, "proposal": proposal, "decision": "keep", **more}


def make_trajectory(*modes: tuple[str, Any], **options: Any) -> Trajectory:
    """A trajectory of proposals, made without a file."""
    iters = [TrajectoryIter(place, *mode, "keep", 1.0, {}) for place, mode in enumerate(modes, 1)]
    return Trajectory(iters, **options)


def make_scored_trajectory(*scores: float, **options: Any) -> Trajectory:
    iters = [TrajectoryIter(place, "k", place, "keep", score, {}) for place, score in enumerate(scores, 1)]
    return Trajectory(iters, **options)


# --- reading -----------------------------------------------------------------------------------------------


def test_a_row_becomes_an_iteration(load: Load) -> None:
    raw = row(3, 1.25, "depth", [8, 2], decision="revert")
    assert load(raw).iters == [TrajectoryIter(3, "depth", [8, 2], "revert", 1.25, raw)]


@pytest.mark.parametrize(
    ("number", "score", "read"),
    [("7", "2.5", (7, 2.5)), (1.9, True, (1, 1.0)), (2, -4, (2, -4.0)), (1, "inf", (1, math.inf))],
)
def test_numbers_are_converted(load: Load, number: Any, score: Any, read: tuple[int, float]) -> None:
    (iteration,) = load(row(number, score)).iters
    assert (iteration.iter, iteration.score) == read


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{half", "The line is not JSON"),
        ("[1, 2]", "The line is JSON, but not an object."),
        ('"text"', "The line is JSON, but not an object."),
        ({"note": "no number"}, "The row has no 'iter'; only the first row can be a header."),
        (row(None), "The iteration has no 'iter'."),
        (row("two"), "'iter' is 'two', not a number."),
        (row(math.inf), "'iter' is inf, not a number."),
        (row([1]), "'iter' is a list, not a number."),
        (row(score=None), "The iteration has no 'val_bpb'."),
        (row(score="low"), "'val_bpb' is 'low', not a number."),
        (row(score={"mean": 1}), "'val_bpb' is an object, not a number."),
        (row(proposal=[1]), "'proposal' is a list, not an object."),
        (row(proposal="lr=1"), "'proposal' is 'lr=1', not an object."),
        (row(value=json.loads("[" * 150 + "]" * 150)), "'proposal' is nested more than 100 levels deep."),
        ("[" * 100_000, "The line is not JSON"),
    ],
)
def test_a_line_that_cannot_be_used_is_dropped_with_its_reason(load: Load, line: Any, reason: str) -> None:
    read = load(row(1), line, row(2))
    assert [iteration.iter for iteration in read.iters] == [1, 2]
    (dropped_row,) = read.dropped
    assert dropped_row.line == 2
    assert dropped_row.reason.startswith(reason)


def test_rows_of_other_stages_are_counted_and_are_no_damage(load: Load) -> None:
    read = load(
        row(1, stage="evaluated"),
        {"iter": 2, "stage": "proposed"},
        {"iter": 2, "stage": "failed", "error": "out of memory"},
        {"stage": "proposed"},
        row(3, stage=None),
    )
    assert [iteration.iter for iteration in read.iters] == [1, 3]
    assert read.other_stages == {"proposed": 2, "failed": 1}
    assert read.dropped == ()


def test_what_is_null_is_empty_text(load: Load) -> None:
    for raw in (row(knob=None, decision=None), {"iter": 1, "val_bpb": 1, "proposal": None}):
        (iteration,) = load(raw).iters
        assert (iteration.knob, iteration.decision) == ("", "")


def test_the_first_row_without_iter_is_the_header(load: Load) -> None:
    read = load({"baseline_val_bpb": "1.5", "model": "m"}, row(1))
    assert (read.baseline, read.header, len(read.iters)) == (
        1.5,
        {"baseline_val_bpb": "1.5", "model": "m"},
        1,
    )
    assert load({"baseline_acc": 0.25}, score_field="acc", lower_is_better=False).baseline == 0.25
    assert load(row(1), {"baseline_val_bpb": 3}).baseline is None


@pytest.mark.parametrize("baseline", ["best", [1], {}])
def test_a_baseline_that_is_no_number_is_told_and_the_rest_is_read(load: Load, baseline: Any) -> None:
    read = load({"baseline_val_bpb": baseline}, row(1))
    assert read.baseline is None
    assert len(read.iters) == 1
    (dropped_row,) = read.dropped
    assert dropped_row.line == 1
    assert "the header is used without it" in dropped_row.reason


@pytest.mark.slow
@given(st.lists(st.text() | st.binary().map(repr) | st.from_type(type(None)).map(str), max_size=6))
def test_no_text_stops_the_reading(tmp_path_factory: pytest.TempPathFactory, lines: list[str]) -> None:
    path = tmp_path_factory.mktemp("t") / "t.jsonl"
    path.write_text("\n".join([*lines, json.dumps(row())]), encoding="utf-8", errors="replace")
    read = Trajectory.from_jsonl(path)
    assert len(read.iters) == 1


# --- knobs -------------------------------------------------------------------------------------------------


def test_knob_coverage_counts_the_most_frequent_first() -> None:
    search = make_trajectory(("wd", 1), ("lr", 1), ("", 3), ("lr", 1), ("lr", 2))
    assert list(search.knob_coverage().items()) == [("lr", 3), ("wd", 1)]
    assert make_trajectory().knob_coverage() == {}


def test_menu_coverage_counts_what_is_on_the_menu() -> None:
    search = make_trajectory(("lr", 1), ("lr", 2), ("seed", 1), ("tau", 1))
    assert search.menu_coverage(["depth", "lr", "lr", "wd"]) == {
        "knobs_total": 3,
        "knobs_touched": 1,
        "knobs_touched_pct": 33.3,
        "knobs_untouched": ["depth", "wd"],
        "knobs_outside": {"seed": 1, "tau": 1},
    }
    assert search.menu_coverage([])["knobs_touched_pct"] is None
    with pytest.raises(TypeError, match="names"):
        search.menu_coverage("lr")


# --- repeats and modes -------------------------------------------------------------------------------------

SAME = [(1, 1), ("a", "a"), ([1, [2]], [1, [2]]), ({"a": 1, "b": 2}, {"b": 2, "a": 1}), (None, None)]
SAME += [(float("nan"), float("nan")), ([float("nan")], [float("nan")])]
DIFFERENT = [(1, 1.0), (1, True), (0, False), (1, "1"), ([1], [1.0]), ({"a": 1}, {"a": True}), (None, "null")]


@pytest.mark.parametrize(("value", "equal_value"), SAME)
def test_equal_values_are_one_mode(value: Any, equal_value: Any) -> None:
    search = make_trajectory(("k", value), ("k", equal_value))
    assert search.repeat_rate() == 0.5
    assert list(search.mode_dominance().values()) == [1.0]
    assert Mode("k", value) == Mode("k", equal_value)
    assert not (Mode("k", value) != Mode("k", equal_value))  # noqa: SIM202  # the other operator


@pytest.mark.parametrize(("value", "other_value"), DIFFERENT)
def test_values_of_different_types_are_two_modes(value: Any, other_value: Any) -> None:
    search = make_trajectory(("k", value), ("k", other_value))
    assert search.repeat_rate() == 0.0
    assert list(search.mode_dominance().values()) == [0.5, 0.5]
    assert Mode("k", value) != Mode("k", other_value)


@pytest.mark.slow
def test_a_repeat_counts_at_any_distance_and_a_window_forgets_nothing() -> None:
    search = make_trajectory(("a", 1), ("b", 1), ("a", 1), ("a", 2), ("b", 1))
    assert search.repeat_rate() == 0.4
    assert search.repeat_rate(window=2) == [
        {"first": 1, "last": 2, "n": 2, "repeats": 0, "rate": 0.0},
        {"first": 3, "last": 4, "n": 2, "repeats": 1, "rate": 0.5},
        {"first": 5, "last": 5, "n": 1, "repeats": 1, "rate": 1.0},
    ]


def test_iterations_without_a_knob_repeat_one_another_and_are_no_mode() -> None:
    search = make_trajectory(("", None), ("", None), ("lr", 1))
    assert search.repeat_rate() == 0.333
    assert search.mode_dominance() == {Mode("lr", 1): 1.0}


def test_of_nothing_the_rate_is_0_and_windows_and_modes_are_empty() -> None:
    assert make_trajectory().repeat_rate() == 0.0
    assert make_trajectory().repeat_rate(window=3) == []
    assert make_trajectory().mode_dominance() == {}


@pytest.mark.parametrize("window", [0, -1])
def test_a_window_below_1_is_refused(window: int) -> None:
    for search in (make_trajectory(), make_trajectory(("a", 1))):
        with pytest.raises(ValueError, match="window must be at least 1"):
            search.repeat_rate(window=window)


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 2)), min_size=1), st.integers(1, 5))
def test_windows_add_up_to_the_whole(modes: list[tuple[str, int]], window: int) -> None:
    search = make_trajectory(*modes)
    parts = search.repeat_rate(window=window)
    assert sum(part["n"] for part in parts) == len(modes)
    assert round(sum(part["repeats"] for part in parts) / len(modes), 3) == search.repeat_rate()


def test_mode_dominance_is_shares_by_knob_and_value() -> None:
    search = make_trajectory(("lr", 1), ("wd", [1, 2]), ("lr", 1), ("lr", True))
    shares = search.mode_dominance()
    assert list(shares.items()) == [(("lr", 1), 0.5), (("wd", [1, 2]), 0.25), (("lr", True), 0.25)]
    assert shares[Mode("wd", [1, 2])] == shares[Mode("wd", (1, 2))] == 0.25
    assert shares[Mode("lr", 1)] == 0.5
    assert shares["lr", 1] == 0.5
    assert shares["lr", True] == 0.25
    assert shares["wd", (1, 2)] == 0.25
    assert ("lr", 1.0) not in shares
    assert repr(search) == "<Trajectory of 'val_bpb': 4 iterations>"


def test_top_n_leaves_the_shares_as_they_are() -> None:
    search = make_trajectory(("lr", 1), ("wd", 2), ("lr", 1), ("tau", 3))
    assert search.mode_dominance(top_n=1) == {Mode("lr", 1): 0.5}
    assert search.mode_dominance(top_n=0) == {}
    assert search.modes(top_n=2)[1] == {"knob": "wd", "value": 2, "n": 1, "share": 0.25}
    with pytest.raises(ValueError, match="top_n must be 0 or more"):
        search.mode_dominance(top_n=-1)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.text(max_size=2), inside, max_size=3),
    max_leaves=5,
)


@pytest.mark.slow
@given(st.lists(st.tuples(st.sampled_from(["a", "b"]), JSON), min_size=1))
def test_shares_of_all_modes_add_up_to_1(modes: list[tuple[str, Any]]) -> None:
    assert math.fsum(make_trajectory(*modes).mode_dominance().values()) == pytest.approx(1)


# --- scores ------------------------------------------------------------------------------------------------

NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("search", "bests", "best"),
    [
        (make_scored_trajectory(3.0, 2.0, 2.5), [3.0, 2.0, 2.0], 2),
        (make_scored_trajectory(3.0, 2.0, 3.5, lower_is_better=False), [3.0, 3.0, 3.5], 3),
        (make_scored_trajectory(3.0, 2.0, baseline=2.5), [2.5, 2.0], 2),
        (make_scored_trajectory(3.0, NAN, 1.0), [3.0, 3.0, 1.0], 3),
        (make_scored_trajectory(NAN, 2.0), [NAN, 2.0], 2),
        (make_scored_trajectory(NAN, 2.0, baseline=3.0), [3.0, 2.0], 2),
        (make_scored_trajectory(2.0, 3.0, baseline=NAN), [2.0, 2.0], 1),
        (make_scored_trajectory(2.0, INF, 3.0, lower_is_better=False), [2.0, 2.0, 3.0], 3),
        (make_scored_trajectory(2.0, -INF, 1.0), [2.0, 2.0, 1.0], 3),
        (make_scored_trajectory(1.0, 1.0), [1.0, 1.0], 1),
        (make_scored_trajectory(NAN), [NAN], None),
        (make_scored_trajectory(), [], None),
    ],
)
def test_the_best_so_far_and_the_best(search: Trajectory, bests: list[float], best: int | None) -> None:
    assert search.cumulative_best() == pytest.approx(bests, nan_ok=True)
    iteration = search.best()
    assert (None if iteration is None else iteration.iter) == best


def test_a_baseline_that_is_given_comes_before_the_file_s() -> None:
    assert make_scored_trajectory(3.0, 1.0, baseline=2.0).cumulative_best(baseline=0.5) == [0.5, 0.5]


def test_keeps_are_the_iterations_that_were_kept(load: Load) -> None:
    read = load(row(1), row(2, decision="revert"), row(3, decision="Keep"), row(4))
    assert [iteration.iter for iteration in read.keeps()] == [1, 4]


# --- what is told and drawn --------------------------------------------------------------------------------


def test_a_summary_is_json_without_nan(load: Load) -> None:
    read = load(
        {"baseline_val_bpb": math.nan}, row(1, math.nan, value=math.nan), "bad", row(4, 1.5), {"stage": "new"}
    )
    summary = read.summary(window=1, top_n=1)
    json.dumps(summary, allow_nan=False)
    assert summary["baseline"] is None
    assert summary["cumulative_best"] == [None, 1.5]
    assert summary["best"] == {
        "place": 2,
        "iter": 4,
        "score": 1.5,
        "knob": "lr",
        "value": 1,
        "decision": "keep",
    }
    assert (summary["iterations"], summary["unmeasured"], summary["kept"]) == (2, 1, 2)
    assert len(summary["repeat_windows"]) == 2
    assert len(summary["modes"]) == 1
    assert [dropped_row["line"] for dropped_row in summary["dropped"]] == [3]
    assert summary["other_stages"] == {"new": 1}
    assert "repeat_windows" not in read.summary()


def points(chart: Any, layer: int = -1) -> list[tuple[Any, ...]]:
    values = chart.spec["layer"][layer].get("data", chart.spec["data"])["values"]
    return [(value["x"], value["y"], value.get("series")) for value in values]


def test_the_chart_has_dots_steps_and_the_baseline() -> None:
    chart = make_scored_trajectory(3.0, NAN, 1.0, baseline=2.0).chart()
    assert points(chart, 0) == [(1, 3.0, None), (3, 1.0, None)]
    best = [(1, 2.0), (2, 2.0), (3, 1.0)]
    assert points(chart) == [
        *((x, y, "best so far") for x, y in best),
        (1, 2.0, "baseline"),
        (3, 2.0, "baseline"),
    ]


def test_numbers_that_do_not_rise_are_drawn_by_place(load: Load) -> None:
    rising, resumed = load(row(2), row(5)), load(row(2), row(5), row(1))
    assert [x for x, _, series in points(rising.chart()) if series == "best so far"] == [2, 5]
    assert [x for x, _, series in points(resumed.chart()) if series == "best so far"] == [1, 2, 3]


def test_the_chart_of_knobs_says_when_there_are_more() -> None:
    search = make_trajectory(("a", 1), ("a", 2), ("b", 1))
    full_chart, top_chart = search.knob_chart(), search.knob_chart(top_n=1)
    assert [(bar["label"], bar["value"]) for bar in full_chart.spec["data"]["values"]] == [
        ("a", 2),
        ("a", 2),
        ("b", 1),
        ("b", 1),
    ]
    assert "the 1 most frequent of 2" in top_chart.spec["title"]
    assert "of" not in full_chart.spec["title"].removeprefix("How often")


@pytest.mark.slow
def test_of_nothing_no_chart_is_drawn_and_of_odd_names_one_is() -> None:
    with pytest.raises(ValueError, match="nothing to draw"):
        make_trajectory().chart()
    assert make_trajectory(("\ud800", 1)).knob_chart().svg().startswith("<svg")

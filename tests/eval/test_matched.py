"""Two rollouts of the same tasks: counts of each, differences, pairs, and what the report tells."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor import stats
from proctor.eval import GroupStats, MatchedBaseComparison, MatchedBaseComparisonResult
from proctor.eval.matched.comparison import extract_persona

Row = dict[str, Any]


def row(task_id: Any, passed: Any = True, **more: Any) -> Row:
    """A task; `counts` are its passed assertions and all of them, `kinds` their outcomes by kind."""
    passed_count, total = more.pop("counts", (0, 0))
    kinds = more.pop("kinds", ())
    grade = {
        "passed": passed,
        "n_passed": passed_count,
        "n_total": total,
        "assertions": [{"kind": kind, "passed": fine} for kind, fine in kinds],
    }
    return {"task_id": task_id, "final_grade": grade, **more}


def compare(baseline: Any, candidate: Any, **options: Any) -> MatchedBaseComparisonResult:
    return MatchedBaseComparison(**options).compare(baseline, candidate)


# --- one rollout -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("task_id", "group"),
    [
        ("synth-nurse-07", "nurse"),
        ("synth-tax-adviser-07", "tax-adviser"),
        ("a--b", ""),
        ("a-b", "a-b"),
        ("single", "single"),
        ("", ""),
    ],
)
def test_the_group_of_a_task_is_the_middle_of_its_id(task_id: str, group: str) -> None:
    assert extract_persona(task_id) == group


def test_a_rollout_is_counted() -> None:
    rows = [
        row("s-nurse-1", counts=(2, 2), kinds=[("exists", True), ("regex", True)], n_turns=4, stopped="done"),
        row("s-nurse-2", False, counts=(1, 2), kinds=[("exists", True), ("regex", False)], n_turns=7),
        row("s-cook-1", False, counts=(0, 1), wall_seconds=3.0, stopped="done"),
    ]
    group_stats = MatchedBaseComparison().stats(rows)
    assert group_stats == GroupStats(
        n=3,
        n_passed=1,
        n_assertions_passed=3,
        n_assertions_total=5,
        by_group={
            "nurse": {"n": 2, "passed": 1, "n_assertions_passed": 3, "n_assertions_total": 4},
            "cook": {"n": 1, "passed": 0, "n_assertions_passed": 0, "n_assertions_total": 1},
        },
        by_kind={"exists": {"n": 2, "passed": 2}, "regex": {"n": 2, "passed": 1}},
        stops={"done": 2, "?": 1},
        mean_turns=11 / 3,
        mean_wall=1.0,
    )
    assert group_stats.task_pass_pct() == pytest.approx(100 / 3)
    assert group_stats.assertion_pass_pct() == 60.0
    data = group_stats.to_dict()
    keys = "n n_passed n_assertions_passed n_assertions_total task_pass_pct assertion_pass_pct"
    assert " ".join(data) == f"{keys} by_group by_kind stops mean_turns mean_wall"
    assert (data["task_pass_pct"], data["mean_turns"]) == (33.33, 3.67)
    assert list(data["by_group"]) == ["cook", "nurse"]
    assert list(data["stops"]) == ["?", "done"]


def test_what_is_missing_is_failed_and_0() -> None:
    group_stats = MatchedBaseComparison().stats([{"task_id": "a"}, {"final_grade": None, "n_turns": None}])
    assert (group_stats.n, group_stats.n_passed, group_stats.mean_turns, group_stats.stops) == (
        2,
        0,
        0.0,
        {"?": 2},
    )
    assert group_stats.dropped == ()


@pytest.mark.parametrize(
    ("extractor", "groups"), [(None, []), (lambda task: task[0], ["s"]), (lambda task: None, ["None"])]
)
def test_groups_are_as_the_extractor_says(extractor: Any, groups: list[str]) -> None:
    group_stats = MatchedBaseComparison(group_extractor=extractor).stats([row("s-nurse-1"), row("s-cook-2")])
    assert list(group_stats.by_group) == groups


@pytest.mark.parametrize(
    ("passed", "n_passed"),
    [(True, 1), (False, 0), (1, 1), (0.0, 0), (None, 0), ("true", 1), (" False ", 0), ("no", 0), ("", 0)],
)
def test_passed_may_be_written_in_several_ways(passed: Any, n_passed: int) -> None:
    group_stats = MatchedBaseComparison().stats([row("a", passed)])
    assert (group_stats.n_passed, group_stats.dropped) == (n_passed, ())


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (7, "The row is 7, and not an object."),
        ([row("a")], "The row is a list, and not an object."),
        ({"final_grade": [True]}, "'final_grade' is a list, and not an object."),
        (row("a", "mostly"), "'final_grade.passed' is 'mostly', which is neither true nor false."),
        (row("a", 3), "'final_grade.passed' is 3, which is neither true nor false."),
        (row("a", math.nan), "'final_grade.passed' is nan, which is neither true nor false."),
        (row("a", counts=("x", 2)), "'final_grade.n_passed' is 'x', which is no count."),
        (row("a", counts=(1, math.nan)), "'final_grade.n_total' is nan, which is no count."),
        ({"final_grade": {"assertions": {}}}, "'assertions' is an object, and not a list."),
        ({"final_grade": {"assertions": [7]}}, "'assertions[0]' is 7, and not an object."),
        (row("a", kinds=[("k", "perhaps")]), "'assertions[0].passed' is 'perhaps', which is neither"),
        (row("a", n_turns="many"), "'n_turns' is 'many', not a number."),
        (row("a", wall_seconds=[1]), "'wall_seconds' is a list, not a number."),
    ],
)
def test_a_row_that_cannot_be_used_is_dropped_with_its_reason(bad: Any, reason: str) -> None:
    group_stats = MatchedBaseComparison().stats([row("x"), bad, row("y")])
    assert group_stats.n == 2
    (dropped_row,) = group_stats.dropped
    assert dropped_row.line == 2
    assert dropped_row.reason.startswith(reason)


@pytest.mark.parametrize("rows", [row("a"), None, 7, b"rows"])
def test_what_is_no_rows_is_refused(rows: Any) -> None:
    with pytest.raises(TypeError, match="Rows are wanted"):
        MatchedBaseComparison().stats(rows)


def test_rows_come_from_lists_generators_and_files(tmp_path: Path) -> None:
    rows = [row("a-b-1"), row("a-b-2", False)]
    path = tmp_path / "r.jsonl"
    path.write_text(
        "\ufeff" + "\r\n".join([json.dumps(rows[0]), "", "{broken", json.dumps(rows[1])]), "utf-8"
    )
    comparison = MatchedBaseComparison()
    whole = comparison.stats(rows)
    assert comparison.stats(rollout for rollout in rows) == whole
    assert comparison.stats(str(path)).to_dict() == whole.to_dict()
    assert [dropped_row.line for dropped_row in comparison.stats(path).dropped] == [3]
    with pytest.raises(FileNotFoundError):
        comparison.stats(tmp_path / "none.jsonl")


# --- two rollouts ------------------------------------------------------------------------------------------


def test_a_comparison_is_candidate_minus_baseline() -> None:
    result = compare(
        [row("s-a-1", counts=(1, 2), n_turns=2), row("s-a-2", False, counts=(0, 2), n_turns=4)],
        [row("s-a-1", counts=(2, 2), n_turns=3), row("s-b-9", counts=(1, 2), kinds=[("k", True)], n_turns=3)],
    )
    assert result.overall_delta == {
        "delta_task_pp": 50.0,
        "delta_assertion_pp": 50.0,
        "delta_mean_turns": 0.0,
        "delta_mean_wall": 0.0,
    }
    assert result.per_group[1] == {
        "group": "b",
        "n": 1,
        "baseline_task_pct": 0.0,
        "candidate_task_pct": 100.0,
        "delta_task_pp": 100.0,
        "baseline_assertion_pct": 0.0,
        "candidate_assertion_pct": 50.0,
        "delta_assertion_pp": 50.0,
    }
    assert result.per_kind == [
        {"kind": "k", "baseline_pct": 0.0, "candidate_pct": 100.0, "delta_pp": 100.0, "n": 1}
    ]
    assert list(result.to_dict()) == ["baseline", "candidate", "overall_delta", "per_group", "per_kind"]


def test_what_json_cannot_say_is_null() -> None:
    result = compare([row("a", n_turns=1e308), row("b", n_turns=1e308)], [row("a", wall_seconds=math.nan)])
    data = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert data["baseline"]["mean_turns"] is None
    assert data["overall_delta"]["delta_mean_turns"] is None
    assert data["candidate"]["mean_wall"] == 0.0


# --- pairs -------------------------------------------------------------------------------------------------


def test_tasks_are_joined_by_id_whatever_their_order() -> None:
    outcome = compare(
        [row("both"), row("lost"), row("gained", False), row("neither", False), row("old")],
        [row("new"), row("neither", False), row("gained"), row("lost", False), row("both")],
    ).paired()
    assert (outcome.n, outcome.both, outcome.gained, outcome.lost, outcome.neither) == (
        4,
        1,
        ("gained",),
        ("lost",),
        1,
    )
    assert (outcome.only_in_baseline, outcome.only_in_candidate) == (("old",), ("new",))
    assert outcome.delta_task_pp() == 0.0


def test_an_id_that_is_there_twice_pairs_with_nothing_and_is_told() -> None:
    outcome = compare(
        [row("a"), row("a", False), row("b"), row("c"), row(None), row("")],
        [row("a"), row("b"), row("c"), row("c"), row("d"), row("d")],
    ).paired()
    assert outcome.n == 1
    assert outcome.duplicates_in_baseline == ("a",)
    assert outcome.duplicates_in_candidate == ("c", "d")
    assert (outcome.without_id_in_baseline, outcome.without_id_in_candidate) == (2, 0)
    assert outcome.only_in_baseline == outcome.only_in_candidate == ()
    assert "More than one row of the candidate has the id, and none is paired: c, d." in outcome.report()
    assert "2 rows of the baseline have no id." in outcome.report()


IDS = st.lists(st.integers(0, 6).map(lambda number: f"t{number}"), max_size=10)


@pytest.mark.slow
@given(IDS, IDS)
def test_every_row_is_told_of_once(old: list[str], new: list[str]) -> None:
    outcome = compare([row(name) for name in old], [row(name) for name in new]).paired()
    doubled = {*outcome.duplicates_in_baseline, *outcome.duplicates_in_candidate}
    assert outcome.n + len(outcome.only_in_baseline) == sum(name not in doubled for name in old)
    assert outcome.n + len(outcome.only_in_candidate) == sum(name not in doubled for name in new)
    assert outcome.both + len(outcome.gained) + len(outcome.lost) + outcome.neither == outcome.n
    json.dumps(outcome.to_dict(), allow_nan=False)


@pytest.mark.slow
@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=12))
def test_the_difference_is_that_of_the_shares_and_within_its_interval(pairs: list[tuple[bool, bool]]) -> None:
    old = [row(place, first) for place, (first, _) in enumerate(pairs)]
    new = [row(place, second) for place, (_, second) in enumerate(pairs)]
    result = compare(old, new)
    outcome, reversed_outcome = result.paired(), compare(new, old).paired()
    delta, interval = outcome.delta_task_pp(), outcome.interval_pp()
    assert delta is not None
    assert interval is not None
    assert delta == pytest.approx(result.overall_delta["delta_task_pp"])
    assert -100 <= interval[0] <= delta + 1e-9
    assert delta - 1e-9 <= interval[1] <= 100
    assert reversed_outcome.interval_pp() == pytest.approx((-interval[1], -interval[0]))
    assert (
        reversed_outcome.p_value()
        == outcome.p_value()
        == stats.mcnemar(len(outcome.gained), len(outcome.lost))
    )


def test_deltas_are_over_pairs_that_have_the_measure_on_both_sides() -> None:
    outcome = compare(
        [
            row("a", n_turns=2, wall_seconds=10.0, counts=(1, 2)),
            row("b", n_turns=5, wall_seconds=1.0, counts=(3, 4)),
            row("c", wall_seconds=4.0, counts=(5, 4)),
        ],
        [
            row("a", n_turns=4, wall_seconds=7.0, counts=(2, 2)),
            row("b", n_turns=5, wall_seconds=math.nan, counts=(0, 4)),
            row("c", n_turns=9, wall_seconds=3.0, counts=(4, 4)),
        ],
    ).paired()
    assert (outcome.turns.n, outcome.turns.mean, outcome.turns.median) == (2, 1.0, 1.0)
    assert outcome.turns.interval == stats.mean_interval([0.0, 2.0])
    assert (outcome.wall_seconds.n, outcome.wall_seconds.mean) == (2, -2.0)
    assert (outcome.assertion_pp.n, outcome.assertion_pp.mean) == (2, -12.5)


def test_a_single_pair_has_no_interval() -> None:
    outcome = compare([row("a", n_turns=2)], [row("a", n_turns=5)]).paired()
    assert (outcome.turns.mean, outcome.turns.interval) == (3.0, None)
    assert "| turns | 1 | +3.00 | – | +3.00 |" in outcome.report()


@pytest.mark.parametrize(("old", "new"), [([], []), ([row("a")], [row("b")]), ([row(None)], [row(None)])])
def test_that_nothing_is_paired_is_said_in_words(old: list[Row], new: list[Row]) -> None:
    outcome = compare(old, new).paired()
    assert (outcome.n, outcome.delta_task_pp(), outcome.interval_pp(), outcome.p_value()) == (
        0,
        None,
        None,
        None,
    )
    assert "No task is on both sides, so nothing is paired" in outcome.report()
    json.dumps(outcome.to_dict(), allow_nan=False)


# --- the report --------------------------------------------------------------------------------------------

TABLES = """### Matched-base comparison

| metric | baseline | candidate | Δ |
|---|---:|---:|---:|
| task pass | 1/2 (50.0%) | 2/2 (100.0%) | +50.0 pp |
| per-assertion | 1/3 (33.3%) | 2/3 (66.7%) | +33.3 pp |
| mean turns | 2.50 | 2.00 | -0.50 |
| mean wall (s) | 0.00 | 0.00 | +0.00 |

**Per group**

| group | base task% | cand task% | Δ pp | base asrt% | cand asrt% | Δ pp |
|---|---:|---:|---:|---:|---:|---:|
| cook | 100.0% | 100.0% | +0.0 | 33.3% | 66.7% | +33.3 |
| nurse | 0.0% | 100.0% | +100.0 | 0.0% | 0.0% | +0.0 |

**Per assertion kind**

| kind | base | candidate | Δ pp |
|---|---:|---:|---:|
| a\\|b | 100.0% | 0.0% | -100.0 |

**Paired by task id**

2 tasks are on both sides."""


def test_the_report_has_the_tables_first_and_the_pairs_below() -> None:
    result = compare(
        [
            row("s-cook-1", counts=(1, 3), kinds=[("a|b", True)], n_turns=4),
            row("s-nurse-1", False, n_turns=1),
        ],
        [row("s-cook-1", counts=(2, 3), kinds=[("a|b", False)], n_turns=4), row("s-nurse-1")],
    )
    report = result.report()
    assert report.startswith(TABLES)
    assert "| baseline fails | 1 | 0 |" in report
    assert "McNemar's exact test p = 1.0000" in report
    assert "- Only the candidate passes: s-nurse-1\n- Only the baseline passes: none" in report


def test_the_report_has_each_share_with_its_interval_over_tasks() -> None:
    rows = [row(f"s-cook-{place}", counts=(3 * place, 6), kinds=[("a|b", True)] * 4) for place in range(3)]
    lines = compare(rows, [row("s-nurse-1", counts=(0, 0))]).report().splitlines()
    assert "| task pass | 3/3 | 43.9 – 100.0% | 1/1 | 20.7 – 100.0% |" in lines
    assert "| per-assertion | 9/18 | 12.5 – 87.5% | – | – |" in lines
    assert "| cook, assertions | 9/18 | 12.5 – 87.5% | – | – |" in lines
    assert "| nurse, tasks | – | – | 1/1 | 20.7 – 100.0% |" in lines
    assert "| a\\|b | 12/12 | 43.9 – 100.0% | – | – |" in lines
    lines = compare([row("a", counts=(1, 1)), row("b"), row("c")], []).report().splitlines()
    assert "| per-assertion | 1/1 | 20.7 – 100.0% | – | – |" in lines


def test_without_groups_and_kinds_the_first_table_stands_alone() -> None:
    report = compare([row("a")], [row("a")], group_extractor=None).report()
    assert "Per group" not in report
    assert "Per assertion kind" not in report
    assert "| mean wall (s) | 0.00 | 0.00 | +0.00 |\n\n**Paired by task id**\n" in report


def test_the_report_tells_what_a_reader_must_know() -> None:
    report = compare(
        [row("s-a-1", kinds=[("k", True)], n_turns=1, wall_seconds=1), "junk", *[7] * 5],
        [row("s-b-1", n_turns=2)],
    ).report()
    assert "- 6 rows of the baseline could not be used and are left out. 2: The row is 'junk'" in report
    assert "And 1 more." in report
    assert "- The candidate has no rows for the group a, so its 0.0% there measures nothing." in report
    assert "- The candidate has no rows for the kind k, so its 0.0% there measures nothing." in report
    assert "- 1 row of the candidate without a finite wall_seconds count" in report
    assert "1 row of the baseline without" not in report


def test_long_lists_of_ids_are_cut_and_counted() -> None:
    report = compare([row(f"t{place}") for place in range(14)], [row("t0")]).report()
    assert "13 tasks are only in the baseline: t1, t2, " in report
    assert "t10 and 3 more." in report


# --- the picture -------------------------------------------------------------------------------------------


def labels(draw: Callable[..., Any], **options: Any) -> list[tuple[str, str, float]]:
    return [(bar["label"], bar["series"], bar["value"]) for bar in draw(**options).spec["data"]["values"]]


def test_the_chart_has_a_bar_for_each_side_of_each_group_with_its_interval() -> None:
    result = compare([row("s-a-1"), row("s-a-2", False)], [row("s-a-1"), row("s-b-2")])
    assert labels(result.chart) == [
        ("all tasks", "baseline", 0.5),
        ("all tasks", "candidate", 1.0),
        ("a (n = 2)", "baseline", 0.5),
        ("a (n = 2)", "candidate", 1.0),
        ("b (n = 1)", "candidate", 1.0),
    ]
    first = result.chart().spec["data"]["values"][0]
    assert (first["low"], first["high"]) == stats.wilson(1, 2)


def test_the_chart_says_when_there_are_more_groups() -> None:
    result = compare([row("s-a-1"), row("s-a-2"), row("s-b-2")], [])
    assert {label for label, _, _ in labels(result.chart, top_n=1)} == {"all tasks", "a (n = 2)"}
    assert "the 1 largest of 2 groups" in result.chart(top_n=1).spec["title"]


def test_of_nothing_no_chart_is_drawn_and_of_odd_names_one_is() -> None:
    with pytest.raises(ValueError, match="nothing to draw"):
        compare([], []).chart()
    assert compare([row("\ud800")], []).chart().svg().startswith("<svg")


@pytest.mark.parametrize("count", [-1, 2.5, 10**400, "many", [1]])
def test_a_count_that_is_none_is_told(count: Any) -> None:
    stats = MatchedBaseComparison().stats([{"task_id": "t", "final_grade": {"n_passed": count}}])
    assert (stats.n, len(stats.dropped)) == (0, 1)
    assert "which is no count" in stats.dropped[0].reason


@pytest.mark.parametrize("size", [1e308, 1e200])
def test_differences_beyond_a_float_are_null(size: float) -> None:
    sides = ([{"task_id": name, "wall_seconds": sign * size} for name in "ab"] for sign in (1, -1))
    data = MatchedBaseComparison().compare(*sides).paired().to_dict()
    assert (json.loads(json.dumps(data, allow_nan=False))["wall_seconds"]["mean"] is None) == (size > 1e307)

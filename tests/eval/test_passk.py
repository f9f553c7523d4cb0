"""pass@k and pass^k against exact combinatorics, and the grading, counting and drawing around them."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from fractions import Fraction
from itertools import combinations
from math import comb
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.eval import (
    CheckSpec,
    PassAtK,
    PassAtKResult,
    pass_at_k_estimator,
    pass_hat_k_estimator,
    score_answer,
)
from proctor.eval.passk.result import draw_curves
from proctor.stats import wilson
from support.waiting import PATIENCE_S

# --- the estimators ----------------------------------------------------------------------------------------


@st.composite
def sample_counts(draw: st.DrawFn, most: int = 60) -> tuple[int, int, int]:
    n = draw(st.integers(1, most))
    return n, draw(st.integers(0, n)), draw(st.integers(1, n))


@given(sample_counts(most=400))
def test_both_are_what_exact_fractions_give(counts: tuple[int, int, int]) -> None:
    n, c, k = counts
    assert pass_at_k_estimator(n, c, k) == pytest.approx(
        float(1 - Fraction(comb(n - c, k), comb(n, k))), abs=1e-12
    )
    assert pass_hat_k_estimator(n, c, k) == pytest.approx(float(Fraction(comb(c, k), comb(n, k))), abs=1e-12)


@pytest.mark.parametrize(("n", "c", "k"), [(5, 2, 1), (5, 2, 3), (6, 3, 2), (4, 4, 2), (4, 0, 4), (6, 1, 5)])
def test_both_are_the_share_of_all_draws_of_k_answers(n: int, c: int, k: int) -> None:
    draws = list(combinations([True] * c + [False] * (n - c), k))
    assert pass_at_k_estimator(n, c, k) == pytest.approx(sum(map(any, draws)) / len(draws))
    assert pass_hat_k_estimator(n, c, k) == pytest.approx(sum(map(all, draws)) / len(draws))


MILLION = 1_000_000


@pytest.mark.parametrize(
    ("c", "k"), [(1, 1), (1, MILLION), (3, 100), (500_000, 2), (2, 500_000), (999_999, 1), (1000, 1000)]
)
def test_a_million_answers_are_as_exact_as_ten(c: int, k: int) -> None:
    exact = Fraction(1)
    for place in range(min(c, k)):
        exact *= Fraction(MILLION - max(c, k) - place, MILLION - place)
    assert pass_at_k_estimator(MILLION, c, k) == pytest.approx(float(1 - exact), abs=1e-12)


@pytest.mark.parametrize("estimator", [pass_at_k_estimator, pass_hat_k_estimator])
@pytest.mark.parametrize(
    ("n", "c", "k"),
    [(0, 0, 1), (5, -1, 1), (5, 6, 1), (5, 2, 0), (5, 2, -1), (-1, 0, 1), (5, 0, 6), (5, 5, 6)],
)
def test_numbers_out_of_range_are_refused(estimator: Any, n: int, c: int, k: int) -> None:
    with pytest.raises(ValueError, match=rf"n={n} and [ck]="):
        estimator(n, c, k)


@pytest.mark.parametrize("numbers", [(5.0, 2, 1), (5, 2.0, 1), (5, 2, 1.0), ("5", 2, 1), (5, None, 1)])
def test_what_is_no_whole_number_is_refused(numbers: Any) -> None:
    for estimator in (pass_at_k_estimator, pass_hat_k_estimator):
        with pytest.raises(TypeError, match="must be whole numbers"):
            estimator(*numbers)


# --- grading -----------------------------------------------------------------------------------------------

TOWNS = [
    {"task_id": "capital/fr", "want": "paris"},
    {"task_id": "capital/it", "want": "rome"},
    {"task_id": "capital/no", "want": "oslo"},
]
ANSWERS = [["paris", "lyon", "paris"], ["rome", "rome", "rome"], ["bergen", "", "turku"]]


def is_capital(text: str, task: dict[str, Any]) -> bool:
    return bool(text == task["want"])


def test_every_answer_is_graded_and_counted_for_its_task() -> None:
    result = PassAtK(ks=(1, 3)).score(TOWNS, ANSWERS, is_capital)
    assert result.to_dict() == {
        "n_problems": 3,
        "samples_per_problem": 3,
        "pass_at": {"pass@1": 0.5556, "pass@3": 0.6667},
        "per_task": [
            {"task_id": "capital/fr", "n": 3, "passed": 2},
            {"task_id": "capital/it", "n": 3, "passed": 3},
            {"task_id": "capital/no", "n": 3, "passed": 0},
        ],
    }
    assert result.pass_at[1] == pytest.approx(5 / 9)


def test_a_k_that_is_there_twice_counts_once() -> None:
    assert PassAtK(ks=(1, 1)).score(TOWNS, ANSWERS, is_capital).pass_at == {1: pytest.approx(5 / 9)}


def test_whatever_is_true_passes_and_an_id_may_have_another_key() -> None:
    result = PassAtK().score(
        [{"q": 7}, {}], [["a"], ["b"]], lambda text, _: [text] * (text == "a"), task_id_field="q"
    )
    assert result.per_task == [{"task_id": "7", "n": 1, "passed": 1}, {"task_id": "", "n": 1, "passed": 0}]


def test_extras_stand_in_the_row_and_change_no_number() -> None:
    result = PassAtK(ks=(1,)).score(
        TOWNS,
        ANSWERS,
        is_capital,
        extras_fn=lambda task, texts: {"first": texts[0], "passed": 99, "cost": float("nan")},
    )
    assert result.per_task[1] == {
        "task_id": "capital/it",
        "n": 3,
        "passed": 99,
        "first": "rome",
        "cost": result.per_task[1]["cost"],
    }
    assert result.estimate(1) == result.pass_at[1] == pytest.approx(5 / 9)
    assert result.pass_hat(3) == pytest.approx(1 / 3)
    assert json.loads(json.dumps(result.to_dict(), allow_nan=False))["per_task"][0]["cost"] is None


@pytest.mark.parametrize("workers", [2, 8])
def test_several_workers_grade_at_once_and_give_the_same(workers: int) -> None:
    together = threading.Barrier(2, timeout=PATIENCE_S)  # passes only if two are graded at the same time

    def slow(text: str, task: dict[str, Any]) -> bool:
        if text in ("lyon", "paris"):
            together.wait()
        time.sleep(0.002 * len(text))
        return is_capital(text, task)

    samples = [["paris", "lyon"], ["rome", "milan"], ["oslo", "bergen"]]
    assert PassAtK().score(TOWNS, samples, slow, workers=workers) == PassAtK().score(
        TOWNS, samples, is_capital
    )


def make_grader_failing_on(*bad: str) -> Callable[[str, dict[str, Any]], bool]:
    def grade(text: str, task: dict[str, Any]) -> bool:
        if text in bad:
            raise LookupError(f"no map of {text}")
        return is_capital(text, task)

    return grade


@pytest.mark.parametrize("workers", [1, 4])
def test_what_a_grader_raises_goes_on_to_the_caller_the_first_in_order(workers: int) -> None:
    with pytest.raises(LookupError, match="lyon"):
        PassAtK().score(TOWNS, ANSWERS, make_grader_failing_on("turku", "lyon"), workers=workers)


@pytest.mark.parametrize("workers", [1, 4])
def test_recorded_errors_are_listed_and_count_neither_way(workers: int) -> None:
    result = PassAtK(ks=(1, 2, 3)).score(
        TOWNS, ANSWERS, make_grader_failing_on("lyon"), workers=workers, on_error="record"
    )
    assert [(answer.task_id, answer.answer, answer.reason) for answer in result.ungraded] == [
        ("capital/fr", 1, "LookupError: no map of lyon")
    ]
    assert result.per_task[0] == {"task_id": "capital/fr", "n": 2, "passed": 2}
    assert result.pass_at == {1: pytest.approx(2 / 3), 2: pytest.approx(2 / 3)}  # of 3 answers one has none
    assert result.samples_per_problem == 2


def test_a_task_of_which_nothing_is_graded_is_left_out_and_named() -> None:
    result = PassAtK(ks=(1, 3)).score(TOWNS, ANSWERS, make_grader_failing_on("rome"), on_error="record")
    assert result.n_problems == 2
    assert result.pass_at == {1: pytest.approx(1 / 3), 3: pytest.approx(1 / 2)}
    assert result.statistics()["ungraded_tasks"] == ["capital/it"]
    assert result.statistics()["ungraded"] == 3


def test_of_nothing_graded_there_is_no_pass_at_k() -> None:
    result = PassAtK(ks=(1, 3)).score(TOWNS, ANSWERS, lambda *_: 1 / 0, on_error="record")
    assert (result.n_problems, result.pass_at, len(result.ungraded)) == (0, {}, 9)
    with pytest.raises(ValueError, match="nothing to draw"):
        result.chart()


def test_no_problems_give_zeros() -> None:
    for result in (PassAtK(ks=(1, 8)).score([], [], is_capital), PassAtK(ks=(1, 8)).from_rows([])):
        assert (result.n_problems, result.samples_per_problem, result.pass_at) == (0, 0, {1: 0.0, 8: 0.0})
        assert (result.estimate(1), result.interval(1), result.pass_hat(2)) == (None, None, None)


@pytest.mark.parametrize(
    ("ks", "problems", "samples", "error", "message"),
    [
        ((1,), TOWNS, ANSWERS[:2], ValueError, "3 problems have 2"),
        ((), TOWNS, ANSWERS, ValueError, "ks is empty"),
        ((1,), TOWNS, [["a"], ["a", "b"], ["a"]], ValueError, "1 to 2"),
        ((4,), TOWNS, ANSWERS, ValueError, "k=4 is more than the 3"),
        ((0,), TOWNS, ANSWERS, ValueError, "at least 1"),
        ((1.0,), TOWNS, ANSWERS, TypeError, "whole numbers"),
        ((1,), TOWNS, [[], [], []], ValueError, "k=1 is more than the 0"),
        ((1,), TOWNS, ["paris", "romes", "oslos"], TypeError, r"samples\[0\] is one text"),
    ],
)
def test_what_cannot_be_scored_is_refused_before_anything_is_graded(
    ks: Any, problems: Any, samples: Any, error: type[Exception], message: str
) -> None:
    def fail_if_called(_text: str, _task: dict[str, Any]) -> bool:
        raise AssertionError("graded")

    with pytest.raises(error, match=message):
        PassAtK(ks=ks).score(problems, samples, fail_if_called)


# --- answers that are counted or graded already ------------------------------------------------------------


def test_rows_may_be_objects_or_triples() -> None:
    objects = [{"task_id": "a", "n": 4, "passed": 1, "note": "x"}, {"n": "4", "passed": 4.0}]
    result = PassAtK(ks=(2,)).from_rows(objects)
    assert result.pass_at == {2: pytest.approx((0.5 + 1) / 2)}
    assert result.per_task == objects
    assert PassAtK(ks=(2,)).from_rows([("a", 4, 1), ("b", 4, 4)]).pass_at == result.pass_at
    assert PassAtK().from_rows(iter([("a", 4, 1)])).per_task == [{"task_id": "a", "n": 4, "passed": 1}]


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        ([("a", 2, 1), ("b", 3, 1)], ValueError, "n is 2 to 3"),
        ([{"task_id": "a", "passed": 1}], ValueError, "Row 1 has n=None"),
        ([("a", 2, 1), {"n": 2, "passed": 1.5}], ValueError, r"Row 2 has passed=1\.5"),
        ([("a", 2, 3)], ValueError, "n=2 and passed=3"),
        ([("a", 2, -1)], ValueError, "n=2 and passed=-1"),
        ([("a", 0, 0)], ValueError, "n >= 1"),
        ([("a", 2, float("nan"))], ValueError, "whole number"),
        ([("a", 2)], TypeError, "Row 1"),
        (["abc"], TypeError, "Row 1"),
        ([("a", 2, 1)] * 2, ValueError, "k=3 is more than the 2"),
    ],
)
def test_rows_that_say_nothing_are_refused_with_their_place(
    rows: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        PassAtK(ks=(3,)).from_rows(rows)


def trials(**grades: list[bool | None]) -> list[dict[str, Any]]:
    return [{"task_id": name, "passed": passed} for name, verdicts in grades.items() for passed in verdicts]


def test_single_answers_are_put_together_by_task() -> None:
    rows = trials(a=[True, False, False], b=[True, True], a_=[False, False])
    shuffled = sorted(rows, key=lambda row: str(row["passed"]))
    result = PassAtK(ks=(1, 2)).from_trials(rows)
    assert result.pass_at == {1: pytest.approx((1 / 3 + 1 + 0) / 3), 2: pytest.approx((2 / 3 + 1 + 0) / 3)}
    assert result.samples_per_problem == 2
    assert PassAtK(ks=(1, 2)).from_trials(shuffled).pass_at == result.pass_at


def test_an_answer_that_was_not_graded_counts_neither_way() -> None:
    rows = [
        *trials(a=[True, None], b=[None]),
        {"task_id": "a", "passed": None, "reason": "the host went down"},
    ]
    result = PassAtK().from_trials(rows)
    assert (result.n_problems, result.pass_at) == (1, {1: 1.0})
    assert [(answer.task_id, answer.answer, answer.reason) for answer in result.ungraded] == [
        ("a", 1, "passed is null"),
        ("b", 0, "passed is null"),
        ("a", 2, "the host went down"),
    ]


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        (trials(a=[True, True], b=[True]), ValueError, "k=2 is more than the 1 graded answers of task 'b'"),
        ([{"passed": True}], ValueError, "Row 1 has no 'task_id'"),
        ([{"task_id": "a", "passed": "yes"}], ValueError, "passed='yes'"),
        ([{"task_id": "a"}], ValueError, "passed=''"),
        ([("a", True)], TypeError, "Row 1"),
    ],
)
def test_single_answers_that_say_nothing_are_refused(rows: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        PassAtK(ks=(2,)).from_trials(rows)


# --- intervals, statistics, charts -------------------------------------------------------------------------

MIXED_RESULT = PassAtK(ks=(1, 4)).from_rows(
    [(f"t{place}", 8, passed) for place, passed in enumerate([0, 1, 2, 3, 5, 8] * 5)]
)


@pytest.mark.slow
@given(st.lists(st.integers(0, 6), min_size=2, max_size=12), st.integers(1, 6))
def test_an_interval_holds_its_value_whatever_the_order_of_the_tasks(passes: list[int], k: int) -> None:
    result = PassAtK().from_rows([(place, 6, passed) for place, passed in enumerate(passes)])
    reversed_result = PassAtK().from_rows(
        [(place, 6, passed) for place, passed in enumerate(reversed(passes))]
    )
    for value, bounds, again in (
        (result.estimate(k), result.interval(k), reversed_result.interval(k)),
        (result.pass_hat(k), result.pass_hat_interval(k), reversed_result.pass_hat_interval(k)),
    ):
        assert value is not None
        assert bounds is not None
        assert bounds == again
        assert -1e-12 <= bounds[0] <= value + 1e-12
        assert value - 1e-12 <= bounds[1] <= 1 + 1e-12


@pytest.mark.slow
def test_an_interval_is_of_the_tasks_and_not_of_the_answers() -> None:
    few = PassAtK().from_rows([("a", 1000, 200), ("b", 1000, 700)])
    many = PassAtK().from_rows([(place, 10, passed) for place, passed in enumerate([2, 7] * 100)])
    assert few.estimate(1) == pytest.approx(many.estimate(1))
    wide, narrow = few.interval(1), many.interval(1)
    assert wide is not None
    assert narrow is not None
    assert wide[1] - wide[0] > 0.5
    assert narrow[1] - narrow[0] < 0.1


def test_tasks_that_are_all_alike_still_leave_doubt() -> None:
    assert PassAtK().from_rows([("a", 5, 5)] * 4).interval(1) == pytest.approx((0.51, 1.0), abs=0.005)
    assert PassAtK().from_rows([("a", 5, 5)]).interval(1) is None


def test_many_tasks_have_the_interval_of_their_standard_error() -> None:
    result = PassAtK().from_rows([(place, 2, place % 3) for place in range(12_000)])
    assert result.interval(1) == pytest.approx((0.5 - 0.0073, 0.5 + 0.0073), abs=2e-4)


def test_any_k_can_be_asked_of_a_result_up_to_its_answers() -> None:
    values = [MIXED_RESULT.estimate(k) for k in range(1, 9)]
    assert values == sorted(values, key=lambda value: value or 0)
    assert MIXED_RESULT.estimate(4) == MIXED_RESULT.pass_at[4]
    for ask in (
        MIXED_RESULT.estimate,
        MIXED_RESULT.interval,
        MIXED_RESULT.pass_hat,
        MIXED_RESULT.pass_hat_interval,
    ):
        for k in (0, 9):
            with pytest.raises(ValueError, match=f"k={k}"):
                ask(k)
        with pytest.raises(TypeError):
            ask(1.5)  # type: ignore[arg-type]


@pytest.mark.slow
def test_statistics_have_both_measures_with_their_intervals() -> None:
    statistics = MIXED_RESULT.statistics()
    assert list(statistics) == ["tasks", "answers", "ungraded", "ungraded_tasks", "pass_at", "pass_hat"]
    assert (statistics["tasks"], statistics["answers"]) == (30, {"total": 240, "min": 8, "max": 8})
    assert statistics["pass_at"]["pass@4"] == {
        "value": MIXED_RESULT.pass_at[4],
        "ci95": list(MIXED_RESULT.interval(4) or ()),
    }
    assert statistics["pass_hat"]["pass^4"]["value"] == MIXED_RESULT.pass_hat(4)
    json.dumps(statistics, allow_nan=False)


def test_a_result_made_by_hand_counts_what_its_rows_say() -> None:
    rows = [{"task_id": "a", "n": 4, "passed": 1}, {"task_id": "b", "n": 4, "passed": 3}]
    result = PassAtKResult(n_problems=2, samples_per_problem=4, per_task=rows, pass_at={1: 0.5})
    assert result.estimate(2) == PassAtK().from_rows(rows).estimate(2)
    assert result == PassAtK().from_rows(rows)


def points(result: Any) -> list[dict[str, Any]]:
    values: list[dict[str, Any]] = result.spec["data"]["values"]
    return values


@pytest.mark.slow
def test_a_chart_has_both_curves_over_every_k_with_their_bands() -> None:
    values = points(MIXED_RESULT.chart())
    assert [(point["series"], point["x"]) for point in values if point["series"] == "pass^k"] == [
        ("pass^k", k) for k in range(1, 9)
    ]
    top = next(point for point in values if point["x"] == 4 and point["series"] == "pass@k")
    assert (top["y"], (top["low"], top["high"])) == (MIXED_RESULT.estimate(4), MIXED_RESULT.interval(4))


def test_a_chart_of_many_answers_has_few_points_and_both_ends() -> None:
    values = points(PassAtK().from_rows([("a", 5000, 40)]).chart())
    assert len(values) <= 24
    assert {1, 5000} <= {point["x"] for point in values}


@pytest.mark.slow
def test_several_results_stand_in_one_chart_under_their_names() -> None:
    empty = PassAtK().from_rows([])
    values = points(
        draw_curves({"old": MIXED_RESULT, "new": PassAtK().from_rows([("a", 3, 1)]), "none": empty})
    )
    assert {(point["series"], point["dashed"]) for point in values} == {
        (name, dashed) for name in ("old", "new") for dashed in (False, True)
    }
    assert [(point["x"], point["y"]) for point in values if point["series"] == "new" and point["dashed"]] == [
        (1, 1 / 3),
        (2, 0.0),
        (3, 0.0),
    ]


@pytest.mark.parametrize(("count", "banded"), [(1, True), (2, True), (3, False)])
def test_bands_are_drawn_where_they_do_not_hide_one_another(count: int, banded: bool) -> None:
    values = points(draw_curves({str(place): MIXED_RESULT for place in range(count)}))
    assert all(("low" in point) == banded for point in values)


def test_an_interval_of_many_tasks_stays_within_0_and_1() -> None:
    rows = [("t", 1, 0)] * 2999 + [("u", 1, 1)]
    low, high = PassAtK((1,)).from_rows(rows).interval(1) or (-1.0, -1.0)
    assert (low, high) == pytest.approx(wilson(1, 3000))


@pytest.mark.parametrize("k", [1, 5, 10])
@pytest.mark.parametrize("tasks", [5, 20])
def test_an_interval_of_few_tasks_contains_the_truth_as_often_as_it_promises(tasks: int, k: int) -> None:
    """Tasks of which seven in ten are nearly never solved, and the rest half of the time."""
    random, hits, samples = Random(tasks + k), 0, 400
    for _ in range(samples):
        rates = [0.03 if random.random() < 0.7 else 0.5 for _ in range(tasks)]
        counts = [
            (task, 10, sum(random.random() < rate for _ in range(10))) for task, rate in enumerate(rates)
        ]
        low, high = PassAtK((k,)).from_rows(counts).interval(k) or (1.0, 0.0)
        hits += low <= 1 - 0.7 * 0.97**k - 0.3 * 0.5**k <= high
    assert 0.93 <= hits / samples <= 0.99


def test_ks_may_be_an_iterator() -> None:
    grader = PassAtK(iter((1, 2)))  # type: ignore[arg-type]  # what a caller may do
    for _ in range(2):
        assert list(grader.from_rows([("t", 2, 1)]).pass_at) == [1, 2]


def test_a_result_that_says_whether_it_passed_is_believed() -> None:
    tasks, answers = [{"task_id": "t"}], [["it is 42", "it is 41"]]
    result = PassAtK().score(
        tasks, answers, lambda text, _: score_answer(text, CheckSpec("numeric", value=42))
    )
    assert result.pass_at == {1: 0.5}

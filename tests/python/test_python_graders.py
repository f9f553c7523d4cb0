"""`@proctor.grader`: functions as graders."""

from __future__ import annotations

import asyncio
import threading
from functools import partial
from typing import Any

import pytest

import proctor
from proctor.errors import UsageError

ROWS = [{"id": "a", "input": "Lima", "expected": "Lima"}, {"id": "b", "input": "Rome", "expected": "Oslo"}]


def scores(graders: list[Any], rows: Any = ROWS) -> list[tuple[str, float | None, str]]:
    run = proctor.run(rows, target="echo", graders=graders, store=None, progress=False)
    return [(score.outcome.value, score.value, score.reason or "") for trial in run for score in trial.scores]


def test_a_function_grades_by_the_names_of_its_parameters() -> None:
    @proctor.grader
    def same(answer: str, expected: str, input: str, output: proctor.Output, case: proctor.Case) -> bool:  # noqa: A002
        assert (output.text, case.input[0].content) == (answer, input)
        return answer == expected

    assert scores([same]) == [("pass", 1.0, ""), ("fail", 0.0, "")]
    assert same.name == "same"


def test_a_function_may_be_async_and_give_a_reason() -> None:
    @proctor.grader
    async def short(answer: str) -> tuple[float, str]:
        return len(answer) / 8, f"{len(answer)} letters"

    assert scores([short]) == [("pass", 0.5, "4 letters")] * 2
    assert scores([short.assertion(pass_at=0.6)]) == [("fail", 0.5, "4 letters")] * 2


def test_parameters_with_defaults_are_parameters_of_the_grader() -> None:
    @proctor.grader
    def at_most(answer: str, limit: int = 3) -> bool:
        return len(answer) <= limit

    assert [outcome for outcome, *_ in scores([at_most, at_most.assertion(limit=4)])] == ["fail", "pass"] * 2
    with pytest.raises(proctor.SuiteError, match="limit: Expected `int`"):
        scores([at_most.assertion(limit="x")])


def test_a_registered_grader_has_a_name() -> None:
    @proctor.grader(name="is-lima")
    def grade(answer: str) -> bool:
        return answer == "Lima"

    assert grade(answer="Lima")
    assert [outcome for outcome, *_ in scores(["is-lima"])] == ["pass", "fail"]
    check = proctor.Assertion(grader="is-lima")
    case = proctor.Case(id="x", input=(proctor.Message(role="user", content="Lima"),), assertions=(check,))
    run = proctor.run([case], target="echo", store=None, progress=False)
    assert run.pass_rate == 1.0


def test_a_plain_function_is_a_grader_too() -> None:
    def ends_well(answer: str) -> bool:
        return answer.endswith("a")

    assert [outcome for outcome, *_ in scores([ends_well])] == ["pass", "fail"]


@pytest.mark.parametrize("result", [None, 2, -0.1, "yes", float("nan")])
def test_what_is_no_result_leaves_the_score_unscored(result: Any) -> None:
    @proctor.grader
    def odd(answer: str) -> Any:
        return result

    assert {outcome for outcome, *_ in scores([odd])} == {"unscored"}


def test_a_function_that_raises_leaves_the_score_unscored() -> None:
    @proctor.grader
    def broken(answer: str) -> bool:
        raise ValueError("no idea")

    ((outcome, _, reason), _) = scores([broken])
    assert outcome == "unscored"
    assert "no idea" in reason


def test_a_slow_function_goes_on_in_threads() -> None:
    threads = set()
    waiting = threading.Event()

    @proctor.grader
    def slow(answer: str) -> bool:
        threads.add(threading.current_thread())
        waiting.wait(0.02)
        return True

    scores([slow], [{"id": str(number), "input": "x", "expected": "x"} for number in range(8)])
    assert len(threads) > 1


def test_a_parameter_that_nothing_gives_is_refused() -> None:
    with pytest.raises(UsageError, match="an unknown parameter 'colour'"):

        @proctor.grader
        def grade(answer: str, colour: str) -> bool:
            return True


def test_the_name_of_a_built_in_grader_is_refused() -> None:
    with pytest.raises(UsageError, match="A grader named 'exact' already exists"):

        @proctor.grader
        def exact(answer: str) -> bool:
            return True


def test_a_suite_in_the_store_keeps_its_own_graders() -> None:
    proctor.run(ROWS, target="echo", name="saved", store="s.db", progress=False)
    with pytest.raises(UsageError, match="cannot replace the graders"):
        proctor.run("saved", target="echo", graders=["exact"], store="s.db", progress=False)


def test_lambdas_and_functions_of_one_name_grade_beside_each_other() -> None:
    def at_most(limit: int) -> Any:
        def check(answer: str) -> bool:
            return len(answer) <= limit

        return check

    assert [value for _, value, _ in scores([lambda answer: True, lambda answer: False], ROWS[:1])] == [1, 0]
    assert [value for _, value, _ in scores([at_most(3), at_most(9)], ROWS[:1])] == [0, 1]
    graders = [proctor.grader(at_most(limit)) for limit in (3, 9)]
    assert [value for _, value, _ in scores(graders, ROWS[:1])] == [0, 1]
    checks = [proctor.grader(at_most(limit)).assertion() for limit in (3, 9)]
    assert [value for _, value, _ in scores(checks, ROWS[:1])] == [0, 1]


def test_a_name_is_that_of_the_last_function_and_an_object_stays_itself() -> None:
    no = proctor.grader(name="maybe")(lambda answer: False)
    yes = proctor.grader(name="maybe")(lambda answer: True)
    assert [value for _, value, _ in scores(["maybe"], ROWS[:1])] == [1]
    assert [value for _, value, _ in scores([no, yes], ROWS[:1])] == [0, 1]


def has_length(answer: str, length: int) -> bool:
    return len(answer) == length


def test_partial_functions_and_methods_grade_beside_each_other() -> None:
    class Limit:
        def __init__(self, limit: int) -> None:
            self.limit = limit

        def check(self, answer: str) -> bool:
            return len(answer) <= self.limit

    partials = [partial(has_length, length=length) for length in (3, 4)]
    assert [value for _, value, _ in scores(partials, ROWS[:1])] == [0, 1]
    assert [value for _, value, _ in scores([Limit(3).check, Limit(4).check], ROWS[:1])] == [0, 1]


def test_a_cell_that_runs_again_keeps_the_names_of_its_graders() -> None:
    names = {proctor.grader(eval("lambda answer: True", {})).name for _ in range(3)} | {
        proctor.grader(eval("lambda answer: True", {})).assertion().grader
    }
    assert len(names) == 1


def test_objects_and_partial_functions_grade() -> None:
    class Length:
        def __call__(self, answer: str) -> bool:
            return len(answer) == 4

    def at_least(answer: str, least: int) -> bool:
        return len(answer) >= least

    assert scores([Length(), partial(at_least, least=9)], ROWS[:1]) == [("pass", 1.0, ""), ("fail", 0.0, "")]


@pytest.mark.parametrize("error", [SystemExit(2), asyncio.CancelledError(), BaseException("odd")])
@pytest.mark.parametrize("is_async", [False, True])
def test_whatever_a_function_raises_leaves_the_score_unscored(error: BaseException, is_async: bool) -> None:
    def broken(answer: str) -> bool:
        raise error

    async def broken_later(answer: str) -> bool:
        raise error

    ((outcome, _, reason), _) = scores([broken_later if is_async else broken])
    assert outcome == "unscored"
    assert f"raised {type(error).__name__}" in reason


@pytest.mark.parametrize(
    ("reason", "stored_reason"),
    [(None, ""), ({"a": 1}, "{'a': 1}"), ("half \ud800", "half \\ud800"), ("größer", "größer")],
)
def test_a_reason_may_be_anything(reason: Any, stored_reason: str) -> None:
    assert scores([lambda answer: (True, reason)], ROWS[:1]) == [("pass", 1.0, stored_reason)]


def test_what_cannot_grade_is_refused() -> None:
    with pytest.raises(UsageError, match="3 is not a function"):
        proctor.grader(3)  # type: ignore[call-overload]
    with pytest.raises(UsageError, match="'obj' that cannot be passed by name"):
        proctor.grader(len)

"""Unusual values in rows, tables, targets and calls, and the errors for them."""

from __future__ import annotations

import datetime
import decimal
import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import proctor
from proctor.errors import SuiteError, UsageError
from proctor.model import Usage
from proctor.python.wording import to_option_names
from proctor.services import events

QUIET: Any = {"progress": False, "store": None}
ROW = {"input": "x", "expected": "x"}


def metadata(value: Any) -> Any:
    run = proctor.run([{**ROW, "metadata": {"value": value}}], target="echo", **QUIET)
    return run.trials().to_arrow()["metadata"][0].as_py()


# --- values of rows ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (datetime.date(2026, 1, 31), '"2026-01-31"'),
        (datetime.datetime(2026, 1, 31, 8, tzinfo=datetime.UTC), '"2026-01-31T08:00:00Z"'),
        (decimal.Decimal("1.10"), '"1.10"'),
        ((1, {"a": [2]}), '[1,{"a":[2]}]'),
        (float("nan"), "null"),
    ],
)
def test_values_become_json(value: Any, text: str) -> None:
    pytest.importorskip("pyarrow")
    assert json.loads(metadata(value)) == {"value": json.loads(text)}


def test_values_of_numpy_become_numbers_texts_and_lists() -> None:
    numpy = pytest.importorskip("numpy")
    pytest.importorskip("pyarrow")
    values = [numpy.int64(3), numpy.float32(0.5), numpy.bool_(True), numpy.str_("a"), numpy.array([[1], [2]])]
    assert json.loads(metadata(values)) == {"value": [3, 0.5, True, "a", [[1], [2]]]}


def test_a_table_of_pandas_may_have_columns_of_any_kind() -> None:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pandas.DataFrame({
        "question": ["a", "b"],
        "answer": ["a", "b"],
        "at": pandas.to_datetime(["2026-01-01", None]),
        "count": pandas.array([1, None], dtype="Int64"),
        "kind": pandas.Categorical(["u", "v"]),
        "took": pandas.to_timedelta([1, 2], unit="s"),
        "list": [[1, 2], [3]],
    })  # fmt: skip
    run = proctor.run(frame, target="echo", columns={"input": "question", "expected": "answer"}, **QUIET)
    first, second = (json.loads(text) for text in run.trials().to_arrow()["metadata"].to_pylist())
    assert (first["at"], first["count"], first["kind"], first["list"]) == (
        "2026-01-01T00:00:00",
        1,
        "u",
        [1, 2],
    )
    assert second.keys() == {"kind", "took", "list"}


@pytest.mark.parametrize(
    ("rows", "error"),
    [
        ([ROW, {**ROW, "metadata": {"x": object()}}], "Row 2 .* JSON: it has a value of type object"),
        ([{**ROW, "input": "\ud800"}], "Row 1 cannot be written as JSON"),
        ([{**ROW, "input": b"x"}], "Row 1 has a value of type bytes. Decode it"),
        ([ROW, 7], "Row 2 is of type int"),
        ([ROW, proctor.Case(id="x", input=())], "Row 2 is of type Case"),
        ([proctor.Case(id="x", input=()), ROW], "Row 2 is of type dict"),
        ([proctor.Case(id="x", input=(), metadata={"x": object()})], "Case 1 cannot be written as JSON"),
        ([proctor.Case(id="x", input=(), metadata={"x": {1: 2}})], "Case 1 cannot be written as JSON"),
        ([proctor.Case(id="\ud800", input=())], "Case 1 cannot be written as JSON"),
    ],
)  # fmt: skip
def test_what_cannot_be_a_row_is_named(rows: Any, error: str) -> None:
    with pytest.raises(UsageError, match=error):
        proctor.run(rows, target="echo", **QUIET)


def test_a_row_that_holds_itself_is_refused() -> None:
    row: dict[str, Any] = {**ROW, "metadata": {}}
    row["metadata"]["self"] = row
    with pytest.raises(UsageError, match="Row 1 cannot be written as JSON"):
        proctor.run([row], target="echo", **QUIET)


# --- what errors say ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("graders", [None, [lambda answer: True]])
def test_problems_name_the_row(graders: Any) -> None:
    rows = [{"id": "a", **ROW}, {"id": "b", **ROW}, {"id": "a", **ROW}, {"id": "d", **ROW, "no": 1}]
    with pytest.raises(SuiteError) as caught:
        proctor.run(rows, target="echo", graders=graders, name="sums", **QUIET)
    duplicate, unknown = sorted(str(caught.value).splitlines())
    assert duplicate.startswith("sums, row 3: error: Case id 'a' is already used at row 1.")
    assert unknown.startswith("sums, row 4: error: ")
    assert [problem.line for problem in caught.value.problems] in ([3, 4], [4, 3])


def test_warnings_name_the_row() -> None:
    event_list: list[events.Event] = []
    proctor.run([ROW, {"input": "4", "expected": 4}], target="echo", store=None, progress=event_list.append)
    warnings = [event.message for event in event_list if isinstance(event, events.WarningMessage)]
    assert any(warning.startswith("data, row 2: warning: ") for warning in warnings)


def test_rows_of_no_format_are_told_what_to_do() -> None:
    with pytest.raises(
        SuiteError, match=r"data: error: The fields of the first row are 'question', which fit"
    ):
        proctor.run([{"question": "x"}], target="echo", **QUIET)
    with pytest.raises(SuiteError, match=r"or pass `graders`\."):
        proctor.run([{"input": "x"}], target="echo", **QUIET)


def test_errors_speak_of_options_and_not_of_flags() -> None:
    with pytest.raises(UsageError, match=r"Name a target with `target`, such as"):
        proctor.run([ROW], **QUIET)
    with pytest.raises(UsageError, match=r"`target` echo is given twice\. .* use `repeats`"):
        proctor.run([ROW], target=["echo", "echo"], **QUIET)
    with pytest.raises(UsageError, match=r"`gate_mode` needs a gate. Add `min_pass_rate`"):
        proctor.run([ROW], target="echo", gate_mode="interval", **QUIET)


def test_commands_in_messages_stay_commands() -> None:
    text = "Use `proctor run x --repeat 2`, or write --resume=RUN with --repeat."
    assert to_option_names(text) == "Use `proctor run x --repeat 2`, or write resume=RUN with `repeats`."


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: proctor.run(target="echo"), "Pass a suite: a path, a name, rows or a table"),
        (lambda: proctor.run(resume=True), "needs the suite and the target"),
        (lambda: proctor.run([ROW], target="echo", name="a/b"), "Remove the slashes"),
        (lambda: proctor.run([ROW], target="echo", store=3), "`store` is of type int"),  # type: ignore[call-overload]
        (lambda: proctor.run("x.csv", target="echo", columns={"input": "q"}), "`columns` is only for rows"),
    ],
)
def test_a_wrong_call_is_a_sentence(call: Any, error: str, folder: Path) -> None:
    with pytest.raises(UsageError, match=error):
        call()
    assert list(folder.iterdir()) == []


# --- graders and targets -----------------------------------------------------------------------------------


@pytest.mark.parametrize("graders", [lambda answer: True, {"grader": "contains", "value": "x"}])
def test_one_grader_needs_no_list(graders: Any) -> None:
    assert proctor.run([{"input": "x"}], target="echo", graders=graders, **QUIET).passed == 1


class Odd(BaseException):
    """An exception like those that some test runners raise."""


def raise_odd(question: str) -> str:
    raise Odd("no")


async def raise_odd_async(question: str) -> str:
    raise Odd("no")


async def cancel_itself(question: str) -> str:
    import asyncio

    raise asyncio.CancelledError


@pytest.mark.parametrize("target", [raise_odd, raise_odd_async, cancel_itself])
def test_whatever_a_target_raises_is_an_error_of_its_trial(target: Any) -> None:
    run = proctor.run([ROW, {**ROW, "input": "y"}], target=target, **QUIET)
    assert (run.errors, run.status) == (2, "finished")
    assert f"{target.__name__} raised" in next(run.failures()).reason


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (None, "returned NoneType. Return text"),
        (True, "returned bool. Return text"),
        ({"txt": "x"}, "returned dict, but the field `text` is missing. Return text"),
        ({"text": 4}, "returned dict, but the field `text` is 4, which it cannot be. Return text"),
        (
            {"text": "4", "usage": Usage(input_tokens="x")},  # type: ignore[arg-type]
            "returned dict, but the field `usage.input_tokens` is 'x', which it cannot be. Return text",
        ),
        (iter([]), "returned list_iterator. Return text"),
    ],
)
def test_what_is_no_answer_is_an_error_of_its_trial(result: Any, message: str) -> None:
    run = proctor.run([ROW], target=lambda _question: result, **QUIET)
    assert run.errors == 1
    assert message in next(run.failures()).reason


class Agent:
    """Answers with a fixed word."""

    def __init__(self, word: str, name: str = "") -> None:
        self.word = word
        self.name = name

    def answer(self, prompt: proctor.Prompt) -> str:
        return self.word

    def __call__(self, question: str) -> str:
        return self.word


def test_objects_of_a_class_and_partial_functions_are_several_targets() -> None:
    def answer(word: str, question: str) -> str:
        return word

    for targets in (
        [Agent("x"), Agent("y")],
        [Agent("x").__call__, Agent("y").__call__],
        [partial(answer, "x"), partial(answer, "y")],
        [lambda question, word=word: word for word in ("x", "y")],
    ):
        group = proctor.run([ROW], target=targets, **QUIET)
        assert [run.passed for run in group] == [1, 0]
        assert len({run.target.name for run in group}) == 2


def test_an_object_keeps_its_name() -> None:
    names = [proctor.run([ROW], target=Agent("x", "mine"), **QUIET).target.name for _ in range(2)]
    assert names == ["mine", "mine"]
    group = proctor.run([ROW], target=[Agent("x", "first"), Agent("y", "second")], **QUIET)
    assert [(run.target.name, run.passed) for run in group] == [("first", 1), ("second", 0)]
    with pytest.raises(UsageError, match="mine is given twice"):
        proctor.run([ROW], target=[Agent("x", "mine"), Agent("y", "mine")], **QUIET)


def test_a_cell_that_runs_again_gives_its_lambda_the_same_name() -> None:
    names = set()
    for _ in range(3):
        target = eval("lambda question: question", {})
        names.add(proctor.run([ROW], target=target, **QUIET).target.name)
    assert len(names) == 1


def test_a_class_is_called_as_a_function() -> None:
    run = proctor.run([ROW], target=Agent, **QUIET)
    assert run.errors == 1
    assert "returned Agent. Return text" in next(run.failures()).reason


def test_the_project_file_names_target_and_judge() -> None:
    Path("proctor.toml").write_text('target = "echo"\njudge = ["echo"]\n', encoding="utf-8")
    run = proctor.run([{"input": "a", "scorer": "llm_judge", "rubric": "Is it short?"}], **QUIET)
    assert (run.target.name, [judge.name for judge in run.run.judges]) == ("echo", ["echo"])
    Path("proctor.toml").write_text('target = ["echo", "scripted:x.jsonl"]\n', encoding="utf-8")
    Path("x.jsonl").write_text('{"*": "x"}\n', encoding="utf-8")
    assert [run.target.kind for run in proctor.run([ROW], **QUIET)] == ["echo", "scripted"]


def test_resuming_with_other_settings_is_refused() -> None:
    run = proctor.run([ROW], target=str.upper, store="s.db", progress=False)
    again: Any = {"resume": run.id, "store": "s.db", "progress": False}
    assert proctor.run(**again, target=str.upper).id == run.id
    with pytest.raises(UsageError, match="upper"):
        proctor.run(**again, target="echo")
    with pytest.raises(UsageError, match="repeat"):
        proctor.run(**again, repeats=3)


# --- comparisons -------------------------------------------------------------------------------------------


def test_runs_in_different_stores_are_compared() -> None:
    rows = [{"id": str(number), "input": "x", "expected": "x"} for number in range(6)]
    before = proctor.run(rows, target=str.upper, store="s.db", progress=False)
    after = proctor.run(rows, target="echo", **QUIET)
    assert after.compare(before).difference == 1.0
    assert proctor.run(rows, target="echo", **QUIET).compare(after).difference == 0.0
    assert before.compare(before).difference == 0.0
    other = proctor.run(rows[:3], target="echo", **QUIET)
    assert other.compare(after).report.comparisons[0].whole.cases == 3
    assert other.compare(before, by_case_digest=True).difference == 1.0
    strangers = proctor.run([{"id": "new", "input": "x", "expected": "x"}], target="echo", **QUIET)
    with pytest.raises(UsageError, match="no case has the same id and the same checks in both"):
        strangers.compare(before)


def test_an_edited_case_is_found_in_another_store() -> None:
    rows = [{"id": str(number), "input": "x", "expected": "x"} for number in range(3)]
    before = proctor.run(rows, target="echo", store="s.db", progress=False)
    rows[0]["input"] = "y"
    (pair,) = proctor.run(rows, target="echo", **QUIET).compare(before).report.comparisons
    assert (pair.unpaired.input_changed, pair.whole.cases) == (("0",), 3)


def test_a_comparison_takes_runs() -> None:
    run = proctor.run([ROW], target="echo", **QUIET)
    with pytest.raises(UsageError, match=r"'last' is not a run\. Pass a run, such as proctor\.load_run"):
        run.compare("last")
    with pytest.raises(UsageError, match=r"`by` is 'tags'. Did you mean 'tag'"):
        run.compare(run, by="tags")

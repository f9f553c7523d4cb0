"""Bench: calls that are recorded, made, summed up, shown and kept."""

from __future__ import annotations

import asyncio
import copy
import json
import numbers
import pickle
import re
import statistics
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.eval import Bench, BenchCall, summarize_metric
from proctor.stats import mean_interval, wilson
from support.waiting import PATIENCE_S

NAN = float("nan")


def make_bench(*latencies: float, name: str = "b", **lists: list[Any]) -> Bench:
    """A bench of successful calls, with lists of metrics."""
    bench = Bench(name, metrics=list(lists))
    for place, latency in enumerate(latencies):
        bench.record(latency_ms=latency, **{metric: values[place] for metric, values in lists.items()})
    return bench


# --- summaries ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "summary"),
    [
        ([], {"n": 0}),
        ([None, NAN, float("inf")], {"n": 0}),
        ([4], {"n": 1, "mean": 4.0, "median": 4, "min": 4, "max": 4}),
        ([9, 1.25, None, 5, 2], {"n": 4, "mean": 4.31, "median": 5, "min": 1.25, "max": 9}),
        ([3, NAN, 1], {"n": 2, "mean": 2.0, "median": 3, "min": 1, "max": 3}),
        ([True, False, True], {"n": 3, "mean": 0.67, "median": True, "min": False, "max": True}),
    ],
)
def test_a_metric_is_summed_up(values: list[Any], summary: dict[str, Any]) -> None:
    assert summarize_metric(iter(values)) == summary
    assert list(summarize_metric(values)) == list(summary)


def test_a_text_has_no_mean() -> None:
    with pytest.raises(TypeError, match="'high' is no number"):
        summarize_metric([1, "high"])
    bench = make_bench(1.0, grade=["high"])
    with pytest.raises(TypeError, match="Metric 'grade': 'high'"):
        bench.summary()
    assert bench.statistics()["grade"].missing == 1


def test_a_summary_is_of_the_successful_calls() -> None:
    bench = Bench("s", metrics=["hits", "never"])
    assert bench.summary() == {"name": "s", "n": 0}
    bench.record(latency_ms=10, hits=3, undeclared=1)
    bench.record(latency_ms=900, success=False, error="E: late", hits=9)
    summary = bench.summary()
    assert list(summary) == ["name", "n", "n_success", "n_failure", "latency_ms", "hits", "never"]
    assert (summary["n"], summary["n_success"], summary["n_failure"]) == (2, 1, 1)
    assert summary["latency_ms"]["max"] == 10
    assert summary["hits"] == {"n": 1, "mean": 3.0, "median": 3, "min": 3, "max": 3}
    assert summary["never"] == {"n": 0}


def test_the_seconds_are_those_between_beginning_and_end() -> None:
    bench = Bench("w")
    with suppress(LookupError), bench:
        bench.record(latency_ms=1)
        assert "wall_seconds" not in bench.summary()
        raise LookupError
    assert bench.summary()["wall_seconds"] == round(bench.wall_seconds, 3)
    assert bench.wall_seconds > 0


def test_a_report_is_the_summary_as_a_table() -> None:
    bench = make_bench(4.0, 8.0, hits=[1, 2])
    bench.metrics.append("never")
    bench.record(latency_ms=1, success=False)
    bench.wall_seconds = 1.5
    assert bench.report() == (
        "### Bench: b (n=3)\n- success: 2 / 3, failures: 1\n- wall: 1.5s\n\n"
        "| metric | mean | median | min | max |\n|---|---:|---:|---:|---:|\n"
        "| latency_ms | 6.0 | 8.0 | 4.0 | 8.0 |\n| hits | 1.5 | 2 | 1 | 2 |\n| never | — | — | — | — |"
    )


def test_a_share_has_its_interval_below_the_table() -> None:
    lines = make_bench(4.0, 8.0, hits=[0, 1]).report().splitlines()
    assert lines[-2:] == ["", "- hits: 0.500 of n = 2, 95 % interval 0.095 to 0.905"]
    assert make_bench(4.0, 8.0, hits=[0, 3]).report().splitlines()[-1] == "| hits | 1.5 | 3 | 0 | 3 |"
    assert "- hits" not in make_bench(4.0, 8.0, hits=[0, 1]).report(statistics=True)


def test_statistics_stand_below_the_report() -> None:
    bench = make_bench(4.0, 8.0, hits=[0, 1])
    bench.calls[0].tags["kind|sort"] = "a|b\nc"
    longer = bench.report(by="kind|sort")
    assert longer.startswith(bench.report() + "\n\n| metric | kind\\|sort | n | mean |")
    assert "| latency_ms | a\\|b c | 1 | 4 | – | 4 | 4 | 4 |" in longer
    assert bench._repr_markdown_() == bench.report(statistics=True)
    assert "| hits | 2 | 0.5 | 0.09453 – 0.9055 | 0.5 | 0.95 | 0.99 |" in bench._repr_markdown_()


def test_a_bench_is_one_line_where_there_is_no_notebook() -> None:
    bench = make_bench(4.0, 8.0)
    bench.record(latency_ms=1, success=False, output="long" * 9999)
    assert repr(bench) == "<Bench 'b': 3 calls, 1 failed>"


@pytest.mark.parametrize("name", ["n", "name", "n_success", "n_failure", "latency_ms", "wall_seconds"])
def test_a_metric_takes_no_key_of_the_summary(name: str) -> None:
    with pytest.raises(ValueError, match=f"cannot be called '{name}'"):
        Bench("b", metrics=["ok", name])


def test_metrics_are_a_list() -> None:
    with pytest.raises(TypeError, match="not the text 'accuracy'"):
        Bench("b", metrics="accuracy")  # type: ignore[arg-type]


# --- statistics --------------------------------------------------------------------------------------------


@given(st.lists(st.floats(0, 1e6), min_size=2, max_size=40))
def test_statistics_are_unrounded_and_medians_true(values: list[float]) -> None:
    summary = make_bench(*values).statistics()["latency_ms"]
    assert summary.n == len(values)
    assert summary.median == pytest.approx(statistics.median(values))
    assert summary.stdev == pytest.approx(statistics.stdev(values), abs=1e-6)
    assert summary.mean is not None
    assert summary.interval is not None
    assert summary.interval[0] <= summary.mean + 1e-6 <= summary.interval[1] + 2e-6
    order = [
        summary.min,
        summary.p5,
        summary.p25,
        summary.median,
        summary.p75,
        summary.p90,
        summary.p95,
        summary.p99,
        summary.max,
    ]
    numbers = [value for value in order if value is not None]
    assert len(numbers) == len(order)
    assert all(low <= high + 1e-6 for low, high in pairwise(numbers))


def test_percentiles_are_interpolated() -> None:
    summary = make_bench(*range(101)).statistics()["latency_ms"]
    assert (summary.p5, summary.p25, summary.p75, summary.p90, summary.p95, summary.p99) == (
        5,
        25,
        75,
        90,
        95,
        99,
    )


def test_failures_count_beside_and_as_0() -> None:
    bench = make_bench(1, 1, 1, right=[1, 1, 0], words=[10, 20, None])
    bench.record(latency_ms=70, success=False)
    right, words, latency = (bench.statistics()[name] for name in ("right", "words", "latency_ms"))
    assert (right.n, right.failed, right.unit) == (3, 1, "share")
    assert right.mean == pytest.approx(2 / 3)
    assert right.mean_failed_as_0 == 0.5
    assert (right.interval, right.interval_failed_as_0) == (wilson(2, 3), wilson(2, 4))
    assert (words.n, words.missing, words.mean, words.mean_failed_as_0) == (2, 1, 15, 10)
    assert words.interval == mean_interval([10, 20])
    assert (latency.max, latency.mean_failed_as_0) == (1, None)


@pytest.mark.parametrize(
    ("name", "key", "unit"),
    [
        ("embed_ms", None, "ms"),
        ("embed", "timings_ms", "ms"),
        ("took_s", None, "s"),
        ("cost_usd", None, "USD"),
        ("output_tokens", None, "tokens"),
        ("depth", None, ""),
    ],
)
def test_a_name_tells_its_unit(name: str, key: str | None, unit: str) -> None:
    bench = Bench("b", metrics_key=key)
    metrics: dict[str, Any] = {name: 2.5}
    bench.record(latency_ms=1, **metrics)
    assert bench.statistics()[name].unit == unit


def test_nothing_has_no_statistics_but_a_count() -> None:
    summary = Bench("b", metrics=["x"]).statistics()["x"].to_dict()
    assert {name for name, value in summary.items() if value is not None} == {
        "name", "unit", "n", "missing", "failed",
    }  # fmt: skip


def test_numbers_beyond_a_float_break_nothing() -> None:
    bench = make_bench(1, 1, 1, huge=[1e308, 1.7e308, 10**400], odd=[NAN, 1e200, -1e200])
    json.dumps([statistic.to_dict() for statistic in bench.statistics().values()], allow_nan=False)
    assert bench.statistics()["huge"].missing == 1
    assert bench.summary()["odd"]["n"] == 2


def test_statistics_by_a_tag() -> None:
    bench = Bench("b")
    for latency, tags in ((1, {"size": "s"}), (2, {"size": 3}), (4, {}), (8, {"size": "s"})):
        bench.record(latency_ms=latency, tags=tags)
    groups = bench.statistics(by="size")
    means = {group: group_statistics["latency_ms"].mean for group, group_statistics in groups.items()}
    assert means == {"s": 4.5, "3": 2, "(no size)": 4}
    with pytest.raises(ValueError, match="No call has the tag 'sise'; their tags are size"):
        bench.statistics(by="sise")
    assert Bench("empty").statistics(by="size") == {}


def test_charts_are_of_percentiles_or_means() -> None:
    bench = make_bench(1, 2, 3, right=[1, 0, 1], words=[5, 6, 7], took_s=[1, 2, 4])
    bench.record(latency_ms=5, right=1, tags={"kind": "k"})
    rows = bench.chart(by="kind").spec["data"]["values"]
    assert {(row["label"], row["series"]) for row in rows} >= {("p50", "k"), ("p99", "(no kind)")}
    (right,) = bench.chart("right").spec["data"]["values"]
    assert (right["value"], (right["low"], right["high"])) == (0.75, wilson(3, 4))
    assert [row["label"] for row in bench.chart("right", by="kind").spec["data"]["values"]] == [
        "(no kind)",
        "k",
    ]
    for wrong, why in ((("rihgt",), "no metric 'rihgt'"), (("right", "took_s"), "different units: s, share")):
        with pytest.raises(ValueError, match=why):
            bench.chart(*wrong)
    with pytest.raises(ValueError, match="nothing to draw"):
        Bench("b").chart()


# --- calls -------------------------------------------------------------------------------------------------


def answer(number: int) -> dict[str, Any]:
    if number == 2:
        raise KeyError("two")
    return {"timings_ms": {"embed": number, "flag": True, "text": "5"}, "embed": 99}


async def answer_soon(number: int) -> dict[str, Any]:
    await asyncio.sleep(0.001 * (3 - number % 3))
    return answer(number)


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("fn", [answer, answer_soon])
def test_calls_are_in_the_order_of_the_inputs(fn: Any, workers: int) -> None:
    bench = Bench("b", metrics=["embed", "flag", "text"], metrics_key="timings_ms")
    bench.record(latency_ms=1, input="before")
    tags: Any = lambda number: {"odd": number % 2} if number else None  # noqa: E731
    assert bench.run(fn, iter(range(7)), tag_fn=tags, workers=workers) is bench
    assert [call.input for call in bench.calls] == ["before", *range(7)]
    calls = bench.calls[1:]
    assert [call.metrics for call in calls] == [
        {} if number == 2 else {"embed": float(number)} for number in range(7)
    ]
    assert [call.tags for call in calls[:3]] == [{}, {"odd": 1}, {"odd": 0}]
    assert calls[2] == BenchCall(2, None, calls[2].latency_ms, False, "KeyError: 'two'", {}, {"odd": 0})
    assert all(call.success and call.latency_ms >= 0 for call in calls if call.input != 2)


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("fn", [answer, answer_soon])
def test_the_first_error_can_be_raised(fn: Any, workers: int) -> None:
    bench = Bench("b")
    with pytest.raises(KeyError, match="two"):
        bench.run(fn, range(6), on_error="raise", workers=workers)
    assert [call.input for call in bench.calls][:2] == [0, 1]
    assert all(call.success for call in bench.calls)


def test_numbers_of_other_kinds_are_metrics() -> None:
    numpy = pytest.importorskip("numpy")
    outputs = [{"x": numpy.float32(0.5)}, {"x": numpy.int64(3)}, {"x": numpy.bool_(True)}, {"x": 10**400}]
    bench = Bench("b", metrics=["x"]).run(lambda output: output, outputs)
    assert [call.metrics for call in bench.calls] == [{"x": 0.5}, {"x": 3.0}, {}, {"x": float("inf")}]


@pytest.mark.parametrize(
    ("words", "why"),
    [({"on_error": "zzz"}, "must be 'record' or 'raise', not 'zzz'"), ({"workers": 0}, "at least 1")],
)
def test_what_run_is_told_must_make_sense(words: dict[str, Any], why: str) -> None:
    bench = Bench("b")
    with pytest.raises(ValueError, match=why):
        bench.run(answer, [1], **words)
    assert bench.calls == []


@pytest.mark.parametrize("workers", [1, 2])
def test_an_interrupt_keeps_what_is_done(workers: int) -> None:
    def interrupted(number: int) -> int:
        if number == 3:
            raise KeyboardInterrupt
        return number

    bench = Bench("b")
    with pytest.raises(KeyboardInterrupt):
        bench.run(interrupted, range(100), workers=workers)
    assert [call.input for call in bench.calls][:2] == [0, 1]


def test_what_ends_after_the_sweep_is_not_added() -> None:
    go = threading.Event()

    def slow(number: int) -> int:
        if number == 0:
            raise KeyboardInterrupt
        go.wait(5)
        return number

    bench = Bench("b")
    with pytest.raises(KeyboardInterrupt):
        bench.run(slow, range(2), workers=2)
    count_at_end = len(bench.calls)
    go.set()
    for thread in threading.enumerate():
        if thread.name.startswith("proctor-worker"):
            thread.join(5)
    assert len(bench.calls) == count_at_end == 0


def test_what_an_interrupt_cancels_is_no_call() -> None:
    under_way = threading.Barrier(2, timeout=PATIENCE_S)

    async def wait_forever(number: int) -> None:
        await asyncio.to_thread(under_way.wait)
        await asyncio.sleep(60)

    def inputs() -> Iterator[int]:
        yield 0
        under_way.wait()
        raise KeyboardInterrupt

    bench = Bench("b")
    with pytest.raises(KeyboardInterrupt):
        bench.run(wait_forever, inputs(), workers=2)
    assert bench.calls == []


def test_runs_at_once_keep_each_the_order_of_its_inputs() -> None:
    bench = Bench("b")
    step = threading.Barrier(2, timeout=PATIENCE_S)
    inputs = [[(run, place) for place in range(5)] for run in range(2)]
    threads = [threading.Thread(target=bench.run, args=(lambda _: step.wait(), some)) for some in inputs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for run in range(2):
        assert [call.input for call in bench.calls if call.input[0] == run] == inputs[run]


def test_an_error_in_the_tags_is_raised() -> None:
    bench = Bench("b")
    with pytest.raises(ZeroDivisionError):
        bench.run(answer, [1, 0], tag_fn=lambda number: {"t": 1 // number})
    assert len(bench.calls) == 1


def test_many_threads_may_record(tmp_path: Path) -> None:
    bench = Bench("b", partial=tmp_path / "calls.jsonl")

    def record() -> None:
        for number in range(50):
            bench.record(latency_ms=number)

    threads = [threading.Thread(target=record) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(bench.calls) == 200
    assert len(Bench.load(tmp_path / "calls.jsonl").calls) == 200


def test_a_bar_is_drawn_only_where_somebody_looks(capfd: pytest.CaptureFixture[str]) -> None:
    bench = Bench("b").run(answer, range(5), progress=True, workers=2)
    assert len(bench.calls) == 5
    assert capfd.readouterr() == ("", "")


def test_a_bench_can_be_copied() -> None:
    bench = make_bench(1, 2)
    for other in (copy.deepcopy(bench), pickle.loads(pickle.dumps(bench))):
        other.record(latency_ms=3)
        assert (len(other.calls), len(bench.calls)) == (3, 2)
    assert asdict(bench)["name"] == "b"


class ForeignNumber:
    """A number of another library, as numpy has them."""

    def __init__(self, value: float) -> None:
        self.value = value

    def __float__(self) -> float:
        return self.value

    def __lt__(self, other: Any) -> bool:
        return self.value < float(other)


numbers.Real.register(ForeignNumber)


def test_numbers_of_other_libraries_are_summed_up_as_pythons_own() -> None:
    summary = summarize_metric([ForeignNumber(2.5), Fraction(1, 2), 1])
    assert json.loads(json.dumps(summary)) == {"n": 3, "mean": 1.33, "median": 1, "min": 0.5, "max": 2.5}


def test_where_every_call_failed_the_interval_has_width() -> None:
    bench = Bench("b", metrics=["accuracy"])
    for _ in range(4):
        bench.record(latency_ms=1, success=False)
    accuracy = bench.statistics()["accuracy"]
    assert (accuracy.mean, accuracy.interval, accuracy.mean_failed_as_0) == (None, None, 0.0)
    assert accuracy.interval_failed_as_0 == wilson(0, 4)


def test_a_tag_may_be_what_has_no_text() -> None:
    class Textless:
        def __str__(self) -> str:
            raise RecursionError

    bench = Bench("b")
    bench.record(latency_ms=1, tags={"depth": Textless()})
    assert list(bench.statistics(by="depth")) == ["… (Textless)"]


def test_nan_is_none_in_the_dictionary_too() -> None:
    bench = Bench("b", metrics=["loss"])
    tags = {"at": (2.0, float("-inf"))}
    bench.record(input=[float("nan"), 1], latency_ms=1.0, loss=float("inf"), tags=tags)
    (call,) = json.loads(json.dumps(bench.to_dict(), allow_nan=False))["calls"]
    assert (call["input"], call["metrics"], call["tags"]) == ([None, 1], {"loss": None}, {"at": [2.0, None]})


def test_names_are_no_markup_in_what_a_notebook_shows() -> None:
    bench = Bench("<img src=x onerror=alert(1)>\n# big", metrics=["![x](http://e/p.png) |"])
    metrics: dict[str, Any] = {"![x](http://e/p.png) |": 1.0, "<b>": 0.0}
    bench.record(latency_ms=1.0, **metrics)
    for markdown in (bench._repr_markdown_(), bench.report()):
        assert not re.search(r"(?<!\\)<(?!!-- -->)|(?<!\\)!\[|(?<!\\)\]\(|^# big", markdown, re.MULTILINE)
        assert r"### Bench: \<img" in markdown

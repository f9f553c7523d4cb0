"""Benches in files: dumps, partial files that outlive a crash, and rows of other tools."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from math import isnan
from pathlib import Path
from typing import Any

import pytest

from proctor.eval import Bench
from support.builders import write_lines


def sweep(**words: Any) -> Bench:
    bench = Bench("sweep", metrics=["score"], **words)
    for number in range(4):
        bench.record(
            input=number, output=f"o{number}", latency_ms=number, score=number / 4, tags={"n": number}
        )
    bench.record(input=None, latency_ms=9, success=False, error="E: x")
    return bench


def test_outputs_are_there_when_asked_for() -> None:
    data = sweep().to_dict()
    assert list(data) == ["summary", "calls"]
    assert list(data["calls"][0]) == ["input", "latency_ms", "success", "error", "metrics", "tags"]
    calls = sweep().to_dict(include_outputs=True)["calls"]
    assert list(calls[0])[:3] == ["input", "output", "latency_ms"]
    assert calls[3]["output"] == "o3"


def test_outputs_that_nobody_wants_are_not_touched() -> None:
    class Untouchable:
        def __deepcopy__(self, memo: Any) -> Any:
            raise AssertionError

        def __getattribute__(self, name: str) -> Any:
            raise AssertionError(name)

    bench = Bench("b")
    bench.record(output=Untouchable(), latency_ms=1)
    assert bench.to_dict()["calls"][0]["latency_ms"] == 1


def test_what_cannot_be_copied_is_no_obstacle(tmp_path: Path) -> None:
    ring: list[Any] = []
    ring.append(ring)
    bench = Bench("b")
    bench.record(input=threading.Lock(), output=(n for n in "ab"), latency_ms=1, tags={"set": {2, 1}})
    bench.record(input=ring, latency_ms=2)
    assert len(bench.to_dict(include_outputs=True)["calls"]) == 2
    (first, second) = json.loads(bench.dump(tmp_path / "b.json", include_outputs=True).read_text())["calls"]
    assert first["tags"] == {"set": [1, 2]}
    assert "lock" in first["input"]
    assert second["input"] == [["… (list)"]]


def test_a_dump_is_strict_json_and_reads_back(tmp_path: Path) -> None:
    bench = sweep()
    bench.wall_seconds = 2.5
    bench.record(latency_ms=float("nan"), score=float("inf"))
    path = bench.dump(tmp_path / "deep" / "er" / "b.json")
    text = path.read_text(encoding="utf-8")
    assert text.startswith('{\n  "summary": {\n    "name": "sweep",')
    assert "NaN" not in text
    assert "Infinity" not in text
    back = Bench.load(path)
    assert back.summary() == bench.summary()
    assert isnan(back.calls[-1].latency_ms)
    assert back.calls[1].tags == {"n": 1}


@pytest.mark.parametrize("outputs", [False, True])
def test_a_partial_file_reads_back(tmp_path: Path, outputs: bool) -> None:
    path = tmp_path / "made" / "calls.jsonl"
    with sweep(partial=path, partial_outputs=outputs) as bench:
        pass
    with bench:
        bench.record(latency_ms=4)
    back = Bench.load(path)
    assert (back.name, back.metrics, back.dropped) == ("sweep", ["score"], [])
    assert [call.output for call in back.calls][:2] == (["o0", "o1"] if outputs else [None, None])
    assert len(back.calls) == 6
    assert back.statistics() == bench.statistics()


def test_calls_outlive_a_crash(tmp_path: Path) -> None:
    program = (
        "import os, sys\nfrom proctor.eval import Bench\n"
        "def ask(n):\n    if n == 5: os._exit(9)\n    return {'right': 1}\n"
        "Bench('doomed', ['right'], partial=sys.argv[1]).run(ask, range(10))\n"
    )
    path = tmp_path / "calls.jsonl"
    assert subprocess.run([sys.executable, "-c", program, str(path)], check=False).returncode == 9
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    back = Bench.load(path)
    assert [call.input for call in back.calls] == [0, 1, 2, 3]
    (last_row,) = back.dropped
    assert (last_row.line, "not JSON" in last_row.reason) == (6, True)
    Bench("again", partial=path).record(input="new", latency_ms=1)
    again = Bench.load(path)
    assert [call.input for call in again.calls] == [0, 1, 2, 3, "new"]
    assert len(again.dropped) == 1


def test_flat_rows_are_calls(tmp_path: Path) -> None:
    path = write_lines(
        tmp_path / "flat.jsonl",
        "\ufeff" + json.dumps({"latency_ms": 5, "accuracy": 0.5, "right": True, "size": "s", "list": [1]}),
        "",
        {"latency_ms": None, "error": "E: x", "tags": {"size": "l"}},
        {"metrics": {"right": 1}, "latency_ms": 7, "success": True, "n": 4},
    )
    bench = Bench.load(path)
    assert (bench.name, bench.metrics) == ("flat", ["accuracy", "right"])
    assert [call.success for call in bench.calls] == [True, False, True]
    assert bench.calls[0].metrics == {"accuracy": 0.5, "right": True}
    assert [call.tags for call in bench.calls] == [{"size": "s"}, {"size": "l"}, {}]
    assert bench.statistics()["n"].mean == 4


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ('{"latency_ms": 1', "not JSON"),
        ([1], "not an object"),
        ({"accuracy": 1}, "no `latency_ms`"),
        ({"latency_ms": "5"}, "number of at least 0, not '5'"),
        ({"latency_ms": -1}, "number of at least 0, not -1"),
        ({"latency_ms": True}, "number of at least 0, not True"),
        ({"latency_ms": 1, "success": 1}, "`success` must be true or false"),
        ({"latency_ms": 1, "tags": ["a"]}, "`tags` must be an object"),
        ({"latency_ms": 1, "metrics": 3}, "`metrics` must be an object"),
        ({"bench": 3}, "no head of a partial file"),
    ],
)
def test_a_row_that_is_no_call_is_dropped_with_its_line(tmp_path: Path, row: Any, why: str) -> None:
    good = {"latency_ms": 1}
    bench = Bench.from_jsonl(write_lines(tmp_path / "rows.jsonl", good, row, good))
    assert len(bench.calls) == 2
    assert [(dropped_row.line, why in dropped_row.reason) for dropped_row in bench.dropped] == [(2, True)]


def test_bare_nan_of_other_writers_is_read(tmp_path: Path) -> None:
    bench = Bench.load(write_lines(tmp_path / "old.jsonl", '{"latency_ms": NaN, "metrics": {"x": NaN}}'))
    assert isnan(bench.calls[0].latency_ms)
    assert bench.summary()["latency_ms"] == {"n": 0}


def test_trials_of_a_run_are_calls(tmp_path: Path) -> None:
    trial = {
        "case_id": "a", "verdict": "pass", "score": 1.0, "failure": None, "latency_ms": 12.5, "suite": "s",
        "usage": {"input_tokens": 3, "output_tokens": 4}, "cost_usd": 0.01, "category": "c", "output": None,
    }  # fmt: skip
    failed = trial | {
        "verdict": "error",
        "failure": {"kind": "timeout", "message": "30 s"},
        "latency_ms": None,
    }
    unscored = trial | {"verdict": "unscored", "score": None, "usage": None, "cost_usd": None}
    lines = Bench.load(write_lines(tmp_path / "x.jsonl", trial, failed, unscored))
    whole = tmp_path / "x.json"
    whole.write_text(json.dumps({"runs": [{"trials": [trial, failed, unscored, 3]}]}, indent=1), "utf-8")
    for bench in (lines, Bench.load(whole)):
        first, second, third = bench.calls
        assert first.metrics == {
            "passed": 1.0, "score": 1.0, "input_tokens": 3, "output_tokens": 4, "cost_usd": 0.01,
        }  # fmt: skip
        assert (first.input, first.tags["category"]) == ("a", "c")
        assert (second.success, second.error) == (False, "timeout: 30 s")
        assert (third.success, third.metrics) == (True, {})


def test_trials_that_were_not_asked_in_their_run_have_no_latency(tmp_path: Path) -> None:
    trial = {"case_id": "a", "verdict": "pass", "latency_ms": 400.0, "output": {"text": "4"}}
    cached = trial | {"latency_ms": 62.0, "output": {"text": "4", "cached": True}}
    reused = trial | {"latency_ms": 62.0, "source_run": "earlier"}
    bench = Bench.load(write_lines(tmp_path / "x.jsonl", trial, cached, reused))
    statistic = bench.statistics()["latency_ms"]
    assert (statistic.n, statistic.missing, statistic.mean) == (1, 2, 400.0)


@pytest.mark.parametrize("text", ['{"a": 1,\n "b": 2}', '{\n"calls": 3}', '{"a": 1}'])
def test_json_of_another_kind_is_no_call(tmp_path: Path, text: str) -> None:
    path = tmp_path / "other.json"
    path.write_text(text, encoding="utf-8")
    bench = Bench.load(path)
    assert (bench.calls, [row.line for row in bench.dropped]) == ([], [1])


@pytest.mark.parametrize("trials", [5, None, [5]])
def test_exported_runs_with_odd_trials_end_nothing(tmp_path: Path, trials: Any) -> None:
    path = tmp_path / "runs.json"
    path.write_text(json.dumps({"runs": [{"trials": trials}, {"suite": "s"}, 7]}), encoding="utf-8")
    bench = Bench.load(path)
    assert bench.calls == []
    assert [row.reason for row in bench.dropped] == ["It is not an object."] * (trials == [5])

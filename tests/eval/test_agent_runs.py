"""Records of agent benches: one schema out of many layouts, files with bad lines, and sums over runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.eval import AgentRun, TurnDetail, summarize_agent_runs
from proctor.eval.agent_runs import AgentRuns
from support.builders import write_lines

RECORD: dict[str, Any] = {
    "input_data": {"arxiv_id": "q-17", "question": "Who first measured it?"},
    "inference_results": [
        {
            "status": "finished",
            "total_time": 41.2384,
            "turn_details": [
                {
                    "turn": 1,
                    "action": "tool",
                    "duration": 3.999,
                    "input_tokens": 900,
                    "output_tokens": 40,
                    "hits": 6,
                },
                {"turn": 2, "action": "error", "duration_s": 1.5, "input_tokens": 950, "output_tokens": None},
                {"action": "answer", "duration_s": 30, "input_tokens": 980, "output_tokens": 210},
            ],
            "final_candidates": ["Ada", "Grace"],
        }
    ],
}


def record(**changes: Any) -> dict[str, Any]:
    """The record above with some fields of its inference replaced."""
    inference = {**RECORD["inference_results"][0], **changes}
    return {**RECORD, "inference_results": [inference]}


def test_a_record_becomes_a_run_with_its_turns() -> None:
    run = AgentRun.from_record(RECORD)
    assert (run.question_id, run.status, run.wall_seconds) == ("q-17", "finished", 41.24)
    assert (run.n_turns, run.n_candidates, run.raw) == (3, 2, RECORD)
    assert "raw" not in repr(run)
    assert run.turns == [
        TurnDetail(1, "tool", 4.0, 900, 40, {"hits": 6}),
        TurnDetail(2, "error", 1.5, 950, None),
        TurnDetail(3, "answer", 30.0, 980, 210),
    ]
    assert (run.tool_calls(), run.tool_format_errors()) == (1, 1)
    assert (run.total_input_tokens(), run.total_output_tokens()) == (2830, 250)


def test_plain_data_is_short_and_holds_the_record_only_when_asked() -> None:
    run = AgentRun.from_record(RECORD)
    data = run.to_dict()
    keys = "question_id status wall_seconds n_turns n_candidates tool_calls tool_format_errors"
    assert " ".join(data) == f"{keys} input_tokens output_tokens turns"
    assert [list(turn)[5:] for turn in data["turns"]] == [["extras"], [], []]
    assert run.to_dict(include_raw=True) == {**data, "raw": RECORD}


def test_nan_in_a_record_is_null_in_plain_data() -> None:
    run = AgentRun.from_record({**record(turn_details=[{"loss": float("nan")}]), "best": float("inf")})
    data = json.loads(json.dumps(run.to_dict(include_raw=True), allow_nan=False))
    assert (data["turns"][0]["extras"], data["raw"]["best"]) == ({"loss": None}, None)


@pytest.mark.parametrize(
    ("status", "candidates", "succeeded"),
    [("finished", ["x"], True), ("finished", [], False), ("max_turns", ["x"], False), (None, ["x"], False)],
)
def test_a_run_succeeds_when_it_finished_with_a_candidate(
    status: Any, candidates: Any, succeeded: bool
) -> None:
    assert AgentRun.from_record(record(status=status, final_candidates=candidates)).succeeded() is succeeded


OTHER = {
    "task": {"meta": [{"qid": 5}]},
    "result": {
        "end": "solved",
        "secs": "7.5",
        "trace": [{"action": "tool", "duration": 7}],
        "found": [1, 2, 3],
    },
}


def test_every_field_may_stand_elsewhere() -> None:
    run = AgentRun.from_record(
        OTHER,
        question_id_field="qid",
        question_id_path=("task", "meta", -1),
        inference_path=("result",),
        status_field="end",
        wall_field="secs",
        turns_field="trace",
        candidates_field="found",
    )
    assert (run.question_id, run.status, run.wall_seconds) == ("5", "solved", 7.5)
    assert (run.n_turns, run.n_candidates, run.tool_calls()) == (1, 3, 1)


@pytest.mark.parametrize(
    "raw",
    [
        {},
        {"input_data": 5},
        {"inference_results": []},
        {"inference_results": {"0": 1}},
        {"inference_results": ["x"]},
    ],
)
def test_what_is_not_there_is_empty(raw: dict[str, Any]) -> None:
    run = AgentRun.from_record(raw)
    assert run == AgentRun("", "", 0.0, 0, 0, [], raw)


@pytest.mark.parametrize(
    ("turn", "read"),
    [
        ("junk", TurnDetail(1, "", 0.0)),
        ({"turn": 0, "action": None}, TurnDetail(1, "", 0.0)),
        ({"turn": "4", "input_tokens": "x", "output_tokens": "12"}, TurnDetail(4, "", 0.0, None, 12)),
        ({"duration": 0, "duration_s": 2}, TurnDetail(1, "", 2.0)),
        ({"duration": "1.239", "duration_s": 2}, TurnDetail(1, "", 1.24)),
        ({"input_tokens": float("inf")}, TurnDetail(1, "", 0.0)),
    ],
)
def test_an_odd_turn_is_read_as_far_as_it_goes(turn: Any, read: TurnDetail) -> None:
    assert AgentRun.from_record(record(turn_details=[turn])).turns == [read]


BAD: dict[str, dict[str, Any]] = {
    "no number of seconds": {"total_time": "soon"},
    "a list of seconds": {"total_time": [1]},
    "endless": {"total_time": float("inf")},
    "nan": {"total_time": "nan"},
    "a turn without a number": {"turn_details": [{"turn": "first"}]},
    "an endless turn": {"turn_details": [{"duration": float("inf")}]},
    "turns that are no list": {"turn_details": 5},
    "turns as an object": {"turn_details": {"1": {}}},
}


@pytest.mark.parametrize("changes", BAD.values(), ids=BAD)
def test_what_cannot_be_a_run_is_refused_with_the_value(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"(is|has) .+\. It must be "):
        AgentRun.from_record(record(**changes))


def test_a_bad_line_never_ends_the_reading_and_every_one_is_listed(tmp_path: Path) -> None:
    path = write_lines(
        tmp_path / "runs.jsonl", RECORD, "", "{half", [1], *(record(**bad) for bad in BAD.values()), RECORD
    )
    runs = AgentRun.from_jsonl(path)
    assert len(runs) == 2
    assert [row.line for row in runs.dropped] == [3, 4, *range(5, 5 + len(BAD))]
    assert (
        runs.dropped[2].reason
        == "The record is not a run: total_time is 'soon'. It must be a number of seconds."
    )


def test_a_parser_reads_other_layouts_and_what_it_refuses_is_listed(tmp_path: Path) -> None:
    def parser(raw: dict[str, Any]) -> AgentRun:
        return AgentRun.from_record({"status": raw["result"]["end"]}, inference_path=())

    runs = AgentRun.from_jsonl(write_lines(tmp_path / "runs.jsonl", OTHER, {"other": 1}), parser=parser)
    assert [run.status for run in runs] == ["solved"]
    assert [(row.line, row.reason) for row in runs.dropped] == [
        (2, "The record is not a run: KeyError: 'result'.")
    ]


def test_a_fault_of_the_parser_itself_is_raised(tmp_path: Path) -> None:
    def parser(raw: dict[str, Any]) -> AgentRun:
        raise RuntimeError("no such model")

    with pytest.raises(RuntimeError, match="no such model"):
        AgentRun.from_jsonl(write_lines(tmp_path / "runs.jsonl", OTHER), parser=parser)


def test_a_subclass_may_define_success(tmp_path: Path) -> None:
    class Lenient(AgentRun):
        def succeeded(self) -> bool:
            return self.n_candidates > 0

    path = write_lines(
        tmp_path / "runs.jsonl", record(status="max_turns"), record(status="error", final_candidates=[])
    )
    runs = Lenient.from_jsonl(path)
    assert [type(run) for run in runs] == [Lenient, Lenient]
    assert summarize_agent_runs(runs)["n_succeeded"] == 1


RUNS = AgentRuns(
    AgentRun.from_record(record(total_time=time, status=status, final_candidates=["x"] * candidates))
    for time, status, candidates in (
        (10, "finished", 1),
        (20, "finished", 0),
        (40, "max_turns", 2),
        (30, "finished", 3),
    )
)


def test_a_summary_counts_each_status_and_what_runs_took() -> None:
    summary = summarize_agent_runs(iter(RUNS), label="small")
    keys = "label n_questions n_succeeded status_counts wall_seconds turns candidates tool_calls"
    assert " ".join(summary) == f"{keys} tool_format_errors"
    assert (summary["label"], summary["n_questions"], summary["n_succeeded"]) == ("small", 4, 2)
    assert list(summary["status_counts"].items()) == [("finished", 3), ("max_turns", 1)]
    assert (summary["wall_seconds"]["mean"], summary["wall_seconds"]["max"]) == (25.0, 40.0)
    assert summary["candidates"]["mean"] == 1.5


def test_a_summary_of_nothing_is_short() -> None:
    assert summarize_agent_runs([], label="none") == {"label": "none", "n_questions": 0, "status_counts": {}}


def test_statistics_have_intervals_percentiles_tokens_and_actions() -> None:
    statistics = RUNS.statistics(label="small")
    assert (statistics["success_rate"], statistics["success_ci95"]) == (
        0.5,
        pytest.approx([0.15, 0.85], abs=5e-3),
    )
    wall = statistics["wall_seconds"]
    assert (wall["median"], wall["p90"], wall["total"]) == (25.0, pytest.approx(37.0), 100.0)
    assert (wall["stdev"], wall["ci95"]) == (
        pytest.approx(12.91, abs=1e-2),
        pytest.approx([4.46, 45.54], abs=1e-2),
    )
    assert (statistics["input_tokens"]["total"], statistics["output_tokens"]["total"]) == (4 * 2830, 4 * 250)
    assert (statistics["unknown_tokens"], statistics["turn_seconds"]["n"], statistics["n_empty"]) == (
        4,
        12,
        0,
    )
    assert statistics["actions"] == {
        "answer": {"turns": 4, "seconds": 120.0},
        "error": {"turns": 4, "seconds": 6.0},
        "tool": {"turns": 4, "seconds": 16.0},
    }


@pytest.mark.parametrize("count", [0, 1])
def test_statistics_of_too_few_runs_are_null(count: int) -> None:
    statistics = json.loads(json.dumps(AgentRuns(RUNS[:count]).statistics(), allow_nan=False))
    assert (statistics["n_questions"], statistics["wall_seconds"]["stdev"]) == (count, None)


def test_records_with_other_field_names_are_counted(tmp_path: Path) -> None:
    runs = AgentRun.from_jsonl(write_lines(tmp_path / "runs.jsonl", OTHER, OTHER, RECORD))
    assert runs.statistics()["n_empty"] == 2


def series(runs: AgentRuns, name: str) -> list[tuple[float, float]]:
    values = runs.chart(label="small").spec["data"]["values"]
    return [(point["x"], point["y"]) for point in values if point["series"] == name]


def test_a_chart_tells_how_many_had_ended_and_succeeded_by_when() -> None:
    assert RUNS.chart(label="small").spec["title"] == "small: 2 of 4 runs succeeded"
    assert series(RUNS, "ended") == [(0, 0), (10, 0.25), (20, 0.5), (30, 0.75), (40, 1.0), (40, 1.0)]
    assert series(RUNS, "succeeded") == [(0, 0), (10, 0.25), (30, 0.5), (40, 0.5)]


def test_a_chart_of_no_runs_is_refused() -> None:
    with pytest.raises(ValueError, match="nothing to draw"):
        AgentRuns().chart()


@given(st.lists(st.tuples(st.floats(0, 1e6), st.booleans()), min_size=1, max_size=700))
def test_a_chart_never_falls_and_ends_at_the_success_rate(runs: list[tuple[float, bool]]) -> None:
    agent_runs = AgentRuns(AgentRun("q", "finished", seconds, 0, int(good), []) for seconds, good in runs)
    for name, last in (("ended", 1.0), ("succeeded", sum(good for _, good in runs) / len(runs))):
        curve = series(agent_runs, name)
        assert len(curve) <= 203
        assert curve == sorted(curve)
        assert curve[-1][1] == pytest.approx(last)


def test_a_summary_is_of_floats() -> None:
    summary = summarize_agent_runs([AgentRun("q", "finished", 3.0, 2, 1, [])])
    assert json.dumps(summary["turns"]) == '{"n": 1, "mean": 2.0, "median": 2.0, "min": 2.0, "max": 2.0}'


def test_what_is_not_finite_never_reaches_json() -> None:
    runs = AgentRuns(
        [
            AgentRun("a", "finished", float("nan"), 1, 1, [TurnDetail(1, "tool", float("inf"))]),
            AgentRun("b", "finished", 4.0, 0, 1, []),
        ]
    )
    rows = json.loads(json.dumps([run.to_dict() for run in runs], allow_nan=False))
    assert rows[0]["wall_seconds"] is rows[0]["turns"][0]["duration_s"] is None
    seconds = json.loads(json.dumps(runs.statistics(), allow_nan=False))["wall_seconds"]
    assert (seconds["n"], seconds["mean"]) == (1, 4.0)

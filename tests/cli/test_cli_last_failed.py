"""`--last-failed`: only the cases whose last result was not a pass."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import proctor as package
from proctor.errors import UsageError
from support.cli import Proctor

TWO = (("good", "say 1", "say 1"), ("bad", "say 2", "no"), ("worse", "say 3", "no"))


def _cases(path: str) -> list[str]:
    rows = Path(path).read_text(encoding="utf-8").splitlines()
    return [json.loads(row)["case_id"] for row in rows]


@pytest.fixture
def failed(proctor: Proctor, suite: Proctor) -> str:
    """Runs a suite of three cases of which two fail; returns the run's id."""
    run_id: str = proctor("run", suite(*TWO), "--target", "echo", "--json").run["run"]
    return run_id


def test_only_the_cases_that_failed_are_run_and_the_report_says_so(proctor: Proctor, failed: str) -> None:
    result = proctor("run", "s.jsonl", "--target", "echo", "--last-failed", "-o", "t.jsonl")
    assert result.code == 1
    assert f"s on echo: running only the 2 cases that failed or errored in run {failed}." in result.err
    assert f"Of the 3 cases of s, only those that failed or errored last, in run {failed}." in result.out
    assert _cases("t.jsonl") == ["bad", "worse"]


def test_cases_of_an_edited_suite_are_found_by_their_ids(
    proctor: Proctor, suite: Proctor, failed: str
) -> None:
    suite(("new", "x", "y"), ("worse", "say 3", "say 3"), ("good", "say 1", "no"))
    result = proctor("run", "s.jsonl", "--target", "echo", "--lf", "-o", "t.jsonl")
    assert result.code == 0
    assert "running only the 1 case that failed or errored in run" in result.err
    assert "1 more is no longer in the suite." in result.err
    assert _cases("t.jsonl") == ["worse"]


def test_where_nothing_failed_all_cases_are_run_and_that_is_said(
    proctor: Proctor, suite: Proctor, failed: str
) -> None:
    suite(*((name, prompt, prompt) for name, prompt, _ in TWO))
    words = ("run", "s.jsonl", "--target", "echo", "--last-failed", "-o", "t.jsonl")
    assert proctor(*words).code == 0
    assert _cases("t.jsonl") == ["bad", "worse"]
    result = proctor(*words)
    assert "All cases of s on echo passed in run " in result.err
    assert ": running all cases." in result.err
    assert _cases("t.jsonl") == ["good", "bad", "worse"]
    result = proctor("run", "s.jsonl", "--target", "mock", "--last-failed")
    assert "There is no earlier run of s on mock: running all cases." in result.err


def test_a_run_of_some_cases_does_not_hide_the_failures_of_the_others(proctor: Proctor, failed: str) -> None:
    proctor("run", "s.jsonl", "--target", "echo", "--id", "good")
    proctor("run", "s.jsonl", "--target", "echo", "--last-failed", "-o", "t.jsonl")
    assert _cases("t.jsonl") == ["bad", "worse"]


def test_errors_count_and_so_does_a_named_run(proctor: Proctor, suite: Proctor, script: Proctor) -> None:
    target = script(rules={"good": "say 1", "bad": "say 2"})
    name = suite(*((name, prompt, prompt) for name, prompt, _ in TWO))
    first = proctor("run", name, "--target", target, "--json").run
    assert first["errors"] == 1
    (Path(target.partition(":")[2])).write_text('{"*": "other"}', encoding="utf-8")
    proctor("run", name, "--target", target)
    again = proctor("run", name, "--target", target, f"--last-failed={first['run']}", "-o", "t.jsonl")
    assert _cases("t.jsonl") == ["worse"]
    run_id = again.out.split("\nRun ")[1].split()[0]
    report = proctor("runs", "show", run_id).out
    assert first["run"] in report


def test_filters_apply_as_well_and_may_leave_nothing(proctor: Proctor, failed: str) -> None:
    words = ("run", "s.jsonl", "--target", "echo", "--last-failed")
    proctor(*words, "--limit", "1", "-o", "t.jsonl")
    assert _cases("t.jsonl") == ["bad"]
    result = proctor(*words, "--id", "good")
    assert result.code == 5
    assert "Relax --last-failed, --tag" in result.err


def test_of_several_targets_those_without_failures_are_left_out(proctor: Proctor, suite: Proctor) -> None:
    name = suite(("a", "x", "x"))
    words = ("run", name, "--target", "echo", "--target", "mock", "--json")
    first = proctor(*words)
    assert [run["passed"] for run in first.json["runs"]] == [1, 0]
    result = proctor(*words, "--last-failed")
    assert [run["target"] for run in result.json["runs"]] == ["mock"]
    assert "All cases of s on echo passed in run " in result.err
    assert ": skipped." in result.err


def test_held_out_cases_stay_hidden_and_in_their_split(proctor: Proctor, suite: Proctor) -> None:
    name = suite(*((f"t{n}", f"say {n}", "no") for n in range(10)))
    words = ("run", name, "--target", "echo", "--holdout", "0.5")
    before = proctor(*words, "--json").run
    after = proctor(*words, "--last-failed", "--json").run
    assert after["splits"] == before["splits"]
    assert after["looks"] == before["looks"] + 1
    assert proctor(*words, "--last-failed", "--split", "dev", "--json").run["total"] == 5


def test_a_resumed_selection_keeps_its_cases(proctor: Proctor, failed: str) -> None:
    from msgspec.structs import replace

    from proctor.stores import open_store

    words = ("run", "s.jsonl", "--target", "echo", "--json")
    run_id = proctor(*words, "--last-failed").run["run"]
    store = open_store(".proctor/proctor.db")
    store.update_run(replace(store.run(run_id), status="interrupted"))
    store.close()
    resumed = proctor("run", f"--resume={run_id}", "--json").run
    assert (resumed["run"], resumed["total"], resumed["failed"]) == (run_id, 2, 2)
    assert proctor("run", f"--retry-errors={run_id}", "--json").run["total"] == 2
    result = proctor("run", "s.jsonl", "--target", "echo", "--last-failed", "--resume")
    assert (result.code, "Remove --last-failed" in result.err) == (4, True)


def test_a_run_of_another_suite_decides_nothing(proctor: Proctor, suite: Proctor, failed: str) -> None:
    other = suite(("a", "x", "x"), name="other.jsonl")
    result = proctor("run", other, "--target", "echo", f"--last-failed={failed}")
    assert result.code == 4
    assert f"Run {failed} is a run of s on echo, which this command does not run." in result.err


def test_from_python_it_is_an_option(failed: str) -> None:
    run = package.run("s.jsonl", target="echo", last_failed=True, progress=False)
    assert [trial.case_id for trial in run.trials()] == ["bad", "worse"]
    with pytest.raises(UsageError, match="last_failed"):
        package.run("s.jsonl", target="echo", last_failed=3, progress=False)  # type: ignore[call-overload]

"""Interrupted runs: killed, stopped by Ctrl-C, resumed, and retried for errors."""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from shutil import which
from time import monotonic
from typing import Any

import pytest

import proctor as package
from proctor.engines.asyncio_engine import GRACE_S
from proctor.errors import UsageError
from support.cli import Proctor
from support.clock import shift_clock
from support.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.slow


NOTE = """
import asyncio, os, time
def note(prompt):
    with open("asked.txt", "a", encoding="utf-8") as file:
        file.write(prompt + "\\n")
"""
# Records every question and answers slowly; from number `gate` on it waits for a file `go`.
SLOW = (
    NOTE
    + """
async def f(prompt):
    while int(prompt[1:]) >= {gate} and not os.path.exists("go"):
        await asyncio.sleep(0.01)
    note(prompt)
    await asyncio.sleep({seconds})
    return prompt
"""
)


def _count_trials(folder: Path) -> int:
    """The number of trials that another process sees in the store."""
    path = folder / ".proctor" / "proctor.db"
    if not path.exists():
        return 0
    try:
        with closing(sqlite3.connect(path)) as db:
            return int(db.execute("SELECT count(*) FROM trials").fetchone()[0])
    except sqlite3.OperationalError:  # the tables do not exist yet
        return 0


def _read_questions(folder: Path) -> list[str]:
    return (folder / "asked.txt").read_text(encoding="utf-8").split("\n")[:-1]


def _rows(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def many(suite: Proctor) -> str:
    name: str = suite(*((f"t{n}", f"q{n}", f"q{n}") for n in range(1500)))
    return name


def test_a_run_killed_in_the_middle_is_finished_by_resuming_and_every_trial_counts_once(
    start: Proctor, proctor: Proctor, many: str, function: Proctor, folder: Path
) -> None:
    words = ("run", many, "--target", function(SLOW.format(seconds=0.01, gate=900)))
    killed: subprocess.Popen[str] = start(*words)
    wait_until(lambda: _count_trials(folder) > 300)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    before = _count_trials(folder)
    asked_before = len(_read_questions(folder))
    assert 300 < before < 1500
    (folder / "go").touch()
    assert "interrupted" in proctor("runs", "list").out

    result = proctor(*words, "--resume", "--json", "-o", "all.jsonl")
    assert (result.code, result.run["status"]) == (0, "finished")
    assert (result.run["total"], result.run["passed"]) == (1500, 1500)
    rows = _rows(folder / "all.jsonl")
    assert [row["case_id"] for row in rows] == [f"t{n}" for n in range(1500)]
    assert {row["run"] for row in rows} == {result.run["run"]}
    assert (
        len(_read_questions(folder)) - asked_before == 1500 - before
    )  # no answer in the store is asked again
    (list_row,) = proctor("runs", "list", "--json").json["runs"]
    assert (list_row["passed"], list_row["total"]) == (1500, 1500)


def test_ctrl_c_keeps_what_finished_and_names_the_command_that_goes_on(
    start: Proctor, proctor: Proctor, many: str, function: Proctor, folder: Path
) -> None:
    words = (
        "run",
        many,
        "--target",
        function(SLOW.format(seconds=0.05, gate=900)),
        "--json",
        "--concurrency",
        "8",
    )
    process: subprocess.Popen[str] = start(*words, "--store", "my store.db")
    wait_until(lambda: (folder / "asked.txt").exists() and len(_read_questions(folder)) > 40)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 2
    (run,) = json.loads(out)["runs"]
    assert (run["status"], run["exit_code"], json.loads(out)["exit_code"]) == ("interrupted", 2, 2)
    assert run["total"] == len(_read_questions(folder)) < 1500  # calls in progress were allowed to finish
    assert "Traceback" not in err

    match = re.search(r"Continue with: proctor (run --resume=(\S+) --store 'my store\.db')", err)
    assert match is not None
    assert match[2] == run["run"]
    (folder / f"{words[3].split(':')[1]}.py").write_text(SLOW.format(seconds=0, gate=1500), encoding="utf-8")
    result = proctor("run", f"--resume={match[2]}", "--store", "my store.db", "--json")
    assert (result.code, result.run["run"], result.run["passed"]) == (0, run["run"], 1500)
    assert Counter(_read_questions(folder)).most_common(1)[0][1] == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_second_signal_stops_at_once(
    start: Proctor, proctor: Proctor, many: str, function: Proctor, folder: Path, number: signal.Signals
) -> None:
    target = function(SLOW.format(seconds=3600, gate=1500))
    for _ in range(5):  # a busy machine may take longer than the time for calls in progress
        process: subprocess.Popen[str] = start("run", many, "--target", target)
        wait_until((folder / "asked.txt").exists)
        (folder / "asked.txt").unlink()
        process.send_signal(number)
        assert process.stderr is not None
        assert any("Ctrl-C again" in line for line in process.stderr)
        began = monotonic()
        process.send_signal(number)
        assert process.wait(PATIENCE_S) == 2
        took = monotonic() - began
        assert "--resume=" in process.stderr.read()
        if took < GRACE_S:
            break
    assert took < GRACE_S
    assert "interrupted" in proctor("runs", "list").out


def test_ctrl_c_before_the_first_run_begins_is_2(start: Proctor, half: str, folder: Path) -> None:
    # A folder of Python modules is looked through while the target is opened: the signal comes then.
    (folder / "late.py").write_text(
        "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nasync def f(prompt):\n    return prompt\n",
        encoding="utf-8",
    )
    process: subprocess.Popen[str] = start("run", half, "--target", "function:late:f", "--json")
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 2
    assert json.loads(out)["exit_code"] == 2
    assert "Traceback" not in err


def test_a_function_that_hangs_does_not_keep_the_command_from_ending(
    start: Proctor, suite: Proctor, function: Proctor
) -> None:
    target = function("import time\ndef f(prompt):\n    time.sleep(3600)\n    return prompt\n")
    process: subprocess.Popen[str] = start(
        "run", suite(("a", "x", "x")), "--target", target, "--timeout", "0.1", "--json"
    )
    out, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == json.loads(out)["exit_code"] == 3


# --- what is resumed ---------------------------------------------------------------------------------------


@pytest.fixture
def start_and_kill(start: Proctor, half: str, function: Proctor, folder: Path) -> Callable[..., str]:
    """Kills a run of `half` after four of its ten cases; returns its target, which then answers at once."""

    def make(*words: str) -> str:
        target: str = function(
            "import asyncio\nasync def f(prompt):\n    if prompt == 'say 4':\n"
            "        await asyncio.sleep(60)\n    return prompt\n"
        )
        process: subprocess.Popen[str] = start("run", half, "--target", target, "--concurrency", "1", *words)
        wait_until(lambda: _count_trials(folder) == 4)
        process.kill()
        process.communicate()
        quick = "async def f(prompt):\n    return prompt\n"
        (folder / f"{target.split(':')[1]}.py").write_text(quick, encoding="utf-8")
        return target

    return make


def test_resuming_without_a_run_finds_the_newest_that_fits(
    proctor: Proctor, start_and_kill: Proctor, half: str, folder: Path
) -> None:
    target = start_and_kill()
    result = proctor("run", "--resume", half, "--target", target, "--json")
    assert (result.code, result.run["total"], result.run["passed"]) == (1, 10, 5)
    assert result.err == ""
    assert len(proctor("runs", "list").out.splitlines()) == 2
    again = proctor("run", half, "--target", target, "--resume", "--json")
    assert (again.code, again.json["runs"]) == (4, [])
    assert "There is no unfinished run to resume" in again.err


def test_a_killed_run_is_not_finished_by_another_rule(
    proctor: Proctor, start_and_kill: Proctor, half: str, folder: Path
) -> None:
    target = start_and_kill()
    run_id = proctor("runs", "list").out.splitlines()[1].split()[0]
    for suite_words in ((), (half, "--target", target)):
        result = proctor("run", *suite_words, f"--resume={run_id}", "--judge-rule", "all")
        assert result.code == 4
        assert "--judge-rule: the run has" in result.err
    assert _count_trials(folder) == 4
    result = proctor("run", f"--resume={run_id}", "--json")
    assert (result.code, result.run["total"], result.run["passed"]) == (1, 10, 5)
    (row,) = proctor("runs", "list", "--json").json["runs"]
    report = proctor("runs", "show", run_id, "--json").run
    assert (row["passed"], row["total"]) == (report["passed"], report["total"]) == (5, 10)


def test_resuming_a_run_by_its_id_needs_nothing_else(
    proctor: Proctor, start_and_kill: Proctor, half: str
) -> None:
    target = start_and_kill()
    run_id = proctor("runs", "list").out.splitlines()[1].split()[0]
    Path(half).unlink()  # its cases are in the store
    result = proctor("run", f"--resume={run_id}", "--json")
    assert (result.code, result.run["run"], result.run["total"]) == (1, run_id, 10)
    assert result.run["target"] == target


@pytest.mark.parametrize(
    "words", [("--temperature", "0.5"), ("--seed", "7"), ("--limit", "9"), ("--repeat", "2"), ("--id", "t*")]
)
def test_other_trials_than_those_of_the_unfinished_run_are_refused(
    proctor: Proctor, start_and_kill: Proctor, half: str, words: tuple[str, str]
) -> None:
    target = start_and_kill()
    result = proctor("run", half, "--target", target, "--resume", "--json", *words)
    assert result.code == 4
    (line,) = [line.strip() for line in result.err.splitlines() if "the run has" in line]
    assert line.startswith(f"{words[0]}: the run has ")
    assert line.endswith(f", this command sets {words[1]}")
    assert len(proctor("runs", "list").out.splitlines()) == 2


def test_what_does_not_decide_which_trials_there_are_may_change(
    proctor: Proctor, start_and_kill: Proctor, half: str
) -> None:
    target = start_and_kill()
    result = proctor(
        *("run", half, "--target", target, "--resume", "--json", "--concurrency", "3", "--retries", "0"),
        *("--timeout", "5", "--keep-workspaces", "-o", "x.md"),
    )
    assert (result.code, result.run["total"]) == (1, 10)
    assert "unfinished" not in result.err


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("--resume", "RUN"), "If you mean the run: write --resume=RUN"),
        (("--last-failed", "RUN"), "If you mean the run: write --last-failed=RUN"),
        (("--resume", "last"), "If you mean the run: write --resume=last"),
        (("HALF", "--keep-workspaces", "none"), "If you mean the flag: write --keep-workspaces=none"),
        (("HALF", "--keep-workspaces", "some"), None),
        (("HALF", "--attest", "out"), "If you mean the folder of the bundles: write --attest=out"),
        (("--attest", "out", "HALF"), "If you mean the folder of the bundles: write --attest=out"),
        (("HALF", "out", "--attest"), None),
        (("HALF", "none"), None),
        (("--resume", "no-such"), None),
    ],
)
def test_a_value_behind_a_space_that_is_taken_for_a_suite_is_hinted_at(
    proctor: Proctor, half: str, words: tuple[str, ...], hint: str | None
) -> None:
    run_id = proctor("run", half, "--target", "echo", "--json").run["run"]
    result = proctor(
        "run", *(word.replace("RUN", run_id).replace("HALF", half) for word in words), "--target", "echo"
    )
    assert result.code == 4
    assert "There is no suite" in result.err
    assert (hint.replace("RUN", run_id) in result.err) if hint else ("If you mean" not in result.err)


def test_a_changed_suite_is_not_taken_for_the_one_that_was_cut_short(
    proctor: Proctor, start_and_kill: Proctor, half: str, suite: Proctor
) -> None:
    target = start_and_kill()
    run_id = proctor("runs", "list").out.splitlines()[1].split()[0]
    suite(*((f"t{n}", f"say {n}", "other") for n in range(10)), name=half)
    assert "No unfinished run" in proctor("run", half, "--target", target, "--resume").err
    result = proctor("run", half, "--target", target, f"--resume={run_id}")
    assert result.code == 4
    assert "differs" in result.err


def test_a_run_is_not_continued_on_another_target(
    proctor: Proctor, start_and_kill: Proctor, half: str
) -> None:
    start_and_kill()
    run_id = proctor("runs", "list").out.splitlines()[1].split()[0]
    result = proctor("run", half, "--target", "echo", f"--resume={run_id}")
    assert result.code == 4
    assert "this command sets echo" in result.err


def test_a_finished_run_is_not_asked_again(proctor: Proctor, half: str, folder: Path) -> None:
    first = proctor("run", half, "--target", "echo", "--json").run
    result = proctor("run", f"--resume={first['run']}", "--json")
    assert "Nothing is missing" in result.err
    assert (result.run["run"], result.run["total"]) == (first["run"], 10)
    assert result.run["finished_at"] == first["finished_at"]


def test_of_a_matrix_that_was_cut_short_only_what_is_missing_is_asked(
    start: Proctor, proctor: Proctor, suite: Proctor, function: Proctor, folder: Path
) -> None:
    name = suite(*((f"t{n}", f"q{n}", f"q{n}") for n in range(3)))
    target = function(
        NOTE + "async def f(prompt):\n    note(prompt)\n"
        "    while os.path.getsize('asked.txt') > 4 * len('q0\\n') and not os.path.exists('go'):\n"
        "        await asyncio.sleep(0.01)\n    return prompt\n"
    )
    rows = "".join(f"  - {{name: {target_name}, target: '{target}', workers: 1}}\n" for target_name in "abc")
    (folder / "targets.yaml").write_text(f"targets:\n{rows}", encoding="utf-8")
    words = ("run", name, "--target", "a", "--target", "b", "--target", "c")
    process: subprocess.Popen[str] = start(*words)
    wait_until(lambda: _count_trials(folder) == 4)
    process.kill()
    process.communicate()
    earlier_runs = {run.split()[0] for run in proctor("runs", "list").out.splitlines()[1:]}
    (folder / "go").touch()
    result = proctor(*words, "--resume", "--json")
    runs = result.json["runs"]
    assert [(run["target"], run["passed"], run["status"]) for run in runs] == [
        (target_name, 3, "finished") for target_name in "abc"
    ]
    assert earlier_runs == {run["run"] for run in runs[:2]}
    assert len({run["group"] for run in runs}) == 1
    # One call was in progress when the run was killed.
    assert sorted(Counter(_read_questions(folder)).values()) == [3, 3, 4]
    assert result.err.count("Starting a new one") == 1


def test_resuming_another_judges_run_is_not_done_in_silence(
    proctor: Proctor, start: Proctor, suite: Proctor, function: Proctor, script: Proctor
) -> None:
    name = suite(*({"id": f"c{n}", "input": "x", "scorer": "llm_judge", "rubric": "Good?"} for n in range(3)))
    strict, kind = script(rules={"*": '{"score": 1}'}), script(rules={"*": '{"score": 5}'})
    target = function(
        NOTE + "async def f(prompt):\n    if os.path.exists('asked.txt') and not os.path.exists('go'):\n"
        "        await asyncio.sleep(60)\n    note(prompt)\n    return prompt\n"
    )
    process: subprocess.Popen[str] = start(
        "run", name, "--target", target, "--judge", strict, "--concurrency", "1"
    )
    wait_until(lambda: _count_trials(Path()) == 1)
    process.kill()
    process.communicate()
    Path("go").touch()
    result = proctor("run", name, "--target", target, "--judge", kind, "--resume", "--json")
    assert (result.code, result.json["runs"]) == (4, [])
    assert f"--judge: the run has {strict}, this command sets {kind}" in result.err


def test_resuming_with_other_settings_is_refused_with_each_difference_and_both_remedies(
    proctor: Proctor, half: str, store_of_interrupted_runs: Proctor
) -> None:
    run_id = store_of_interrupted_runs(half, "--target", "echo")
    words = (half, "--target", "echo", "--temperature", "0.7", "--limit", "3", "--threshold", "0.5")
    result = proctor("run", *words, "--resume")
    assert result.code == 4
    first, *lines = result.err.splitlines()
    assert first == (
        "proctor: error: No unfinished run matches this command, so nothing is resumed. The closest is "
        f"{run_id} of half v1 on echo, with 10 of 10 trials. It differs in:"
    )
    assert [line.strip() for line in lines] == [
        "--limit: the run has none, this command sets 3",
        "--temperature: the run has 0, this command sets 0.7",
        "--threshold: the run has none, this command sets 0.5",
        f"To resume that run: proctor run --resume={run_id}",
        f"To start a new run: proctor run {half} --target echo --limit 3 --temperature 0.7 --threshold 0.5",
    ]
    assert len(proctor("runs", "list", "--json").json["runs"]) == 1
    remedy = lines[-2].split(": ")[1].split()[1:]
    assert proctor(*remedy, "--json").run["run"] == run_id


def test_resuming_an_edited_suite_or_on_another_target_is_refused_with_the_nearest_run(
    proctor: Proctor, suite: Proctor, store_of_interrupted_runs: Proctor
) -> None:
    name = suite(("t1", "say 1", "say 1"))
    run_id = store_of_interrupted_runs(name, "--target", "echo")
    result = proctor("run", name, "--target", "mock", "--resume")
    assert result.code == 4
    assert f"The closest is {run_id} " in result.err
    assert "--target: the run has echo, this command sets mock" in result.err
    suite(("t1", "say 1", "say 2"))
    result = proctor("run", name, "--target", "echo", "--resume", "--json")
    assert (result.code, result.json["exit_code"]) == (4, 4)
    assert "the suite: the run has 's v1', and the content of 's v2' differs" in result.err
    assert "To start a new run: proctor run" in result.json["errors"][0]["message"]


def test_resuming_from_python_with_other_settings_is_refused_too(
    half: str, store_of_interrupted_runs: Proctor
) -> None:
    run_id = store_of_interrupted_runs(half, "--target", "echo")
    with pytest.raises(UsageError) as error:
        package.run(half, target="echo", resume=True, repeats=2, progress=False)
    assert "  `repeats`: the run has none, this command sets 2\n" in str(error.value)
    assert f"proctor run --resume={run_id}\n" in str(error.value)
    assert f"proctor run {half} --target echo --repeat 2" in str(error.value)
    with pytest.raises(UsageError, match="To start a new run, remove `resume`"):
        package.run([{"input": "x", "expected": "x"}], target="echo", resume=True, progress=False)
    assert package.run(half, target="echo", resume=True, progress=False).id == run_id


def test_the_command_of_a_new_run_names_the_file_of_a_prompt(
    proctor: Proctor, half: str, tmp_path: Path
) -> None:
    (tmp_path / "terse.txt").write_text("{{ input }}", encoding="utf-8")
    result = proctor("run", half, "--target", "echo", "--prompt", "terse.txt", "--resume")
    assert result.code == 4
    assert f"proctor run {half} --target echo --prompt terse.txt\n" in result.err


def test_resuming_where_no_run_is_unfinished_is_refused_with_the_command_of_a_new_one(
    proctor: Proctor, half: str
) -> None:
    for _ in range(2):
        result = proctor("run", half, "--target", "echo", "--resume", "--store", "other.db")
        assert result.code == 4
        assert result.err == (
            "proctor: error: There is no unfinished run to resume, neither of half on echo nor any "
            f"other.\n  To start a new run: proctor run {half} --target echo --store other.db\n"
        )
        proctor("run", half, "--target", "echo", "--store", "other.db")


def test_a_run_that_another_process_is_making_is_not_made_twice(
    start: Proctor, proctor: Proctor, half: str, function: Proctor, folder: Path
) -> None:
    target = function(
        NOTE + "async def f(prompt):\n    note(prompt)\n    while not os.path.exists('go'):\n"
        "        await asyncio.sleep(0.01)\n    return prompt\n"
    )
    process: subprocess.Popen[str] = start("run", half, "--target", target, "--json")
    wait_until(lambda: (folder / "asked.txt").exists() and len(_read_questions(folder)) == 10)
    run_id = proctor("runs", "list").out.splitlines()[1].split()[0]
    for words in ((f"--resume={run_id}",), (half, "--target", target, "--resume")):
        result = proctor("run", *words)
        assert result.code == 4
        assert "is already running in process" in result.err
    (folder / "go").touch()
    out, _ = process.communicate(timeout=PATIENCE_S)
    (run,) = json.loads(out)["runs"]
    assert (run["status"], run["total"], len(_read_questions(folder))) == ("finished", 10, 10)


# --- asking again what went wrong --------------------------------------------------------------------------


def test_only_what_went_wrong_is_asked_again_and_the_earlier_run_stays(
    proctor: Proctor, half: str, function: Proctor
) -> None:
    target = function(
        NOTE + "def f(prompt):\n    if prompt in ('say 1', 'say 2') and not os.path.exists('well'):\n"
        "        raise RuntimeError('down')\n    note(prompt)\n    return prompt\n"
    )
    first = proctor("run", half, "--target", target, "--json").run
    assert (first["errors"], first["passed"], first["failed"]) == (2, 4, 4)
    Path("well").touch()
    Path("asked.txt").unlink()
    result = proctor("run", f"--retry-errors={first['run']}", "--json", "-o", "again.jsonl")
    assert sorted(_read_questions(Path())) == ["say 1", "say 2"]
    again = result.run
    assert (result.code, again["errors"], again["passed"], again["failed"]) == (1, 0, 5, 5)
    assert (again["asked"], again["reused"], again["total"]) == (2, 8, 10)
    assert again["run"] != first["run"]
    assert proctor("runs", "show", first["run"], "--json").run["errors"] == 2
    sources = Counter(row["source_run"] for row in _rows(Path("again.jsonl")))
    assert sources == {first["run"]: 8, None: 2}


def test_what_could_not_be_judged_is_judged_again_and_not_asked_again(
    proctor: Proctor, suite: Proctor, function: Proctor, folder: Path
) -> None:
    name = suite({"id": "c", "input": "x", "scorer": "llm_judge", "rubric": "Good?"})
    target = function(NOTE + "def f(prompt):\n    note(prompt)\n    return 'answer'\n")
    (folder / "judge.jsonl").write_text('{"*": "Well..."}', encoding="utf-8")
    words = ("--judge", "scripted:judge.jsonl", "--json")
    first = proctor("run", name, "--target", target, *words)
    assert (first.code, first.run["unscored"]) == (3, 1)
    (folder / "judge.jsonl").write_text('{"*": "{\\"score\\": 5}"}', encoding="utf-8")
    again = proctor("run", f"--retry-errors={first.run['run']}", "--json")
    assert (again.code, again.run["passed"], again.run["reused"]) == (0, 1, 1)
    assert len(_read_questions(folder)) == 1
    assert (again.run["graded"], again.run["judge"]["calls"]) == (1, 1)
    third = proctor("run", f"--retry-errors={again.run['run']}", "--json").run
    assert (third["graded"], third["judge"]["calls"]) == (0, 0)
    for run in (again.run, third):
        report = proctor("runs", "show", run["run"], "--json").run
        assert report | {"looks": run["looks"]} == run


@pytest.mark.skipif(sys.platform != "linux", reason="libraries are preloaded otherwise there")
@pytest.mark.skipif(not (which("cc") or os.environ.get("CI")), reason="There is no C compiler here.")
@pytest.mark.parametrize("again", ["--reuse", "--retry-errors={}"])
def test_judgments_taken_over_cost_nothing_though_the_clock_was_set_back(
    start: Proctor, proctor: Proctor, suite: Proctor, folder: Path, again: str
) -> None:
    name = suite({"id": "c", "input": "x", "scorer": "llm_judge", "rubric": "Good?"})
    (folder / "judge.jsonl").write_text('{"*": "{\\"score\\": 5}"}', encoding="utf-8")
    words = ("run", name, "--target", "echo", "--judge", "scripted:judge.jsonl", "--json")
    later = int(os.environ.get("AHEAD_S", "0")) + 7200
    ahead = start(*words, environ=shift_clock(os.environ, f"+{later}"))
    (first,) = json.loads(ahead.communicate(timeout=PATIENCE_S)[0])["runs"]
    assert first["judge"]["calls"] == 1
    words_again = words if again == "--reuse" else ("run", "--json")
    second = proctor(*words_again, again.format(first["run"])).run
    assert second["started_at"] < first["started_at"]
    for run in (second, proctor("runs", "show", second["run"], "--json").run):
        assert (run["reused"], run["graded"], run["judge"]["calls"]) == (1, 0, 0)


def test_asking_again_that_was_cut_short_is_resumed_with_all_that_was_taken_over(
    start: Proctor, proctor: Proctor, suite: Proctor, function: Proctor, folder: Path
) -> None:
    name = suite(*((f"t{n}", f"q{n}", f"q{n}") for n in range(200)))
    target = function(
        NOTE + "async def f(prompt):\n    if not os.path.exists('well'):\n"
        "        if int(prompt[1:]) < 100:\n            raise RuntimeError('down')\n        return prompt\n"
        "    note(prompt)\n    await asyncio.sleep(0 if os.path.exists('go') else 60)\n    return prompt\n"
    )
    first = proctor("run", name, "--target", target, "--json").run
    Path("well").touch()
    process: subprocess.Popen[str] = start("run", f"--retry-errors={first['run']}", "--concurrency", "1")
    wait_until(lambda: _count_trials(folder) == 300 and Path("asked.txt").exists())
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    assert any("Ctrl-C again" in line for line in process.stderr)
    process.send_signal(signal.SIGINT)
    assert "Stopped: 100 of 200 trials are stored." in process.communicate(timeout=PATIENCE_S)[1]
    Path("asked.txt").unlink(missing_ok=True)
    Path("go").touch()
    second = proctor("runs", "list").out.splitlines()[1].split()[0]
    run = proctor("run", f"--resume={second}", "--json").run
    assert (run["passed"], run["asked"], run["reused"]) == (200, 100, 100)
    assert sorted(_read_questions(folder)) == sorted(f"q{n}" for n in range(100))


def test_errors_of_a_run_without_any_are_nothing_to_ask(proctor: Proctor, half: str) -> None:
    first = proctor("run", half, "--target", "echo", "--json").run
    again = proctor("run", "--retry-errors", first["run"], "--json").run
    assert (again["asked"], again["reused"], again["passed"]) == (0, 10, 5)

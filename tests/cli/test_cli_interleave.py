"""`proctor run --interleave` on the command line: flags, proctor.toml, progress, Ctrl-C and compare."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Lock
from typing import Any

import pytest

from proctor.model import Settings, TargetSpec, Verdict
from proctor.reports.runs.settings import describe_settings
from proctor.services import events
from proctor.services.progress import Progress
from proctor.verdicts import Tally
from support.builders import make_run, make_trial
from support.cli import Proctor
from support.endpoints import JsonHandler, serve_in_thread
from support.waiting import PATIENCE_S, wait_until

CASES = 8


class Desk:
    """The requests to a server, which a test can make wait."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str]] = []
        self.lock = Lock()
        self.url = ""
        self.hold_at: int | None = None
        """The server answers only this many requests."""

    def targets(self, *models: str) -> list[str]:
        return [f"--target=openai:{model}@{self.url}/{model}/v1" for model in models]


@pytest.fixture
def desk() -> Iterator[Desk]:
    server_desk = Desk()

    class Handler(JsonHandler):
        def handle_json(self, body: Any) -> None:
            question = body["messages"][-1]["content"]
            with server_desk.lock:
                server_desk.requests.append((body["model"], question))
                must_wait = (
                    server_desk.hold_at is not None and len(server_desk.requests) > server_desk.hold_at
                )
            if must_wait:
                wait_until(lambda: server_desk.hold_at is None)
            self.send_json({"choices": [{"message": {"role": "assistant", "content": question}}]})

    with serve_in_thread(Handler) as server:
        server_desk.url = f"http://127.0.0.1:{server.server_port}"
        yield server_desk
        server_desk.hold_at = None


@pytest.fixture
def path(folder: Path) -> str:
    rows = [{"id": f"c{n}", "input": f"q{n}", "expected": f"q{n}"} for n in range(CASES)]
    (folder / "s.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return "s.jsonl"


def in_turns() -> list[tuple[str, str]]:
    return [(model, f"q{n}") for n in range(CASES) for model in ("ab", "ba")[n % 2]]


def test_two_targets_are_asked_in_turns_and_compared_with_an_interval(
    proctor: Proctor, desk: Desk, path: str
) -> None:
    words = ("run", path, *desk.targets("a", "b"), "--interleave", "--concurrency", 1)
    assert [run["passed"] for run in proctor(*words, "--json").json["runs"]] == [CASES, CASES]
    assert desk.requests == in_turns()
    latency = proctor("compare", "last", "--json").json["comparisons"][0]["latency_ms"]
    assert (latency["interleaved"], latency["cases"], latency["out_of_turn"]) == (True, CASES, 0)
    assert "over 8 cases, interleaved" in proctor("compare", "last").out
    assert list(describe_settings(Settings(interleave=True))) == ["32 concurrent", "interleaved"]


def test_proctor_toml_can_interleave_and_a_flag_can_turn_it_off(
    proctor: Proctor, desk: Desk, path: str, folder: Path
) -> None:
    (folder / "proctor.toml").write_text("interleave = true\nconcurrency = 1\n", encoding="utf-8")
    proctor("run", path, *desk.targets("a", "b"))
    assert desk.requests == in_turns()
    desk.requests.clear()
    proctor("run", path, *desk.targets("a", "b"), "--no-interleave")
    assert [model for model, _ in desk.requests] == ["a"] * CASES + ["b"] * CASES
    assert proctor("run", path, *desk.targets("a")).code == 0


def test_one_target_is_refused_before_it_is_asked(proctor: Proctor, desk: Desk, path: str) -> None:
    result = proctor("run", path, *desk.targets("a"), "--interleave")
    assert (result.code, desk.requests) == (4, [])
    assert "--interleave needs several runs, but there is only one, on 'openai:a@" in result.err


def test_each_run_says_what_came_from_the_cache(proctor: Proctor, desk: Desk, path: str) -> None:
    command = ["run", path, *desk.targets("a", "b"), "--interleave", "--cache"]
    proctor("run", path, *desk.targets("a"), "--cache", "--limit", 5)
    result = proctor(*command)
    assert "5 answers came from the cache, 3 did not: 3 never sent before." in result.err
    assert "0 answers came from the cache, 8 did not: " in result.err
    assert "of 3 answers; 5 from the cache or reused are left out" in result.out
    report = proctor("compare", "last").out
    assert "over 3 cases, interleaved; 5 pairs with an answer from the cache or another run" in report


@pytest.mark.slow
def test_after_ctrl_c_one_command_continues_all_in_turns(
    proctor: Proctor, start: Callable[..., subprocess.Popen[str]], desk: Desk, path: str
) -> None:
    desk.hold_at = 5
    process = start("run", path, *desk.targets("a", "b"), "--interleave", "--concurrency", 1)
    wait_until(lambda: len(desk.requests) == 6)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 2, out + err
    (command,) = re.findall(r"Continue with: proctor (run --resume=\S+)", err)
    assert len(re.findall(r"Stopped: [23] of 8 trials are stored\.", err)) == 2
    assert "trials are stored. The same command resumes this run." in err
    desk.hold_at = None
    again = proctor(*command.split(), "--json")
    assert [(run["status"], run["passed"]) for run in again.json["runs"]] == [("finished", CASES)] * 2
    assert "is resumed too, because the runs are interleaved." in again.err
    assert set(desk.requests) == set(in_turns())
    questions = [question for _, question in desk.requests]
    assert questions == sorted(questions)


def test_progress_counts_all_runs_in_progress_together(capsys: pytest.CaptureFixture[str]) -> None:
    lines = list[str]()
    progress = Progress(quiet=False, write_line=lines.append)
    runs = [make_run(id=name, target=TargetSpec(name=name, kind="echo")) for name in "ab"]
    for run in runs:
        progress(events.RunStarted(run, total=4, dev=3, holdout=1))
    assert len(lines) == 1
    progress._last_line_at = float("-inf")
    for run in runs:
        progress(events.TrialFinished(make_trial("x"), Verdict.PASS, 0.25, run.id))
        progress._last_line_at = float("-inf")
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("a, b: 1/8 · ")
    assert second.startswith("a, b: 2/8 · ")
    assert "2 passed, 0 failed, 0 errors, $0.50" in second
    for run in runs:
        progress(events.RunFinished(run, Tally.for_run(run)))
    progress(events.RunStarted(runs[0], total=3, dev=None, holdout=None))
    progress._last_line_at = float("-inf")
    progress(events.TrialFinished(make_trial("x"), Verdict.PASS, None, "a"))
    assert capsys.readouterr().err.startswith("1/3 · ")


def test_runs_in_turns_stop_when_each_knows_enough(proctor: Proctor, folder: Path) -> None:
    class Handler(JsonHandler):
        def handle_json(self, body: Any) -> None:
            question = body["messages"][-1]["content"]
            is_wrong = body["model"] == "b" and int(question[1:]) % 8 == 0
            answer = "no" if is_wrong else question
            self.send_json({"choices": [{"message": {"role": "assistant", "content": answer}}]})

    rows = [{"id": f"c{n}", "input": f"q{n}", "expected": f"q{n}"} for n in range(400)]
    (folder / "s.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    gate = ("--no-holdout", "--min-pass-rate", 0.7, "--stop-when-shown", "--concurrency", 4)
    with serve_in_thread(Handler) as server:
        url = f"http://127.0.0.1:{server.server_port}/v1"
        targets = [f"--target=openai:{model}@{url}" for model in "ab"]
        result = proctor("run", "s.jsonl", *targets, *gate, "--interleave", "--json")
        assert result.code == 0, result.err
        first, second = result.json["runs"]
        alone = proctor("run", "s.jsonl", targets[0], *gate, "--json").run
    for run in (first, second):
        assert (run["status"], run["early_stop"]["reason"]) == ("finished", "shown")
        assert run["early_stop"]["cases"] == run["cases"] == run["total"] < 400
        assert run["early_stop"]["interval"] == run["ci95"]
    assert first["cases"] > alone["cases"]
    assert abs(first["cases"] - second["cases"]) <= 8
    latency = proctor("compare", first["run"], second["run"], "--json").json["comparisons"][0]["latency_ms"]
    assert latency["median_ci95"] is not None

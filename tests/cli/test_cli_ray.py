"""Runs on a real Ray cluster of two nodes: equal to runs on one machine, even if processes end.

One test, as its cluster takes longer to start than everything that is done on it.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from time import sleep
from typing import Any

import pytest

import proctor
from support.cli import CommandResult
from support.endpoints import JsonHandler, ThreadServer, serve_in_thread
from support.ray_cluster import RayNodes
from support.waiting import wait_until

pytestmark = pytest.mark.slow

CONCURRENCY = 6
CASES = 480
EXAMPLES = Path(__file__).parents[2] / "examples"
JUDGED = """
tests:
  - {id: j1, input: "2 + 2?", criteria: It says four.}
  - {id: j2, input: "Hi.", criteria: It greets.}
"""


class Endpoint(ThreadServer):
    """Answers with the last message, and counts."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.lock = threading.Lock()
        self.request_counts: Counter[str] = Counter()
        self.now = self.peak = 0

    @property
    def target(self) -> str:
        return f"openai:m@http://127.0.0.1:{self.server_port}/v1"

    def reset(self) -> None:
        self.request_counts, self.peak = Counter(), 0


class Chat(JsonHandler):
    """Chat completions; a prompt with criteria is a judge's."""

    server: Endpoint

    def handle_json(self, body: Any) -> None:
        text, server = body["messages"][-1]["content"], self.server
        with server.lock:
            server.request_counts[text] += 1
            server.now += 1
            server.peak = max(server.peak, server.now)
        sleep(0.02)
        with server.lock:
            server.now -= 1
        is_judge = "criteria" in json.dumps(body).lower()
        content = '{"reasoning": "It does.", "score": 1, "passed": true}' if is_judge else f"ok {text}"
        message = {"message": {"role": "assistant", "content": content}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 9, "completion_tokens": 2}
        self.send_json({"choices": [message], "usage": usage})


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RayNodes]:
    """Two nodes with one processor each, with a key that no driver has."""
    source = str(Path(proctor.__file__).parents[1])
    environ = {**os.environ, "PYTHONPATH": source, "OPENAI_API_KEY": "sk-of-the-nodes"}
    cluster = RayNodes(environ, tmp_path_factory.mktemp("ray"))
    try:
        yield cluster
    finally:
        cluster.close()


def list_processes() -> list[int]:
    """The ids of the processes that make trials."""
    process_ids = []
    for folder in Path("/proc").iterdir():
        try:
            if b"ray::TrialProcess" in (folder / "cmdline").read_bytes():
                process_ids.append(int(folder.name))
        except OSError:
            pass
    return process_ids


def has_requests(endpoint: Endpoint, count: int) -> bool:
    """Whether the server has had at least that number of requests."""
    return endpoint.request_counts.total() >= count


def numbers(result: CommandResult) -> list[Any]:
    """The numbers of a command's runs, without times, ids and the engine."""
    totals = (
        "suite",
        "passed",
        "failed",
        "errors",
        "unscored",
        "total",
        "pass_rate",
        "ci95",
        "usage",
        "exit_code",
    )
    return [{name: run.get(name) for name in totals} for run in result.json["runs"]]


def test_runs_on_two_nodes_are_equal_to_those_of_one_machine_whatever_ends_meanwhile(
    nodes: RayNodes,
    process: Callable[..., CommandResult],
    start: Callable[..., subprocess.Popen[str]],
    folder: Path,
) -> None:
    environ = {"RAY_ADDRESS": nodes.address, "PROCTOR_CACHE": str(folder / "cache")}
    ray = ("--engine", "ray", "--json")
    for name in ("arithmetic.jsonl", "support.csv", "choices.jsonl", "markdown", "agent", "scripted"):
        source = EXAMPLES / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, folder / name)
    (folder / "judged.eval.yaml").write_text(JUDGED, encoding="utf-8")
    rows = [{"id": f"c{n}", "input": f"q{n}", "expected": f"ok q{n}"} for n in range(CASES)]
    (folder / "many.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    with serve_in_thread(Chat, Endpoint) as endpoint:
        # The same totals in all formats, with graders that are programs, judges and workspaces.
        suites = ("arithmetic.jsonl", "support.csv", "agent/desk.eval.yaml", "judged.eval.yaml")
        words = ("run", *suites, "-t", endpoint.target, "--judge", endpoint.target, "--repeat", "2")
        local_result = process(*words, "--json", environ={"OPENAI_API_KEY": "sk"} | environ)
        ray_result = process(*words, *ray, environ=environ)
        assert numbers(ray_result) == numbers(local_result)
        assert "ray" not in ray_result.err.lower().replace("connecting to ray …", "")

        # One run that ends three times and is resumed. Each command takes seconds to connect.
        many = ("run", "many.jsonl", "-t", endpoint.target, "--concurrency", str(CONCURRENCY), *ray)
        endpoint.reset()
        driver = start(*many, environ=environ)
        wait_until(partial(has_requests, endpoint, CASES // 8))
        driver.send_signal(signal.SIGINT)
        _, err = driver.communicate()
        assert "Continue with: proctor run --resume" in err
        assert "Traceback" not in err
        result = process("runs", "show", "last", "--json", environ=environ)
        assert result.run["total"] == endpoint.request_counts.total()  # nothing was in flight

        driver = start(*many, "--resume", environ=environ)
        wait_until(partial(has_requests, endpoint, CASES * 3 // 8))
        driver.kill()
        driver.communicate()
        wait_until(lambda: not list_processes())

        through_client = ("--engine-address", nodes.client_address)
        driver = start(*many, "--resume", *through_client, environ=environ)
        wait_until(partial(has_requests, endpoint, CASES * 5 // 8))
        os.kill(random.choice(list_processes()), signal.SIGKILL)
        wait_until(partial(has_requests, endpoint, CASES * 7 // 8))
        nodes.kill_node()
        out, err = driver.communicate()
        finished = CommandResult(driver.returncode, out, err)
        assert finished.run["passed"] == finished.run["total"] == CASES
        assert set(endpoint.request_counts) == {row["input"] for row in rows}
        assert endpoint.peak == CONCURRENCY
        # For each of the three kills 64 messages or a tenth of a second, of each of two processes.
        assert endpoint.request_counts.total() - CASES <= 3 * (2 * CONCURRENCY + 2 * 64)

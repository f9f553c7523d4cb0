"""Runs in PostgreSQL whose process or server is killed: no trial is lost or saved twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from time import sleep
from typing import Any

import pytest

from proctor.stores import locate_store
from proctor.stores.postgresql.location import PostgresLocation
from support.endpoints import JsonHandler, serve_in_thread
from support.postgresql import PostgresServer
from support.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.slow

CASES = 240
CONCURRENCY = 8

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    """A server that the test may kill."""
    server = PostgresServer()
    server.start()
    location = locate_store(server.address())
    assert isinstance(location, PostgresLocation)
    location.migrate()
    yield server
    server.stop()


@pytest.fixture
def requests() -> Counter[str]:
    """How often each prompt was sent."""
    return Counter()


@pytest.fixture
def start(server: PostgresServer, requests: Counter[str], tmp_path: Path) -> Iterator[Start]:
    """Starts `proctor run`, whose target takes a moment for each of its requests."""

    class Model(JsonHandler):
        def handle_json(self, body: Any) -> None:
            prompt = body["messages"][-1]["content"]
            requests[prompt] += 1
            sleep(0.03)
            message = {"role": "assistant", "content": prompt.split()[-1]}
            self.send_json({"choices": [{"index": 0, "finish_reason": "stop", "message": message}]})

    lines = [{"id": f"c{n}", "question": f"Say n{n}", "answer": f"n{n}"} for n in range(CASES)]
    (tmp_path / "suite.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    processes: list[subprocess.Popen[str]] = []
    with serve_in_thread(Model) as model:

        def begin(*words: str) -> subprocess.Popen[str]:
            target = f"openai:m@http://127.0.0.1:{model.server_port}/v1"
            processes.append(
                subprocess.Popen(
                    [
                        *(sys.executable, "-m", "proctor", "run", "suite.jsonl", "--target", target),
                        *("--store", server.address(), "--concurrency", str(CONCURRENCY), *words),
                    ],
                    cwd=tmp_path,
                    env={**os.environ, "OPENAI_API_KEY": "k"},
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    encoding="utf-8",
                )
            )
            return processes[-1]

        yield begin
        for process in processes:
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()


def _wait_for_requests(requests: Counter[str], more: int) -> None:
    last = requests.total() + more
    wait_until(lambda: requests.total() >= last)


def _count_trials(server: PostgresServer) -> list[tuple[int, int]]:
    """The number of finished trials and of positions of each run."""
    with server.connect() as connection:
        return connection.execute(
            "SELECT count(verdict), count(DISTINCT position) FROM proctor.trials GROUP BY run"
        ).fetchall()


def test_nothing_is_lost_or_doubled_when_clients_and_the_server_are_killed(
    server: PostgresServer, requests: Counter[str], start: Start
) -> None:
    run = start()
    for _ in range(2):
        _wait_for_requests(requests, 40)
        run.kill()
        run.communicate()
        run = start("--resume")
    _wait_for_requests(requests, 30)
    server.kill()
    server.start()
    out, _ = run.communicate(timeout=PATIENCE_S)
    assert run.returncode == 0, out
    assert _count_trials(server) == [(CASES, CASES)]
    assert len(requests) == CASES
    assert max(requests.values()) <= 3  # what two killed processes had in flight, and no more


def test_ctrl_c_without_a_server_saves_the_answers_until_the_run_is_resumed(
    server: PostgresServer, requests: Counter[str], start: Start, tmp_path: Path
) -> None:
    run = start()
    _wait_for_requests(requests, 60)
    server.kill()
    assert run.stdout is not None
    notice = next(line for line in run.stdout if "does not answer" in line or "Waiting for the store" in line)
    assert "postgresql" in notice or "answers wait" in notice
    run.send_signal(signal.SIGINT)
    out, _ = run.communicate(timeout=PATIENCE_S)
    assert run.returncode in (2, 4), out
    assert "does not answer" in out
    assert "Traceback" not in out
    (saved,) = tmp_path.glob(".proctor/rescued-*.db")
    assert str(saved) in out
    server.start()
    resumed = start("--resume")
    out, _ = resumed.communicate(timeout=PATIENCE_S)
    assert resumed.returncode == 0, out
    assert _count_trials(server) == [(CASES, CASES)]
    assert requests.total() <= CASES + CONCURRENCY
    assert not saved.exists()

"""Ctrl-C during slow work: every command ends soon, and finished trials are stored."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from proctor.cli import run_and_report
from proctor.services.grading import worker_pool
from support.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc tells when a worker is there")
MAX_END_S = 2.0


def _suite(folder: Path) -> str:
    schemas: dict[str, Any] = {"0": {"type": "object"}}
    for n in range(1, 27):
        schemas[str(n)] = {"allOf": [{"$ref": f"#/$defs/{n - 1}"}] * 2}
    params = {"schema": {"$defs": schemas, "$ref": "#/$defs/26"}}
    case = {
        "id": "bomb",
        "input": [{"role": "user", "content": "{}"}],
        "assertions": [{"grader": "json_schema", "params": params}],
    }
    quick = {
        "id": "quick",
        "input": [{"role": "user", "content": "a"}],
        "assertions": [{"grader": "contains", "params": {"value": "a"}}],
    }
    header = {"proctor": 1, "name": "bombs"}
    path = folder / "bombs.jsonl"
    path.write_text("\n".join(map(json.dumps, (header, quick, case))), encoding="utf-8")
    return str(path)


def _has_child(process: subprocess.Popen[str]) -> bool:
    tasks = Path(f"/proc/{process.pid}/task").glob("*/children")
    return process.poll() is not None or any(task.read_text("ascii").strip() for task in tasks)


def _seconds_to_end(command: list[str], folder: Path) -> tuple[float, int, str]:
    """Sends SIGINT while a worker grades; returns the seconds until the end, the exit code and the output."""
    with subprocess.Popen(
        [sys.executable, "-m", "proctor", *command],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        wait_until(lambda: _has_child(process))
        began = monotonic()
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=PATIENCE_S)
        return monotonic() - began, process.returncode, output


@pytest.mark.slow
def test_one_signal_ends_a_run_whose_grader_does_not_end(tmp_path: Path) -> None:
    command = ["run", _suite(tmp_path), "--target", "echo", "--quiet", "--store", "store.db"]
    seconds, code, output = _seconds_to_end(command, tmp_path)
    for _ in range(2):  # a busy machine may need longer
        if seconds > MAX_END_S:
            seconds, code, output = _seconds_to_end(command, tmp_path)
    assert seconds <= MAX_END_S
    assert code == 2
    assert "Stopped: 1 of 2 trials are stored." in output


@pytest.mark.slow
def test_a_grader_that_does_not_end_is_unscored_with_its_name_and_the_limit(
    proctor: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_pool, "CPU_LIMIT_S", 0.2)
    result = proctor("run", _suite(folder), "--target", "echo", "--json", "-o", "all.jsonl")
    assert (result.code, result.run["passed"], result.run["unscored"]) == (3, 1, 1)
    reason = "The grader 'json_schema' did not end within 0.2 s of processor time."
    assert reason in (folder / "all.jsonl").read_text(encoding="utf-8")


@pytest.mark.slow
def test_a_signal_ends_code_that_holds_the_loop(tmp_path: Path) -> None:
    program = (
        "import asyncio, sys\n"
        "from proctor.cli import run_and_report as running\n"
        f"running._MAX_BLOCKED_S = {run_and_report._MAX_BLOCKED_S / 5}\n"
        "async def main():\n"
        "    running.watch_signals(asyncio.get_running_loop(), lambda: None)\n"
        "    print('ready', flush=True)\n"
        "    while True: pass\n"
        "try: asyncio.run(main())\n"
        "except KeyboardInterrupt: sys.exit(2)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 2

"""After `kill -9` of Proctor, no process that it started survives."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from support.waiting import wait_until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="/proc tells which processes live"),
]

Start = Callable[..., subprocess.Popen[str]]
HOLD = """
import os, pathlib, subprocess, sys, time
place, *how = sys.argv[1:]
if how:
    nothing = subprocess.DEVNULL
    command = [sys.executable, "-S", __file__, place]
    child = subprocess.Popen(command, stdout=nothing, stderr=nothing, start_new_session=True)
    if how == ["wait"]: child.wait()
    while not os.path.exists(place): time.sleep(0.01)
else:
    pathlib.Path(place).write_text(str(os.getpid()))
    time.sleep(3600)
"""


def _living(folder: Path) -> list[int]:
    """The ids of processes with the folder in their command line or environment."""
    living = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if any(bytes(folder) in (process / name).read_bytes() for name in ("cmdline", "environ")):
                living.append(int(process.name))
    return living


@pytest.fixture
def hold(folder: Path) -> Iterator[str]:
    """A command line that writes the file `begun` and does not end."""
    (folder / "hold.py").write_text(HOLD, encoding="utf-8")
    yield f"{sys.executable} -S {folder / 'hold.py'} {folder / 'begun'}"
    for pid in _living(folder):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _write_suite(
    folder: Path, agent: str, *, hook: str = "true", grader: str = "", persistent: bool = False
) -> list[str]:
    """Writes a suite with an agent, a hook and a code grader; returns the words that run it."""
    command = ["sh", "-c", grader or """echo '{"score": 1}'"""]
    suite: dict[str, Any] = {
        "workspace": {"hooks": {"before_each": {"command": ["sh", "-c", hook]}}},
        "assertions": [{"type": "code-grader", "command": command, "persistent": persistent}],
        "tests": [{"id": "a", "criteria": "c", "input": "i"}],
    }
    target = {"name": "agent", "provider": "cli", "command": agent}
    (folder / "s.eval.yaml").write_text(json.dumps(suite), encoding="utf-8")
    (folder / "targets.yaml").write_text(json.dumps({"targets": [target]}), encoding="utf-8")
    return ["run", "s.eval.yaml", "--target", "agent", "--quiet"]


def _command(folder: Path, hold: str) -> list[str]:
    (folder / "s.jsonl").write_text('{"id": "a", "input": "i", "expected": "i", "scorer": "exact"}\n')
    return ["run", "s.jsonl", "--target", f"command:{hold}", "--quiet"]


def _nested(folder: Path, hold: str) -> list[str]:
    inner = _command(folder, hold)
    line = f"{sys.executable} -m proctor {' '.join(inner[:3])} '{inner[3]}' --store inner.db"
    return ["run", "s.jsonl", "--target", f"command:{line}", "--quiet", "--store", "outer.db"]


COMMANDS: dict[str, Callable[[Path, str], list[str]]] = {
    "command": _command,
    "cli with a grandchild": lambda folder, hold: _write_suite(folder, f"{hold} & wait"),
    "agent with its own session": lambda folder, hold: _write_suite(folder, f"{hold} wait"),
    "hook": lambda folder, hold: _write_suite(folder, "echo done", hook=hold),
    "code grader": lambda folder, hold: _write_suite(folder, "echo done", grader=f"{hold} & wait"),
    "persistent grader": lambda folder, hold: _write_suite(
        folder, "echo done", grader=f"{hold} & wait", persistent=True
    ),
    "server of an earlier hook": lambda folder, hold: _write_suite(
        folder, "sleep 3600", hook=f"{hold} background"
    ),
    "nested": _nested,
}


@pytest.mark.parametrize("kind", COMMANDS)
def test_no_program_outlives_a_killed_run(start: Start, folder: Path, hold: str, kind: str) -> None:
    run = start(*COMMANDS[kind](folder, hold), stderr=subprocess.STDOUT)
    wait_until(lambda: (folder / "begun").exists() or run.poll() is not None)
    assert run.poll() is None, run.communicate()
    run.kill()
    run.wait()
    wait_until(lambda: not _living(folder))


@pytest.mark.parametrize("isolation", ["kernel", "process"])
def test_no_sandboxed_program_outlives_a_killed_process(folder: Path, hold: str, isolation: str) -> None:
    script = (
        "from proctor.eval import CodeSandbox\n"
        f'CodeSandbox(timeout_s=3600, isolation={isolation!r}).run(\'while True: open("begun", "w")\')'
    )
    environ = {**os.environ, "TMPDIR": str(folder)}
    with subprocess.Popen([sys.executable, "-c", script], env=environ, stderr=subprocess.PIPE) as process:
        wait_until(lambda: list(folder.glob("*/begun")) or process.poll() is not None)
        if process.poll() is not None:
            assert process.stderr is not None
            pytest.skip(process.stderr.read().decode().splitlines()[-1])
        process.kill()
    wait_until(lambda: not _living(folder))


def test_what_a_hook_left_in_a_session_of_its_own_outlives_a_run_that_ends(
    process: Callable[..., Any], folder: Path, hold: str
) -> None:
    result = process(*_write_suite(folder, "echo done", hook=f"{hold} background"))
    assert result.code == 0, result
    assert int((folder / "begun").read_text()) in _living(folder)


def test_of_the_commands_of_a_server_only_runs_outlive_it(folder: Path, hold: str) -> None:
    pytest.importorskip("fastapi")
    run, other = (_command(folder, f"{hold}{kind}") for kind in ("-run", "-other"))
    script = (
        "import os, time\n"
        "from pathlib import Path\n"
        "from proctor.services.runs.starts.subprocess_command import start_command\n"
        "from proctor.web.project import Project\n"
        "project = Project(Path('store.db'))\n"
        f"start_command(project, {run!r}, outlives_server=True)\n"
        f"start_command(project, {other!r})\n"
        "time.sleep(3600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script]) as server:
        pid_files = (folder / "begun-run", folder / "begun-other")
        wait_until(lambda: all(path.exists() and path.read_text() for path in pid_files))
        server.kill()
    wait_until(lambda: int((folder / "begun-other").read_text()) not in _living(folder))
    assert int((folder / "begun-run").read_text()) in _living(folder)

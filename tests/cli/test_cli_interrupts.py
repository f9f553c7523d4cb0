"""A signal at any moment, from the first modules to the last exit handler: one sentence, exit code 2."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from proctor.cli.interrupts import JSON_LISTS, interrupted_json
from proctor.cli.main import COMMANDS, _make_problem_row
from support.waiting import PATIENCE_S

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")

FIRST_MODULE = "proctor.cli"
"""The first module that is imported after the signal handlers are set."""

TRIES = 21
"""The number of signals per command, spread over its imports."""

SUITE = json.dumps({"proctor": 1, "name": "one"}) + "\n" + json.dumps({"id": "a", "input": "a"}) + "\n"


class ExitState(NamedTuple):
    """How a process ended, without the lines of the modules that it imported."""

    code: int
    out: str
    err: list[str]
    modules: int


def run_with_signal(
    folder: Path,
    command: list[str],
    *,
    after: int | None = None,
    number: signal.Signals = signal.SIGINT,
    program: tuple[str, ...] = (sys.executable, "-m", "proctor"),
) -> ExitState:
    """Runs a command, and sends it a signal when it has imported `after` modules."""
    modules = -1
    err = []
    with subprocess.Popen(
        [*program, *command],
        cwd=folder,
        env={**os.environ, "PYTHONPROFILEIMPORTTIME": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        for line in process.stderr:
            if not line.startswith("import time:"):
                err.append(line)
                continue
            if modules >= 0 or line.split("|")[-1].strip() == FIRST_MODULE:
                modules += 1
                if modules == after:
                    process.send_signal(number)
        return ExitState(process.wait(PATIENCE_S), process.stdout.read(), err, modules)


def run_program(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [["--help"], ["runs", "list"], ["validate", "one.jsonl"], ["run", "one.jsonl", "--target", "echo", "-q"]],
    ids=lambda command: command[0].strip("-"),
)
def test_a_signal_at_any_moment_ends_a_command_with_one_sentence(tmp_path: Path, command: list[str]) -> None:
    (tmp_path / "one.jsonl").write_text(SUITE, encoding="utf-8")
    undisturbed = run_with_signal(tmp_path, command)
    assert undisturbed.modules > 0
    for i in range(TRIES):
        after = i * undisturbed.modules // (TRIES - 1)
        number = (signal.SIGINT, signal.SIGTERM)[i % 2]
        state = run_with_signal(tmp_path, command, after=after, number=number)
        where = f"{number.name} after {after} of {undisturbed.modules} modules: {state}"
        err = [line for line in state.err if "warning: Stopping: " not in line]  # a run was in progress
        if state.code == 2:
            *own, sentence = err  # lines that the command printed before the signal
            assert own == undisturbed.err[: len(own)], where
            assert sentence.startswith(("Interrupted.", "Stopped: ")), where
        else:
            assert (state.code, err) == (undisturbed.code, undisturbed.err), where


def test_an_interrupted_command_still_prints_its_json(tmp_path: Path) -> None:
    state = run_with_signal(tmp_path, ["validate", "one.jsonl", "--json"], after=1)
    assert state.code == 2
    assert state.err == ["Interrupted.\n"]
    assert json.loads(state.out) == {
        "files": [],
        "errors": [_make_problem_row("Interrupted.")],
        "exit_code": 2,
    }


@pytest.mark.parametrize("command", COMMANDS)
def test_the_json_of_an_interrupted_command_has_its_lists(command: str) -> None:
    lists: dict[str, object] = {name: [] for name in JSON_LISTS.get(command, ())}
    expected = {**lists, "errors": [_make_problem_row("Interrupted.")], "exit_code": 2}
    assert json.loads(interrupted_json([command, "--json"])) == expected


@pytest.mark.slow
def test_a_command_that_was_started_to_ignore_a_signal_does(tmp_path: Path) -> None:
    program = ("sh", "-c", "trap '' INT; exec \"$@\"", "sh", sys.executable, "-m", "proctor")
    state = run_with_signal(tmp_path, ["--version"], after=1, program=program)
    assert (state.code, state.err) == (0, [])


def test_a_signal_that_hits_a_destructor_is_not_lost(tmp_path: Path) -> None:
    process = run_program(
        "import os, signal, sys, time\n"
        "from proctor.cli import interrupts\n"
        "class Resource:\n"
        "    def __del__(self): os.kill(os.getpid(), signal.SIGTERM)\n"
        "interrupts.exit_at_signals()\n"
        "interrupts.raise_at_signals()\n"
        "try:\n"
        "    Resource()\n"
        f"    time.sleep({PATIENCE_S})\n"
        "except KeyboardInterrupt: sys.exit(2)\n",
        tmp_path,
    )
    assert (process.returncode, process.stderr) == (2, "")


AT_SHUTDOWN = """
import atexit, os, signal, sys, threading, time
def send(): os.kill(os.getpid(), signal.{number})
def wait():
    threading.main_thread().join()  # returns when the interpreter has begun to shut down
    {then}
atexit.register(send)  # called after Proctor's own handlers
threading.Thread(target=wait).start()
from proctor.__main__ import main
sys.argv = ["proctor", "runs", "list"]
main()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "then", ["send()", "while True: send(); time.sleep(0.05)"], ids=["thread that ends", "thread that hangs"]
)
@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_signal_does_not_change_an_exit_code_that_is_known(tmp_path: Path, number: str, then: str) -> None:
    process = run_program(AT_SHUTDOWN.format(number=number, then=then), tmp_path)
    assert process.returncode == 4
    assert "There is no store" in process.stderr
    assert len(process.stderr.splitlines()) == 1


@pytest.mark.slow
def test_a_loop_that_cannot_be_closed_after_an_interrupt_is_no_bug(tmp_path: Path) -> None:
    (tmp_path / "one.jsonl").write_text(SUITE, encoding="utf-8")
    process = run_program(
        "import asyncio, sys\n"
        "from proctor.cli import run_and_report as running\n"
        "from proctor.__main__ import main\n"
        "def interrupt(*_): raise KeyboardInterrupt\n"
        "def refuse(_): raise RuntimeError('Cannot close a running event loop')\n"
        "running.watch_signals, asyncio.Runner.close = interrupt, refuse\n"
        "sys.argv = ['proctor', 'run', 'one.jsonl', '--target', 'echo', '-q']\n"
        "main()\n",
        tmp_path,
    )
    assert (process.returncode, process.stderr) == (2, "Interrupted.\n")


@pytest.mark.slow
def test_a_signal_after_the_loop_has_ended_interrupts_what_follows(tmp_path: Path) -> None:
    process = run_program(
        "import asyncio, os, signal, sys, time\n"
        "from proctor.cli import run_and_report as running\n"
        "async def main(): running.watch_signals(asyncio.get_running_loop(), lambda: None)\n"
        "asyncio.run(main())\n"
        "try:\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        f"    time.sleep({PATIENCE_S})\n"
        "except KeyboardInterrupt: sys.exit(2)\n",
        tmp_path,
    )
    assert (process.returncode, process.stderr) == (2, "")


@pytest.mark.slow
def test_an_interrupt_within_exec_does_not_change_how_the_process_ends(tmp_path: Path) -> None:
    """Python ends by the signal after an interrupt in `exec`, even a caught one; `namedtuple` uses `exec`."""
    (tmp_path / "t.py").write_text("exec('raise KeyboardInterrupt')\n", encoding="utf-8")
    (tmp_path / "s.jsonl").write_text(
        '{"id": "a", "input": "x", "expected": "x", "scorer": "exact"}\n', encoding="utf-8"
    )
    command = [sys.executable, "-m", "proctor", "run", "s.jsonl", "--target", "function:t.py:f"]
    process = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (process.returncode, process.stderr.strip()) == (2, "Interrupted.")

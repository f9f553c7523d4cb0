"""Calls in programs of their own: interrupted, killed and resumed, and read where a function is missing."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import proctor
from support.cli import PYTHON
from support.waiting import PATIENCE_S

pytestmark = pytest.mark.slow

PROGRAM = """
import asyncio, sys, threading, proctor

rows = [{"id": f"t{n}", "input": str(n), "expected": str(n)} for n in range(20)]

def answer(question):
    if question == "5" and "again" not in sys.argv:
        print("asked", flush=True)
        threading.Event().wait()
    return question

options = dict(store="s.db", concurrency=1, progress=False)

async def call():
    await proctor.arun(rows, target=answer, **options)

async def call_plainly():
    proctor.run(rows, target=answer, **options)

def iterate():
    for trial in proctor.iter_run(rows, target=answer, **options):
        pass

CALLS = {
    "run": lambda: proctor.run(rows, target=answer, **options),
    "iter_run": iterate,
    "arun": lambda: asyncio.run(call()),
    "run on a loop": lambda: asyncio.run(call_plainly()),
    "again": lambda: print(proctor.run(rows, target=answer, resume=True, **options).status),
}
CALLS[sys.argv[1]]()
"""


@contextmanager
def start_program(call: str) -> Iterator[subprocess.Popen[str]]:
    """A program whose run has stored some trials, and waits for an answer."""
    Path("program.py").write_text(PROGRAM, encoding="utf-8")
    process = subprocess.Popen(
        [sys.executable, "program.py", call],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "asked\n"
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("call", ["run", "iter_run", "arun", "run on a loop"])
def test_ctrl_c_stores_what_has_finished_and_says_how_to_resume(call: str) -> None:
    with start_program(call) as process:
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=PATIENCE_S)
    run = proctor.load_run(store="s.db")
    assert (run.status, run.total) == ("interrupted", 5)
    assert process.returncode == -signal.SIGINT
    assert error.rstrip().rpartition("\n")[2].startswith("KeyboardInterrupt")
    if call != "arun":  # asyncio raises that one
        assert f"Stopped: {run.id} has 5 trials. Continue with proctor.run(resume='{run.id}')." in error


def test_a_killed_run_is_resumed_by_the_same_call() -> None:
    with start_program("run") as process:
        process.kill()
        process.wait()
    killed = proctor.load_run(store="s.db")
    assert killed.status == "interrupted"
    command = [sys.executable, "program.py", "again"]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stdout == "finished\n"
    run = proctor.load_run(killed.id, store="s.db")
    assert (run.status, run.total, run.passed) == ("finished", 20, 20)


def command(*words: str) -> tuple[int, str]:
    result = subprocess.run([*PYTHON, *words], capture_output=True, text=True, check=False)
    assert "Traceback" not in result.stderr
    return result.returncode, result.stdout + result.stderr


def test_another_program_tells_that_it_has_neither_grader_nor_target() -> None:
    @proctor.grader
    def only_here(answer: str, expected: str) -> tuple[bool, str]:
        return answer == expected, "they are compared"

    rows = [{"id": "a", "input": "x", "expected": "x"}, {"id": "b", "input": "x", "expected": "y"}]
    answer: Callable[[str], str] = lambda question: question  # noqa: E731
    run = proctor.run(rows, target=answer, graders=only_here, store="s.db", progress=False)
    code, output = command("verify", str(run.attest("run.zip", sign=False)))
    assert code == 0
    assert re.search(r"derived +0 scores", output)
    assert re.search(r"recounted +2 scores, taken as recorded: only_here 2", output)
    code, output = command("runs", "show", run.id, "--store", "s.db")
    assert "only_here: they are compared" in output
    code, output = command("regrade", run.id, "--store", "s.db")
    assert (code, "Unknown grader 'only_here'" in output) == (4, True)
    plain = proctor.run(rows, target=answer, store="s.db", name="plain", progress=False)
    code, output = command("run", f"--retry-errors={plain.id}", "--store", "s.db")
    assert code == 4
    assert "is a Python function, " in output
    assert "this program does not define" in output

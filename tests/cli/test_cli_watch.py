"""`--watch`: runs again when a file changes, and sends only new requests."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.cli import Proctor
from support.waiting import PATIENCE_S, wait_until

posix_only = pytest.mark.skipif(sys.platform == "win32", reason="signals are others there")

SUITE = """\
tests:
  - id: a
    criteria: Says one.
    input: say one
    assertions: [{type: contains, value: one}]
  - id: b
    criteria: Says two.
    input: [{role: user, content: [{type: file, value: prompt.md}]}]
    assertions: [{type: code-grader, command: [python, grade.py]}]
"""
GRADER = 'import json\nprint(json.dumps({"score": 1.0, "assertions": []}))\n'
# Records every prompt. A prompt with `wait` is answered when the file `go` exists, and after the loop has
# handled the signals that were sent before.
TARGET = """\
import asyncio, os, helper
async def f(prompt):
    with open("asked.txt", "a", encoding="utf-8") as file:
        file.write(" ".join(prompt.split()[:3]) + "\\n")
    while "wait" in prompt and not os.path.exists("go"):
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.01 if "wait" in prompt else 0)
    return helper.PREFIX + prompt
"""


class Watched:
    """A watched command, with its output so far."""

    def __init__(self, start: Proctor, folder: Path, *words: str) -> None:
        self._err, self._out = folder / "err.out", folder / "out.out"
        with self._err.open("wb") as err, self._out.open("wb") as out:
            self.process: subprocess.Popen[str] = start("run", *words, "--watch", stdout=out, stderr=err)

    @property
    def err(self) -> str:
        return self._err.read_text(encoding="utf-8")

    @property
    def out(self) -> str:
        return self._out.read_text(encoding="utf-8")

    def wait_for_runs(self, count: int) -> str:
        """Waits until this many runs have ended and files are watched; returns the last one's sentence."""
        wait_until(lambda: self.err.count("Watching ") >= count or self.process.poll() is not None)
        assert self.process.poll() is None, self.err
        assert self.err.count("Watching ") == count, self.err
        return [line for line in self.err.splitlines() if " sent, " in line][-1]

    def wait_for(self, text: str, count: int = 1) -> None:
        wait_until(lambda: self.err.count(text) >= count or self.process.poll() is not None)
        assert self.err.count(text) >= count

    def end(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(timeout=PATIENCE_S)


@pytest.fixture
def project(folder: Path) -> Path:
    (folder / "s.eval.yaml").write_text(SUITE, encoding="utf-8")
    (folder / "prompt.md").write_text("say two", encoding="utf-8")
    (folder / "grade.py").write_text(GRADER, encoding="utf-8")
    (folder / "tgt.py").write_text(TARGET, encoding="utf-8")
    (folder / "helper.py").write_text('PREFIX = ""\n', encoding="utf-8")
    return folder


@pytest.fixture
def watched(start: Proctor, project: Path) -> Iterator[Callable[..., Watched]]:
    commands: list[Watched] = []

    def make(*words: str) -> Watched:
        commands.append(Watched(start, project, *words))
        return commands[-1]

    yield make
    for command in commands:
        if command.process.poll() is None:
            command.end()


def edit(path: Path, old: str, new: str) -> None:
    """Replaces a file as editors do, by renaming a new file."""
    text = path.read_text(encoding="utf-8")
    assert old in text
    part = path.with_name(f".{path.name}.new")
    part.write_text(text.replace(old, new), encoding="utf-8")
    part.replace(path)


def read_questions(folder: Path) -> list[str]:
    return (folder / "asked.txt").read_text(encoding="utf-8").splitlines()


@posix_only
@pytest.mark.slow
def test_each_kind_of_file_is_watched_and_only_what_is_new_is_sent(
    watched: Callable[..., Watched], project: Path
) -> None:
    command = watched("s.eval.yaml", "--target", "function:tgt:f")
    assert command.wait_for_runs(1) == "2 requests sent, 0 answers reused."

    edit(project / "s.eval.yaml", "say one", "say one please")
    assert command.wait_for_runs(2) == "1 case changed, 1 request sent, 1 answer reused."
    edit(project / "prompt.md", "two", "two now")  # an attachment
    assert command.wait_for_runs(3) == "1 case changed, 1 request sent, 1 answer reused."
    edit(project / "grade.py", "1.0", "0.1")
    assert command.wait_for_runs(4) == "no case changed, 0 requests sent, 2 answers reused."
    assert "The program gave the score 0.1" in command.out
    edit(project / "helper.py", '""', '"I "')  # imported by the target
    assert command.wait_for_runs(5) == "no case changed, 2 requests sent, 0 answers reused."
    (project / "proctor.toml").write_text("threshold = 0.01\n", encoding="utf-8")
    assert command.wait_for_runs(6) == "no case changed, 0 requests sent, 2 answers reused."
    assert "Changed: helper.py. Running again." in command.err
    assert len(read_questions(project)) == 2 + 1 + 1 + 2
    assert command.end() == 0


@posix_only
@pytest.mark.slow
def test_an_error_is_printed_and_the_watching_goes_on(watched: Callable[..., Watched], project: Path) -> None:
    suite = project / "s.eval.yaml"
    command = watched("s.eval.yaml", "--target", "echo", "-o", "t.jsonl")
    command.wait_for_runs(1)
    good = suite.read_text(encoding="utf-8")
    suite.write_text("tests: [", encoding="utf-8")
    command.wait_for_runs(2)
    assert "s.eval.yaml:1: error:" in command.err
    suite.unlink()
    command.wait_for_runs(3)
    assert "There is no suite 's.eval.yaml'" in command.err
    suite.write_text(good, encoding="utf-8")
    assert command.wait_for_runs(4) == "no case changed, 0 requests sent, 2 answers reused."
    edit(suite, "value: one", "value: other")
    command.wait_for_runs(5)
    assert command.end() == 1  # of the last run


@posix_only
@pytest.mark.slow
def test_a_change_stops_a_run_whose_calls_end_and_are_reused(
    watched: Callable[..., Watched], project: Path
) -> None:
    edit(project / "s.eval.yaml", "say one", "wait one")
    command = watched("s.eval.yaml", "--target", "function:tgt:f", "--concurrency", "1")
    wait_until((project / "asked.txt").exists)
    edit(project / "grade.py", "1.0", "0.9")
    command.wait_for("Changed: grade.py. Waiting for requests in progress.")
    (project / "go").touch()
    assert command.wait_for_runs(1) == "1 request sent, 1 answer reused."
    assert len(read_questions(project)) == 2
    assert command.end() == 0


@posix_only
@pytest.mark.slow
def test_ctrl_c_during_a_run_stops_it_as_without_watching(
    watched: Callable[..., Watched], project: Path, proctor: Proctor
) -> None:
    edit(project / "s.eval.yaml", "say one", "wait one")
    command = watched("s.eval.yaml", "--target", "function:tgt:f")
    wait_until((project / "asked.txt").exists)
    assert command.end() == 2
    assert "Continue with: proctor run --resume=" in command.err
    assert proctor("runs", "list", "--json").json["runs"][0]["status"] == "interrupted"


MANY_SIGNALS = """
import os, subprocess, sys
from pathlib import Path
from proctor.cli.watch import _Watch

watch = _Watch(["run"], None, [], Path("log"), quiet=True)
watch._catch_signals()
code = f"import os\\nfor _ in range(100_000): os.kill({os.getpid()}, 15)"
sender = subprocess.Popen([sys.executable, "-c", code])
while sender.poll() is None:
    for _ in range(50):
        watch._wait(0)
"""


@posix_only
@pytest.mark.slow
def test_a_signal_at_any_moment_of_a_wait_is_handled() -> None:
    subprocess.run([sys.executable, "-c", MANY_SIGNALS], timeout=PATIENCE_S, check=True)


@posix_only
@pytest.mark.slow
def test_a_file_that_the_run_writes_is_not_watched_for_ever(
    watched: Callable[..., Watched], project: Path
) -> None:
    script = "import sys, time\nopen('log.txt', 'a').write('x')\nprint(sys.stdin.read())\n"
    (project / "ask.py").write_text(script, encoding="utf-8")
    (project / "log.txt").touch()
    command = watched("s.eval.yaml", "--target", "command:python ask.py log.txt")
    command.wait_for(
        "log.txt changes during each run, so the run itself seems to write it. It is no longer watched."
    )
    wait_until(lambda: "Watching " in command.err)
    edit(project / "s.eval.yaml", "say one", "say one please")
    wait_until(lambda: command.err.count("Watching ") == 2)
    assert "1 case changed, 1 request sent, 1 answer reused." in command.err
    assert "Not watched: files that the programs of this run read or import themselves." in command.err
    command.end()


@posix_only
@pytest.mark.slow
def test_a_run_that_was_stopped_by_its_own_file_is_completed(
    watched: Callable[..., Watched], project: Path, suite: Proctor
) -> None:
    (project / "ask.py").write_text(
        "import os, sys, time\n"
        "with open('log.txt', 'a') as log: log.write('x')\n"
        "while not os.path.exists(f'go{os.path.getsize(\"log.txt\")}'): time.sleep(0.01)\n"
        "print(sys.stdin.read())\n",
        encoding="utf-8",
    )
    (project / "log.txt").touch()
    name = suite(*((f"t{number}", f"say {number}", "say") for number in range(3)))
    command = watched(name, "--target", "command:python ask.py log.txt", "--concurrency", "1", "--no-holdout")
    for number in (1, 2):
        command.wait_for("Waiting for requests in progress.", number)
        (project / f"go{number}").touch()
    for number in (3, 4):
        (project / f"go{number}").touch()
    assert command.wait_for_runs(1) == "2 requests sent, 1 answer reused."
    assert command.end() == 1


@posix_only
@pytest.mark.slow
def test_after_a_change_behind_the_judge_only_the_judge_is_called(
    watched: Callable[..., Watched], project: Path, suite: Proctor, proctor: Proctor
) -> None:
    name = suite({"id": "c", "input": "x", "scorer": "llm_judge", "rubric": "Good?"})
    judge = project / "judge.jsonl"
    judge.write_text('{"*": "{\\"score\\": 5}"}', encoding="utf-8")
    command = watched(name, "--target", "echo", "--judge", "scripted:judge.jsonl")
    command.wait_for_runs(1)
    edit(judge, "5", "1")
    assert command.wait_for_runs(2) == "no case changed, 0 requests sent, 1 answer reused."
    assert command.end() == 1
    newest, first = proctor("runs", "list", "--json").json["runs"]
    assert (first["passed"], newest["passed"]) == (1, 0)


@posix_only
@pytest.mark.slow
def test_a_new_suite_in_a_watched_folder_is_run(watched: Callable[..., Watched], project: Path) -> None:
    (project / "suites").mkdir()
    (project / "suites" / "one.jsonl").write_text(
        '{"id": "a", "input": "x", "expected": "x", "scorer": "exact"}\n', encoding="utf-8"
    )
    command = watched("suites", "--target", "echo")
    command.wait_for_runs(1)
    (project / "suites" / "two.jsonl").write_text(
        '{"id": "b", "input": "y", "expected": "y", "scorer": "exact"}\n', encoding="utf-8"
    )
    command.wait_for_runs(2)
    assert "two on echo: 1 request sent, 0 answers reused." in command.err
    assert "one on echo: no case changed, 0 requests sent, 1 answer reused." in command.err


@pytest.mark.slow
def test_without_a_suite_there_is_nothing_to_watch(start: Proctor, folder: Path) -> None:
    process = start("run", "typo.jsonl", "--target", "echo", "--watch")
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 4
    assert "There is no suite 'typo.jsonl'" in err
    assert os.listdir(folder) == []  # noqa: PTH208


@pytest.mark.slow
def test_what_the_command_says_wrong_ends_the_watching(start: Proctor, half: str) -> None:
    process = start("run", half, "--target", "nosuch", "--watch")
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 4
    assert "Unknown target 'nosuch'" in err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--json",), "--json applies to a single run, and --watch makes several. Remove one of the two."),
        (("--resume",), "--resume applies to a single run"),
        (("--group", "g"), "--group applies to a single run"),
        (("--attest",), "--attest applies to a single run"),
        (("--no-reuse",), "--watch reuses answers, so it cannot be combined with --no-reuse"),
        (("--store", ":memory:"), "a store in memory does not keep. Name a file with --store."),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_flags_of_a_single_run_are_refused(
    proctor: Proctor, half: str, words: tuple[str, ...], sentence: str
) -> None:
    result = proctor("run", half, "--target", "echo", "--watch", *words)
    assert result.code == 4
    assert sentence in result.err


@posix_only
@pytest.mark.slow
def test_a_prompt_is_watched(watched: Callable[..., Watched], project: Path) -> None:
    (project / "s.jsonl").write_text('{"id": "a", "input": "x", "expected": "x"}\n', encoding="utf-8")
    (project / "short.txt").write_text("Be short. {{ input }}", encoding="utf-8")
    (project / "plain.txt").write_text("{{ input }}", encoding="utf-8")
    prompts = ("--prompt", "short.txt", "--prompt", "plain.txt")
    command = watched("s.jsonl", "--target", "function:tgt:f", *prompts)
    command.wait_for_runs(1)
    edit(project / "short.txt", "short", "brief")
    command.wait_for_runs(2)
    lines = [line for line in command.err.splitlines() if " sent, " in line][-2:]
    assert lines[0].endswith("function:tgt:f · short: no case changed, 1 request sent, 0 answers reused.")
    assert lines[1].endswith("function:tgt:f · plain: no case changed, 0 requests sent, 1 answer reused.")
    assert command.end() == 1

"""Graders that stay alive: programs with `persistent`, and files of `@proctor.grader` functions."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from proctor.errors import CannotScore
from proctor.graders import GRADERS
from proctor.graders.program import Program
from proctor.grading import score
from proctor.model import Assertion, Case, Message, Output, ToolCall, Verdict
from proctor.protocols import GradingInput
from proctor.targets.process.grader_files import is_grader_file
from proctor.targets.process.suite_programs import SuiteProgramRunner
from support.waiting import PATIENCE_S

MakeProgramInput = Callable[..., GradingInput]

CASES = """
import json, os, sys
with open("starts", "a", encoding="utf-8") as file:
    file.write("start\\n")
for line in sys.stdin:
    given = json.loads(line)
    answer = given.get("answer", "")
    if answer == "crash":
        sys.exit("the cause")
    if answer == "hang":
        sys.stdin.read()
    if answer == "garbage":
        print("loading the model", flush=True)
        continue
    result = {"score": 1}
    if answer == "no score":
        result = {"ready": True}
    if answer == "error":
        result = {"error": "There is\\nno corpus."}
    if answer == "other":
        result = {"score": 1, "test_id": "elsewhere"}
    if answer == "show":
        result["details"] = {"workspace": given["workspace_path"], "environ": dict(os.environ)}
    if "results" in given:
        result["details"] = sorted(given["results"])
    print(json.dumps(result), flush=True)
"""


@pytest.fixture
async def make_program_input(tmp_path: Path) -> AsyncIterator[MakeProgramInput]:
    """The input of a grader, in whose folder programs run."""
    (tmp_path / "cases.py").write_text(CASES, encoding="utf-8")
    programs = SuiteProgramRunner(str(tmp_path), {"PATH": os.environ["PATH"]})

    def make(answer: str | Output = "four", workspace: str | None = None, **case: Any) -> GradingInput:
        fields = {"id": "c", "input": (Message(role="user", content="2 + 2?"),), **case}
        output = Output(text=answer) if isinstance(answer, str) else answer
        return GradingInput(case=Case(**fields), output=output, programs=programs, workspace=workspace)

    yield make
    await programs.aclose()


def count_starts(folder: Path) -> int:
    return len((folder / "starts").read_text(encoding="utf-8").splitlines())


CHECK = {"command": ["python", "-S", "cases.py"], "persistent": True, "timeout_s": PATIENCE_S}


async def test_one_process_grades_all_answers(make_program_input: MakeProgramInput, tmp_path: Path) -> None:
    for nth in range(20):
        result = await score(
            Assertion(grader="program", params=CHECK),
            make_program_input(f"{nth} \ud800\n\u2028"),
            GRADERS.get,
        )
        assert result.outcome is Verdict.PASS
    assert count_starts(tmp_path) == 1


@pytest.mark.parametrize(
    ("answer", "message", "starts"),
    [
        ("crash", r"ended with exit code 1\. Its stderr ends with: the cause", 2),
        ("hang", r"did not answer within 0.2 s and was killed", 2),
        ("garbage", r"printed text that is not JSON .*: 'loading the model'\. It must print one JSON", 2),
        ("no score", r"printed an object with no score: '\{\"ready\": true\}'", 2),
        ("other", r"printed a result for the test 'elsewhere', not for 'c'", 2),
        ("error", r"^The program 'python -S cases.py' measured nothing: There is no corpus\.$", 1),
    ],
)
async def test_what_is_no_result_is_unscored_and_the_next_answer_is_graded(
    make_program_input: MakeProgramInput, tmp_path: Path, answer: str, message: str, starts: int
) -> None:
    check = {**CHECK, "timeout_s": 0.2} if answer == "hang" else CHECK
    await Program(**{**CHECK, "command": tuple(CHECK["command"])}).grade(make_program_input())  # type: ignore[arg-type]
    bad = await score(
        Assertion(grader="program", params=check, negated=True), make_program_input(answer), GRADERS.get
    )
    assert (bad.outcome, bad.value) == (Verdict.UNSCORED, None)
    assert re.search(message, bad.reason)
    good = await score(Assertion(grader="program", params=CHECK), make_program_input(), GRADERS.get)
    assert good.outcome is Verdict.PASS
    assert count_starts(tmp_path) == starts


async def test_a_workspace_is_in_the_line_and_not_in_the_environment(
    make_program_input: MakeProgramInput,
) -> None:
    result = await score(
        Assertion(grader="program", params=CHECK),
        make_program_input("show", workspace="/some/where"),
        GRADERS.get,
    )
    assert result.details["workspace"] == "/some/where"
    assert "PROCTOR_WORKSPACE_PATH" not in result.details["environ"]


async def test_the_aggregator_of_a_composite_stays_alive(
    make_program_input: MakeProgramInput, tmp_path: Path
) -> None:
    members = [{"name": "yes", "assertion": {"grader": "contains", "params": {"value": "f"}}}]
    params = {"members": members, "aggregator": {"type": "program", **CHECK}}
    for _ in range(3):
        result = await score(Assertion(grader="composite", params=params), make_program_input(), GRADERS.get)
        assert result.outcome is Verdict.PASS
        assert result.details["details"] == ["yes"]
    assert count_starts(tmp_path) == 1


def test_a_program_that_may_call_a_judge_cannot_stay_alive() -> None:
    with pytest.raises(ValueError, match="`persistent` cannot be combined with `max_calls`: the judge's"):
        Program(command=("x",), persistent=True, max_calls=3)


async def test_without_anybody_to_run_programs_nothing_is_measured() -> None:
    alone = GradingInput(case=Case(id="c", input=()), output=Output(text="4"))
    with pytest.raises(CannotScore, match="programs are not run"):
        await Program(command=("x",), persistent=True).grade(alone)


# --- files of functions ------------------------------------------------------------------------------------

FUNCTIONS = """
import os
from pathlib import Path
import proctor

with open("starts", "a", encoding="utf-8") as file:
    file.write("start\\n")

@proctor.grader
def brief(answer: str, limit: int = 5) -> tuple[bool, str]:
    print("noise")
    os.system("echo noise; cat")  # nothing that a function starts reads the next lines
    return len(answer) <= limit, f"{len(answer)} characters"

@proctor.grader(name="all-of-it")
async def whole(output, expected, criteria, input, metadata, case, answer):
    if answer == "crash":
        raise ValueError("no corpus")
    if answer == "none":
        return None
    calls = [call.name for call in output.tool_calls]
    return 0.75, repr([calls, expected, criteria, input, metadata, case.id, answer])
"""


def function_check(*command: str, **config: Any) -> Assertion:
    params = {"command": ["python", *command], "timeout_s": PATIENCE_S}
    return Assertion(grader="program", params={**params, "config": config} if config else params)


@pytest.mark.slow
async def test_functions_of_a_file_grade_in_one_process(
    make_program_input: MakeProgramInput, tmp_path: Path
) -> None:
    (tmp_path / "functions.py").write_text(FUNCTIONS, encoding="utf-8")

    async def grade(assertion: Assertion, answer: str | Output = "four", **case: Any) -> tuple[str, str]:
        result = await score(assertion, make_program_input(answer, **case), GRADERS.get)
        return result.outcome.value, result.reason

    brief, whole = ("functions.py", "brief"), function_check("functions.py", "all-of-it")
    assert await grade(function_check(*brief)) == ("pass", "4 characters")
    assert await grade(function_check(*brief), "four and more") == ("fail", "13 characters")
    assert await grade(function_check(*brief, limit=3)) == ("fail", "4 characters")
    assert "Unknown parameter 'limt'." in (await grade(function_check(*brief, limt=3)))[1]
    assert count_starts(tmp_path) == 1
    called = Output(text="\ud800é", tool_calls=(ToolCall(name="Read"),))
    fields = {
        "expected": [{"role": "assistant", "content": "4"}],
        "criteria": "Is right.",
        "metadata": {"a": 1},
    }
    assert await grade(whole, called, **fields) == (
        "fail",
        repr([["Read"], fields["expected"], "Is right.", "2 + 2?", {"a": 1}, "c", "\ud800é"]),
    )
    crash = "The grader 'all-of-it' failed with ValueError: no corpus"
    assert await grade(whole, "crash") == (
        "unscored",
        f"The program 'python functions.py all-of-it' measured nothing: {crash}",
    )
    assert (await grade(whole, "none"))[1].endswith("measured nothing: The function returned None.")
    assert (await grade(function_check("functions.py")))[1].endswith(
        "measured nothing: It has the graders brief, all-of-it. Name one of them after the file in `command`."
    )
    assert (await grade(function_check("functions.py", "x")))[1].endswith(
        "It has no grader 'x'. Its graders are: brief, all-of-it."
    )
    (tmp_path / "broken.py").write_text(FUNCTIONS + "\n1 / 0\n", encoding="utf-8")
    assert (await grade(function_check("broken.py")))[1].endswith(
        "The file cannot be imported: ZeroDivisionError: division by zero"
    )


async def test_functions_cannot_call_a_judge(make_program_input: MakeProgramInput, tmp_path: Path) -> None:
    (tmp_path / "functions.py").write_text(FUNCTIONS, encoding="utf-8")
    with pytest.raises(CannotScore, match=r"functions, which cannot call a judge\. Remove `max_calls`"):
        await Program(command=("python", "functions.py"), max_calls=3).grade(make_program_input())


@pytest.mark.parametrize(
    ("source", "is_graders"),
    [
        ("import proctor\n@proctor.grader\ndef f(answer): ...", True),
        ("import proctor as p\n@p.grader(name='x')\nasync def f(answer): ...", True),
        ("from proctor import grader as check\n@check\ndef f(answer): ...", False),
        ("from proctor import grader\n@grader\ndef f(answer): ...", True),
        ("# proctor\ndef grader(f): ...\n@grader\ndef f(answer): ...", False),
        ("import proctor\n@proctor.grader\ndef f(answer): ...\nif __name__ == '__main__': print(1)", False),
        ("import proctor, sys\n@proctor.grader\ndef f(answer): ...\nprint(f(sys.stdin.read()))", False),
        ("import proctor\nfrom sys import stdin as s\n@proctor.grader\ndef f(answer): ...", False),
        ("import proctor\nclass A:\n    @proctor.grader\n    def f(answer): ...", False),
        ("import proctor\n@proctor.grader\ndef f(answer) ...", False),
        ("import proctor\nprint('@proctor.grader')", False),
    ],
)
def test_a_file_of_graders_is_known_by_its_text(tmp_path: Path, source: str, is_graders: bool) -> None:
    path = tmp_path / "f.py"
    path.write_text(source, encoding="utf-8")
    assert is_grader_file(path) is is_graders


def test_only_python_with_a_file_is_a_file_of_graders(tmp_path: Path) -> None:
    (tmp_path / "f.py").write_text("import proctor\n@proctor.grader\ndef f(answer): ...", encoding="utf-8")
    (tmp_path / "sub").mkdir()
    programs = SuiteProgramRunner(str(tmp_path), {})
    for command, cwd in ((["python", "f.py"], None), (["python3", "../f.py", "f"], "sub")):
        assert programs.is_grader_file(command, cwd)
    for words in ("python", "ruby f.py", "python -S f.py", "python f.py f more", "python g.py", "./f.py"):
        assert not programs.is_grader_file(words.split())

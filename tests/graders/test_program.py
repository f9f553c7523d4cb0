"""Programs that grade: what they are given, what their output means, and when nothing was measured."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.errors import CannotScore
from proctor.graders import GRADERS
from proctor.graders.program import Program, parse_result
from proctor.graders.program_payload import build_payload, expected_messages
from proctor.grading import GradingContext, score
from proctor.model import (
    Assertion,
    Attachment,
    Case,
    Evidence,
    GraderResult,
    Message,
    Output,
    ToolCall,
    Usage,
    Verdict,
)
from proctor.protocols import CompletedProgram, GradingInput
from proctor.targets.process.suite_programs import SuiteProgramRunner
from support.grading import make_input
from support.waiting import PATIENCE_S

EXAMPLES = Path(__file__).parents[2] / "examples"
posix = pytest.mark.skipif(sys.platform == "win32", reason="needs signals and scripts with a first line #!")


def parse_output(output: Any, exit_code: int = 0, stderr: bytes = b"") -> GraderResult:
    stdout = output if isinstance(output, bytes) else json.dumps(output).encode()
    return parse_result(CompletedProgram(exit_code, stdout, stderr), "check")


# --- what is printed ---------------------------------------------------------------------------------------

YES, NO = {"text": "a", "passed": True}, {"text": "b", "passed": False}


@pytest.mark.parametrize(
    ("output", "value", "passed"),
    [
        ({"score": 1}, 1.0, True),
        ({"score": 0.8}, 0.8, True),
        ({"score": 0.79}, 0.79, False),
        ({"score": 0}, 0.0, False),
        ({"score": 85}, 1.0, True),
        ({"score": 10**400}, 1.0, True),
        ({"score": -3}, 0.0, False),
        ({"score": 0.1 + 0.7}, 0.1 + 0.7, True),
        ({"pass": True}, 1.0, True),
        ({"pass": False}, 0.0, False),
        ({"assertions": [YES, NO]}, 0.5, False),
        ({"assertions": [YES]}, 1.0, True),
        ({"score": None, "assertions": [NO]}, 0.0, False),
        ({"score": "high", "assertions": [YES, NO]}, 0.5, False),
        ({"score": True, "assertions": [YES, NO]}, 0.5, False),
        ({"score": 0.9, "pass": False}, 0.9, True),
        ({"pass": False, "assertions": [YES]}, 0.0, False),
        (b"\xef\xbb\xbf {\"score\": 1}\r\n", 1.0, True),
    ],
)  # fmt: skip
def test_a_score_counts_before_pass_and_pass_before_the_share_of_assertions(
    output: Any, value: float, passed: bool
) -> None:
    mark = parse_output(output)
    assert (mark.value, mark.passed) == (value, passed)


def test_a_score_that_was_cut_is_said() -> None:
    assert parse_output({"score": 85, "reasoning": "Good."}).reason == "The score 85 was cut to 1. Good."
    assert parse_output({"score": 1, "reasoning": "Good\nenough."}).reason == "Good enough."


def test_assertions_become_entries_and_details_are_kept() -> None:
    assertions = [
        {"text": "a", "passed": True, "evidence": "line 3"},
        {"passed": False, "evidence": {"found": 2}},
        {"text": "c"},
    ]
    mark = parse_output({"score": 0.5, "assertions": assertions, "details": {"words": 7}})
    assert mark.entries == (
        Evidence(text="a", passed=True, evidence="line 3"),
        Evidence(text="assertion 2", passed=False, evidence='{"found": 2}'),
        Evidence(text="c", passed=None),
    )
    assert mark.details == {"words": 7}
    assert mark.reason == "1 of 3 checks of the program failed: 'assertion 2'."
    assert parse_output({"score": 1, "details": [1]}).details == {"details": [1]}


@pytest.mark.parametrize(
    ("output", "message"),
    [
        (b"", "printed nothing"),
        (b" \n", "printed nothing"),
        (b'{"score": 1', "incomplete or invalid JSON"),
        (b"[1, 2", "incomplete or invalid JSON"),
        (b'{"score": NaN}', "NaN is not JSON"),
        (b'{"score": 1}{"score": 1}', "incomplete or invalid JSON"),
        (b'All is well.\n{"score": 1}', "printed text that is not JSON"),
        (b"PASS", "printed text that is not JSON"),
        (b"0.9", "not an object"),
        (b"[]", "not an object"),
        (b"{}", "no score"),
        (b'{"score": "0.9"}', "no score"),
        (b'{"score": true}', "no score"),
        (b'{"pass": "yes"}', "no score"),
        (b'{"assertions": []}', "no score"),
        (b'{"assertions": [{"text": "a"}]}', "has no `passed`"),
        (b'{"score": 1, "assertions": "all good"}', "not a list of objects"),
        (b'{"score": 1, "assertions": ["good"]}', "not a list of objects"),
        (b'{"score": 1, "reasoning": "\\ud800"}', "cannot be stored"),
        (b"[" * 100_000, "incomplete"),
    ],
)
def test_what_is_no_result_is_unscored_and_says_what_is_wanted(output: bytes, message: str) -> None:
    with pytest.raises(CannotScore, match=message) as caught:
        parse_output(output, stderr=b"warming up\nlost the thread")
    assert str(caught.value).startswith("The program 'check' printed ")
    assert str(caught.value).endswith("Its stderr ends with: warming up\nlost the thread")


@pytest.mark.parametrize(
    ("exit_code", "message"),
    [(1, "ended with exit code 1."), (-9, "was killed by SIGKILL."), (-63, "was killed by signal 63.")],
)
@posix
def test_a_program_that_did_not_end_well_is_unscored_whatever_it_printed(
    exit_code: int, message: str
) -> None:
    with pytest.raises(CannotScore) as caught:
        parse_output({"score": 1}, exit_code)
    assert str(caught.value) == f"The program 'check' {message} Its stdout ends with: {{\"score\": 1}}"


def test_what_a_program_printed_before_it_failed_is_told() -> None:
    with pytest.raises(CannotScore) as caught:
        parse_output(b'{"score": 0, "why": "no corpus"}\n', 1, b"warming up\n")
    assert str(caught.value) == (
        "The program 'check' ended with exit code 1. Its stdout ends with: "
        '{"score": 0, "why": "no corpus"} Its stderr ends with: warming up'
    )


def test_only_the_ends_of_long_outputs_are_told() -> None:
    with pytest.raises(CannotScore) as caught:
        parse_output(b"y" * 60_000 + b"what it printed", 3, b"x" * 60_000 + b"the cause")
    assert "yyywhat it printed Its stderr" in str(caught.value)
    assert str(caught.value).endswith("xxx" + "the cause")
    assert len(str(caught.value)) < 4200


@given(
    stdout=st.binary(max_size=60)
    | st.dictionaries(
        st.sampled_from(["score", "pass", "assertions", "details", "reasoning"]),
        st.none()
        | st.booleans()
        | st.floats()
        | st.integers()
        | st.text()
        | st.lists(st.fixed_dictionaries({"text": st.text(), "passed": st.booleans()})),
    ),
    exit_code=st.sampled_from([0, 0, 0, 1, -9]),
)
def test_any_output_is_a_mark_in_range_or_nothing_measured(stdout: Any, exit_code: int) -> None:
    try:
        mark = parse_output(stdout, exit_code)
    except CannotScore:
        return
    assert exit_code == 0
    assert mark.value is not None
    assert 0 <= mark.value <= 1
    assert mark.passed == (mark.value >= 0.8 - 1e-9)
    assert 0 < len(mark.reason) < 600
    assert "\n" not in mark.reason


# --- what is given -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expected", "messages"),
    [
        (None, []),
        ("42", [{"role": "assistant", "content": "42"}]),
        ("", [{"role": "assistant", "content": ""}]),
        ({"total": 3}, [{"role": "assistant", "content": {"total": 3}}]),
        ([1, 2], [{"role": "assistant", "content": [1, 2]}]),
        ([], [{"role": "assistant", "content": []}]),
        ([{"role": "user", "content": "a"}], [{"role": "user", "content": "a"}]),
        ([{"role": "user"}, {"a": 1}], [{"role": "assistant", "content": [{"role": "user"}, {"a": 1}]}]),
    ],
)  # fmt: skip
def test_what_is_expected_is_a_list_of_messages_in_every_form(expected: Any, messages: Any) -> None:
    assert expected_messages(expected) == messages


def test_unknown_fields_of_the_payload_are_empty_or_null() -> None:
    case = Case(id="c1", input=(Message(role="user", content="2 + 2?"),))
    payload = build_payload(GradingInput(case=case, output=Output(text="4")))
    message = {"role": "assistant", "content": "4"}
    assert payload == {
        "test_id": "c1",
        "criteria": "",
        "input": [{"role": "user", "content": "2 + 2?"}],
        "input_files": [],
        "expected_output": [],
        "answer": "4",
        "output_text": "4",
        "output": [message],
        "messages": [message],
        "trace": None,
        "token_usage": None,
        "cost_usd": None,
        "duration_ms": None,
        "start_time": None,
        "end_time": None,
        "file_changes": None,
        "workspace_path": None,
        "metadata": {},
        "config": {},
    }


def test_the_payload_has_every_known_field() -> None:
    parts = (
        "Read these.",
        Attachment(kind="file", path="docs/a.md", text="# A"),
        Attachment(kind="image", path="b.png", media_type="image/png", data=b"\x89P"),
    )
    case = Case(
        id="c",
        input=(Message(role="user", content="Read these.", parts=parts),),
        criteria="Is right.",
        metadata={"language": "python"},
    )
    calls = (
        ToolCall(name="Read", arguments={"path": "a"}, id="t1", output="text", duration_ms=12.5),
        ToolCall(name="Read"),
        ToolCall(name="Edit", duration_ms=0.0),
    )
    output = Output(
        text="Done.",
        messages=(
            Message(role="assistant", tool_calls=calls),
            Message(role="tool", content="ok", name="Edit"),
            Message(role="assistant", content="Done."),
        ),
        tool_calls=calls,
        usage=Usage(input_tokens=10, output_tokens=3, cached_tokens=4),
        cost_usd=0.25,
        duration_ms=0.0,
        latency_ms=80.0,
        file_changes="--- a",
    )
    payload = build_payload(GradingInput(case=case, output=output, workspace="/w"), {"depth": 2})
    assert payload["input"][0]["content"] == [
        {"type": "text", "value": "Read these.", "text": "Read these."},
        {
            "type": "file",
            "value": "docs/a.md",
            "path": "docs/a.md",
            "media_type": "text/plain",
            "text": "# A",
        },
        {
            "type": "image",
            "value": "b.png",
            "path": "b.png",
            "media_type": "image/png",
            "source": "data:image/png;base64,iVA=",
        },
    ]
    assert payload["input_files"] == ["docs/a.md"]
    assert [message["role"] for message in payload["output"]] == ["assistant", "tool", "assistant"]
    assert payload["output"][1] == {"role": "tool", "content": "ok", "name": "Edit"}
    assert payload["output"][0]["tool_calls"][0] == {
        "tool": "Read",
        "input": {"path": "a"},
        "output": "text",
        "id": "t1",
        "duration_ms": 12.5,
    }
    assert payload["output"][0]["tool_calls"][1] == {"tool": "Read", "input": {}, "output": None}
    assert payload["trace"] == {
        "event_count": 3,
        "tool_calls": {"Read": 2, "Edit": 1},
        "error_count": 0,
        "llm_call_count": 2,
        "tool_durations": {"Read": [12.5], "Edit": [0.0]},
    }
    assert payload["token_usage"] == {"input": 10, "output": 3, "cached": 4}
    assert (payload["cost_usd"], payload["duration_ms"], payload["file_changes"]) == (0.25, 0.0, "--- a")
    assert (payload["criteria"], payload["workspace_path"]) == ("Is right.", "/w")
    assert (payload["metadata"], payload["config"]) == ({"language": "python"}, {"depth": 2})


def test_the_time_measured_here_stands_where_the_target_reports_none() -> None:
    assert build_payload(make_input(Output(text="", latency_ms=80.0)))["duration_ms"] == 80.0


# --- programs that run -------------------------------------------------------------------------------------


def make_program_input(
    folder: Path, answer: str = "four", workspace: str | None = None, **of_case: Any
) -> GradingInput:
    programs = SuiteProgramRunner(str(folder), {"PATH": os.environ["PATH"]})
    case = Case(id="c", input=(Message(role="user", content="2 + 2?"),), **of_case)
    return GradingInput(case=case, output=Output(text=answer), programs=programs, workspace=workspace)


def make_python_grader(code: str, **fields: Any) -> Program:
    return Program(command=("python", "-S", "-c", code), **fields)


async def test_a_program_reads_the_case_and_the_answer_on_its_stdin(tmp_path: Path) -> None:
    code = """
import json, sys
given = json.load(sys.stdin)
half = given.pop("answer").endswith("\\ud800")
print(json.dumps({"pass": half, "details": {name: given[name] for name in ("metadata", "config")}}))
"""
    mark = await make_python_grader(code, config={"é": 1}).grade(
        make_program_input(tmp_path, "zwölf \ud800", metadata={"a": "ü"})
    )
    assert mark.passed
    assert mark.details == {"metadata": {"a": "ü"}, "config": {"é": 1}}


@pytest.mark.parametrize(
    ("output", "read"), [("text", "Four"), ("messages", [{"role": "assistant", "content": "Four"}])]
)
async def test_a_program_reads_the_output_in_the_form_that_it_asks_for(
    tmp_path: Path, output: Any, read: Any
) -> None:
    code = (
        "import json, sys; print(json.dumps({'score': 1, 'details': {'it': json.load(sys.stdin)['output']}}))"
    )
    mark = await make_python_grader(code, output=output).grade(make_program_input(tmp_path, "Four"))
    assert mark.details == {"it": read}


async def test_a_program_that_reads_nothing_is_judged_by_what_it_prints(tmp_path: Path) -> None:
    code = "import os; os.close(0); print('{\"score\": 0.5}')"
    mark = await make_python_grader(code).grade(make_program_input(tmp_path, "x" * 1_000_000))
    assert (mark.value, mark.passed) == (0.5, False)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "message"),
    [
        (
            "import os, sys; print('{\"score\": 1}', flush=True); sys.stderr.write('why\\n'); os.abort()",
            "SIGABRT.*why",
        ),
        ("import sys; sys.exit('the cause')", r"exit code 1\. Its stderr ends with: the cause"),
        ("pass", "printed nothing"),
        ("print('{\"score\": 1', end='')", "incomplete"),
        (
            "import sys, time; print('half', flush=True); sys.stderr.write('busy\\n'); time.sleep(3600)",
            r"within \S+ s and was killed\. Its stdout ends with: half Its stderr ends with: busy",
        ),
        ("while True: print('x' * 65536)", r"more than 10,000,000 bytes"),
    ],
    ids=["killed", "nonzero", "silent", "truncated", "late", "too much"],
)
@posix
async def test_a_program_that_did_not_measure_is_unscored_even_when_negated(
    tmp_path: Path, code: str, message: str
) -> None:
    for timeout_s in (1, 8, 64) if "sleep" in code else (PATIENCE_S,):  # until it has written to stderr
        params = {"command": ["python", "-S", "-c", code], "timeout_s": timeout_s}
        assertion = Assertion(grader="program", params=params, negated=True)
        result = await score(assertion, make_program_input(tmp_path), GRADERS.get)
        assert (result.outcome, result.value) == (Verdict.UNSCORED, None)
        if "stderr" in result.reason:
            break
    assert re.search(message, result.reason)


async def test_a_program_that_is_not_there_is_unscored(tmp_path: Path) -> None:
    with pytest.raises(CannotScore, match=r"no program './nothing.sh'; its path is relative to the folder"):
        await Program(command=("./nothing.sh",)).grade(make_program_input(tmp_path))


async def test_without_anybody_to_run_programs_nothing_is_measured() -> None:
    alone = GradingContext().input_for(Case(id="c", input=()), Output(text="4"))
    with pytest.raises(CannotScore, match="programs are not run"):
        await make_python_grader("print(1)").grade(alone)


async def test_a_program_that_may_ask_needs_a_judge(tmp_path: Path) -> None:
    grader = make_python_grader("print('{\"score\": 1}')", max_calls=1, judge="big")
    assert (grader.requirements(), grader.judges()) == (frozenset({"judge"}), ("big",))
    assert (make_python_grader("").requirements(), make_python_grader("").judges()) == (frozenset(), ())
    with pytest.raises(CannotScore, match="choose one with --judge"):
        await grader.grade(make_program_input(tmp_path))


async def test_what_json_cannot_say_is_not_given_to_a_program(tmp_path: Path) -> None:
    with pytest.raises(CannotScore, match="cannot be written as JSON"):
        await make_python_grader("print(1)").grade(
            make_program_input(tmp_path, metadata={"share": float("nan")})
        )


async def test_the_workspace_is_in_two_variables_and_in_neither_where_there_is_none(tmp_path: Path) -> None:
    code = "import json, os; print(json.dumps({'score': 1, 'details': dict(os.environ)}))"
    names = ("PROCTOR_WORKSPACE_PATH", "AGENTV_WORKSPACE_PATH")
    details = (
        await make_python_grader(code).grade(make_program_input(tmp_path, workspace="/some/where"))
    ).details
    assert [details[name] for name in names] == ["/some/where"] * 2
    absent = (await make_python_grader(code).grade(make_program_input(tmp_path))).details
    assert not absent.keys() & set(names)


# --- the examples ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "value", "failed"),
    [
        ("Rain and rivers carry salt.", 1.0, []),
        ("Rain and rivers carry salt, and then they carry even more.", 0.75, ["has at most 6 words"]),
        ("", 0.25, ["names 'salt'", "names 'rain'", "names 'river'"]),
    ],
)
async def test_the_example_of_a_code_grader_works(answer: str, value: float, failed: list[str]) -> None:
    program = Program(command=("python", "graders/covers.py"), config={"max_words": 6})
    mark = await program.grade(
        make_program_input(EXAMPLES, answer, metadata={"terms": ["salt", "rain", "river"]})
    )
    assert mark.value == value
    assert [entry.text for entry in mark.entries if not entry.passed] == failed


@pytest.mark.parametrize(("content", "passed"), [("- a change\n", True), ("", False), (None, False)])
@posix
async def test_the_example_of_a_custom_assertion_works(
    tmp_path: Path, content: str | None, passed: bool
) -> None:
    if content is not None:
        (tmp_path / "CHANGELOG.md").write_text(content, encoding="utf-8")
    program = Program(command=(".agentv/assertions/has_changelog",))
    assert (await program.grade(make_program_input(EXAMPLES, workspace=str(tmp_path)))).passed is passed

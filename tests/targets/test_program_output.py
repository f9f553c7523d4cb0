"""Reading the output of programs: plain text, or the report of an agent."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proctor.errors import TargetError
from proctor.model import Message, Output, ToolCall, Usage
from proctor.pricing import UNREADABLE_USAGE
from proctor.protocols import CompletedProgram
from proctor.targets.process.output import parse_output, program_error

REPORT = {
    "output": [
        {"role": "user", "content": "2+2?"},
        {
            "role": "assistant",
            "content": "Let me see.",
            "tool_calls": [
                {"tool": "search", "input": {"q": "2+2"}, "output": [1], "id": "c1", "duration_ms": 12.5},
                {"name": "read", "arguments": "raw"},
            ],
        },
        {"role": "assistant", "content": [{"type": "text", "text": "Fo"}, {"type": "text", "value": "ur"}]},
        {"role": "assistant", "tool_calls": [{"tool": "end", "duration_ms": -1}]},
    ],
    "token_usage": {"input": 100, "output": 7, "cached": 40},
    "cost_usd": 0.25,
    "duration_ms": 1234,
    "session": "ignored",
}


def _read(report: Any) -> Output:
    text = report if isinstance(report, str) else json.dumps(report)
    return parse_output(text.encode(), 3.0)


@pytest.mark.parametrize("name", ["output", "output_messages"])
def test_a_report_becomes_messages_tool_calls_and_figures(name: str) -> None:
    output = _read({name if key == "output" else key: value for key, value in REPORT.items()})
    calls = (
        ToolCall(name="search", arguments={"q": "2+2"}, output=[1], id="c1", duration_ms=12.5),
        ToolCall(name="read", arguments={"arguments": "raw"}),
        ToolCall(name="end"),
    )
    assert (output.text, output.tool_calls) == ("Four", calls)
    assert [message.role for message in output.messages] == ["user", "assistant", "assistant", "assistant"]
    assert output.messages[1] == Message(role="assistant", content="Let me see.", tool_calls=calls[:2])
    assert output.usage == Usage(input_tokens=100, output_tokens=7, cached_tokens=40)
    assert (output.cost_usd, output.duration_ms, output.latency_ms) == (0.25, 1234, 3.0)


def test_a_report_has_reasoning_and_the_time_to_its_first_token() -> None:
    tokens = {"input": 100, "output": 7, "cached": 40, "cache_write": 20, "reasoning": 5}
    output = _read({"text": "4", "reasoning": "2 + 2", "first_token_ms": 12, "token_usage": tokens})
    assert (output.text, output.reasoning, output.first_token_ms) == ("4", "2 + 2", 12)
    assert output.usage == Usage(
        input_tokens=100, output_tokens=7, cached_tokens=40, cache_write_tokens=20, reasoning_tokens=5
    )
    wrong = _read(
        {"text": "4", "reasoning": ["2"], "first_token_ms": -1, "token_usage": tokens | {"reasoning": -1}}
    )
    assert (wrong.reasoning, wrong.first_token_ms, wrong.usage) == (None, None, UNREADABLE_USAGE)


@pytest.mark.parametrize(
    "text",
    [
        "plain",
        "",
        '{"amount": 5}',
        '{"output": "text"}',
        '{"output": [1, 2]}',
        '{"output": [{"content": "x"}]}',
        '{"text": 5}',
        '{"cost_usd": 1}',
        "[1]",
        '{"text": "cut',
        '"x"',
        '{"a":' * 100_000,
        '{"text": ' + "9" * 5000 + "}",
    ],
)
def test_anything_else_is_plain_text(text: str) -> None:
    assert _read(text + "\n") == Output(text=text, latency_ms=3.0)


@pytest.mark.parametrize("text", ["43\n", "43\n\n", "43", "\n", '{"amount": 5}\n'])
def test_plain_text_of_a_file_keeps_its_final_newline(text: str) -> None:
    assert parse_output(text.encode(), 3.0, from_file=True).text == text
    assert parse_output(text.replace("\n", "\r\n").encode(), 3.0, from_file=True).text == text


@pytest.mark.parametrize(
    ("report", "text"),
    [
        ('{"text": "4"}', "4"),
        (' \n{"text": "4"}\n', "4"),
        ('{"text": "4\\n"}', "4\n"),
        ('{"text": "", "output": []}', ""),
        ('{"output": []}', ""),
        ('{"output": [{"role": "user", "content": "mine"}], "text": "4"}', "4"),
        ('{"output": [{"role": "assistant", "content": "5"}], "text": "4"}', "5"),
        ('{"output": "not a list", "output_messages": [{"role": "assistant", "content": "5"}]}', "5"),
    ],
)
def test_the_text_is_the_last_that_the_assistant_says(report: str, text: str) -> None:
    assert _read(report).text == text


@pytest.mark.parametrize(
    ("figures", "expected"),
    [
        ('"cost_usd": -1, "duration_ms": NaN', (-1, None, None)),
        ('"cost_usd": Infinity, "duration_ms": "5"', (-1, None, None)),
        ('"cost_usd": true, "duration_ms": 1e400', (-1, None, None)),
        ('"token_usage": {"input": -1, "output": 3}', (None, None, UNREADABLE_USAGE)),
        ('"token_usage": {"input": NaN}', (None, None, UNREADABLE_USAGE)),
        ('"token_usage": {"cached": 1}', (None, None, None)),
        ('"token_usage": [1], "cost_usd": 0, "duration_ms": 0.5', (0, 0.5, UNREADABLE_USAGE)),
        ('"cost_usd": 1' + "0" * 400, (-1, None, None)),
    ],
)
def test_an_invalid_figure_is_marked_and_the_others_are_kept(figures: str, expected: Any) -> None:
    output = _read(f'{{"text": "4", {figures}}}')
    assert (output.text, (output.cost_usd, output.duration_ms, output.usage)) == ("4", expected)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ({"total": 5}, '{\n  "total": 5\n}'),
        ([1, 2], "[\n  1,\n  2\n]"),
        ([], "last"),
        (None, "last"),
        (7, "7"),
    ],
)
def test_content_that_is_no_text_is_json(content: Any, text: str) -> None:
    assert _read({"output": [{"role": "assistant", "content": content}], "text": "last"}).text == text


@pytest.mark.parametrize(
    ("message", "sentence"),
    [
        ({"role": 5}, "message 0: its role"),
        ({"role": "assistant", "tool_calls": {}}, "not a list"),
        ({"role": "assistant", "tool_calls": [5]}, "tool call 0: it is not an object"),
        ({"role": "assistant", "tool_calls": [{"input": {}}]}, "no name"),
        ({"role": "assistant", "content": "\ud800"}, "cannot be stored"),
    ],
)
def test_messages_in_a_wrong_form_are_an_error_and_not_a_text(message: Any, sentence: str) -> None:
    with pytest.raises(TargetError, match=sentence) as caught:
        _read({"output": [message]})
    assert caught.value.kind == "protocol"


def test_the_time_of_a_call_may_be_given_as_its_ends() -> None:
    ends = ("2026-01-01T10:00:01.5Z", "2025-01-01T10:00:00Z", "2026-01-01T10:00:01", "soon", 5)
    calls = [{"tool": "t", "start_time": "2026-01-01T10:00:00Z", "end_time": end} for end in ends]
    output = _read({"output": [{"role": "assistant", "tool_calls": calls}]})
    assert [call.duration_ms for call in output.tool_calls] == [1500, None, None, None, None]


@pytest.mark.parametrize(
    ("exit_code", "says"),
    [
        (3, "It ended with exit code 3: why"),
        (-9, "It was killed by SIGKILL: why"),
        (-63, "by signal 63: why"),
    ],
)
def test_a_program_that_failed_is_told_by_its_exit_code_or_the_signal_that_ended_it(
    exit_code: int, says: str
) -> None:
    assert says in str(program_error("It", CompletedProgram(exit_code, b"no", b"why\n")))

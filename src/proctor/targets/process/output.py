"""Parses a program's output into an Output: plain text, or the report of an agent.

A report is a JSON object with `output` (or `output_messages`), a list of messages with their tool calls, or
with `text`. It may also have `reasoning`, `token_usage {input, output, cached, cache_write, reasoning}`,
where `input` includes cached and cache-written tokens and `output` those of reasoning, `cost_usd`,
`duration_ms` and `first_token_ms`. Invalid durations are ignored; invalid tokens and costs are passed on.
Anything else is plain text, including other JSON objects.
"""

from __future__ import annotations

import json
import os
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

from proctor.codec import encode
from proctor.env_substitution import stream_end
from proctor.errors import AnswerTooLarge, TargetError
from proctor.model import Message, Output, ToolCall, Usage
from proctor.pricing import is_valid_cost, read_usage
from proctor.protocols import CompletedProgram

_MAX_ERROR = 500


def decode_text(data: bytes) -> str:
    """Decodes a program's text without its last line ending."""
    text = data.decode("utf-8", "replace")
    return text.removesuffix("\n").removesuffix("\r")


def parse_output(data: bytes, latency_ms: float, *, from_file: bool = False) -> Output:
    """Parses a program's answer.

    Args:
        data: the answer.
        latency_ms: its duration in milliseconds.
        from_file: whether it comes from a file, whose plain text keeps its last line ending, and not from
            stdout.

    Raises:
        TargetError: its messages cannot be parsed, or cannot be stored.
    """
    report = parse_report(data)
    if report is None:
        text_answer = (
            data.decode("utf-8", "replace").replace("\r\n", "\n") if from_file else decode_text(data)
        )
        return Output(text=text_answer, latency_ms=latency_ms)
    messages = [_parse_message(item, place) for place, item in enumerate(_get_messages(report) or ())]
    texts = [message.content for message in messages if message.role == "assistant" and message.content]
    text, cost, reasoning = (report.get(name) for name in ("text", "cost_usd", "reasoning"))
    output = Output(
        text=texts[-1] if texts else text if isinstance(text, str) else "",
        messages=tuple(messages),
        tool_calls=tuple(call for message in messages for call in message.tool_calls),
        usage=_parse_usage(report.get("token_usage")),
        # -1, which is never valid, for anything that is not a cost
        cost_usd=cost if cost is None or is_valid_cost(cost) else -1.0,
        duration_ms=_parse_duration(report.get("duration_ms")),
        latency_ms=latency_ms,
        reasoning=reasoning if isinstance(reasoning, str) and reasoning else None,
        first_token_ms=_parse_duration(report.get("first_token_ms")),
    )
    try:
        encode(output)
    except (ValueError, OverflowError, RecursionError) as error:
        raise TargetError(f"The report of the program cannot be stored: {error}.", kind="protocol") from error
    return output


def parse_report(data: bytes) -> dict[str, Any] | None:
    """Returns the report; None for plain text."""
    if data.lstrip()[:1] != b"{":
        return None
    try:
        # Not msgspec: a NaN is ignored, and must not turn the whole report into plain text.
        report = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return report if isinstance(report.get("text"), str) or _get_messages(report) is not None else None


def _get_messages(report: dict[str, Any]) -> list[dict[str, Any]] | None:
    """Returns the unparsed messages of a report; None if there are none."""
    for name in ("output", "output_messages"):
        messages = report.get(name)
        if isinstance(messages, list) and all(isinstance(item, dict) and "role" in item for item in messages):
            return messages
    return None


def _parse_message(item: dict[str, Any], place: int) -> Message:
    where = f"message {place}"
    role, name, calls = item["role"], item.get("name"), item.get("tool_calls")
    if not isinstance(role, str) or not role:
        raise _report_error(where, "its role is not text")
    if calls is not None and not isinstance(calls, list):
        raise _report_error(where, "its tool_calls is not a list")
    return Message(
        role=role,
        content=_content_text(item.get("content")),
        name=name if isinstance(name, str) else None,
        tool_calls=tuple(
            _parse_tool_call(call, f"{where}, tool call {nth}") for nth, call in enumerate(calls or ())
        ),
    )


def _content_text(content: Any) -> str:
    """Returns a message's content as text: blocks concatenated, other data as JSON."""
    if content is None or isinstance(content, str):
        return content or ""
    if isinstance(content, list) and all(isinstance(block, dict) and "type" in block for block in content):
        return "".join(_block_text(block) for block in content if block["type"] == "text")
    return json.dumps(content, ensure_ascii=False, indent=2)


def _block_text(block: dict[str, Any]) -> str:
    return next((block[name] for name in ("text", "value") if isinstance(block.get(name), str)), "")


def _parse_tool_call(call: Any, where: str) -> ToolCall:
    if not isinstance(call, dict):
        raise _report_error(where, "it is not an object")
    name = _first_value(call, "tool", "name")
    if not isinstance(name, str) or not name:
        raise _report_error(where, "it has no name under `tool`")
    arguments = _first_value(call, "input", "arguments", "args")
    if arguments is None:
        arguments = {}
    id_ = call.get("id")
    duration_ms = _parse_duration(call.get("duration_ms"))
    return ToolCall(
        name=name,
        arguments=arguments if isinstance(arguments, dict) else {"arguments": arguments},
        id=id_ if isinstance(id_, str) else None,
        output=call.get("output"),
        duration_ms=_duration_from_times(call) if duration_ms is None else duration_ms,
    )


def _first_value(fields: dict[str, Any], *names: str) -> Any:
    return next((fields[name] for name in names if fields.get(name) is not None), None)


def _duration_from_times(call: dict[str, Any]) -> float | None:
    """Returns the milliseconds from `start_time` to `end_time` if both are valid ISO 8601, else None."""
    try:
        start, end = (datetime.fromisoformat(call[name]) for name in ("start_time", "end_time"))
        return _parse_duration((end - start).total_seconds() * 1000)
    except (KeyError, TypeError, ValueError):
        return None


def _parse_usage(counts: Any) -> Usage | None:
    if isinstance(counts, dict) and counts.get("input") is None and counts.get("output") is None:
        return None
    return read_usage(
        counts, ("input",), ("output",), "cached", cache_write_name="cache_write", reasoning_name="reasoning"
    )


def _parse_duration(value: Any) -> float | None:
    """Returns a finite number of at least 0, else None."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        return None
    # An integer too large for a double is invalid as well.
    return value if value <= sys.float_info.max else None


def _report_error(where: str, why: str) -> TargetError:
    return TargetError(f"The report of the program cannot be read: {where}: {why}.", kind="protocol")


def program_error(name: str, completed: CompletedProgram) -> TargetError:
    """Returns the error for a program that failed, with the end of its output."""
    message = stream_end(completed.stderr, _MAX_ERROR) or stream_end(completed.stdout, _MAX_ERROR)
    ending = f"{name} {completed.ending}"
    return TargetError(f"{ending}: {message}" if message else f"{ending}.", kind="program")


def read_answer(path: Path, name: str, limit: int) -> bytes:
    """Reads the answer that a program wrote to `{OUTPUT_FILE}`.

    Args:
        path: the file.
        name: the program, for messages.
        limit: the maximum size in bytes.

    Raises:
        AnswerTooLarge: the file exceeds the limit.
        TargetError: there is no such file.
    """
    if path.exists() and not path.is_file():
        # Opening a pipe would block until something writes to it.
        raise TargetError(f"{name} created {{OUTPUT_FILE}}, but it is not a file.", kind="program")
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            data = file.read(limit + 1) if size <= limit else b""
    except OSError as error:
        raise TargetError(
            f"{name} ended without writing its answer to {{OUTPUT_FILE}}: {error.strerror}.", kind="program"
        ) from error
    if size > limit or len(data) > limit:
        raise AnswerTooLarge(limit, max(size, len(data)))
    return data

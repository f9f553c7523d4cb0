"""Builds the JSON that a grading program reads on stdin from a case and its output.

The field names are those of AgentV's code graders. Unknown values have the form that its SDK accepts: null,
an empty text, list or object, or no field at all if the SDK refuses null.
"""

from __future__ import annotations

import base64
from collections import Counter
from typing import Any, Final

from msgspec import to_builtins
from msgspec.structs import replace

from proctor.graders.field_accuracy import is_conversation
from proctor.graders.tool_trajectory import get_tool_calls
from proctor.model import Attachment, Message, Output, Usage
from proctor.protocols import GradingInput

_TOOL_FIELDS: Final = {"tool": "name", "id": "call_id", "input": "input", "output": "output"}
"""The fields of a tool call, with their names in events."""


def build_payload(grading_input: GradingInput, config: dict[str, Any] | None = None) -> dict[str, Any]:
    """Returns everything that a program may read, as plain data; milliseconds and US dollars."""
    case, output = grading_input.case, grading_input.output
    messages = output_messages(output)
    return {
        "test_id": case.id,
        "criteria": case.criteria or "",
        "input": [_message_to_dict(message) for message in case.input],
        "input_files": [
            part.path
            for message in case.input
            for part in message.parts
            if isinstance(part, Attachment) and part.kind == "file"
        ],
        "expected_output": expected_messages(case.expected),
        "answer": output.text,
        "output_text": output.text,
        "output": messages,
        "messages": messages,
        "trace": _summarize_calls(output),
        "token_usage": usage_to_dict(output.usage),
        "cost_usd": output.cost_usd,
        "duration_ms": output.latency_ms or None if output.duration_ms is None else output.duration_ms,
        "start_time": None,
        "end_time": None,
        "file_changes": output.file_changes,
        "workspace_path": grading_input.workspace,
        "metadata": case.metadata,
        "config": config or {},
    }


def build_script_payload(grading_input: GradingInput, config: dict[str, Any] | None = None) -> dict[str, Any]:
    """Returns the payload of AgentV 5: `output` is the answer, and `trace` includes messages and events."""
    payload = build_payload(grading_input, config)
    messages, summary = payload["messages"], payload["trace"]
    trace = None if summary is None else {**summary, "messages": messages, "events": _build_events(messages)}
    return {**payload, "output": grading_input.output.text, "trace": trace, "trace_summary": summary}


def build_function_payload(
    grading_input: GradingInput, params: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Returns the case and the output as they are, for `@proctor.grader` functions in another process."""
    return {
        "case": to_builtins(replace(grading_input.case, assertions=())),
        "output": to_builtins(grading_input.output),
        "params": params or {},
    }


def _build_events(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns each message, tool call and tool result, and the last message of the assistant, as events."""
    events: list[dict[str, Any]] = []

    def add(kind: str, event_id: str, **fields: Any) -> None:
        events.append({"event_id": event_id, "ordinal": len(events), "type": kind, **fields})

    final = None
    for place, message in enumerate(messages):
        event_id = f"message-{place}"
        event_fields = {name: value for name, value in message.items() if name != "tool_calls"}
        add("message", event_id, message=event_fields)
        if message["role"] == "assistant":
            final = event_id, event_fields
        for nth, call in enumerate(message.get("tool_calls", ())):
            call_id = f"{event_id}-tool-{nth}"
            tool = {_TOOL_FIELDS[name]: value for name, value in call.items() if name in _TOOL_FIELDS}
            timed = {"duration_ms": call["duration_ms"]} if "duration_ms" in call else {}
            add("tool_call", call_id, parent_event_id=event_id, tool=tool, **timed)
            if call["output"] is not None:
                result = {name: value for name, value in tool.items() if name != "input"}
                add("tool_result", f"{call_id}-result", parent_event_id=call_id, tool=result)
    if final is not None:
        add("final_response", "final-response", parent_event_id=final[0], message=final[1])
    return events


def expected_messages(expected: Any) -> list[dict[str, Any]]:
    """Returns the expected output of a case as a list of messages.

    A list whose items all have a `role` is returned unchanged; any other value becomes the content of one
    assistant message. If nothing is expected, there are no messages.
    """
    if expected is None:
        return []
    return expected if is_conversation(expected) else [{"role": "assistant", "content": expected}]


def output_messages(output: Output) -> list[dict[str, Any]]:
    """Returns the target's messages, or one with its answer and tool calls if it reported none."""
    if output.messages:
        return [_message_to_dict(message) for message in output.messages]
    return [_message_to_dict(Message(role="assistant", content=output.text, tool_calls=output.tool_calls))]


def _message_to_dict(message: Message) -> dict[str, Any]:
    content = [_part_to_dict(part) for part in message.parts] if message.parts else message.content
    fields: dict[str, Any] = {"role": message.role, "content": content}
    if message.name is not None:
        fields["name"] = message.name
    if message.tool_calls:
        fields["tool_calls"] = [
            {"tool": call.name, "input": call.arguments, "output": call.output}
            | ({} if call.id is None else {"id": call.id})
            | ({} if call.duration_ms is None else {"duration_ms": call.duration_ms})
            for call in message.tool_calls
        ]
    return fields


def _part_to_dict(part: str | Attachment) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "value": part, "text": part}
    block = {"type": part.kind, "value": part.path, "path": part.path, "media_type": part.media_type}
    if part.text is not None:
        return {**block, "text": part.text}
    return {**block, "source": f"data:{part.media_type};base64,{base64.b64encode(part.data).decode('ascii')}"}


def _summarize_calls(output: Output) -> dict[str, Any] | None:
    """Returns counts of the tool calls; None if the target reported neither messages nor calls."""
    calls = get_tool_calls(output)
    if calls is None:
        return None
    durations: dict[str, list[float]] = {}
    for call in calls:
        if call.duration_ms is not None:
            durations.setdefault(call.name, []).append(call.duration_ms)
    trace: dict[str, Any] = {
        "event_count": len(calls),
        "tool_calls": dict(Counter(call.name for call in calls)),
        # Part of the format; no target reports which of its calls failed.
        "error_count": 0,
        "llm_call_count": sum(message.role == "assistant" for message in output.messages) or 1,
    }
    return {**trace, "tool_durations": durations} if durations else trace


def usage_to_dict(usage: Usage | None) -> dict[str, int] | None:
    """Returns the numbers of tokens; input tokens include cached ones."""
    if usage is None:
        return None
    return {"input": usage.input_tokens, "output": usage.output_tokens, "cached": usage.cached_tokens}

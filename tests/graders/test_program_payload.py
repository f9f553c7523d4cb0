"""What programs that grade are given, against the schema by which AgentV's SDK reads it.

The SDK's graders refuse a payload of another form before they look at the answer.
"""

from __future__ import annotations

import json
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from proctor.graders.program_payload import build_payload, build_script_payload
from proctor.model import Case, Message, Output, ToolCall, Usage
from proctor.protocols import GradingInput

# --- what `@agentv/eval` 4.9 takes; it refuses attachments and expected objects under AgentV as well --------


def _type_schema(*types: str) -> dict[str, Any]:
    return {"type": list(types)}


def _object(required: dict[str, Any], optional: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "required": list(required), "properties": required | optional}


_TEXT: Final = _type_schema("string")
_NUMBER: Final = _type_schema("number")
_CALL: Final = _object(
    {"tool": _TEXT}, {"id": _TEXT, "start_time": _TEXT, "end_time": _TEXT, "duration_ms": _NUMBER}
)
_BLOCK: Final = _object({"type": {"const": "text"}, "text": _TEXT}, {})
_MESSAGE: Final = _object(
    {"role": {"enum": ["assistant", "user", "system", "tool"]}},
    {
        "content": {"anyOf": [_TEXT, {"type": "array", "items": _BLOCK}]},
        "tool_calls": {"type": "array", "items": _CALL},
        "name": _TEXT,
    },
)
_MESSAGES: Final = {"type": "array", "items": _MESSAGE}
_TRACE: Final = _object(
    {
        "event_count": _NUMBER,
        "tool_calls": {"type": "object", "additionalProperties": _NUMBER},
        "error_count": _NUMBER,
    },
    {
        "tool_durations": {"type": "object", "additionalProperties": {"type": "array", "items": _NUMBER}},
        "llm_call_count": _NUMBER,
    },
)
_USAGE: Final = _object({"input": _NUMBER, "output": _NUMBER}, {"cached": _NUMBER})
_NULL: Final = _type_schema("null")
_REQUIRED: Final = {
    "criteria": _TEXT,
    "expected_output": _MESSAGES,
    "input_files": {"type": "array", "items": _TEXT},
    "input": _MESSAGES,
}
_OPTIONAL: Final = {
    "output": {"anyOf": [_MESSAGES, _NULL]},
    "output_path": _TEXT,
    "trace": {"anyOf": [_TRACE, _NULL]},
    "token_usage": {"anyOf": [_USAGE, _NULL]},
    "cost_usd": _type_schema("number", "null"),
    "duration_ms": _type_schema("number", "null"),
    "start_time": _type_schema("string", "null"),
    "end_time": _type_schema("string", "null"),
    "file_changes": _type_schema("string", "null"),
    "workspace_path": _type_schema("string", "null"),
    "config": _type_schema("object", "null"),
}
SDK: Final = Draft202012Validator(_object(_REQUIRED, _OPTIONAL))

# --- what `@agentv/sdk` 4.36 to 5.3 takes, whose `output` is the answer -------------------------------------

_EVENT: Final = _object(
    {
        "event_id": _TEXT,
        "ordinal": {"type": "integer", "minimum": 0},
        "type": {"enum": ["message", "model_turn", "tool_call", "tool_result", "final_response", "error"]},
    },
    {
        "parent_event_id": _TEXT,
        "duration_ms": {"type": "number", "minimum": 0},
        "message": _object({"role": _TEXT}, {"name": _TEXT}),
        "tool": _object({"name": _TEXT}, {"call_id": _TEXT}),
    },
)
_EVENTS: Final = {"messages": _MESSAGES, "events": {"type": "array", "items": _EVENT}}
SDK_5: Final = Draft202012Validator(
    _object(
        _REQUIRED,
        {
            **_OPTIONAL,
            "output": _type_schema("string", "null"),
            "messages": _MESSAGES,
            "metadata": _type_schema("object", "null"),
            "trace": {"anyOf": [{"allOf": [_TRACE, _object(_EVENTS, {})]}, _NULL]},
            "trace_summary": {"anyOf": [_TRACE, _NULL]},
        },
    )
)

# --- cases and answers in which anything may be unknown ----------------------------------------------------

_figures = st.none() | st.floats(0, 1e9)
_texts = st.text(max_size=5)
_calls = st.lists(
    st.builds(
        ToolCall,
        name=st.text(min_size=1, max_size=5),
        id=st.none() | _texts,
        output=st.none() | _texts,
        duration_ms=_figures,
    ),
    max_size=3,
).map(tuple)
_messages = st.lists(
    st.builds(
        Message,
        role=st.sampled_from(["assistant", "user", "system", "tool"]),
        content=_texts,
        name=st.none() | _texts,
        tool_calls=_calls,
        parts=st.lists(_texts, max_size=2).map(tuple),
    ),
    max_size=3,
).map(tuple)
_cases = st.builds(
    Case,
    id=_texts,
    input=_messages,
    expected=st.none()
    | _texts
    | st.lists(st.fixed_dictionaries({"role": st.just("user"), "content": _texts}), min_size=1),
    criteria=st.none() | _texts,
    metadata=st.dictionaries(_texts, _texts, max_size=2),
)
_outputs = st.builds(
    Output,
    text=_texts,
    messages=_messages,
    tool_calls=_calls,
    usage=st.none() | st.builds(Usage, input_tokens=st.integers(0), cached_tokens=st.integers(0)),
    cost_usd=_figures,
    duration_ms=_figures,
    latency_ms=st.floats(0, 1e9),
    file_changes=st.none() | _texts,
)


@pytest.mark.slow
@given(
    case=_cases,
    output=_outputs,
    workspace=st.none() | _texts,
    config=st.none() | st.dictionaries(_texts, _texts, max_size=2),
)
def test_agentvs_sdk_takes_every_payload(
    case: Case, output: Output, workspace: str | None, config: dict[str, Any] | None
) -> None:
    graded = GradingInput(case=case, output=output, workspace=workspace)
    for sdk, payload in ((SDK, build_payload(graded, config)), (SDK_5, build_script_payload(graded, config))):
        assert [error.message for error in sdk.iter_errors(json.loads(json.dumps(payload)))] == []


def test_a_script_of_agentv_5_reads_the_answer_and_the_events_of_the_trace() -> None:
    call = ToolCall(name="search", id="c1", arguments={"q": "x"}, output="found", duration_ms=5.0)
    messages = (
        Message(role="assistant", tool_calls=(call, ToolCall(name="read"))),
        Message(role="assistant", content="It is x."),
    )
    output = Output(text="It is x.", messages=messages, tool_calls=messages[0].tool_calls)
    payload = build_script_payload(GradingInput(case=Case(id="a", input=()), output=output))
    trace = payload["trace"]
    assert payload["output"] == "It is x."
    assert payload["trace_summary"]["tool_calls"] == trace["tool_calls"] == {"search": 1, "read": 1}
    assert trace["messages"] == payload["messages"]
    assert [
        (event["type"], event.get("tool", {}).get("name"), event["ordinal"]) for event in trace["events"]
    ] == [
        ("message", None, 0),
        ("tool_call", "search", 1),
        ("tool_result", "search", 2),
        ("tool_call", "read", 3),
        ("message", None, 4),
        ("final_response", None, 5),
    ]
    assert trace["events"][1] == {
        "event_id": "message-0-tool-0",
        "ordinal": 1,
        "type": "tool_call",
        "parent_event_id": "message-0",
        "tool": {"name": "search", "call_id": "c1", "input": {"q": "x"}, "output": "found"},
        "duration_ms": 5.0,
    }
    assert trace["events"][5]["message"] == {"role": "assistant", "content": "It is x."}

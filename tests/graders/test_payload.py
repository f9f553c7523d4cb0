"""What programs that grade are given, against the schema by which AgentV's SDK reads it.

The SDK's graders refuse a payload of another form before they look at the answer.
"""

from __future__ import annotations

import json
from typing import Any, Final

from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from proctor.graders.payload import payload_of
from proctor.model import Case, Message, Output, ToolCall, Usage
from proctor.ports import Graded

# --- what `@agentv/eval` 4.9 takes; it refuses attachments and expected objects under AgentV as well --------


def _either(*types: str) -> dict[str, Any]:
    return {"type": list(types)}


def _object(required: dict[str, Any], optional: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "required": list(required), "properties": required | optional}


_TEXT: Final = _either("string")
_NUMBER: Final = _either("number")
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
_NULL: Final = _either("null")
SDK: Final = Draft202012Validator(
    _object(
        {
            "criteria": _TEXT,
            "expected_output": _MESSAGES,
            "input_files": {"type": "array", "items": _TEXT},
            "input": _MESSAGES,
        },
        {
            "output": {"anyOf": [_MESSAGES, _NULL]},
            "output_path": _TEXT,
            "trace": {"anyOf": [_TRACE, _NULL]},
            "token_usage": {"anyOf": [_USAGE, _NULL]},
            "cost_usd": _either("number", "null"),
            "duration_ms": _either("number", "null"),
            "start_time": _either("string", "null"),
            "end_time": _either("string", "null"),
            "file_changes": _either("string", "null"),
            "workspace_path": _either("string", "null"),
            "config": _either("object", "null"),
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


@given(
    case=_cases,
    output=_outputs,
    workspace=st.none() | _texts,
    config=st.none() | st.dictionaries(_texts, _texts, max_size=2),
)
def test_agentvs_sdk_takes_every_payload(
    case: Case, output: Output, workspace: str | None, config: dict[str, Any] | None
) -> None:
    payload = payload_of(Graded(case=case, output=output, workspace=workspace), config)
    assert [error.message for error in SDK.iter_errors(json.loads(json.dumps(payload)))] == []

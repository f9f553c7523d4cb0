"""Answers prompts over Anthropic's Messages API.

Source of the format: https://platform.claude.com/docs/en/api/messages. A schema for the answer becomes a
tool that the model must call, and the tool's input is the answer. A model that thinks cannot be made to call
a tool, and some models never can: they get the schema as the format of their text. Neither works if the
prompt has tools of its own. JSON without a schema cannot be requested.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from proctor.errors import TargetError
from proctor.model import Attachment, Message, Output, Params, Prompt, TargetSpec, Tool, ToolCall, Usage
from proctor.pricing import read_usage
from proctor.targets.api.anthropic.claude import (
    find_conflict,
    max_tokens_for,
    takes_temperature,
    thinking_for,
    thinks,
    to_output_schema,
)
from proctor.targets.api.anthropic.stream import StreamedMessage
from proctor.targets.api.messages import (
    call_ids,
    encode_base64,
    format_attachment,
    format_message,
    unsendable_attachment,
)
from proctor.targets.api.target import ENCODER, ApiTarget, require_model
from proctor.targets.kind import TargetKind

if TYPE_CHECKING:
    from proctor.targets.api.http import Body
    from proctor.targets.context import TargetContext

ANTHROPIC_VERSION = "2023-06-01"

_REPLY_TOOL = "reply"
_FORMAT_NAMES = ("output_config", "output_format", "output format")
"""How errors name the format of a text."""
_REDACTED = "[redacted]"
"""Stands for a part of the reasoning that the service encrypted."""
_ERROR_STATUSES = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""The statuses of errors by their types, for those that come in a stream; any other is 500."""
_CACHE_MARK = {"type": "ephemeral"}


class _MessagesRequest(Struct, omit_defaults=True, kw_only=True):
    model: str = ""
    anthropic_version: str = ""
    max_tokens: int
    messages: list[dict[str, Any]]
    system: str | list[dict[str, Any]] | UnsetType = UNSET
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    stop_sequences: tuple[str, ...] = ()
    thinking: dict[str, Any] | None = None
    output_config: dict[str, Any] | UnsetType = UNSET
    service_tier: str | None = None
    stream: bool = False
    tools: list[dict[str, Any]] | UnsetType = UNSET
    tool_choice: dict[str, str] | UnsetType = UNSET


class _ReplyBlock(Struct):
    type: str
    text: str = ""
    thinking: str = ""
    id: str | None = None
    name: str = ""
    input: dict[str, Any] = {}


class _MessagesReply(Struct):
    content: list[_ReplyBlock] | None = None
    id: str | None = None
    model: str | None = None
    stop_reason: str | None = None
    usage: Any = None
    error: Any = None


_REPLY_DECODER = msgspec.json.Decoder(_MessagesReply)


class AnthropicTarget(ApiTarget):
    """A Claude model."""

    optional_params = ("temperature", "tool_choice", *_FORMAT_NAMES, "tools")
    streamed_reply = StreamedMessage

    @classmethod
    def find_conflict(cls, model: str, params: Params) -> str | None:
        """Returns why a Claude model cannot be called with these parameters; None if it can."""
        return find_conflict(model, params)

    def _parse_reply(self, data: Body, prompt: Prompt, params: Params) -> Output:
        reply = self._endpoint.decode(_REPLY_DECODER, data)
        if reply.error is not None:
            kind = reply.error.get("type") if isinstance(reply.error, dict) else None
            raise self._endpoint.error_in_reply(_ERROR_STATUSES.get(str(kind), 500), data)
        if reply.content is None:
            raise TargetError(f"The reply of {self._model!r} has no content.", kind="protocol")
        calls = [block for block in reply.content if block.type == "tool_use"]
        text = "".join(block.text for block in reply.content if block.type == "text")
        if _has_answer_schema(prompt):
            reply_call = next((call for call in calls if call.name == _REPLY_TOOL), None)
            if reply_call is not None:
                calls.remove(reply_call)
                text = ENCODER.encode(reply_call.input).decode()
        return Output(
            text=text,
            tool_calls=tuple(ToolCall(name=call.name, arguments=call.input, id=call.id) for call in calls),
            reasoning=_join_reasoning(reply.content),
            usage=_parse_usage(reply.usage),
            finish_reason=reply.stop_reason,
            model=reply.model,
            response_id=reply.id,
            service_tier=_get_service_tier(reply.usage),
            refused_params=self._unapplied_params(prompt, params),
        )

    def _build_request(
        self, prompt: Prompt, params: Params, refused_names: frozenset[str]
    ) -> _MessagesRequest:
        system = [format_message(m) for m in prompt.messages if m.role in {"system", "developer"}]
        request = _MessagesRequest(
            model=self._model,
            max_tokens=max_tokens_for(self._model, params),
            messages=_to_api_messages(prompt.messages),
            system="\n\n".join(system) or UNSET,
            top_p=params.top_p,
            top_k=params.top_k,
            stop_sequences=params.stop,
            thinking=thinking_for(self._model, params),
            service_tier=params.service_tier,
            stream=params.stream,
        )
        if "temperature" not in refused_names and takes_temperature(self._model, params):
            request.temperature = params.temperature
        if prompt.tools and "tools" not in refused_names:
            request.tools = [_describe_tool(tool) for tool in prompt.tools]
        self._add_answer_schema(request, prompt, params, refused_names)
        if params.prompt_cache:
            _mark_for_cache(request, [text for text in system if text.strip()])
        return request

    def _add_answer_schema(
        self, request: _MessagesRequest, prompt: Prompt, params: Params, refused_names: frozenset[str]
    ) -> None:
        """Adds the schema of the answer in the form that the model takes, and the effort beside it."""
        config: dict[str, Any] = {}
        if params.reasoning_effort is not None:
            config["effort"] = params.reasoning_effort
        form = self._schema_form(prompt, params, refused_names)
        if form == "tool":
            description = "Give the answer in this form."
            tool = {"name": _REPLY_TOOL, "description": description, "input_schema": prompt.response_schema}
            request.tools = [tool]
            request.tool_choice = {"type": "tool", "name": _REPLY_TOOL}
        elif form == "format":
            config["format"] = {"type": "json_schema", "schema": to_output_schema(prompt.response_schema)}
        request.output_config = config or UNSET

    def _schema_form(self, prompt: Prompt, params: Params, refused_names: frozenset[str]) -> str | None:
        """Returns how the schema of the answer is sent, `tool` or `format`; None if it is not."""
        if not _has_answer_schema(prompt):
            return None
        if "tool_choice" not in refused_names and not thinks(self._model, params):
            return "tool"
        return None if refused_names.intersection(_FORMAT_NAMES) else "format"

    def _unapplied_params(self, prompt: Prompt, params: Params) -> tuple[str, ...]:
        refused_names = self._endpoint.refused_names
        has_schema = self._schema_form(prompt, params, refused_names) is not None
        has_temperature = "temperature" not in refused_names and takes_temperature(self._model, params)
        not_applied = {
            "temperature": params.temperature is not None and not has_temperature,
            "seed": params.seed is not None,
            "response_format": not has_schema and (prompt.json_answer or prompt.response_schema is not None),
            "tools": bool(prompt.tools) and "tools" in refused_names,
        }
        return tuple(name for name, is_so in not_applied.items() if is_so)


async def open_target(spec: TargetSpec, context: TargetContext) -> AnthropicTarget:
    """Opens the model of a specification of kind `anthropic`.

    Raises:
        UsageError: the specification has no model, or ANTHROPIC_API_KEY is not set.
    """
    from yarl import URL

    from proctor.targets.api.http import address_for, key_for_target

    endpoint = address_for(spec).rstrip("/").removesuffix("/v1")
    model = require_model(spec)
    key = key_for_target(spec, endpoint, context)
    headers = {"anthropic-version": ANTHROPIC_VERSION} | ({"x-api-key": key} if key else {})
    return AnthropicTarget.from_spec(model, spec, context, URL(endpoint + "/v1/messages"), headers)


ANTHROPIC = TargetKind(
    name="anthropic",
    open_target=open_target,
    syntax="anthropic:MODEL",
    summary="Anthropic's Messages API; aliases opus, sonnet, haiku",
    aliases={"opus": "claude-opus-4-6", "sonnet": "claude-sonnet-4-6", "haiku": "claude-haiku-4-5"},
    model_pattern=r"claude-.",
    address="https://api.anthropic.com",
    stores_address=False,
    key_variables=("ANTHROPIC_API_KEY",),
    media=frozenset({"image", "pdf"}),
    media_types={"image": frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})},
    batches="proctor.targets.api.batches.anthropic:AnthropicBatches",
    params=frozenset(
        {
            "top_p",
            "top_k",
            "stop",
            "reasoning_effort",
            "thinking_budget",
            "service_tier",
            "prompt_cache",
            "stream",
        }
    ),
    max_tokens_for=max_tokens_for,
    bills_per_prompt=True,
    has_list_prices=True,
    # Source: https://docs.anthropic.com/en/api/service-tiers. Priority is paid for in advance.
    tier_shares={"auto": 1.0, "standard": 1.0, "standard_only": 1.0, "batch": 0.5},
    is_typed_in_web=True,
)


def _has_answer_schema(prompt: Prompt) -> bool:
    """Whether a schema of the answer can be requested: not beside tools."""
    return prompt.response_schema is not None and not prompt.tools


def _describe_tool(tool: Tool) -> dict[str, Any]:
    description = {"name": tool.name, "input_schema": tool.parameters or {"type": "object"}}
    return description | ({"description": tool.description} if tool.description else {})


def _mark_for_cache(request: _MessagesRequest, system: Sequence[str]) -> None:
    """Marks what later requests begin with: the tools, the system prompts, and all but the last question.

    The first of several system prompts is often the target's, and the same for all cases. The API takes at
    most four marks.
    """
    if request.tools:
        request.tools[-1] = {**request.tools[-1], "cache_control": _CACHE_MARK}
    if system:
        blocks: list[dict[str, Any]] = [{"type": "text", "text": text} for text in system]
        for block in (blocks[0], blocks[-1]):
            block["cache_control"] = _CACHE_MARK
        request.system = blocks
    earlier_turns = request.messages
    while earlier_turns and earlier_turns[-1]["role"] != "user":
        earlier_turns = earlier_turns[:-1]
    if len(earlier_turns) > 1:
        last_block = earlier_turns[-2]["content"][-1]
        if last_block.get("text") != "":  # an empty text cannot be marked
            last_block["cache_control"] = _CACHE_MARK


def _to_api_messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Converts all but the system messages; roles must alternate, so turns of the same role are merged."""
    ids = call_ids(messages)
    turns: list[dict[str, Any]] = []
    for message in messages:
        if message.role in {"system", "developer"}:
            continue
        role = "user" if message.role == "tool" else message.role
        blocks = _to_content_blocks(message, ids)
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] += blocks
        else:
            turns.append({"role": role, "content": blocks})
    return turns


def _to_content_blocks(message: Message, ids: Mapping[str, str]) -> list[dict[str, Any]]:
    if message.role == "tool":
        name = message.name or ""
        return [
            {"type": "tool_result", "tool_use_id": ids.get(name, name), "content": format_message(message)}
        ]
    # The API refuses a blank text block beside others, but also a turn without any block.
    blocks: list[dict[str, Any]] = []
    if message.parts:
        blocks.extend(
            _to_content_block(part) for part in message.parts if not isinstance(part, str) or part.strip()
        )
    elif message.content or not message.tool_calls:
        blocks.append({"type": "text", "text": message.content})
    blocks.extend(
        {"type": "tool_use", "id": call.id or call.name, "name": call.name, "input": call.arguments}
        for call in message.tool_calls
    )
    return blocks


def _to_content_block(part: str | Attachment) -> dict[str, Any]:
    if isinstance(part, str) or (part.kind == "image" and part.text is not None):
        return {"type": "text", "text": part if isinstance(part, str) else format_attachment(part)}
    if part.text is not None:
        source = {"type": "text", "media_type": "text/plain", "data": part.text}
    elif part.medium in ANTHROPIC.media:
        source = {"type": "base64", "media_type": part.media_type, "data": encode_base64(part)}
    else:
        raise unsendable_attachment(part, "Anthropic's API")
    if part.medium == "image":
        return {"type": "image", "source": source}
    return {"type": "document", "source": source, "title": part.path}


def _join_reasoning(blocks: Sequence[_ReplyBlock]) -> str | None:
    """Returns what the model thought; None if it did not think, or the service does not show it."""
    texts = [
        _REDACTED if block.type == "redacted_thinking" else block.thinking
        for block in blocks
        if block.type in {"thinking", "redacted_thinking"}
    ]
    return "\n\n".join(text for text in texts if text) or None


def _get_service_tier(counts: Any) -> str | None:
    tier = counts.get("service_tier") if isinstance(counts, dict) else None
    return tier if isinstance(tier, str) else None


def _parse_usage(counts: Any) -> Usage | None:
    """Parses token counts; the API reports cached tokens separately, and here they are added to the input."""
    cached, written = "cache_read_input_tokens", "cache_creation_input_tokens"
    if isinstance(counts, dict) and isinstance(counts.get("output_tokens_details"), dict):
        counts = {**counts, "thinking_tokens": counts["output_tokens_details"].get("thinking_tokens")}
    return read_usage(
        counts,
        ("input_tokens", cached, written),
        ("output_tokens",),
        cached,
        cache_write_name=written,
        reasoning_name="thinking_tokens",
    )

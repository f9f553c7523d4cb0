"""Answers prompts over Anthropic's Messages API.

Source of the format: https://docs.anthropic.com/en/api/messages. A schema for the answer becomes a tool
that the model must call, and the tool's input is the answer. This does not work if the prompt has tools of
its own. JSON without a schema cannot be requested.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from proctor.model import Attachment, Message, Output, Params, Prompt, TargetSpec, Tool, ToolCall, Usage
from proctor.pricing import read_usage
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
DEFAULT_MAX_TOKENS = 4096
"""The limit if the user sets none, as the API requires one."""

_REPLY_TOOL = "reply"


class _MessagesRequest(Struct, omit_defaults=True):
    model: str
    max_tokens: int
    messages: list[dict[str, Any]]
    system: str | UnsetType = UNSET
    temperature: float | None = None
    tools: list[dict[str, Any]] | UnsetType = UNSET
    tool_choice: dict[str, str] | UnsetType = UNSET


class _ReplyBlock(Struct):
    type: str
    text: str = ""
    id: str | None = None
    name: str = ""
    input: dict[str, Any] = {}


class _MessagesReply(Struct):
    content: list[_ReplyBlock]
    model: str | None = None
    stop_reason: str | None = None
    usage: Any = None


_REPLY_DECODER = msgspec.json.Decoder(_MessagesReply)


class AnthropicTarget(ApiTarget):
    """A Claude model."""

    optional_params = ("temperature", "tool_choice", "tools")

    def _parse_reply(self, data: Body, prompt: Prompt, params: Params) -> Output:
        reply = self._endpoint.decode(_REPLY_DECODER, data)
        calls = [block for block in reply.content if block.type == "tool_use"]
        text = "".join(block.text for block in reply.content if block.type == "text")
        if _uses_reply_tool(prompt):
            reply_call = next((call for call in calls if call.name == _REPLY_TOOL), None)
            if reply_call is not None:
                calls.remove(reply_call)
                text = ENCODER.encode(reply_call.input).decode()
        return Output(
            text=text,
            tool_calls=tuple(ToolCall(name=call.name, arguments=call.input, id=call.id) for call in calls),
            usage=_parse_usage(reply.usage),
            finish_reason=reply.stop_reason,
            model=reply.model,
            refused_params=self._unapplied_params(prompt, params),
        )

    def _build_request(
        self, prompt: Prompt, params: Params, refused_names: frozenset[str]
    ) -> _MessagesRequest:
        system = "\n\n".join(format_message(m) for m in prompt.messages if m.role in {"system", "developer"})
        request = _MessagesRequest(
            model=self._model,
            max_tokens=params.max_tokens or DEFAULT_MAX_TOKENS,
            messages=_to_api_messages(prompt.messages),
            system=system or UNSET,
        )
        if "temperature" not in refused_names:
            request.temperature = params.temperature
        if prompt.tools and "tools" not in refused_names:
            request.tools = [_describe_tool(tool) for tool in prompt.tools]
        elif _uses_reply_tool(prompt) and "tool_choice" not in refused_names:
            description = "Give the answer in this form."
            tool = {"name": _REPLY_TOOL, "description": description, "input_schema": prompt.response_schema}
            request.tools = [tool]
            request.tool_choice = {"type": "tool", "name": _REPLY_TOOL}
        return request

    def _unapplied_params(self, prompt: Prompt, params: Params) -> tuple[str, ...]:
        refused_names = self._endpoint.refused_names
        has_schema = _uses_reply_tool(prompt) and "tool_choice" not in refused_names
        not_applied = {
            "temperature": params.temperature is not None and "temperature" in refused_names,
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
    summary="Anthropic's messages; aliases opus, sonnet, haiku",
    aliases={"opus": "claude-opus-4-6", "sonnet": "claude-sonnet-4-6", "haiku": "claude-haiku-4-5"},
    model_pattern=r"claude-.",
    address="https://api.anthropic.com",
    stores_address=False,
    key_variables=("ANTHROPIC_API_KEY",),
    media=frozenset({"image", "pdf"}),
    media_types={"image": frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})},
    default_max_tokens=DEFAULT_MAX_TOKENS,
    batches="proctor.targets.api.batches.anthropic:AnthropicBatches",
    bills_per_prompt=True,
    has_list_prices=True,
    is_typed_in_web=True,
)


def _uses_reply_tool(prompt: Prompt) -> bool:
    """Whether the model must call the reply tool, whose input is the answer."""
    return prompt.response_schema is not None and not prompt.tools


def _describe_tool(tool: Tool) -> dict[str, Any]:
    description = {"name": tool.name, "input_schema": tool.parameters or {"type": "object"}}
    return description | ({"description": tool.description} if tool.description else {})


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


def _parse_usage(counts: Any) -> Usage | None:
    """Parses token counts; the API reports cached tokens separately, and here they are added to the input."""
    cached = "cache_read_input_tokens"
    inputs = ("input_tokens", cached, "cache_creation_input_tokens")
    return read_usage(counts, inputs, ("output_tokens",), cached)

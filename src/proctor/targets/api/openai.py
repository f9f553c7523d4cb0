"""Answers prompts over the chat-completions API of OpenAI and most other services.

Source of the format: https://platform.openai.com/docs/api-reference/chat. The code does not depend on the
service: only the endpoint and its key differ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from proctor.errors import TargetError
from proctor.model import Attachment, Message, Output, Params, Prompt, TargetSpec, Tool, ToolCall, Usage
from proctor.pricing import read_usage
from proctor.targets.api.messages import (
    call_ids,
    data_uri,
    encode_base64,
    format_attachment,
    format_message,
    unsendable_attachment,
)
from proctor.targets.api.target import ENCODER, ApiTarget, require_model
from proctor.targets.kind import TargetKind

if TYPE_CHECKING:
    from proctor.targets.api.http import Body, JsonEndpoint
    from proctor.targets.context import TargetContext

# --- the wire ----------------------------------------------------------------------------------------------


class _ChatFunction(Struct):
    name: str
    arguments: Any = "{}"


class _ChatToolCall(Struct):
    function: _ChatFunction
    id: str | None = None
    type: str = "function"


class _ChatMessage(Struct, omit_defaults=True):
    role: str
    content: str | list[dict[str, Any]]
    name: str | None = None
    tool_calls: list[_ChatToolCall] | None = None
    tool_call_id: str | None = None


class _ChatRequest(Struct, omit_defaults=True):
    model: str
    messages: list[_ChatMessage]
    temperature: float | None = None
    seed: int | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    response_format: dict[str, Any] | None = None
    tools: list[dict[str, Any]] | None = None


class _ChatAnswer(Struct):
    content: str | list[dict[str, Any]] | None = None
    refusal: str | None = None
    tool_calls: list[_ChatToolCall] | None = None


class _ChatChoice(Struct):
    message: _ChatAnswer
    finish_reason: str | None = None


class _ChatReply(Struct):
    choices: list[_ChatChoice] | None = None
    model: str | None = None
    system_fingerprint: str | None = None
    usage: Any = None
    error: Any = None


class _Embedding(Struct):
    embedding: list[float]
    index: int = 0


class _EmbeddingsReply(Struct):
    data: list[_Embedding]


_REPLY_DECODER = msgspec.json.Decoder(_ChatReply)
_EMBEDDINGS_DECODER = msgspec.json.Decoder(_EmbeddingsReply)


# --- the target --------------------------------------------------------------------------------------------


class OpenAiTarget(ApiTarget):
    """A model behind a chat-completions endpoint."""

    # `max_tokens` is sent again under its newer name, so it is never left out altogether.
    optional_params = ("temperature", "seed", "response_format", "max_tokens", "tools")

    def _parse_reply(self, data: Body, prompt: Prompt, params: Params) -> Output:
        reply = self._endpoint.decode(_REPLY_DECODER, data)
        if reply.error or not reply.choices:
            raise self._no_answer_error(reply, data)
        choice = reply.choices[0]
        message = choice.message
        content = message.content
        if isinstance(content, list):
            content = "".join(str(part.get("text", "")) for part in content)
        return Output(
            text=content or message.refusal or "",
            tool_calls=tuple(_parse_tool_call(call) for call in message.tool_calls or ()),
            usage=_parse_usage(reply.usage),
            finish_reason=choice.finish_reason,
            model=reply.model,
            fingerprint=reply.system_fingerprint,
            refused_params=self._unapplied_params(prompt, params) if self._endpoint.refused_names else (),
        )

    def _build_request(self, prompt: Prompt, params: Params, refused_names: frozenset[str]) -> _ChatRequest:
        request = _ChatRequest(model=self._model, messages=_to_chat_messages(prompt.messages))
        if "temperature" not in refused_names:
            request.temperature = params.temperature
        if params.seed is not None and "seed" not in refused_names:
            request.seed = params.seed + prompt.repeat
        if "max_tokens" in refused_names:
            request.max_completion_tokens = params.max_tokens
        else:
            request.max_tokens = params.max_tokens
        if "response_format" not in refused_names:
            request.response_format = _response_format(prompt)
        if prompt.tools and "tools" not in refused_names:
            request.tools = [{"type": "function", "function": _describe_tool(tool)} for tool in prompt.tools]
        return request

    def _unapplied_params(self, prompt: Prompt, params: Params) -> tuple[str, ...]:
        values = {
            "temperature": params.temperature,
            "seed": params.seed,
            "response_format": _response_format(prompt),
            "tools": prompt.tools or None,
        }
        return tuple(
            name for name in values if values[name] is not None and name in self._endpoint.refused_names
        )

    def _no_answer_error(self, reply: _ChatReply, data: Body) -> TargetError:
        if reply.error is None:
            return TargetError(f"The reply of {self._model!r} has no choices in it.", kind="protocol")
        code = reply.error.get("code") if isinstance(reply.error, dict) else None
        return self._endpoint.error_in_reply(
            code if isinstance(code, int) and 400 <= code < 600 else 200, data
        )


class OpenAiEmbeddings:
    """A model behind an OpenAI-compatible `/embeddings` endpoint."""

    def __init__(self, model: str, post: JsonEndpoint) -> None:
        self.name = model
        self._endpoint = post

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Returns one vector for each text, in order.

        Raises:
            TargetError: there is no reply, or not one vector for each text.
        """
        if not texts:
            return []
        body = ENCODER.encode({"model": self.name, "input": list(texts)})
        data = (await self._endpoint.send(lambda _names: body, ())).body
        rows = sorted(self._endpoint.decode(_EMBEDDINGS_DECODER, data).data, key=lambda row: row.index)
        if [row.index for row in rows] != list(range(len(texts))):
            raise TargetError(
                f"{self.name!r} answered {len(texts)} texts with {len(rows)} embeddings.", kind="protocol"
            )
        return [row.embedding for row in rows]


async def open_target(spec: TargetSpec, context: TargetContext) -> OpenAiTarget:
    """Opens the model of a specification whose kind uses OpenAI's API.

    Raises:
        UsageError: the specification has no model, or the service's key is not set.
    """
    from yarl import URL

    from proctor.targets.api.http import address_for, key_for_target

    endpoint = address_for(spec)
    model = require_model(spec)
    key = key_for_target(spec, endpoint, context)
    url = URL(endpoint.rstrip("/") + "/chat/completions")
    return OpenAiTarget.from_spec(model, spec, context, url, _bearer_header(key))


def open_embeddings(spec: TargetSpec, context: TargetContext) -> OpenAiEmbeddings:
    """Opens the embedding model of a specification; needs a running event loop.

    Raises:
        UsageError: the specification has no model, or the service's key is not set.
    """
    from yarl import URL

    from proctor.targets.api.http import JsonEndpoint, address_for, key_for_endpoint

    endpoint = address_for(spec)
    key = key_for_endpoint(endpoint, context, f"Embedding model {spec.name!r}")
    url = URL(endpoint.rstrip("/") + "/embeddings")
    return OpenAiEmbeddings(require_model(spec), JsonEndpoint(context, url, _bearer_header(key)))


def _bearer_header(key: str | None) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"} if key else {}


AUDIO_FORMATS = {
    "audio/wav": "wav",
    "audio/wave": "wav",
    "audio/x-wav": "wav",
    "audio/mpeg": "mp3",
    "audio/mp3": "mp3",
}
"""The audio that chat completions take, by media type, with the API's names of the formats."""

OPENAI = TargetKind(
    name="openai",
    open_target=open_target,
    syntax="openai:MODEL[@URL]",
    summary="OpenAI, or any OpenAI-compatible server by its base URL",
    model_pattern=r"(gpt|chatgpt)-.|o[134](-.|$)",
    address="https://api.openai.com/v1",
    address_variable="OPENAI_BASE_URL",
    key_variables=("OPENAI_API_KEY",),
    media=frozenset({"image", "pdf", "audio", "file"}),
    media_types={"audio": frozenset(AUDIO_FORMATS)},
    open_embeddings=open_embeddings,
    batches="proctor.targets.api.batches.openai:OpenAiBatches",
    bills_per_prompt=True,
    has_list_prices=True,
    is_typed_in_web=True,
)


# --- nouns and the wire ------------------------------------------------------------------------------------


def _response_format(prompt: Prompt) -> dict[str, Any] | None:
    schema = prompt.response_schema
    if schema is None:
        return {"type": "json_object"} if prompt.json_answer else None
    json_schema = {"name": "reply", "strict": _can_be_strict(schema), "schema": schema}
    return {"type": "json_schema", "json_schema": json_schema}


def _can_be_strict(schema: Any) -> bool:
    """Whether every object in a schema requires all its properties and allows no others, as strict mode does.

    Source: https://platform.openai.com/docs/guides/structured-outputs#supported-schemas.
    """
    if isinstance(schema, list):
        return all(map(_can_be_strict, schema))
    if not isinstance(schema, dict):
        return True
    if schema.get("type") == "object" or "properties" in schema:
        properties, required = schema.get("properties"), schema.get("required")
        if schema.get("additionalProperties") is not False or not isinstance(properties, dict):
            return False
        if not isinstance(required, list) or set(properties) - set(required):
            return False
    return all(map(_can_be_strict, schema.values()))


def _describe_tool(tool: Tool) -> dict[str, Any]:
    """Returns the API's description of a tool, without empty parts."""
    description = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {name: part for name, part in description.items() if part}


def _to_chat_messages(messages: Sequence[Message]) -> list[_ChatMessage]:
    if not any(message.tool_calls or message.role == "tool" for message in messages):
        return [
            _ChatMessage(m.role, _to_content_blocks(m) if m.parts else m.content, m.name) for m in messages
        ]
    ids = call_ids(messages)
    return [_to_tool_message(message, ids) for message in messages]


def _to_tool_message(message: Message, ids: Mapping[str, str]) -> _ChatMessage:
    if message.role == "tool":
        name = message.name or ""
        return _ChatMessage("tool", format_message(message), tool_call_id=ids.get(name, name))
    calls = [
        _ChatToolCall(_ChatFunction(call.name, ENCODER.encode(call.arguments).decode()), call.id or call.name)
        for call in message.tool_calls
    ]
    content = _to_content_blocks(message) if message.parts else message.content
    return _ChatMessage(message.role, content, message.name, calls or None)


def _to_content_blocks(message: Message) -> list[dict[str, Any]]:
    return [
        {"type": "text", "text": part} if isinstance(part, str) else _to_attachment_block(part)
        for part in message.parts
    ]


def _to_attachment_block(attachment: Attachment) -> dict[str, Any]:
    medium = attachment.medium
    if medium == "text":
        return {"type": "text", "text": format_attachment(attachment)}
    if medium == "image":
        return {"type": "image_url", "image_url": {"url": data_uri(attachment)}}
    if medium == "audio" and attachment.media_type in AUDIO_FORMATS:
        sound = {"data": encode_base64(attachment), "format": AUDIO_FORMATS[attachment.media_type]}
        return {"type": "input_audio", "input_audio": sound}
    if medium in ("audio", "video"):
        raise unsendable_attachment(attachment, "a chat-completions endpoint")
    return {"type": "file", "file": {"filename": attachment.path, "file_data": data_uri(attachment)}}


def _parse_tool_call(call: _ChatToolCall) -> ToolCall:
    """Parses a tool call; arguments that are not a JSON object go under `arguments`."""
    raw_arguments = call.function.arguments
    arguments = raw_arguments
    if isinstance(raw_arguments, str):
        try:
            arguments = msgspec.json.decode(raw_arguments or "{}")
        except msgspec.DecodeError:
            arguments = raw_arguments
    if not isinstance(arguments, dict):
        arguments = {"arguments": arguments}
    return ToolCall(name=call.function.name, arguments=arguments, id=call.id)


def _parse_usage(counts: Any) -> Usage | None:
    if isinstance(counts, dict):
        details = counts.get("prompt_tokens_details")
        cached = details.get("cached_tokens") if isinstance(details, dict) else details
        counts = {**counts, "cached": cached or counts.get("prompt_cache_hit_tokens")}
    return read_usage(counts, ("prompt_tokens",), ("completion_tokens",), "cached")

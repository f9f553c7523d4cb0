"""Answers prompts over the Responses API of OpenAI, which other services have too.

Source of the format: https://platform.openai.com/docs/api-reference/responses. The API has no `seed` and no
`stop`. Nothing is stored at the service unless `extra_body` says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from proctor.errors import TargetError
from proctor.model import (
    Attachment,
    Message,
    Output,
    Params,
    Prompt,
    TargetSpec,
    TokenLogprob,
    Tool,
    ToolCall,
    Usage,
)
from proctor.pricing import read_usage
from proctor.targets import get_service
from proctor.targets.api.answer_media import decode_base64, make_attachment
from proctor.targets.api.messages import (
    call_ids,
    data_uri,
    format_attachment,
    format_message,
    unsendable_attachment,
)
from proctor.targets.api.openai.common import can_be_strict, parse_call
from proctor.targets.api.openai.reply import cut_id, parse_logprobs, parse_reported_cost
from proctor.targets.api.openai.style import OPENAI_STYLE, ChatStyle
from proctor.targets.api.target import ENCODER, ApiTarget

if TYPE_CHECKING:
    from proctor.targets.api.http import Body

_ERROR_STATUSES = {
    "server_error": 500,
    "vector_store_timeout": 504,
    "rate_limit_exceeded": 429,
    "insufficient_quota": 429,
}
"""The statuses that errors inside a reply would have, by their codes."""
_POLICY_CODES = frozenset({"invalid_prompt", "bio_policy", "image_content_policy_violation"})
"""The codes of errors for a prompt that the service blocked."""
_FINISH_REASONS = {"max_output_tokens": "length", "max_tokens": "length"}
"""The reasons of incomplete answers that chat completions call otherwise."""
_NO_SCHEMA = {"type": "object", "properties": {}}


# --- the wire ----------------------------------------------------------------------------------------------


class _ResponsesRequest(Struct, omit_defaults=True):
    model: str
    input: list[dict[str, Any]]
    store: bool | None = None
    temperature: float | None = None
    top_p: float | None = None
    max_output_tokens: int | None = None
    reasoning: dict[str, str] | None = None
    text: dict[str, Any] | None = None
    tools: list[dict[str, Any]] | None = None
    include: list[str] | None = None
    top_logprobs: int | None = None
    service_tier: str | None = None
    stream: bool = False


class _ItemType(Struct):
    type: str


class _Part(Struct):
    type: str = ""
    text: str | None = None
    refusal: str | None = None
    logprobs: Any = None


class _MessageItem(Struct):
    content: list[_Part] | str | None = None
    phase: str | None = None


class _ReasoningItem(Struct):
    summary: list[_Part] | None = None
    content: list[_Part] | None = None


class _CallItem(Struct):
    name: str
    arguments: Any = "{}"
    input: Any = None
    """The text that a tool of type `custom` gets instead of arguments."""
    call_id: str | None = None
    output: Any = None
    """What a tool of an MCP server returned to the service."""


class _ImageItem(Struct):
    result: str | None = None
    output_format: str | None = None


class _IncompleteDetails(Struct):
    reason: str | None = None


class _ResponsesReply(Struct):
    output: list[Raw] | None = None
    id: Any = None
    model: str | None = None
    status: str | None = None
    incomplete_details: _IncompleteDetails | None = None
    error: Any = None
    usage: Any = None
    service_tier: Any = None


_REPLY_DECODER = msgspec.json.Decoder(_ResponsesReply)
_TYPE_DECODER = msgspec.json.Decoder(_ItemType)
_MESSAGE_DECODER = msgspec.json.Decoder(_MessageItem)
_REASONING_DECODER = msgspec.json.Decoder(_ReasoningItem)
_CALL_DECODER = msgspec.json.Decoder(_CallItem)
_IMAGE_DECODER = msgspec.json.Decoder(_ImageItem)


class ResponsesStream:
    """Puts the events of a streamed response together; its last event has the whole response."""

    _END_TYPES = frozenset({"response.completed", "response.incomplete", "response.failed"})
    _TOKEN_TYPES = frozenset(
        {
            "response.output_text.delta",
            "response.refusal.delta",
            "response.reasoning_text.delta",
            "response.reasoning_summary_text.delta",
        }
    )

    def __init__(self) -> None:
        """Starts without an event."""
        self.is_complete = False
        self._response: dict[str, Any] = {}
        self._items: dict[int, Any] = {}

    def add(self, event: dict[str, Any]) -> bool:
        """Adds one event; returns whether it brought reasoning or text."""
        kind = str(event.get("type"))
        if kind == "response.output_item.done":
            index = event.get("output_index")
            self._items[index if isinstance(index, int) else len(self._items)] = event.get("item")
        elif kind in self._END_TYPES and isinstance(event.get("response"), dict):
            self._response = event["response"]
            self.is_complete = True
        elif kind == "error" or event.get("error"):
            self._response = {"error": event.get("error") or event}
            self.is_complete = True
        return kind in self._TOKEN_TYPES and bool(event.get("delta"))

    def body(self) -> bytes:
        """Returns the JSON of the unstreamed response; items that its last event lacks are filled in."""
        if self._items and not self._response.get("output"):
            items = [item for _, item in sorted(self._items.items())]
            return ENCODER.encode({**self._response, "output": items})
        return ENCODER.encode(self._response)


# --- the target --------------------------------------------------------------------------------------------


class ResponsesTarget(ApiTarget):
    """A model behind a `/responses` endpoint."""

    # The first of these that an error names is left out: `parameters` are those of strict tools.
    optional_params = ("temperature", "summary", "store", "format", "parameters", "tools")
    streamed_reply = ResponsesStream
    _style: ChatStyle = OPENAI_STYLE

    def _prepare(self, spec: TargetSpec) -> None:
        """Learns the roles and costs of the service."""
        self._style = get_service(spec).chat_style or OPENAI_STYLE

    def _parse_reply(self, data: Body, prompt: Prompt, params: Params) -> Output:
        reply = self._endpoint.decode(_REPLY_DECODER, data)
        if reply.error or reply.output is None or reply.status not in {None, "completed", "incomplete"}:
            raise self._no_answer_error(reply, data)
        answer = _Answer()
        for item in reply.output:
            self._add_item(answer, bytes(item))
        usage, logprobs = _parse_usage(reply.usage), self._parse_logprobs(answer, params)
        return Output(
            text=answer.text,
            tool_calls=tuple(answer.tool_calls),
            usage=usage,
            cost_usd=parse_reported_cost(reply.usage) if self._style.has_cost else None,
            finish_reason=_finish_reason(reply, answer, usage, params.max_tokens),
            model=reply.model,
            refused_params=self._unapplied_params(prompt, params, answer.text, logprobs),
            reasoning=answer.reasoning,
            logprobs=logprobs,
            attachments=tuple(answer.attachments),
            response_id=cut_id(reply.id),
            service_tier=cut_id(reply.service_tier),
        )

    def _parse_logprobs(self, answer: _Answer, params: Params) -> tuple[TokenLogprob, ...]:
        """Returns the log-probabilities of an answer; those that nobody asked for may have any form."""
        try:
            return answer.parse_logprobs()
        except ValueError as error:
            if params.logprobs is None:
                return ()
            raise TargetError(
                f"{self._model!r} returned log-probabilities that cannot be read: {error}.", kind="protocol"
            ) from error

    def _add_item(self, answer: _Answer, data: bytes) -> None:
        """Adds an item of a reply to an answer; items of other types say only what the service did."""
        kind = self._endpoint.decode(_TYPE_DECODER, data).type
        if kind == "message":
            answer.add_message(self._endpoint.decode(_MESSAGE_DECODER, data))
        elif kind == "reasoning":
            answer.add_reasoning(self._endpoint.decode(_REASONING_DECODER, data))
        elif kind in {"function_call", "custom_tool_call", "mcp_call"}:
            answer.add_call(self._endpoint.decode(_CALL_DECODER, data), is_pending=kind != "mcp_call")
        elif kind == "image_generation_call":
            answer.add_image(self._endpoint.decode(_IMAGE_DECODER, data))

    def _build_request(
        self, prompt: Prompt, params: Params, refused_names: frozenset[str]
    ) -> _ResponsesRequest:
        return _ResponsesRequest(
            model=self._model,
            input=list(_to_items(prompt.messages, has_developer=self._style.has_developer_role)),
            store=None if "store" in refused_names else False,
            temperature=None if "temperature" in refused_names else params.temperature,
            top_p=params.top_p,
            max_output_tokens=params.max_tokens,
            reasoning=_reasoning(params, with_summary="summary" not in refused_names),
            text=_text_config(prompt, params, with_format="format" not in refused_names),
            tools=_tools(prompt, refused_names),
            include=None if params.logprobs is None else ["message.output_text.logprobs"],
            top_logprobs=params.logprobs or None,
            service_tier=params.service_tier,
            stream=params.stream,
        )

    def _unapplied_params(
        self, prompt: Prompt, params: Params, text: str, logprobs: tuple[TokenLogprob, ...]
    ) -> tuple[str, ...]:
        """Returns the parameters that the endpoint refused or ignored, or that the API does not have."""
        refused_names = self._endpoint.refused_names
        not_applied = {
            "temperature": params.temperature is not None and "temperature" in refused_names,
            "seed": params.seed is not None,
            "response_format": _text_format(prompt) is not None and "format" in refused_names,
            "tools": bool(prompt.tools) and "tools" in refused_names,
            "reasoning_summary": _wants_summary(params) and "summary" in refused_names,
            "store": "store" in refused_names,
            "logprobs": params.logprobs is not None and bool(text) and not logprobs,
        }
        return tuple(name for name, is_so in not_applied.items() if is_so)

    def _no_answer_error(self, reply: _ResponsesReply, data: Body) -> TargetError:
        if not reply.error:
            lack = f"the status {reply.status[:40]!r}" if reply.status else "no output"
            remedy = " Remove `background`." if reply.status in {"queued", "in_progress"} else ""
            return TargetError(f"The reply of {self._model!r} has {lack}.{remedy}", kind="protocol")
        error = reply.error if isinstance(reply.error, dict) else {}
        code = error.get("code") or error.get("type")
        if str(code) in _POLICY_CODES:
            details = self._endpoint.error_in_reply(200, data)
            return TargetError(f"{self._model!r} blocked the prompt. {details}", kind="refused")
        if not isinstance(code, int):
            code = _ERROR_STATUSES.get(str(code), 0)
        return self._endpoint.error_in_reply(code if 400 <= code < 600 else 200, data)


class _Answer:
    """What the items of a reply add up to."""

    def __init__(self) -> None:
        self.tool_calls: list[ToolCall] = []
        self.attachments: list[Attachment] = []
        self.has_pending_calls = False
        self._texts: list[str] = []
        self._refusals: list[str] = []
        self._thoughts: list[tuple[str, bool]] = []
        """Reasoning and remarks, each with whether it is a remark to the user."""
        self._wire_logprobs: list[Any] = []

    def parse_logprobs(self) -> tuple[TokenLogprob, ...]:
        """Parses the log-probabilities of all messages.

        Raises:
            ValueError: they have another form, or a value that is no finite number.
        """
        return tuple(token for part in self._wire_logprobs for token in parse_logprobs({"content": part}))

    @property
    def text(self) -> str:
        """The text of all messages; without any the refusal, else the remarks."""
        remarks = [text for text, is_remark in self._thoughts if is_remark]
        return "\n\n".join(self._texts or self._refusals or remarks)

    @property
    def reasoning(self) -> str | None:
        """What the model thought, with the remarks that are not its answer."""
        has_answer = bool(self._texts or self._refusals)
        return "\n\n".join(text for text, is_remark in self._thoughts if has_answer or not is_remark) or None

    def add_message(self, item: _MessageItem) -> None:
        parts = [_Part("output_text", item.content)] if isinstance(item.content, str) else item.content or []
        text = "".join(part.text for part in parts if part.text)
        if item.phase == "commentary":
            # What a model says to its user while it works is no part of the answer.
            self._thoughts += [(text, True)] if text else []
            return
        self._texts += [text] if text else []
        self._refusals += [part.refusal for part in parts if part.refusal]
        self._wire_logprobs += [part.logprobs for part in parts]

    def add_reasoning(self, item: _ReasoningItem) -> None:
        texts = [part.text for part in item.content or () if part.text]
        texts = texts or [part.text for part in item.summary or () if part.text]
        self._thoughts += [(text, False) for text in texts]

    def add_call(self, item: _CallItem, *, is_pending: bool) -> None:
        arguments = {"input": item.input} if item.input is not None else item.arguments
        call = parse_call(item.name, arguments, item.call_id)
        self.tool_calls.append(replace(call, output=item.output))
        self.has_pending_calls |= is_pending

    def add_image(self, item: _ImageItem) -> None:
        if not item.result:
            return
        data = decode_base64(item.result)
        if data is None:
            raise TargetError("An image in the reply is not Base64.", kind="protocol")
        media_type = f"image/{item.output_format or 'png'}"
        self.attachments.append(make_attachment(data, media_type, len(self.attachments) + 1))


# --- requests ----------------------------------------------------------------------------------------------


def _wants_summary(params: Params) -> bool:
    """Whether a summary of the reasoning is requested: only of models that the user lets reason."""
    return params.reasoning_effort not in {None, "none"}


def _reasoning(params: Params, *, with_summary: bool) -> dict[str, str] | None:
    if params.reasoning_effort is None:
        return None
    summary = {"summary": "auto"} if with_summary and _wants_summary(params) else {}
    return {"effort": params.reasoning_effort, **summary}


def _text_config(prompt: Prompt, params: Params, *, with_format: bool) -> dict[str, Any] | None:
    config = {"format": _text_format(prompt) if with_format else None, "verbosity": params.verbosity}
    return {name: value for name, value in config.items() if value is not None} or None


def _text_format(prompt: Prompt) -> dict[str, Any] | None:
    schema = prompt.response_schema
    if schema is None:
        return {"type": "json_object"} if prompt.json_answer else None
    return {"type": "json_schema", "name": "reply", "strict": can_be_strict(schema), "schema": schema}


def _tools(prompt: Prompt, refused_names: frozenset[str]) -> list[dict[str, Any]] | None:
    if not prompt.tools or "tools" in refused_names:
        return None
    return [_describe_tool(tool, may_be_strict="parameters" not in refused_names) for tool in prompt.tools]


def _describe_tool(tool: Tool, *, may_be_strict: bool) -> dict[str, Any]:
    """Returns the API's description of a tool; without `strict` the service would change its schema."""
    return {
        "type": "function",
        "name": tool.name,
        **({"description": tool.description} if tool.description else {}),
        "parameters": tool.parameters or _NO_SCHEMA,
        "strict": may_be_strict and bool(tool.parameters) and can_be_strict(tool.parameters),
    }


def _to_items(messages: Sequence[Message], *, has_developer: bool) -> Iterator[dict[str, Any]]:
    """Yields the items of a conversation; without a role `developer` its messages are those of the system."""
    ids = call_ids(messages)
    for message in messages:
        if message.role == "tool":
            name = message.name or ""
            call_id = ids.get(name, name)
            yield {"type": "function_call_output", "call_id": call_id, "output": format_message(message)}
            continue
        if message.content or message.parts or not message.tool_calls:
            role = "system" if message.role == "developer" and not has_developer else message.role
            yield {"type": "message", "role": role, "content": _to_content(message)}
        for call in message.tool_calls:
            yield {
                "type": "function_call",
                "call_id": call.id or call.name,
                "name": call.name,
                "arguments": ENCODER.encode(call.arguments).decode(),
            }


def _to_content(message: Message) -> str | list[dict[str, Any]]:
    """Returns the content of a message; the API takes files from users and developers only."""
    if not message.parts or message.role == "assistant":
        return format_message(message)
    return [
        {"type": "input_text", "text": part} if isinstance(part, str) else _to_attachment_block(part)
        for part in message.parts
    ]


def _to_attachment_block(attachment: Attachment) -> dict[str, Any]:
    medium = attachment.medium
    if medium == "text":
        return {"type": "input_text", "text": format_attachment(attachment)}
    if medium in {"audio", "video"}:
        raise unsendable_attachment(attachment, "the Responses API")
    if medium == "image":
        return {"type": "input_image", "image_url": data_uri(attachment), "detail": "auto"}
    return {"type": "input_file", "filename": attachment.path, "file_data": data_uri(attachment)}


# --- replies -----------------------------------------------------------------------------------------------


def _finish_reason(
    reply: _ResponsesReply, answer: _Answer, usage: Usage | None, max_tokens: int | None
) -> str:
    """Returns why an answer ended, in the words of chat completions."""
    if reply.status == "incomplete":
        reason = reply.incomplete_details.reason if reply.incomplete_details else None
        return _FINISH_REASONS.get(reason, reason) if reason else "incomplete"
    # llama.cpp reports answers as completed that it cut.
    if usage is not None and max_tokens is not None and usage.output_tokens >= max_tokens:
        return "length"
    return "tool_calls" if answer.has_pending_calls else "stop"


def _parse_usage(counts: Any) -> Usage | None:
    """Parses token counts; xAI counts reasoning beside `output_tokens`, and the total tells.

    Source: https://docs.x.ai/docs/guides/reasoning.
    """
    if not isinstance(counts, dict):
        return read_usage(counts, (), (), "")
    inputs, outputs = counts.get("input_tokens_details"), counts.get("output_tokens_details")
    reasoning = outputs.get("reasoning_tokens") if isinstance(outputs, dict) else outputs
    parts = {
        "cached": inputs.get("cached_tokens") if isinstance(inputs, dict) else inputs,
        "cache_write": inputs.get("cache_write_tokens") if isinstance(inputs, dict) else None,
        "reasoning": reasoning,
    }
    numbers: list[Any] = [counts.get("input_tokens"), counts.get("output_tokens"), reasoning]
    are_counts = bool(reasoning) and all(type(number) is int for number in numbers)
    is_apart = are_counts and counts.get("total_tokens") == sum(numbers)
    return read_usage(
        {**counts, **parts},
        ("input_tokens",),
        ("output_tokens", "reasoning") if is_apart else ("output_tokens",),
        "cached",
        cache_write_name="cache_write",
        reasoning_name="reasoning",
    )

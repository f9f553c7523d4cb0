"""Answers prompts over the chat-completions API of OpenAI and most other services.

Source of the format: https://platform.openai.com/docs/api-reference/chat. What services call differently is
in the `ChatStyle` of their kind, and replies are read in every spelling.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from proctor.errors import TargetError
from proctor.model import Attachment, Message, Output, Params, Prompt, TargetSpec, TokenLogprob, Tool
from proctor.targets import get_service
from proctor.targets.api.messages import (
    call_ids,
    data_uri,
    encode_base64,
    format_attachment,
    format_message,
    unsendable_attachment,
)
from proctor.targets.api.openai.common import can_be_strict
from proctor.targets.api.openai.style import OPENAI_STYLE, ChatStyle
from proctor.targets.api.target import ENCODER, ApiTarget, require_model
from proctor.targets.kind import TargetKind

if TYPE_CHECKING:
    from proctor.targets.api.choices.scorer import ChoiceScorer
    from proctor.targets.api.http import Body, JsonEndpoint
    from proctor.targets.api.openai.reply import ChatReply
    from proctor.targets.context import TargetContext

# --- the wire ----------------------------------------------------------------------------------------------


class _ChatMessage(Struct, omit_defaults=True, gc=False):
    role: str
    content: str | list[dict[str, Any]]
    name: str | None = None
    tool_calls: list[dict[str, Any]] | None = None
    tool_call_id: str | None = None


class _Embedding(Struct):
    embedding: list[float]
    index: int = 0


class _EmbeddingsReply(Struct):
    data: list[_Embedding]


_EMBEDDINGS_DECODER = msgspec.json.Decoder(_EmbeddingsReply)


# --- the target --------------------------------------------------------------------------------------------


class OpenAiTarget(ApiTarget):
    """A model behind a chat-completions endpoint."""

    # The maximum of tokens is sent again under its other name, so it is never left out altogether. Without
    # `stream_options` some servers report no token counts.
    optional_params = (
        *("temperature", "seed", "random_seed", "response_format"),
        *("max_tokens", "max_completion_tokens", "tools", "stream_options"),
    )
    _decoder: msgspec.json.Decoder[ChatReply]
    _style: ChatStyle = OPENAI_STYLE
    _seed_name: str | None = None
    """The field of the seed; None if the service has none."""
    _written: tuple[frozenset[str], dict[str, Any]] | None = None
    """The fields of the target's own parameters, and the refused names that they were written without."""

    make_scorer: Callable[[], ChoiceScorer] | None = None
    """Opens what scores choices, if the service can; called at the first prompt with choices."""
    _scorer: ChoiceScorer | None = None

    def _prepare(self, spec: TargetSpec) -> None:
        """Learns how the service writes parameters."""
        # These are imported only when a model is called.
        from proctor.targets.api.openai.reply import CHAT_REPLY_DECODER
        from proctor.targets.api.openai.stream import ChatStream

        self.streamed_reply = ChatStream
        self._decoder = CHAT_REPLY_DECODER
        self._style = get_service(spec).chat_style or OPENAI_STYLE
        self._seed_name = self._style.get_name("seed")

    async def _score_choices(self, prompt: Prompt) -> Output:
        if self.make_scorer is None:
            return await super()._score_choices(prompt)
        if self._scorer is None:
            self._scorer = self.make_scorer()
        return self._endpoint.redact_keys(await self._scorer.score(prompt))

    def _parse_reply(self, data: Body, prompt: Prompt, params: Params) -> Output:
        reply = self._endpoint.decode(self._decoder, data)
        if reply.error or not reply.choices:
            raise self._no_answer_error(reply, data)
        has_logprobs = params.logprobs is not None or reply.choices[0].logprobs is not None
        output = reply.make_output(self._parse_logprobs(reply, params) if has_logprobs else ())
        if self._style.has_cost:
            output = replace(output, cost_usd=reply.parse_cost())
        if not self._endpoint.refused_names and self._seed_name is not None and params.logprobs is None:
            return output
        return replace(output, refused_params=self._unapplied_params(prompt, params, output))

    def _build_request(self, prompt: Prompt, params: Params, refused_names: frozenset[str]) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self._model,
            "messages": _to_chat_messages(prompt.messages, has_developer=self._style.has_developer_role),
        }
        if fields := self._write_params(params, refused_names):
            body |= fields
        seed_name = self._seed_name
        if params.seed is not None and seed_name is not None and seed_name not in refused_names:
            body[seed_name] = params.seed + prompt.repeat
        response_format = _response_format(prompt)
        if response_format is not None and "response_format" not in refused_names:
            body["response_format"] = response_format
        if prompt.tools and "tools" not in refused_names:
            body["tools"] = [{"type": "function", "function": _describe_tool(tool)} for tool in prompt.tools]
        return body

    def _write_params(self, params: Params, refused_names: frozenset[str]) -> dict[str, Any]:
        """Returns the fields of parameters; those of the target itself are written once."""
        if params is not self._params:
            return self._style.write_params(params, self._model, refused_names)
        if self._written is None or self._written[0] != refused_names:
            fields = self._style.write_params(params, self._model, refused_names)
            self._written = (refused_names, fields)
        return self._written[1]

    def _parse_logprobs(self, reply: ChatReply, params: Params) -> tuple[TokenLogprob, ...]:
        """Returns the log-probabilities of a reply; those that nobody asked for may have any form.

        A server that reports more of the likeliest tokens than it was asked for is cut off.
        """
        count = params.logprobs
        try:
            logprobs = reply.parse_logprobs()
            return logprobs if count is None else tuple(replace(lp, top=lp.top[:count]) for lp in logprobs)
        except ValueError as error:
            if count is None:
                return ()
            raise TargetError(
                f"{self._model!r} returned log-probabilities that cannot be read: {error}.", kind="protocol"
            ) from error

    def _unapplied_params(self, prompt: Prompt, params: Params, output: Output) -> tuple[str, ...]:
        """Returns the parameters that the endpoint refused, that its service lacks or that it ignored."""
        refused_names, seed_name = self._endpoint.refused_names, self._seed_name
        unwritten = {None, *refused_names}
        lacks_logprobs = params.logprobs is not None and bool(output.text) and not output.logprobs
        unapplied = {
            "temperature": params.temperature is not None
            and self._style.get_name("temperature") in unwritten,
            "seed": params.seed is not None and seed_name in unwritten,
            "response_format": "response_format" in refused_names and _response_format(prompt) is not None,
            "tools": "tools" in refused_names and bool(prompt.tools),
            "logprobs": lacks_logprobs,
        }
        return tuple(name for name, is_so in unapplied.items() if is_so)

    def _no_answer_error(self, reply: ChatReply, data: Body) -> TargetError:
        if reply.error is None:
            return TargetError(f"The reply of {self._model!r} has no choices.", kind="protocol")
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


async def open_target(spec: TargetSpec, context: TargetContext) -> ApiTarget:
    """Opens the model of a specification whose kind uses OpenAI's API.

    Raises:
        UsageError: the specification has no model, or the service's key is not set.
    """
    from yarl import URL

    from proctor.targets.api.http import address_for, key_for_target

    def make_scorer() -> ChoiceScorer:
        from proctor.targets.api.choices.scorer import open_scorer

        return open_scorer(model, spec, context, endpoint.rstrip("/"), headers)

    endpoint = address_for(spec)
    model = require_model(spec)
    key = key_for_target(spec, endpoint, context)
    headers = _bearer_header(key)
    if spec.params.api_format == "responses":
        from proctor.targets.api.openai.responses import ResponsesTarget

        url = URL(endpoint.rstrip("/") + "/responses")
        return ResponsesTarget.from_spec(model, spec, context, url, headers)
    url = URL(endpoint.rstrip("/") + "/chat/completions")
    target = OpenAiTarget.from_spec(model, spec, context, url, headers)
    target.make_scorer = make_scorer if get_service(spec).scores_choices else None
    return target


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
    params=OPENAI_STYLE.params,
    chat_style=OPENAI_STYLE,
    bills_per_prompt=True,
    has_list_prices=True,
    # Source: https://openai.com/api/pricing. Priority and scale have prices of their own.
    tier_shares={"auto": 1.0, "default": 1.0, "flex": 0.5},
    is_typed_in_web=True,
    scores_choices=True,
    choice_models=r"(babbage|davinci)-002",
)


# --- nouns and the wire ------------------------------------------------------------------------------------


def _response_format(prompt: Prompt) -> dict[str, Any] | None:
    schema = prompt.response_schema
    if schema is None:
        return {"type": "json_object"} if prompt.json_answer else None
    json_schema = {"name": "reply", "strict": can_be_strict(schema), "schema": schema}
    return {"type": "json_schema", "json_schema": json_schema}


def _describe_tool(tool: Tool) -> dict[str, Any]:
    """Returns the API's description of a tool, without empty parts."""
    description = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {name: part for name, part in description.items() if part}


def _to_chat_messages(messages: Sequence[Message], *, has_developer: bool) -> list[_ChatMessage]:
    chat_messages = []
    ids: Mapping[str, str] | None = None
    for message in messages:
        if message.role == "developer" and not has_developer:
            message = replace(message, role="system")
        if message.tool_calls or message.role == "tool":
            ids = call_ids(messages) if ids is None else ids
            chat_messages.append(_to_tool_message(message, ids))
        else:
            content = _to_content_blocks(message) if message.parts else message.content
            chat_messages.append(_ChatMessage(message.role, content, message.name))
    return chat_messages


def _to_tool_message(message: Message, ids: Mapping[str, str]) -> _ChatMessage:
    if message.role == "tool":
        name = message.name or ""
        return _ChatMessage("tool", format_message(message), tool_call_id=ids.get(name, name))
    calls = [
        {
            "id": call.id or call.name,
            "type": "function",
            "function": {"name": call.name, "arguments": ENCODER.encode(call.arguments).decode()},
        }
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

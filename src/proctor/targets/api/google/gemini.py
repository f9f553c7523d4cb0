"""Answers prompts over Google's Gemini API.

Source of the format: https://ai.google.dev/api/generate-content.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final
from urllib.parse import quote

import msgspec
from msgspec import UNSET, Struct, UnsetType

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
)
from proctor.pricing import read_usage
from proctor.targets.api.messages import encode_base64, format_attachment, format_message
from proctor.targets.api.target import ENCODER, ApiTarget, require_model
from proctor.targets.kind import ALL_MEDIA, TargetKind

if TYPE_CHECKING:
    from yarl import URL

    from proctor.targets.api.http import Body
    from proctor.targets.context import TargetContext

# Google's names of optional parameters, with ours. The last two appear in its errors for models that do not
# support them at all. The first one is added, not left out; its error is about tools too.
_OPTIONAL_PARAMS = {
    "thought_signature": "thought_signature",
    "temperature": "temperature",
    "seed": "seed",
    "responseJsonSchema": "response_format",
    "responseMimeType": "response_format",
    "tools": "tools",
    "JSON mode": "response_format",
    "Function calling": "tools",
}


# --- the wire ----------------------------------------------------------------------------------------------


_NO_SIGNATURE: Final = {"thoughtSignature": "skip_thought_signature_validator"}
"""What Gemini 3 wants beside a call that it did not make itself.

Source: https://ai.google.dev/gemini-api/docs/thought-signatures.
"""


class _ThinkingConfig(Struct, omit_defaults=True, rename="camel"):
    thinking_budget: int | None = None
    thinking_level: str | None = None
    include_thoughts: bool = False


class _GenerationConfig(Struct, omit_defaults=True, rename="camel"):
    temperature: float | None = None
    seed: int | None = None
    max_output_tokens: int | None = None
    response_mime_type: str | None = None
    response_json_schema: dict[str, Any] | None = None
    top_p: float | None = None
    top_k: int | None = None
    stop_sequences: tuple[str, ...] = ()
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    response_logprobs: bool = False
    logprobs: int | None = None
    thinking_config: _ThinkingConfig | None = None


class _GenerateRequest(Struct, omit_defaults=True, rename="camel"):
    contents: list[dict[str, Any]]
    generation_config: _GenerationConfig
    system_instruction: dict[str, Any] | UnsetType = UNSET
    tools: list[dict[str, Any]] | UnsetType = UNSET
    service_tier: str | None = None


class _GoogleFunctionCall(Struct):
    name: str
    args: dict[str, Any] = {}
    id: str | None = None


class _InlineData(Struct, rename="camel"):
    data: bytes = b""
    mime_type: str = ""


class _ReplyPart(Struct, rename="camel"):
    text: str = ""
    thought: bool = False
    function_call: _GoogleFunctionCall | None = None
    inline_data: _InlineData | None = None


class _ReplyContent(Struct, frozen=True):
    parts: list[_ReplyPart] = []


class _TokenCandidate(Struct, rename="camel"):
    token: str = ""
    log_probability: float = 0.0


class _TopCandidates(Struct):
    candidates: list[_TokenCandidate] = []


class _LogprobsResult(Struct, rename="camel"):
    chosen_candidates: list[_TokenCandidate] = []
    top_candidates: list[_TopCandidates] = []


class _ReplyCandidate(Struct, rename="camel"):
    content: _ReplyContent = _ReplyContent()
    finish_reason: str | None = None
    logprobs_result: _LogprobsResult | None = None


class _PromptFeedback(Struct, rename="camel"):
    block_reason: str | None = None


class _GenerateReply(Struct, rename="camel"):
    candidates: list[_ReplyCandidate] = []
    prompt_feedback: _PromptFeedback | None = None
    usage_metadata: Any = None
    model_version: str | None = None
    response_id: str | None = None
    error: Any = None


_REPLY_DECODER = msgspec.json.Decoder(_GenerateReply)


class GoogleReplyStream:
    """Puts the events of a streamed reply together: each is a reply with some of the parts."""

    def __init__(self) -> None:
        """Starts without an event."""
        self.is_complete = False
        self._reply: dict[str, Any] = {}
        self._candidate: dict[str, Any] = {}
        self._parts: list[tuple[dict[str, Any], list[str]]] = []
        """Each part with the pieces of its text."""
        self._logprobs: dict[str, list[Any]] = {}

    def add(self, event: dict[str, Any]) -> bool:
        """Adds one event; returns whether it brought reasoning, text or a call."""
        self._reply |= event
        feedback = event.get("promptFeedback")
        is_blocked = isinstance(feedback, dict) and bool(feedback.get("blockReason"))
        self.is_complete |= is_blocked or "error" in event
        candidates = _list_objects(event.get("candidates"))
        candidate = next((candidate for candidate in candidates if not candidate.get("index")), None)
        return candidate is not None and self._add_candidate(candidate)

    def body(self) -> bytes:
        """Returns the JSON of the unstreamed reply, or of the error that an event reported."""
        if not self._candidate:
            return ENCODER.encode(self._reply)
        parts = [{**part, "text": "".join(texts)} if texts else part for part, texts in self._parts]
        candidate = {**self._candidate, "content": {"parts": parts}, "logprobsResult": self._logprobs}
        return ENCODER.encode({**self._reply, "candidates": [candidate]})

    def _add_candidate(self, candidate: dict[str, Any]) -> bool:
        self._candidate |= candidate
        self.is_complete |= bool(candidate.get("finishReason"))
        logprobs = candidate.get("logprobsResult")
        if isinstance(logprobs, dict):
            for name in ("chosenCandidates", "topCandidates"):
                self._logprobs.setdefault(name, []).extend(_list_objects(logprobs.get(name)))
        content = candidate.get("content")
        parts = _list_objects(content.get("parts") if isinstance(content, dict) else None)
        for part in parts:
            self._add_part(part)
        return any(part.get("text") or "functionCall" in part for part in parts)

    def _add_part(self, part: dict[str, Any]) -> None:
        """Adds a part; texts of the same kind that follow one another are one."""
        text = part.get("text")
        if not isinstance(text, str):
            self._parts.append((part, []))
            return
        if self._parts:
            last, texts = self._parts[-1]
            if texts and last.get("thought") == part.get("thought"):
                last.update(part)
                texts.append(text)
                return
        self._parts.append((part, [text]))


# --- the target --------------------------------------------------------------------------------------------


class GoogleTarget(ApiTarget):
    """A Gemini model."""

    optional_params = tuple(_OPTIONAL_PARAMS)
    streamed_reply = GoogleReplyStream
    has_tier_field: ClassVar[bool] = True
    """Whether the tier is a field of the request."""

    @classmethod
    def find_conflict(cls, _model: str, params: Params) -> str | None:
        """Returns that the API refuses both ways to set how long a model thinks, if both are set."""
        if params.thinking_budget is None or params.reasoning_effort is None:
            return None
        return (
            "Gemini models accept `thinking_budget` or `reasoning_effort`, not both. Remove "
            "`thinking_budget` for Gemini 3 and later, or `reasoning_effort` for Gemini 2.5."
        )

    def _parse_reply(self, data: Body, prompt: Prompt, params: Params) -> Output:
        reply = self._endpoint.decode(_REPLY_DECODER, data)
        if reply.error is not None:
            code = reply.error.get("code") if isinstance(reply.error, dict) else None
            status = code if isinstance(code, int) and 400 <= code < 600 else 200
            raise self._endpoint.error_in_reply(status, data)
        if not reply.candidates:
            reason = reply.prompt_feedback.block_reason if reply.prompt_feedback else None
            raise TargetError(
                f"{self._model!r} blocked the prompt: {reason or 'no reason given'}.", kind="refused"
            )
        candidate = reply.candidates[0]
        parts = [part for part in candidate.content.parts if not part.thought]
        thoughts = "".join(part.text for part in candidate.content.parts if part.thought)
        calls = [part.function_call for part in parts if part.function_call]
        media = [part.inline_data for part in parts if part.inline_data]
        return Output(
            text="".join(part.text for part in parts),
            reasoning=thoughts or None,
            tool_calls=tuple(ToolCall(name=call.name, arguments=call.args, id=call.id) for call in calls),
            attachments=_to_attachments(media) if media else (),
            logprobs=_parse_logprobs(candidate.logprobs_result),
            usage=read_usage(
                reply.usage_metadata,
                ("promptTokenCount", "toolUsePromptTokenCount"),
                ("candidatesTokenCount", "thoughtsTokenCount"),
                "cachedContentTokenCount",
                reasoning_name="thoughtsTokenCount",
            ),
            finish_reason=candidate.finish_reason,
            model=reply.model_version,
            response_id=reply.response_id,
            service_tier=_parse_tier(reply.usage_metadata),
            refused_params=self._unapplied_params(prompt, params),
        )

    def _build_request(
        self, prompt: Prompt, params: Params, refused_names: frozenset[str]
    ) -> _GenerateRequest:
        config = _GenerationConfig(
            max_output_tokens=params.max_tokens,
            top_p=params.top_p,
            top_k=params.top_k,
            stop_sequences=params.stop,
            presence_penalty=params.presence_penalty,
            frequency_penalty=params.frequency_penalty,
            response_logprobs=params.logprobs is not None,
            logprobs=params.logprobs or None,
            thinking_config=_thinking_config(params),
        )
        without = _to_parameter_names(refused_names)
        if "temperature" not in without:
            config.temperature = params.temperature
        if params.seed is not None and "seed" not in without:
            config.seed = params.seed + prompt.repeat
        # Most models refuse an answer format together with tools.
        if _asks_for_json(prompt) and not prompt.tools and "response_format" not in without:
            config.response_mime_type = "application/json"
            config.response_json_schema = prompt.response_schema
        tools = prompt.tools if "tools" not in without else ()
        system = [{"text": format_message(m)} for m in prompt.messages if m.role in {"system", "developer"}]
        return _GenerateRequest(
            contents=_to_contents(prompt.messages, _NO_SIGNATURE if "thought_signature" in without else {}),
            generation_config=config,
            system_instruction={"parts": system} if system else UNSET,
            tools=[{"functionDeclarations": list(map(_describe_tool, tools))}] if tools else UNSET,
            service_tier=params.service_tier if self.has_tier_field else None,
        )

    def _unapplied_params(self, prompt: Prompt, params: Params) -> tuple[str, ...]:
        refused_names = _to_parameter_names(self._endpoint.refused_names)
        not_applied = {
            "temperature": params.temperature is not None and "temperature" in refused_names,
            "seed": params.seed is not None and "seed" in refused_names,
            "response_format": _asks_for_json(prompt)
            and (bool(prompt.tools) or "response_format" in refused_names),
            "tools": bool(prompt.tools) and "tools" in refused_names,
        }
        return tuple(name for name, is_so in not_applied.items() if is_so)


async def open_target(spec: TargetSpec, context: TargetContext) -> GoogleTarget:
    """Opens the model of a specification of kind `google`.

    Raises:
        UsageError: the specification has no model, or neither GEMINI_API_KEY nor GOOGLE_API_KEY is set.
    """
    from proctor.targets.api.http import address_for, key_for_target

    endpoint = address_for(spec).rstrip("/").removesuffix("/v1beta")
    model = require_model(spec)
    key = key_for_target(spec, endpoint, context)
    url, stream_url = generate_urls(f"{endpoint}/v1beta/models", model)
    headers = {"x-goog-api-key": key} if key else {}
    return GoogleTarget.from_spec(model, spec, context, url, headers, stream_url=stream_url)


def generate_urls(models: str, model: str) -> tuple[URL, URL]:
    """Returns the addresses of a model, of which the second streams its replies.

    Args:
        models: the address of all models of its publisher.
        model: its name, which is data: a slash or a question mark in it must not reach another address.
    """
    from yarl import URL

    url = f"{models}/{quote(model, safe='')}"
    stream_url = f"{url}:streamGenerateContent?alt=sse"
    return URL(f"{url}:generateContent", encoded=True), URL(stream_url, encoded=True)


_PARAMS: Final = frozenset(
    {
        *("top_p", "top_k", "stop", "presence_penalty", "frequency_penalty", "logprobs"),
        *("reasoning_effort", "thinking_budget", "service_tier", "stream"),
    }
)
"""The parameters of a Gemini model."""

GOOGLE = TargetKind(
    name="google",
    open_target=open_target,
    syntax="google:MODEL",
    summary="Google's generateContent",
    model_pattern=r"gemini-.",
    address="https://generativelanguage.googleapis.com",
    stores_address=False,
    key_variables=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    provider_names=("gemini", "google-gemini"),
    batches="proctor.targets.api.batches.google:GoogleBatches",
    media=ALL_MEDIA,
    params=_PARAMS,
    bills_per_prompt=True,
    has_list_prices=True,
    # Source: https://ai.google.dev/gemini-api/docs/optimization. Priority costs 75 to 100 % more.
    tier_shares={"standard": 1.0, "service_tier_unspecified": 1.0, "on_demand": 1.0, "flex": 0.5},
    is_typed_in_web=True,
)


def _to_parameter_names(refused_names: frozenset[str]) -> set[str]:
    return {_OPTIONAL_PARAMS[name] for name in refused_names}


def _asks_for_json(prompt: Prompt) -> bool:
    return prompt.json_answer or prompt.response_schema is not None


def _thinking_config(params: Params) -> _ThinkingConfig | None:
    """Returns how a model thinks; thoughts are requested too, except where thinking is turned off."""
    effort, budget = params.reasoning_effort, params.thinking_budget
    if effort is None and budget is None:
        return None
    return _ThinkingConfig(
        thinking_budget=budget,
        thinking_level=effort.upper() if effort is not None else None,
        include_thoughts=budget != 0,
    )


def _to_attachments(media: Sequence[_InlineData]) -> tuple[Attachment, ...]:
    # Most answers have none, and records of kinds are read without what is needed for calls.
    from proctor.targets.api.answer_media import make_attachment
    from proctor.targets.api.google.pcm import wrap_samples

    return tuple(
        make_attachment(*wrap_samples(item.data, item.mime_type), number)
        for number, item in enumerate(media, 1)
    )


def _parse_logprobs(result: _LogprobsResult | None) -> tuple[TokenLogprob, ...]:
    if result is None:
        return ()
    tops = [
        tuple((token.token, token.log_probability) for token in top.candidates)
        for top in result.top_candidates
    ]
    return tuple(
        TokenLogprob(
            token=chosen.token,
            logprob=chosen.log_probability,
            top=tops[place] if place < len(tops) else (),
        )
        for place, chosen in enumerate(result.chosen_candidates)
    )


def _parse_tier(usage: Any) -> str | None:
    """Returns the tier that answered, as usage has it: `serviceTier`, or Vertex AI's `trafficType`."""
    tier = (usage.get("serviceTier") or usage.get("trafficType")) if isinstance(usage, dict) else None
    return tier if isinstance(tier, str) else None


def _list_objects(value: Any) -> list[dict[str, Any]]:
    """Returns the objects of a list in an event, without anything else."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _describe_tool(tool: Tool) -> dict[str, Any]:
    description: dict[str, Any] = {"name": tool.name, "description": tool.description or tool.name}
    return description | ({"parametersJsonSchema": tool.parameters} if tool.parameters else {})


def _to_contents(messages: Sequence[Message], signature: Mapping[str, str]) -> list[dict[str, Any]]:
    """Returns the conversation; the results of one turn's calls are one content, as Gemini counts them."""
    roles = {"assistant": "model", "tool": "user"}
    contents: list[dict[str, Any]] = []
    previous_role = ""
    for message in messages:
        if message.role in {"system", "developer"}:
            continue
        if message.role == previous_role == "tool":
            contents[-1]["parts"] += _to_parts(message, signature)
        else:
            parts = _to_parts(message, signature)
            contents.append({"role": roles.get(message.role, message.role), "parts": parts})
        previous_role = message.role
    return contents


def _to_parts(message: Message, signature: Mapping[str, str]) -> list[dict[str, Any]]:
    if message.role == "tool":
        response = {"name": message.name or "", "response": {"result": format_message(message)}}
        return [{"functionResponse": response}]
    parts: list[dict[str, Any]] = []
    if message.parts:
        parts.extend(_to_part(part) for part in message.parts if part)
    elif message.content or not message.tool_calls:
        parts.append({"text": message.content})
    parts.extend(
        {"functionCall": {"name": call.name, "args": call.arguments}, **signature}
        for call in message.tool_calls
    )
    return parts


def _to_part(part: str | Attachment) -> dict[str, Any]:
    if isinstance(part, str):
        return {"text": part}
    if part.text is not None:
        return {"text": format_attachment(part)}
    return {"inlineData": {"mimeType": part.media_type, "data": encode_base64(part)}}

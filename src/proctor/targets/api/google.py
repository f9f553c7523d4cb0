"""Answers prompts over Google's Gemini API.

Source of the format: https://ai.google.dev/api/generate-content.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec
from msgspec import UNSET, Struct, UnsetType

from proctor.errors import TargetError
from proctor.model import Attachment, Message, Output, Params, Prompt, TargetSpec, Tool, ToolCall
from proctor.pricing import read_usage
from proctor.targets.api.messages import encode_base64, format_attachment, format_message
from proctor.targets.api.target import ApiTarget, require_model
from proctor.targets.kind import ALL_MEDIA, TargetKind

if TYPE_CHECKING:
    from proctor.targets.api.http import Body
    from proctor.targets.context import TargetContext

# Google's names of optional parameters, with ours. The last two appear in its errors for models that do not
# support them at all.
_OPTIONAL_PARAMS = {
    "temperature": "temperature",
    "seed": "seed",
    "responseJsonSchema": "response_format",
    "responseMimeType": "response_format",
    "tools": "tools",
    "JSON mode": "response_format",
    "Function calling": "tools",
}


class _GenerationConfig(Struct, omit_defaults=True, rename="camel"):
    temperature: float | None = None
    seed: int | None = None
    max_output_tokens: int | None = None
    response_mime_type: str | None = None
    response_json_schema: dict[str, Any] | None = None


class _GenerateRequest(Struct, omit_defaults=True, rename="camel"):
    contents: list[dict[str, Any]]
    generation_config: _GenerationConfig
    system_instruction: dict[str, Any] | UnsetType = UNSET
    tools: list[dict[str, Any]] | UnsetType = UNSET


class _GoogleFunctionCall(Struct):
    name: str
    args: dict[str, Any] = {}
    id: str | None = None


class _ReplyPart(Struct, rename="camel"):
    text: str = ""
    thought: bool = False
    function_call: _GoogleFunctionCall | None = None


class _ReplyContent(Struct, frozen=True):
    parts: list[_ReplyPart] = []


class _ReplyCandidate(Struct, rename="camel"):
    content: _ReplyContent = _ReplyContent()
    finish_reason: str | None = None


class _PromptFeedback(Struct, rename="camel"):
    block_reason: str | None = None


class _GenerateReply(Struct, rename="camel"):
    candidates: list[_ReplyCandidate] = []
    prompt_feedback: _PromptFeedback | None = None
    usage_metadata: Any = None
    model_version: str | None = None


_REPLY_DECODER = msgspec.json.Decoder(_GenerateReply)


class GoogleTarget(ApiTarget):
    """A Gemini model."""

    optional_params = tuple(_OPTIONAL_PARAMS)

    def _parse_reply(self, data: Body, prompt: Prompt, params: Params) -> Output:
        reply = self._endpoint.decode(_REPLY_DECODER, data)
        if not reply.candidates:
            reason = reply.prompt_feedback.block_reason if reply.prompt_feedback else None
            raise TargetError(
                f"{self._model!r} blocked the prompt: {reason or 'no reason given'}.", kind="refused"
            )
        candidate = reply.candidates[0]
        parts = candidate.content.parts
        calls = [part.function_call for part in parts if part.function_call]
        return Output(
            text="".join(part.text for part in parts if not part.thought),
            tool_calls=tuple(ToolCall(name=call.name, arguments=call.args, id=call.id) for call in calls),
            usage=read_usage(
                reply.usage_metadata,
                ("promptTokenCount",),
                ("candidatesTokenCount", "thoughtsTokenCount"),
                "cachedContentTokenCount",
            ),
            finish_reason=candidate.finish_reason,
            model=reply.model_version,
            refused_params=self._unapplied_params(prompt, params),
        )

    def _build_request(
        self, prompt: Prompt, params: Params, refused_names: frozenset[str]
    ) -> _GenerateRequest:
        config = _GenerationConfig(max_output_tokens=params.max_tokens)
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
            contents=_to_contents(prompt.messages),
            generation_config=config,
            system_instruction={"parts": system} if system else UNSET,
            tools=[{"functionDeclarations": list(map(_describe_tool, tools))}] if tools else UNSET,
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
    from yarl import URL

    from proctor.targets.api.http import address_for, key_for_target

    endpoint = address_for(spec).rstrip("/").removesuffix("/v1beta")
    model = require_model(spec)
    key = key_for_target(spec, endpoint, context)
    # The name is data: a slash or a question mark in it must not reach another address.
    url = URL(f"{endpoint}/v1beta/models/{quote(model, safe='')}:generateContent", encoded=True)
    return GoogleTarget.from_spec(model, spec, context, url, {"x-goog-api-key": key} if key else {})


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
    bills_per_prompt=True,
    has_list_prices=True,
    is_typed_in_web=True,
)


def _to_parameter_names(refused_names: frozenset[str]) -> set[str]:
    return {_OPTIONAL_PARAMS[name] for name in refused_names}


def _asks_for_json(prompt: Prompt) -> bool:
    return prompt.json_answer or prompt.response_schema is not None


def _describe_tool(tool: Tool) -> dict[str, Any]:
    description: dict[str, Any] = {"name": tool.name, "description": tool.description or tool.name}
    return description | ({"parametersJsonSchema": tool.parameters} if tool.parameters else {})


def _to_contents(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Returns the conversation; the results of one turn's calls are one content, as Gemini counts them."""
    roles = {"assistant": "model", "tool": "user"}
    contents: list[dict[str, Any]] = []
    previous_role = ""
    for message in messages:
        if message.role in {"system", "developer"}:
            continue
        if message.role == previous_role == "tool":
            contents[-1]["parts"] += _to_parts(message)
        else:
            contents.append({"role": roles.get(message.role, message.role), "parts": _to_parts(message)})
        previous_role = message.role
    return contents


def _to_parts(message: Message) -> list[dict[str, Any]]:
    if message.role == "tool":
        response = {"name": message.name or "", "response": {"result": format_message(message)}}
        return [{"functionResponse": response}]
    parts: list[dict[str, Any]] = []
    if message.parts:
        parts.extend(_to_part(part) for part in message.parts if part)
    elif message.content or not message.tool_calls:
        parts.append({"text": message.content})
    parts.extend({"functionCall": {"name": call.name, "args": call.arguments}} for call in message.tool_calls)
    return parts


def _to_part(part: str | Attachment) -> dict[str, Any]:
    if isinstance(part, str):
        return {"text": part}
    if part.text is not None:
        return {"text": format_attachment(part)}
    return {"inlineData": {"mimeType": part.media_type, "data": encode_base64(part)}}

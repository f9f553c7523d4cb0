"""Answers prompts over the Converse API of Amazon Bedrock.

Source of the format: https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html.
Requests are signed with AWS credentials, or have a key of Bedrock. Converse has no seed, and its streams have
a binary form that is not read. A schema for the answer is sent as in `anthropic.py`: as a tool that the model
must call, else as the format of its text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from proctor.lazy_pattern import lazy_pattern
from proctor.model import (
    Attachment,
    Medium,
    Message,
    Output,
    Params,
    Prompt,
    TargetSpec,
    Tool,
    ToolCall,
    Usage,
)
from proctor.pricing import read_usage
from proctor.targets.api.anthropic import claude
from proctor.targets.api.messages import (
    call_ids,
    encode_base64,
    format_attachment,
    format_message,
    unsendable_attachment,
)
from proctor.targets.api.target import ENCODER, ApiTarget, require_model
from proctor.targets.entries import TargetEntry
from proctor.targets.kind import TargetKind

if TYPE_CHECKING:
    from proctor.targets.api.aws.credentials import AwsAccount
    from proctor.targets.api.http import Body, Sign
    from proctor.targets.context import TargetContext

_OWN_HOST = lazy_pattern(
    r"(?:^|\.)bedrock-runtime(?:-fips)?\.([a-z0-9-]+)\.(?:vpce\.)?amazonaws\.(?:com|com\.cn|eu)$"
)
"""Matches the hosts that get a key of Bedrock; other hosts at Amazon may belong to anyone."""
_DOMAINS = {"cn": "amazonaws.com.cn", "eusc": "amazonaws.eu"}
"""Amazon's other domains by the first part of their regions."""
_KEY_VARIABLE = "AWS_BEARER_TOKEN_BEDROCK"
_REPLY_TOOL = "reply"
_OPTIONAL_PARAMS = {
    "temperature": "temperature",
    "toolChoice": "tool_choice",
    "tool_choice": "tool_choice",
    "outputConfig": "output_config",
    "output_config": "output_config",
    "output format": "output_config",
    "toolConfig": "tools",
    "tools": "tools",
    "tool use": "tools",
}
"""How errors name what a request may leave out, with our names."""
_CACHE_POINT = {"cachePoint": {"type": "default"}}
_REDACTED = "[redacted]"
"""Stands for a part of the reasoning that the model's provider encrypted."""

_IMAGE_FORMATS = {
    "image/png": "png",
    "image/jpeg": "jpeg",
    "image/gif": "gif",
    "image/webp": "webp",
}
_DOCUMENT_FORMATS = {
    "application/pdf": "pdf",
    "text/csv": "csv",
    "application/msword": "doc",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "application/vnd.ms-excel": "xls",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
    "text/html": "html",
    "text/plain": "txt",
    "text/markdown": "md",
}
_AUDIO_FORMATS = {
    "audio/mpeg": "mp3",
    "audio/mp3": "mp3",
    "audio/wav": "wav",
    "audio/wave": "wav",
    "audio/x-wav": "wav",
    "audio/flac": "flac",
    "audio/x-flac": "flac",
    "audio/ogg": "ogg",
    "audio/opus": "opus",
    "audio/aac": "aac",
    "audio/mp4": "m4a",
    "audio/x-m4a": "m4a",
    "audio/webm": "webm",
}
_VIDEO_FORMATS = {
    "video/mp4": "mp4",
    "video/quicktime": "mov",
    "video/webm": "webm",
    "video/x-matroska": "mkv",
    "video/x-flv": "flv",
    "video/mpeg": "mpeg",
    "video/x-ms-wmv": "wmv",
    "video/3gpp": "three_gp",
}
_FORMATS: dict[Medium, dict[str, str]] = {
    "image": _IMAGE_FORMATS,
    "audio": _AUDIO_FORMATS,
    "video": _VIDEO_FORMATS,
    "pdf": _DOCUMENT_FORMATS,
    "file": _DOCUMENT_FORMATS,
}
"""The formats of the API by what an attachment is and by its media type."""
_TOP_K_FIELDS = {
    "anthropic": ("", "top_k"),
    "mistral": ("", "top_k"),
    "cohere": ("", "k"),
    "amazon": ("inferenceConfig", "topK"),
}
"""Where models have `top_k` among the additional fields, by who made them: an outer field and the name."""
_MAX_DOCUMENT_NAME = 180
_GEOGRAPHY = lazy_pattern(r"[a-z]{2}|us-gov|apac|global")
"""The first part of the id of an inference profile."""


# --- the wire ----------------------------------------------------------------------------------------------


class _InferenceConfig(Struct, omit_defaults=True, rename="camel"):
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    stop_sequences: tuple[str, ...] = ()


class _ConverseRequest(Struct, omit_defaults=True, rename="camel"):
    messages: list[dict[str, Any]]
    system: list[dict[str, Any]] = []
    inference_config: _InferenceConfig = msgspec.field(default_factory=_InferenceConfig)
    tool_config: dict[str, Any] = {}
    additional_model_request_fields: dict[str, Any] = {}
    output_config: dict[str, Any] = {}
    service_tier: dict[str, str] = {}


class _ConverseCall(Struct, rename="camel"):
    name: str
    tool_use_id: str | None = None
    input: dict[str, Any] = {}


class _ReasoningText(Struct):
    text: str = ""


class _Reasoning(Struct, rename="camel"):
    reasoning_text: _ReasoningText | None = None


class _ConverseBlock(Struct, rename="camel"):
    text: str = ""
    tool_use: _ConverseCall | None = None
    reasoning_content: _Reasoning | None = None


class _ConverseMessage(Struct):
    content: list[_ConverseBlock] = []


class _ConverseOutput(Struct):
    message: _ConverseMessage


class _AnsweringTier(Struct):
    type: str | None = None


class _ConverseReply(Struct, rename="camel"):
    output: _ConverseOutput
    stop_reason: str | None = None
    usage: Any = None
    service_tier: _AnsweringTier | None = None


_REPLY_DECODER = msgspec.json.Decoder(_ConverseReply)


# --- the target --------------------------------------------------------------------------------------------


class BedrockTarget(ApiTarget):
    """A model on Amazon Bedrock."""

    optional_params = tuple(_OPTIONAL_PARAMS)

    @classmethod
    def find_conflict(cls, model: str, params: Params) -> str | None:
        """Returns why a model cannot be called with these parameters, and what to do; None if it can."""
        provider = _get_provider(model)
        other_way = f"Remove it, or set the field of {model} in extra_body.additionalModelRequestFields."
        if params.top_k is not None and provider not in _TOP_K_FIELDS:
            return f"Models of {provider} on Bedrock do not accept `top_k`. {other_way}"
        if provider == "anthropic":
            return claude.find_conflict(model, params)
        if params.thinking_budget is not None:
            return f"Only Claude models on Bedrock accept `thinking_budget`. {other_way}"
        return None

    def _parse_reply(self, data: Body, prompt: Prompt, params: Params) -> Output:
        reply = self._endpoint.decode(_REPLY_DECODER, data)
        blocks = reply.output.message.content
        calls = [block.tool_use for block in blocks if block.tool_use is not None]
        text = "".join(block.text for block in blocks)
        if _has_answer_schema(prompt):
            reply_call = next((call for call in calls if call.name == _REPLY_TOOL), None)
            if reply_call is not None:
                calls.remove(reply_call)
                text = ENCODER.encode(reply_call.input).decode()
        return Output(
            text=text,
            tool_calls=tuple(
                ToolCall(name=call.name, arguments=call.input, id=call.tool_use_id) for call in calls
            ),
            reasoning=_join_reasoning(blocks),
            usage=_parse_usage(reply.usage),
            finish_reason=reply.stop_reason,
            service_tier=reply.service_tier.type if reply.service_tier else None,
            refused_params=self._unapplied_params(prompt, params),
        )

    def _build_request(
        self, prompt: Prompt, params: Params, refused_names: frozenset[str]
    ) -> _ConverseRequest:
        without = _to_parameter_names(refused_names)
        system = [format_message(m) for m in prompt.messages if m.role in {"system", "developer"}]
        request = _ConverseRequest(
            messages=_to_turns(prompt.messages),
            system=[{"text": text} for text in system if text.strip()],
            inference_config=_InferenceConfig(
                max_tokens=self._max_tokens_for(params), top_p=params.top_p, stop_sequences=params.stop
            ),
            additional_model_request_fields=_model_fields(self._model, params),
            service_tier={"type": params.service_tier} if params.service_tier else {},
        )
        if "temperature" not in without and self._takes_temperature(params):
            request.inference_config.temperature = params.temperature
        if params.reasoning_effort is not None:
            request.output_config["effort"] = params.reasoning_effort
        if prompt.tools and "tools" not in without:
            request.tool_config["tools"] = [_describe_tool(tool) for tool in prompt.tools]
        self._add_answer_schema(request, prompt, self._schema_form(prompt, params, without))
        if params.prompt_cache:
            _mark_for_cache(request, tools=_get_provider(self._model) == "anthropic")
        return request

    def _add_answer_schema(self, request: _ConverseRequest, prompt: Prompt, form: str | None) -> None:
        """Adds the schema of the answer in the form that the model takes."""
        if form == "tool":
            description = "Give the answer in this form."
            tool = Tool(name=_REPLY_TOOL, description=description, parameters=prompt.response_schema or {})
            choice = {"tool": {"name": _REPLY_TOOL}}
            request.tool_config = {"tools": [_describe_tool(tool)], "toolChoice": choice}
        elif form == "format":
            schema = ENCODER.encode(claude.to_output_schema(prompt.response_schema)).decode()
            json_schema = {"name": _REPLY_TOOL, "schema": schema}
            request.output_config["textFormat"] = {
                "type": "json_schema",
                "structure": {"jsonSchema": json_schema},
            }

    def _schema_form(self, prompt: Prompt, params: Params, without: set[str]) -> str | None:
        """Returns how the schema of the answer is sent, `tool` or `format`; None if it is not."""
        if not _has_answer_schema(prompt):
            return None
        if not {"tool_choice", "tools"} & without and not self._thinks(params):
            return "tool"
        return None if "output_config" in without else "format"

    def _unapplied_params(self, prompt: Prompt, params: Params) -> tuple[str, ...]:
        without = _to_parameter_names(self._endpoint.refused_names)
        has_schema = self._schema_form(prompt, params, without) is not None
        has_temperature = "temperature" not in without and self._takes_temperature(params)
        not_applied = {
            "temperature": params.temperature is not None and not has_temperature,
            "seed": params.seed is not None,
            "response_format": not has_schema and (prompt.json_answer or prompt.response_schema is not None),
            "tools": bool(prompt.tools) and "tools" in without,
        }
        return tuple(name for name, is_so in not_applied.items() if is_so)

    def _thinks(self, params: Params) -> bool:
        return _get_provider(self._model) == "anthropic" and claude.thinks(self._model, params)

    def _takes_temperature(self, params: Params) -> bool:
        return not self._thinks(params) or claude.takes_temperature(self._model, params)

    def _max_tokens_for(self, params: Params) -> int | None:
        """Returns the maximum tokens; without one Bedrock has its own, but not beside a thinking budget."""
        if params.max_tokens is None and params.thinking_budget:
            return claude.max_tokens_for(self._model, params)
        return params.max_tokens


async def open_target(spec: TargetSpec, context: TargetContext) -> BedrockTarget:
    """Opens the model of a specification of kind `bedrock`.

    Raises:
        UsageError: there is no model or no region, botocore is not installed, or there are no credentials.
    """
    from yarl import URL

    from proctor.targets.api.aws.credentials import AwsAccount
    from proctor.targets.api.http import key_for_target

    model = require_model(spec)
    account = AwsAccount(context.environ, spec.options.get("profile"), f"Target {spec.name!r}")
    endpoint = spec.endpoint or _address_for(_get_region(spec, model, account))
    is_own_host = _OWN_HOST.search(urlsplit(endpoint).hostname or "") is not None
    if is_own_host:
        # Without a key of Bedrock, its own hosts get a signature.
        has_key = "api_key" in spec.options or context.environ.get(_KEY_VARIABLE, "").strip()
        own_key = {"api_key": f"${{{{ {_KEY_VARIABLE} }}}}"} | spec.options
        key = key_for_target(replace(spec, options=own_key), endpoint, context) if has_key else None
    else:
        key = key_for_target(spec, endpoint, context)
    sign: Sign | None = None
    if key is None and "authorization" not in map(str.lower, spec.params.headers):
        key_variable = _KEY_VARIABLE if is_own_host else "PROCTOR_API_KEY"
        signer = await account.open_signer("bedrock", _get_region(spec, model, account), key_variable)
        sign = signer.sign
    # The name is data: a slash or a question mark in it must not reach another address.
    url = URL(f"{endpoint.rstrip('/')}/model/{quote(model, safe='')}/converse", encoded=True)
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    return BedrockTarget.from_spec(model, spec, context, url, headers, sign=sign)


def _get_region(spec: TargetSpec, model: str, account: AwsAccount) -> str:
    """Returns the region of a target, else of its address, else of its model, else of the account."""
    own_host = _OWN_HOST.search(urlsplit(spec.endpoint or "").hostname or "")
    region = spec.options.get("region") or (own_host and own_host[1])
    return account.check_region(region) if region else account.get_region(model)


def _address_for(region: str) -> str:
    domain = _DOMAINS.get(region.partition("-")[0], "amazonaws.com")
    return f"https://bedrock-runtime.{region}.{domain}"


def _read_entry(spec: TargetSpec, entry: TargetEntry) -> TargetSpec:
    options = {name: entry.fields.text(name) for name in ("region", "profile")}
    return replace(
        spec, options=spec.options | {name: text for name, text in options.items() if text is not None}
    )


BEDROCK = TargetKind(
    name="bedrock",
    open_target=open_target,
    syntax="bedrock:MODEL[@URL]",
    summary="Amazon Bedrock, with AWS credentials or this key; needs proctor[bedrock]",
    address=_address_for("us-east-1"),
    stores_address=False,
    address_variable="AWS_ENDPOINT_URL_BEDROCK_RUNTIME",
    key_variables=(_KEY_VARIABLE,),
    provider_names=("aws-bedrock", "amazon-bedrock"),
    file_fields={
        "region": {"type": "string", "description": "The AWS region, such as us-east-1."},
        "profile": {"type": "string", "description": "The AWS profile to take credentials from."},
    },
    read_entry=_read_entry,
    params=frozenset(
        {"top_p", "top_k", "stop", "reasoning_effort", "thinking_budget", "service_tier", "prompt_cache"}
    ),
    media=frozenset(_FORMATS),
    media_types={medium: frozenset(formats) for medium, formats in _FORMATS.items()},
    bills_per_prompt=True,
    is_typed_in_web=True,
)


# --- nouns and the wire ------------------------------------------------------------------------------------


def _get_provider(model: str) -> str:
    """Returns who made a model, by the name in `us.anthropic.claude-…` or an ARN.

    A name without a provider, such as that of an application's inference profile, may be any model: it gets
    what a Claude model would.
    """
    names = model.rpartition("/")[2].split(".")
    if _GEOGRAPHY.fullmatch(names[0]):
        names = names[1:]
    return names[0] if len(names) > 1 else "anthropic"


def _model_fields(model: str, params: Params) -> dict[str, Any]:
    """Returns the parameters that have no field in Converse itself."""
    provider = _get_provider(model)
    fields: dict[str, Any] = {}
    if params.top_k is not None:
        outer, name = _TOP_K_FIELDS[provider]
        fields = {outer: {name: params.top_k}} if outer else {name: params.top_k}
    thinking = claude.thinking_for(model, params) if provider == "anthropic" else None
    return fields | ({"thinking": thinking} if thinking else {})


def _to_parameter_names(refused_names: frozenset[str]) -> set[str]:
    return {_OPTIONAL_PARAMS[name] for name in refused_names}


def _has_answer_schema(prompt: Prompt) -> bool:
    """Whether a schema of the answer can be requested: not beside tools."""
    return prompt.response_schema is not None and not prompt.tools


def _describe_tool(tool: Tool) -> dict[str, Any]:
    spec: dict[str, Any] = {"name": tool.name, "inputSchema": {"json": tool.parameters or {"type": "object"}}}
    return {"toolSpec": spec | ({"description": tool.description} if tool.description else {})}


def _mark_for_cache(request: _ConverseRequest, *, tools: bool) -> None:
    """Marks what later requests begin with: the tools, the system prompts, and all but the last question."""
    if tools and request.tool_config:
        request.tool_config["tools"].append(_CACHE_POINT)
    if request.system:
        # The first of several is often the target's, and the same for all cases.
        first, *others = request.system
        request.system = [first, _CACHE_POINT, *others, *([_CACHE_POINT] if others else [])]
    last_question = max(
        (place for place, turn in enumerate(request.messages) if turn["role"] == "user"), default=0
    )
    if last_question:
        request.messages[last_question - 1]["content"].append(_CACHE_POINT)


def _to_turns(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Converts all but the system messages; roles must alternate, so turns of the same role are merged."""
    ids = call_ids(messages)
    names: set[str] = set()
    turns: list[dict[str, Any]] = []
    for message in messages:
        if message.role in {"system", "developer"}:
            continue
        role = "user" if message.role == "tool" else message.role
        blocks = _to_content_blocks(message, ids, names)
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] += blocks
        else:
            turns.append({"role": role, "content": blocks})
    return turns


def _to_content_blocks(message: Message, ids: Mapping[str, str], names: set[str]) -> list[dict[str, Any]]:
    if message.role == "tool":
        name = message.name or ""
        content = [{"text": format_message(message)}]
        return [{"toolResult": {"toolUseId": ids.get(name, name), "content": content}}]
    # The API refuses a blank text beside other blocks, but also a turn without any block.
    blocks: list[dict[str, Any]] = []
    if message.parts:
        blocks.extend(
            _to_content_block(part, names)
            for part in message.parts
            if not isinstance(part, str) or part.strip()
        )
    elif message.content or not message.tool_calls:
        blocks.append({"text": message.content})
    blocks.extend(
        {"toolUse": {"toolUseId": call.id or call.name, "name": call.name, "input": call.arguments}}
        for call in message.tool_calls
    )
    return blocks


def _to_content_block(part: str | Attachment, names: set[str]) -> dict[str, Any]:
    """Returns the block of a text or an attachment; `names` are those of the documents before it."""
    if isinstance(part, str):
        return {"text": part}
    if part.text is not None:
        return {"text": format_attachment(part)}
    file_format = _FORMATS[part.medium].get(part.media_type)
    if file_format is None:
        raise unsendable_attachment(part, "Bedrock's Converse API")
    source = {"bytes": encode_base64(part)}
    if part.medium in {"pdf", "file"}:
        name = _name_document(part.path, names)
        return {"document": {"format": file_format, "name": name, "source": source}}
    return {part.medium: {"format": file_format, "source": source}}


def _name_document(path: str, names: set[str]) -> str:
    """Returns a document's name from the characters that the API takes; no two documents share one."""
    stem = (
        re.sub(r"[^A-Za-z0-9()\[\]-]+", " ", PurePosixPath(path).stem).strip()[:_MAX_DOCUMENT_NAME]
        or "document"
    )
    name = next(
        name
        for number in range(1, len(names) + 2)
        if (name := stem if number == 1 else f"{stem} {number}") not in names
    )
    names.add(name)
    return name


def _join_reasoning(blocks: Sequence[_ConverseBlock]) -> str | None:
    """Returns what the model thought; None if it did not think, or the service does not show it."""
    thoughts = (block.reasoning_content for block in blocks if block.reasoning_content is not None)
    texts = [_REDACTED if part.reasoning_text is None else part.reasoning_text.text for part in thoughts]
    return "\n\n".join(text for text in texts if text) or None


def _parse_usage(counts: Any) -> Usage | None:
    """Parses token counts; the API reports cached tokens separately, and here they are added to the input."""
    cached, written = "cacheReadInputTokens", "cacheWriteInputTokens"
    inputs = ("inputTokens", cached, written)
    return read_usage(counts, inputs, ("outputTokens",), cached, cache_write_name=written)

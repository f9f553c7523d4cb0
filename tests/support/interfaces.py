"""One server on loopback with the interfaces of all services; it refuses fields that a service does not know.

A target calls it at an address whose first folder is the name of its kind, so that the server knows whose
documentation counts. Each table has a service's own fields; the sources are beside the rows of
`targets/api/openai/services.py` and in the modules of the interfaces.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from aiohttp import web

from support.endpoints import ReceivedRequest

FieldTable = Mapping[str, Any]
"""The fields of an object: those inside of each, or None where anything is inside."""


def names(text: str) -> dict[str, None]:
    return dict.fromkeys(text.split())


# --- chat completions --------------------------------------------------------------------------------------

MESSAGE = names("role content name tool_calls tool_call_id")
CORE = {
    **names("model temperature top_p stop stream response_format tools tool_choice"),
    "messages": MESSAGE,
}
STREAM_OPTIONS: FieldTable = {"stream_options": names("include_usage include_obfuscation")}
PENALTIES = names("presence_penalty frequency_penalty")
LOGPROBS = names("logprobs top_logprobs")
LIMITS = names("max_tokens max_completion_tokens")
OPENAI: FieldTable = {
    **CORE,
    **STREAM_OPTIONS,
    **PENALTIES,
    **LOGPROBS,
    **LIMITS,
    **names("seed reasoning_effort verbosity service_tier n user store metadata modalities audio logit_bias"),
    **names("parallel_tool_calls prediction prompt_cache_key prompt_cache_retention safety_identifier"),
}
CHAT_FIELDS: Mapping[str, FieldTable] = {
    "openai": OPENAI,
    "azure": OPENAI,
    "deepseek": {
        **CORE,
        **STREAM_OPTIONS,
        **PENALTIES,
        **LOGPROBS,
        **names("max_tokens reasoning_effort"),
        "thinking": names("type"),
    },
    "groq": {
        **CORE,
        **STREAM_OPTIONS,
        **PENALTIES,
        **LIMITS,
        **names("seed reasoning_effort reasoning_format include_reasoning service_tier n user"),
        **names("parallel_tool_calls documents search_settings compound_custom citation_options"),
    },
    "mistral": {
        **CORE,
        **PENALTIES,
        **names("max_tokens random_seed n prediction parallel_tool_calls prompt_mode safe_prompt"),
        **names("reasoning_effort metadata guardrails"),
    },
    "together": {
        **CORE,
        **PENALTIES,
        **names("max_tokens top_k min_p repetition_penalty logprobs echo n logit_bias seed safety_model"),
        **names("reasoning_effort chat_template_kwargs compliance context_length_exceeded_behavior"),
        "reasoning": names("enabled"),
    },
    "nvidia": {
        **CORE,
        **STREAM_OPTIONS,
        **PENALTIES,
        **LOGPROBS,
        **names("max_tokens seed n user logit_bias reasoning_budget"),
        "chat_template_kwargs": names("enable_thinking"),
    },
    "openrouter": {
        **CORE,
        **STREAM_OPTIONS,
        **PENALTIES,
        **LOGPROBS,
        **LIMITS,
        **names("seed top_k top_a min_p repetition_penalty verbosity service_tier logit_bias user"),
        **names("models provider plugins route modalities parallel_tool_calls"),
        "reasoning": names("effort max_tokens enabled exclude summary"),
        "cache_control": names("type ttl"),
    },
    "xai": {
        **CORE,
        **STREAM_OPTIONS,
        **PENALTIES,
        **LOGPROBS,
        **LIMITS,
        **names("seed reasoning_effort n user parallel_tool_calls deferred search_parameters"),
    },
    "fireworks": {
        **CORE,
        **PENALTIES,
        **LOGPROBS,
        **LIMITS,
        **names("seed top_k min_p typical_p repetition_penalty reasoning_effort n user logit_bias"),
    },
    "cerebras": {
        **CORE,
        **STREAM_OPTIONS,
        **LOGPROBS,
        **names("max_completion_tokens seed reasoning_effort reasoning_format clear_thinking user"),
    },
    "ollama": {
        **CORE,
        **STREAM_OPTIONS,
        **PENALTIES,
        **LOGPROBS,
        **names("max_tokens seed reasoning_effort"),
        "reasoning": names("effort"),
    },
    "vllm": {
        **CORE,
        **STREAM_OPTIONS,
        **PENALTIES,
        **LOGPROBS,
        **LIMITS,
        **names("seed top_k min_p repetition_penalty reasoning_effort include_reasoning n user"),
        **names("thinking_token_budget stop_token_ids ignore_eos min_tokens structured_outputs"),
        "chat_template_kwargs": None,
    },
    "sglang": {
        **CORE,
        **STREAM_OPTIONS,
        **PENALTIES,
        **LOGPROBS,
        **LIMITS,
        **names("seed top_k min_p repetition_penalty reasoning_effort separate_reasoning n user"),
        "chat_template_kwargs": None,
    },
    "llamacpp": {
        **CORE,
        **STREAM_OPTIONS,
        **PENALTIES,
        **LOGPROBS,
        **LIMITS,
        **names(
            "seed top_k min_p repeat_penalty n_probs thinking_budget_tokens reasoning_format cache_prompt"
        ),
        "chat_template_kwargs": None,
    },
    "lmstudio": {
        **CORE,
        **STREAM_OPTIONS,
        **PENALTIES,
        **names("max_tokens seed top_k repeat_penalty logit_bias"),
    },
}
"""The fields of a request to each service with chat completions; a kind without a row has OpenAI's."""

# --- other interfaces --------------------------------------------------------------------------------------

RESPONSES: FieldTable = {
    **names("model input instructions temperature top_p max_output_tokens stream store tools tool_choice"),
    **names("service_tier include metadata parallel_tool_calls top_logprobs truncation user background"),
    **names("prompt_cache_key prompt_cache_retention safety_identifier previous_response_id"),
    "reasoning": names("effort summary"),
    "text": names("format verbosity"),
    "stream_options": names("include_obfuscation"),
}
MESSAGES: FieldTable = {
    **names("model max_tokens messages system temperature top_p top_k stop_sequences stream tools"),
    **names("tool_choice service_tier metadata cache_control container inference_geo"),
    **names("anthropic_version anthropic_beta"),
    "thinking": names("type budget_tokens display"),
    "output_config": names("effort format"),
}
GENERATE: FieldTable = {
    **names("contents systemInstruction tools toolConfig safetySettings cachedContent labels serviceTier"),
    "generationConfig": {
        **names("temperature topP topK seed maxOutputTokens stopSequences presencePenalty"),
        **names("frequencyPenalty responseMimeType responseSchema responseJsonSchema responseLogprobs"),
        **names("logprobs candidateCount responseModalities mediaResolution"),
        "thinkingConfig": names("thinkingBudget thinkingLevel includeThoughts"),
    },
}
CONVERSE: FieldTable = {
    **names("messages system toolConfig guardrailConfig promptVariables requestMetadata"),
    "inferenceConfig": names("maxTokens temperature topP stopSequences"),
    "additionalModelRequestFields": None,
    "additionalModelResponseFieldPaths": None,
    "performanceConfig": names("latency"),
    "serviceTier": names("type"),
    "outputConfig": None,
}

CHAT_REPLY = {
    "id": "r",
    "model": "m",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "4"},
            "logprobs": {"content": [{"token": "4", "logprob": -0.5, "top_logprobs": []}]},
            "finish_reason": "stop",
        }
    ],
    "usage": {"prompt_tokens": 3, "completion_tokens": 1},
}
RESPONSES_REPLY = {
    "id": "r",
    "object": "response",
    "model": "m",
    "status": "completed",
    "output": [
        {
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "4", "annotations": [], "logprobs": []}],
        }
    ],
    "usage": {"input_tokens": 3, "output_tokens": 1},
}
MESSAGES_REPLY = {
    "id": "r",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [{"type": "text", "text": "4"}],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 3, "output_tokens": 1},
}
GENERATE_REPLY = {
    "candidates": [{"content": {"role": "model", "parts": [{"text": "4"}]}, "finishReason": "STOP"}],
    "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 1},
    "modelVersion": "m",
}
CONVERSE_REPLY = {
    "output": {"message": {"role": "assistant", "content": [{"text": "4"}]}},
    "stopReason": "end_turn",
    "usage": {"inputTokens": 3, "outputTokens": 1, "totalTokens": 4},
    "metrics": {"latencyMs": 1},
}
INTERFACES: tuple[tuple[str, Callable[[str], FieldTable], Any], ...] = (
    (r"/chat/completions$", lambda kind: CHAT_FIELDS.get(kind, OPENAI), CHAT_REPLY),
    (r"/responses$", lambda _kind: RESPONSES, RESPONSES_REPLY),
    (r"/v1/messages$|:(stream)?[rR]awPredict$|/invoke", lambda _kind: MESSAGES, MESSAGES_REPLY),
    (r":(g|streamG)enerateContent$", lambda _kind: GENERATE, GENERATE_REPLY),
    (r"/converse(-stream)?$", lambda _kind: CONVERSE, CONVERSE_REPLY),
)
"""The end of the path of each interface, with the fields of a request and an answer."""


def find_unknown(body: Any, fields: FieldTable | None, place: str = "") -> Iterator[str]:
    """The paths of fields that are not known."""
    if fields is None:
        return
    for item in body if isinstance(body, list) else [body]:
        for name, value in item.items() if isinstance(item, dict) else ():
            if name not in fields:
                yield f"{place}{name}"
            else:
                yield from find_unknown(value, fields[name], f"{place}{name}.")


class InterfacesServer:
    """Answers every interface by its path, and keeps the requests."""

    def __init__(self) -> None:
        self.requests: list[ReceivedRequest] = []
        self.url = ""

    async def handle(self, request: web.Request) -> web.Response:
        body = json.loads(await request.read())
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.requests.append(ReceivedRequest(request.method, request.raw_path, headers, body))
        kind = request.path.split("/")[1]
        for pattern, get_known, reply in INTERFACES:
            if re.search(pattern, request.path):
                if unknown := sorted(find_unknown(body, get_known(kind))):
                    message = f"{kind} has no field {', '.join(unknown)}."
                    return web.json_response({"error": {"message": message, "param": None}}, status=400)
                return web.json_response(reply)
        return web.json_response({"error": {"message": f"no interface at {request.path}"}}, status=404)

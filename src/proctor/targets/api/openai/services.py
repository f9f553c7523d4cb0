"""Services with OpenAI's chat completions at their own addresses, each with its own names of parameters.

Sources for the Responses API: https://api-docs.deepseek.com/guides/responses_api,
https://console.groq.com/docs/responses-api, https://docs.together.ai/docs/inference/responses-api,
https://openrouter.ai/docs/api-reference/responses/overview, https://docs.x.ai/docs/guides/chat,
https://docs.fireworks.ai/guides/response-api, https://docs.ollama.com/api/openai-compatibility,
https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html,
https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md, https://lmstudio.ai/docs/api/openai-api
and `v1_responses_request` in https://github.com/sgl-project/sglang.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from proctor.model import Medium
from proctor.targets.api.openai.chat import OPENAI
from proctor.targets.api.openai.style import (
    OPENAI_FIELDS,
    OPENAI_STYLE,
    ChatField,
    ChatStyle,
    same_names,
    without,
)
from proctor.targets.kind import TargetKind

_PENALTIES: Final = ("presence_penalty", "frequency_penalty")
_OPENAI_ONLY: Final = ("verbosity", "service_tier")
_PARSED: Final = {"reasoning_format": "parsed"}
"""Keeps reasoning out of the text, with Groq and Cerebras."""
_LIMIT: Final = ChatField("max_completion_tokens")
"""The maximum of tokens where `max_tokens` is deprecated."""
_IMAGES: Final[frozenset[Medium]] = frozenset({"image"})
_IMAGES_AND_AUDIO: Final[frozenset[Medium]] = frozenset({"image", "audio"})
_SWITCH: Final = "chat_template_kwargs.enable_thinking"
"""Turns thinking on and off in the chat templates of Qwen, GLM, Nemotron and others."""


def openai_service(
    name: str, address: str, key_variable: str, summary: str, style: ChatStyle = OPENAI_STYLE
) -> TargetKind:
    """Returns the kind of a service with OpenAI's API.

    List prices apply at its address; set `has_list_prices` to False for a service that resells models.

    Args:
        name: the name before the colon.
        address: its base URL, to which `/chat/completions` is added.
        key_variable: the environment variable with its key; empty if it needs none.
        summary: its description in `proctor targets list`.
        style: how it writes parameters.
    """
    return replace(
        OPENAI,
        name=name,
        syntax=f"{name}:MODEL",
        summary=summary,
        address=address,
        address_variable="",
        aliases={},
        model_pattern="",
        tier_shares={},
        key_variables=(key_variable,) if key_variable else (),
        batches="",
        params=style.params,
        chat_style=style,
        scores_choices=False,
        choice_models="",
    )


def _older_service(
    name: str,
    address: str,
    key_variable: str,
    summary: str,
    style: ChatStyle,
    media: frozenset[Medium] = _IMAGES,
) -> TargetKind:
    """Returns the kind of a service that older stored runs have under the kind `openai`."""
    kind = openai_service(name, address, key_variable, summary, style)
    return replace(kind, stored_kind="openai", media=media)


def _local_server(
    name: str, address: str, summary: str, style: ChatStyle, media: frozenset[Medium] = _IMAGES
) -> TargetKind:
    """Returns the kind of a server on this machine, which needs no key and has no prices."""
    kind = openai_service(name, address, "", summary, style)
    return replace(kind, syntax=f"{name}:MODEL[@URL]", has_list_prices=False, media=media)


# --- services ----------------------------------------------------------------------------------------------

# Sources: https://api-docs.deepseek.com/api/create-chat-completion, which has no seed, and
# https://api-docs.deepseek.com/guides/thinking_mode.
DEEPSEEK = replace(
    _older_service(
        "deepseek",
        "https://api.deepseek.com/v1",
        "DEEPSEEK_API_KEY",
        "DeepSeek; alias deepseek_chat",
        ChatStyle(
            has_responses=True,
            fields={
                **without(OPENAI_FIELDS, "seed", "reasoning_effort", *_OPENAI_ONLY),
                "reasoning_effort": ChatField(
                    "reasoning_effort",
                    beside={"thinking.type": "enabled"},
                    instead={"none": {"thinking.type": "disabled"}},
                ),
            },
        ),
        media=frozenset(),
    ),
    aliases={"deepseek_chat": "deepseek-chat"},
    usual_models=r"deepseek-(chat|reasoner|v\d)",
)
# Sources: https://console.groq.com/docs/api-reference, and https://console.groq.com/docs/openai, by which
# log-probabilities are refused with status 400.
GROQ = _older_service(
    "groq",
    "https://api.groq.com/openai/v1",
    "GROQ_API_KEY",
    "Groq",
    ChatStyle(
        has_responses=True,
        fields={
            **without(OPENAI_FIELDS, "max_tokens", "reasoning_effort", "verbosity", "logprobs"),
            "max_tokens": _LIMIT,
            "reasoning_effort": ChatField("reasoning_effort", beside=_PARSED),
        },
    ),
)
# Sources: https://docs.mistral.ai/api/endpoint/chat, which refuses fields that it does not know, and
# https://docs.mistral.ai/capabilities/reasoning. Streams end with the token counts unasked.
MISTRAL = replace(
    _older_service(
        "mistral",
        "https://api.mistral.ai/v1",
        "MISTRAL_API_KEY",
        "Mistral",
        ChatStyle(
            fields={
                **without(OPENAI_FIELDS, "seed", "stream", "logprobs", *_OPENAI_ONLY),
                "seed": ChatField("random_seed"),
                "stream": ChatField("stream"),
            },
        ),
    ),
    usual_models=r"(mistral|codestral|ministral|pixtral|magistral|devstral)-",
)
# Sources: https://docs.together.ai/reference/chat-completions, where `logprobs` is a number, and
# https://docs.together.ai/docs/inference/chat/reasoning. Streams end with the token counts unasked.
TOGETHER = _older_service(
    "together",
    "https://api.together.xyz/v1",
    "TOGETHER_API_KEY",
    "Together",
    ChatStyle(
        has_responses=True,
        fields={
            **without(OPENAI_FIELDS, "reasoning_effort", "logprobs", "stream", *_OPENAI_ONLY),
            **same_names("top_k"),
            "reasoning_effort": ChatField("reasoning_effort", instead={"none": {"reasoning.enabled": False}}),
            "logprobs": ChatField("logprobs", instead={0: {"logprobs": 1}}),
            "stream": ChatField("stream"),
        },
    ),
)
# Sources: https://docs.nvidia.com/nim/large-language-models/latest/api-reference.html and
# https://build.nvidia.com/nvidia/nemotron-3-ultra-550b-a55b.
NVIDIA = _older_service(
    "nvidia",
    "https://integrate.api.nvidia.com/v1",
    "NVIDIA_API_KEY",
    "NVIDIA NIM",
    ChatStyle(
        fields={
            **without(OPENAI_FIELDS, "reasoning_effort", *_OPENAI_ONLY),
            "thinking_budget": ChatField(
                "reasoning_budget", beside={_SWITCH: True}, instead={0: {_SWITCH: False}}
            ),
        },
    ),
)
# Sources: https://openrouter.ai/docs/api/api-reference/chat/send-chat-completion-request,
# https://openrouter.ai/docs/use-cases/reasoning-tokens and
# https://openrouter.ai/docs/guides/features/service-tiers. `cache_control` at the top lets it set the marks.
OPENROUTER = replace(
    _older_service(
        "openrouter",
        "https://openrouter.ai/api/v1",
        "OPENROUTER_API_KEY",
        "OpenRouter",
        ChatStyle(
            has_responses=True,
            fields={
                **without(OPENAI_FIELDS, "reasoning_effort"),
                **same_names("top_k"),
                "reasoning_effort": ChatField("reasoning.effort"),
                "thinking_budget": ChatField(
                    "reasoning.max_tokens", instead={0: {"reasoning.enabled": False}}
                ),
                "prompt_cache": ChatField(
                    "cache_control", instead={True: {"cache_control.type": "ephemeral"}}
                ),
            },
            has_developer_role=True,
            has_cost=True,
        ),
        media=OPENAI.media,
    ),
    has_list_prices=False,
    reports_cost=True,
)
# Sources: https://docs.x.ai/docs/api-reference#chat-completions and
# https://docs.x.ai/developers/model-capabilities/text/reasoning.
XAI = replace(
    openai_service(
        "xai",
        "https://api.x.ai/v1",
        "XAI_API_KEY",
        "xAI",
        ChatStyle(
            has_responses=True,
            fields={**without(OPENAI_FIELDS, *_OPENAI_ONLY), "max_tokens": _LIMIT},
            has_developer_role=True,
        ),
    ),
    usual_models=r"grok-",
    media=_IMAGES,
)
# Sources: https://docs.fireworks.ai/api-reference/post-chatcompletions and
# https://docs.fireworks.ai/guides/reasoning. Streams end with the token counts unasked.
FIREWORKS = replace(
    openai_service(
        "fireworks",
        "https://api.fireworks.ai/inference/v1",
        "FIREWORKS_API_KEY",
        "Fireworks",
        ChatStyle(
            has_responses=True,
            fields={
                **without(OPENAI_FIELDS, *_OPENAI_ONLY),
                **same_names("top_k"),
                "stream": ChatField("stream"),
            },
        ),
    ),
    has_list_prices=False,
    media=_IMAGES,
)
# Sources: https://inference-docs.cerebras.ai/api-reference/chat-completions,
# https://inference-docs.cerebras.ai/capabilities/reasoning and https://inference-docs.cerebras.ai/resources/openai:
# penalties are refused with status 400.
CEREBRAS = replace(
    openai_service(
        "cerebras",
        "https://api.cerebras.ai/v1",
        "CEREBRAS_API_KEY",
        "Cerebras",
        ChatStyle(
            fields={
                **without(OPENAI_FIELDS, *_PENALTIES, *_OPENAI_ONLY),
                "max_tokens": _LIMIT,
                "reasoning_effort": ChatField("reasoning_effort", beside=_PARSED),
            }
        ),
    ),
    has_list_prices=False,
    media=_IMAGES,
)


# --- servers of one's own ----------------------------------------------------------------------------------


def _parse_ollama_host(host: str) -> str:
    """Parses Ollama's forms of its address: with or without scheme and port; `0.0.0.0` is this machine."""
    scheme, _, address = host.rpartition("://")
    host_name, colon, port = address.rstrip("/").rpartition(":")
    if not colon:
        host_name, port = port, "443" if scheme == "https" else "80" if scheme else "11434"
    return f"{scheme or 'http'}://{host_name.replace('0.0.0.0', '127.0.0.1') or '127.0.0.1'}:{port}/v1"  # noqa: S104


# Source: https://docs.ollama.com/api/openai-compatibility.
OLLAMA = replace(
    _older_service(
        "ollama",
        "http://127.0.0.1:11434/v1",
        "",
        "Ollama on this machine, or at $OLLAMA_HOST",
        ChatStyle(
            has_responses=True,
            fields={
                **without(OPENAI_FIELDS, *_OPENAI_ONLY),
            },
        ),
    ),
    address_variable="OLLAMA_HOST",
    parse_address=_parse_ollama_host,
    usual_models=r"(code|tiny)?llama[\d.:-]|(qwen|qwq|gemma|phi|mixtral|mistral|deepseek-r|smollm|olmo|granite)",
    has_list_prices=False,
)
# Sources: https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html and `ChatCompletionRequest` of
# vllm/entrypoints/openai/chat_completion/protocol.py in https://github.com/vllm-project/vllm.
VLLM = replace(
    _local_server(
        "vllm",
        "http://127.0.0.1:8000/v1",
        "a vLLM server",
        ChatStyle(
            has_responses=True,
            fields={
                **without(OPENAI_FIELDS, *_OPENAI_ONLY),
                **same_names("top_k"),
                "thinking_budget": ChatField("thinking_token_budget", instead={0: {_SWITCH: False}}),
            },
        ),
        media=_IMAGES_AND_AUDIO,
    ),
    scores_choices=True,
)
# Source: `ChatCompletionRequest` of python/sglang/srt/entrypoints/openai/protocol.py in
# https://github.com/sgl-project/sglang. A budget of a request needs a logit processor of the server.
SGLANG = replace(
    _local_server(
        "sglang",
        "http://127.0.0.1:30000/v1",
        "an SGLang server",
        ChatStyle(
            has_responses=True,
            fields={
                **without(OPENAI_FIELDS, *_OPENAI_ONLY),
                **same_names("top_k"),
            },
        ),
    ),
    scores_choices=True,
)
# Source: https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md. Templates read the effort.
LLAMACPP = replace(
    _local_server(
        "llamacpp",
        "http://127.0.0.1:8080/v1",
        "a llama.cpp server",
        ChatStyle(
            has_responses=True,
            fields={
                **without(OPENAI_FIELDS, "reasoning_effort", *_OPENAI_ONLY),
                **same_names("top_k"),
                "reasoning_effort": ChatField("chat_template_kwargs.reasoning_effort"),
                "thinking_budget": ChatField("thinking_budget_tokens", instead={0: {_SWITCH: False}}),
                "prompt_cache": ChatField("cache_prompt"),
            },
        ),
        media=_IMAGES_AND_AUDIO,
    ),
    scores_choices=True,
    choice_interface="llamacpp",
)
# Source: https://lmstudio.ai/docs/developer/openai-compat/chat-completions. Its settings have the effort.
LMSTUDIO = _local_server(
    "lmstudio",
    "http://127.0.0.1:1234/v1",
    "an LM Studio server",
    ChatStyle(
        has_responses=True,
        fields={
            **without(OPENAI_FIELDS, "reasoning_effort", "logprobs", *_OPENAI_ONLY),
            **same_names("top_k"),
        },
    ),
)

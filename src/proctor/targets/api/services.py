"""Services with OpenAI's chat-completions API at their own addresses."""

from __future__ import annotations

from msgspec.structs import replace

from proctor.targets.api.openai import OPENAI
from proctor.targets.kind import TargetKind


def openai_service(name: str, address: str, key_variable: str, summary: str) -> TargetKind:
    """Returns the kind of a service with OpenAI's API.

    List prices apply at its address; set `has_list_prices` to False for a service that resells models.

    Args:
        name: the name before the colon.
        address: its base URL, to which `/chat/completions` is added.
        key_variable: the environment variable with its key; empty if it needs none.
        summary: its description in `proctor targets list`.
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
        key_variables=(key_variable,) if key_variable else (),
        batches="",
    )


def _older_service(name: str, address: str, key_variable: str, summary: str) -> TargetKind:
    """Returns the kind of a service that older stored runs have under the kind `openai`."""
    return replace(openai_service(name, address, key_variable, summary), stored_kind="openai")


DEEPSEEK = replace(
    _older_service(
        "deepseek", "https://api.deepseek.com/v1", "DEEPSEEK_API_KEY", "DeepSeek; alias deepseek_chat"
    ),
    aliases={"deepseek_chat": "deepseek-chat"},
    usual_models=r"deepseek-(chat|reasoner)",
)
GROQ = _older_service("groq", "https://api.groq.com/openai/v1", "GROQ_API_KEY", "Groq")
MISTRAL = replace(
    _older_service("mistral", "https://api.mistral.ai/v1", "MISTRAL_API_KEY", "Mistral"),
    usual_models=r"(mistral|codestral|ministral|pixtral|magistral|devstral)-",
)
TOGETHER = _older_service("together", "https://api.together.xyz/v1", "TOGETHER_API_KEY", "Together")
NVIDIA = _older_service("nvidia", "https://integrate.api.nvidia.com/v1", "NVIDIA_API_KEY", "NVIDIA NIM")
OPENROUTER = replace(
    _older_service("openrouter", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY", "OpenRouter"),
    has_list_prices=False,
)


def _parse_ollama_host(host: str) -> str:
    """Parses Ollama's forms of its address: with or without scheme and port; `0.0.0.0` is this machine."""
    scheme, _, address = host.rpartition("://")
    host_name, colon, port = address.rstrip("/").rpartition(":")
    if not colon:
        host_name, port = port, "443" if scheme == "https" else "80" if scheme else "11434"
    return f"{scheme or 'http'}://{host_name.replace('0.0.0.0', '127.0.0.1') or '127.0.0.1'}:{port}/v1"  # noqa: S104


OLLAMA = replace(
    _older_service("ollama", "http://127.0.0.1:11434/v1", "", "Ollama on this machine, or at $OLLAMA_HOST"),
    address_variable="OLLAMA_HOST",
    parse_address=_parse_ollama_host,
    usual_models=r"(code|tiny)?llama[\d.:-]|(qwen|qwq|gemma|phi|mixtral|mistral|deepseek-r|smollm|olmo|granite)",
    has_list_prices=False,
)

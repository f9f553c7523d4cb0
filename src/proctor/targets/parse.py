"""A word that the user wrote for a target or judge to a `TargetSpec`.

Pure: it opens nothing and checks neither that a model exists nor that a key is set. All services that speak
OpenAI's interface are of kind `openai` and differ by their endpoint.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from proctor.errors import UnknownName, UsageError
from proctor.model import Params, TargetSpec
from proctor.targets import TARGETS

SERVICES = {
    "deepseek": "https://api.deepseek.com/v1",
    "groq": "https://api.groq.com/openai/v1",
    "mistral": "https://api.mistral.ai/v1",
    "nvidia": "https://integrate.api.nvidia.com/v1",
    "ollama": "http://127.0.0.1:11434/v1",
    "openai": "https://api.openai.com/v1",
    "openrouter": "https://openrouter.ai/api/v1",
    "together": "https://api.together.xyz/v1",
}
"""The base URLs of the services of kind `openai`."""

ALIASES = {
    "opus": "anthropic:claude-opus-4-6",
    "sonnet": "anthropic:claude-sonnet-4-6",
    "haiku": "anthropic:claude-haiku-4-5",
    "deepseek_chat": "deepseek:deepseek-chat",
}

_BARE = (
    (re.compile(r"(gpt|chatgpt)-.|o[134](-.|$)"), "openai"),
    (re.compile(r"claude-."), "anthropic"),
    (re.compile(r"gemini-."), "google"),
)
HTTP = frozenset({*SERVICES, "anthropic", "azure", "google"})
"""The first words of targets that have an address."""
_AT_URL = re.compile(r"(.*?)@(https?://.*)", re.DOTALL | re.IGNORECASE)


def parse_target(word: str, params: Params, environ: Mapping[str, str]) -> TargetSpec:
    """The target of that name.

    Args:
        word: `KIND:REST`, an alias, or the bare name of a well-known model.
        params: what it is asked with.
        environ: for `OPENAI_BASE_URL` and `OLLAMA_HOST`.

    Raises:
        UnknownName: there is no such kind or model.
        UsageError: the rest is missing, or its URL cannot be used.
    """
    kind, colon, rest = _full(word).partition(":")
    if kind in HTTP:
        return _over_http(word, kind, rest, params, environ)
    if kind not in TARGETS:
        _find(kind if colon else word)
    if kind == "echo" and rest:
        raise UsageError(f"Target {word!r}: echo takes nothing after its name. Write echo.")
    if kind in _REST and not rest:
        raise UsageError(f"Target {word!r} is not complete. Write {kind}:{_REST[kind]}.")
    if kind == "cli":
        _check_line(word, rest)
    return TargetSpec(name=word, kind=kind, model=rest, params=params)


_REST = {
    "cli": "COMMAND LINE",
    "command": "ARGV…",
    "function": "MODULE:NAME",
    "replay": "FILE",
    "scripted": "FILE",
}


def known_words() -> set[str]:
    """Every first word of a target, and every alias."""
    return {*TARGETS.names(), *HTTP, *ALIASES}


def http_spec(
    name: str, service: str, model: str, endpoint: str | None, params: Params, environ: Mapping[str, str]
) -> TargetSpec:
    """The target of a service, at its own address or at the one that is given; no option yet.

    Raises:
        UsageError: the address cannot be used, or there is none; no message repeats an address.
    """
    address = endpoint or _default_endpoint(service, environ)
    if address is not None:
        _check(address, _named(name))
        address = address.rstrip("/")
    elif service == "azure":
        raise UsageError(
            f"Target {_named(name)} needs the address of its resource, such as "
            "https://NAME.openai.azure.com, in AZURE_OPENAI_ENDPOINT or after @."
        )
    kind = "openai" if service in SERVICES else service
    return TargetSpec(name=name, kind=kind, model=model, endpoint=address, params=params)


def _full(word: str) -> str:
    """The word as `KIND:REST`, or as it is."""
    at_url = _AT_URL.fullmatch(word)
    head = at_url[1] if at_url else word
    if ":" in head:
        return word
    kind = next((kind for pattern, kind in _BARE if pattern.match(head)), None)
    full = ALIASES.get(head) or (f"{kind}:{head}" if kind else head)
    return full + word[len(head) :]


def _find(kind: str) -> None:
    """Let the registry look among what is installed; its complaint is made to name all that is known here."""
    try:
        TARGETS.get(kind)
    except UnknownName:
        raise UnknownName("target", kind, known_words()) from None


def _check_line(word: str, template: str) -> None:
    from proctor.targets.process.command_template import Line

    try:
        Line(template)
    except ValueError as error:
        raise UsageError(f"The command line of target {word!r} {error}") from None


def _over_http(word: str, kind: str, rest: str, params: Params, environ: Mapping[str, str]) -> TargetSpec:
    at_url = _AT_URL.fullmatch(rest)
    model, endpoint = at_url.groups() if at_url else (rest, None)
    if at_url is None and re.search(r"@[\w.-]+:\d+", rest):
        raise UsageError(f"Target {_named(word)}: write the address after @ with http:// or https://.")
    if not model:
        raise UsageError(f"Target {_named(word)} names no model. Write {kind}:MODEL.")
    return http_spec(word, kind, model, endpoint, params, environ)


def _default_endpoint(kind: str, environ: Mapping[str, str]) -> str | None:
    if kind == "openai":
        return environ.get("OPENAI_BASE_URL", "").strip() or SERVICES[kind]
    if kind == "azure":
        return environ.get("AZURE_OPENAI_ENDPOINT", "").strip() or None
    if kind == "ollama":
        return _ollama(environ.get("OLLAMA_HOST", "").strip()) or SERVICES[kind]
    return SERVICES.get(kind)


def _ollama(host: str) -> str | None:
    """Ollama's own forms of its address: with or without scheme and port; `0.0.0.0` is where it listens."""
    if not host:
        return None
    scheme, _, rest = host.rpartition("://")
    name, colon, port = rest.rstrip("/").rpartition(":")
    if not colon:
        name, port = port, "443" if scheme == "https" else "80" if scheme else "11434"
    return f"{scheme or 'http'}://{name.replace('0.0.0.0', '127.0.0.1') or '127.0.0.1'}:{port}/v1"  # noqa: S104


def _check(endpoint: str, named: str) -> None:
    """Refuse an address that holds a secret or is none; the message never repeats it."""
    try:
        parts = urlsplit(endpoint)
        _ = parts.port
    except ValueError as error:
        raise UsageError(f"The address of target {named} is not a URL: {error}.") from error
    if parts.username is not None or parts.password is not None:
        raise UsageError(
            f"The address of target {named} holds a user name or password, which would be stored with every "
            "run. Take it out and set PROCTOR_API_KEY."
        )
    if parts.scheme.lower() not in {"http", "https"} or not parts.hostname:
        raise UsageError(f"The address of target {named} needs to be like http://HOST:PORT/v1.")
    if parts.query or parts.fragment:
        raise UsageError(f"The address of target {named} may not have a part after ? or #. Take it out.")


def _named(word: str) -> str:
    at_url = _AT_URL.fullmatch(word)
    return repr(at_url[1] + "@…" if at_url else word)

"""Prompts to outputs. In: a target on the command line or in targets.yaml. Out: a `Target`.

`TARGETS` is the table of all kinds, each a `TargetKind` that its own module exports. `parse` reads targets
from the command line and `targets_file` reads targets.yaml. Both return a `TargetSpec`, which the kind opens.
Start with `kind.py` and `echo.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from msgspec.structs import replace

from proctor.errors import UnknownName, UsageError
from proctor.model import TargetSpec
from proctor.protocols import Target
from proctor.registry import Registry
from proctor.targets.context import TargetContext
from proctor.targets.kind import TargetKind


def _as_kind(name: str, entry: Any) -> TargetKind:
    """Returns the record under its registered name; wraps a function `open(spec, context)` in a record."""
    if isinstance(entry, TargetKind):
        return entry if entry.name == name else replace(entry, name=name)
    return TargetKind(name=name, open_target=entry, syntax=f"{name}[:…]", summary="from an installed package")


TARGETS: Registry[TargetKind] = Registry(
    "targets",
    {
        "openai": "proctor.targets.api.openai.chat:OPENAI",
        "anthropic": "proctor.targets.api.anthropic.messages_api:ANTHROPIC",
        "google": "proctor.targets.api.google.gemini:GOOGLE",
        "vertex": "proctor.targets.api.google.vertex:VERTEX",
        "vertex-anthropic": "proctor.targets.api.google.vertex:VERTEX_ANTHROPIC",
        "azure": "proctor.targets.api.openai.azure:AZURE",
        "bedrock": "proctor.targets.api.aws.bedrock:BEDROCK",
        "deepseek": "proctor.targets.api.openai.services:DEEPSEEK",
        "groq": "proctor.targets.api.openai.services:GROQ",
        "mistral": "proctor.targets.api.openai.services:MISTRAL",
        "together": "proctor.targets.api.openai.services:TOGETHER",
        "nvidia": "proctor.targets.api.openai.services:NVIDIA",
        "openrouter": "proctor.targets.api.openai.services:OPENROUTER",
        "xai": "proctor.targets.api.openai.services:XAI",
        "fireworks": "proctor.targets.api.openai.services:FIREWORKS",
        "cerebras": "proctor.targets.api.openai.services:CEREBRAS",
        "ollama": "proctor.targets.api.openai.services:OLLAMA",
        "vllm": "proctor.targets.api.openai.services:VLLM",
        "sglang": "proctor.targets.api.openai.services:SGLANG",
        "llamacpp": "proctor.targets.api.openai.services:LLAMACPP",
        "lmstudio": "proctor.targets.api.openai.services:LMSTUDIO",
        "local": "proctor.targets.local.kind:LOCAL",
        "command": "proctor.targets.process.command:COMMAND",
        "cli": "proctor.targets.process.cli:CLI",
        "function": "proctor.targets.function:FUNCTION",
        "replay": "proctor.targets.replay:REPLAY",
        "scripted": "proctor.targets.scripted:SCRIPTED",
        "echo": "proctor.targets.echo:ECHO",
        "mock": "proctor.targets.mock:MOCK",
    },
    adapt=_as_kind,
)
"""Every kind by its name, in the order in which lists show them."""


def iter_kinds(*, installed: bool = False) -> Iterator[TargetKind]:
    """Yields the built-in kinds in the table's order, then the kinds of other packages that are in use.

    Args:
        installed: also search all installed packages; kinds that cannot be imported are skipped.
    """
    names = list(TARGETS)
    for name in names:
        yield TARGETS.get(name)
    for name in TARGETS.names(installed=True) if installed else ():
        if name not in names:
            try:
                kind = TARGETS.get(name)
            except (ImportError, AttributeError):
                continue
            yield kind


def iter_address_kinds() -> Iterator[TargetKind]:
    """Yields the kinds that may have an address: those below `api/`, and those of other packages in use.

    The modules of the others, such as those for programs, are not imported.
    """
    for name in list(TARGETS):
        if not TARGETS.is_apart(name, f"{__name__}.api"):
            yield TARGETS.get(name)


def get_kind(spec: TargetSpec) -> TargetKind:
    """Returns the kind of a specification; if its package is not installed, an empty record."""
    try:
        return TARGETS.get(spec.kind)
    except UnknownName:
        return TargetKind(name=spec.kind, open_target=_open_unknown)


def get_service(spec: TargetSpec) -> TargetKind:
    """Returns the kind of the service that a specification calls.

    It differs from `get_kind` for services that older stored runs have under the kind of their interface: it
    is named in the options, or has the address.
    """
    kind = get_kind(spec)
    name = spec.options.get("service")
    if name is not None:
        return TARGETS.get(name)
    if spec.endpoint is None or kind.address == spec.endpoint:
        return kind
    origin = urlsplit(spec.endpoint)[:2]
    services = (other for other in iter_address_kinds() if other.stored_kind == spec.kind and other.address)
    return next((other for other in services if urlsplit(other.address)[:2] == origin), kind)


def check_params_taken(spec: TargetSpec) -> None:
    """Checks that a target takes all parameters that are set, besides temperature, seed and maximum tokens.

    Raises:
        UsageError: it or one of its fallbacks does not take one of them.
    """
    _check_own_params(spec, f"Target {spec.name!r}")
    for fallback in spec.fallbacks:
        _check_own_params(fallback, f"{fallback.name!r}, a fallback of target {spec.name!r}")


def _check_own_params(spec: TargetSpec, subject: str) -> None:
    service = get_service(spec)
    for kind in (service, service.with_format(spec.params.api_format)):
        for name in spec.params.further:
            if name not in kind.all_params:
                raise UsageError(f"{subject}: {kind.describe_refusal(name)}")


def has_file_model(spec: TargetSpec) -> bool:
    """Whether a target's model is a file."""
    return get_kind(spec).model_is_file


async def _open_unknown(spec: TargetSpec, _context: TargetContext) -> Target:
    raise UnknownName("target", spec.kind, TARGETS.names())

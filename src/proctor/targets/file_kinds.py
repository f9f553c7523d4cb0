"""Turns one target of a targets file into a `TargetSpec`, by the record of its kind. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec.structs import replace

from proctor.env_substitution import names_in
from proctor.errors import UnknownName, UsageError, suggestion
from proctor.model import TargetSpec
from proctor.targets import TARGETS, get_kind, iter_kinds
from proctor.targets.entries import WHOLE_REFERENCE, TargetEntry
from proctor.targets.entry_parameters import read_parameters
from proctor.targets.kind import FileFields, TargetKind
from proctor.targets.parse import build_api_spec, parse_target

AGENT_COMMANDS: Final[dict[str, str]] = {
    "claude": "claude -p {PROMPT}",
    "codex": "codex exec {PROMPT}",
    "copilot": "copilot -p {PROMPT}",
    "pi": "pi -p {PROMPT}",
    "vscode": "my-agent --prompt-file {PROMPT_FILE} --answer {OUTPUT_FILE}",
    "agentv": "my-agent --prompt-file {PROMPT_FILE} --answer {OUTPUT_FILE}",
}
"""Command lines for agents that have no kind of their own, by the beginning of their names."""
IGNORED_FIELDS: Final = (
    *("provider_batching", "subagent_mode_allowed", "verbose", "log_dir", "log_format"),
    *("retry_initial_delay_ms", "retry_max_delay_ms", "retry_backoff_factor", "retry_status_codes"),
)
"""Fields of other programs, which have no effect here unless the kind has them."""
DEFERRED_FIELDS: Final = frozenset(
    {
        *("api_key", "command", "env", "extra_body", "headers", "healthcheck", "response"),
        "system_prompt",
    }
)
"""Fields whose references are substituted when the target is opened."""
_UNKNOWN_ADDRESS: Final = "https://unknown.invalid"


def find_kind(provider: str) -> TargetKind | None:
    """Returns the kind for a provider's name; None if there is none that a targets file can name."""
    for installed in (False, True):
        for kind in iter_kinds(installed=installed):
            if provider in kind.provider_names:
                return kind
        try:
            kind = TARGETS.get(provider)
        except UnknownName:
            continue
        return None if kind.entry_fields is None else kind
    return None


def stand_in_environ() -> Mapping[str, str]:
    """Returns placeholder addresses for kinds without a default, for checks without an environment."""
    return {
        kind.address_variable: _UNKNOWN_ADDRESS
        for kind in iter_kinds()
        if kind.address is None and kind.address_variable
    }


def entry_fields() -> FileFields:
    """Returns every field of every kind."""
    return {name: schema for kind in iter_kinds() for name, schema in (kind.entry_fields or {}).items()}


def agent_command(provider: str) -> str | None:
    """Returns the command line of an agent that has no kind of its own; None for anything else."""
    return AGENT_COMMANDS.get(provider.partition("-")[0])


def parse_entry(name: str, kind: TargetKind, entry: TargetEntry) -> TargetSpec:
    """Reads a target by the fields of its kind; reports problems to the entry's notes."""
    spec = TargetSpec(name=name, kind=kind.spec_kind, params=entry.context.params)
    if kind.has_address:
        spec = _read_api_fields(name, kind, entry)
    return spec if kind.read_entry is None else kind.read_entry(spec, entry)


def parse_short_form(name: str, word: str, entry: TargetEntry) -> TargetSpec:
    """Reads a target from the short form, one word as on the command line."""
    try:
        spec = parse_target(word, entry.context.params, entry.context.environ)
    except UsageError as error:
        entry.fields.error("unknown-target", "target", f"names no target. {error}")
        return TargetSpec(name=name, kind="echo")
    spec = replace(spec, name=name)
    kind = get_kind(spec)
    if not kind.has_address:
        return read_parameters(spec, entry, {}) if kind.short_form_fields else spec
    address = entry.references.get("target", "").partition("@")[2]
    options = _read_key(entry) | ({"base_url": address} if names_in(address) else {})
    return read_parameters(spec, entry, options)


def short_form_fields(word: str) -> FileFields:
    """Returns the fields allowed beside the short form; for an unknown kind, those of `openai`."""
    try:
        kind = TARGETS.get(word.partition(":")[0])
    except UnknownName:
        kind = TARGETS.get("openai")
    return kind.short_form_fields


def _read_api_fields(name: str, kind: TargetKind, entry: TargetEntry) -> TargetSpec:
    model = entry.required_text(entry.resolve_alias("model", "deployment", "variant"))
    address_field = entry.resolve_alias("base_url", "endpoint")
    endpoint = entry.fields.text(address_field)
    if address_field in entry.unknown_fields:
        endpoint = _UNKNOWN_ADDRESS
    options = _read_key(entry)
    if address_field in entry.references:
        options["base_url"] = entry.references[address_field]
    try:
        spec = build_api_spec(name, kind, model, endpoint, entry.context.params, entry.context.environ)
    except UsageError as error:
        entry.fields.error("bad-address", address_field, f"cannot be used. {error}")
        return TargetSpec(name=name, kind=kind.spec_kind)
    return read_parameters(spec, entry, options)


def _read_key(entry: TargetEntry) -> dict[str, Any]:
    """Reads the reference to a target's key; a literal key is refused and never shown."""
    if "api_key" not in entry.fields:
        return {}
    value = entry.fields.pop("api_key")
    if isinstance(value, str) and WHOLE_REFERENCE.fullmatch(value):
        return {"api_key": value.strip()}
    entry.fields.error(
        "literal-secret",
        "api_key",
        "must name a variable, as in ${{ OPENAI_API_KEY }}, and contain nothing else: a key in a file does "
        "not stay secret.",
    )
    return {}


def unknown_kind_message(provider: str) -> str:
    """Returns the problem with a provider that is neither a kind nor an agent."""
    kinds = [kind for kind in iter_kinds() if kind.entry_fields is not None]
    names = {name for kind in kinds for name in (kind.name, *kind.provider_names)}
    return f"is {provider[:60]!r}. {suggestion(provider[:60], sorted(names))}"


def agent_message(provider: str, example: str) -> str:
    """Returns the advice for an agent that has no kind of its own."""
    if provider == "agentv":
        return (
            "is 'agentv', which is part of another program. Name the provider of a model, as in "
            "`provider: openai`."
        )
    return (
        f"is {provider!r}, which is an agent, and Proctor runs agents by their command line. Write "
        f"`provider: cli` and "
        f"`command: {example}`, or the command line that you use for it."
    )

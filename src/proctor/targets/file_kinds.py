"""One target of a targets file to a `TargetSpec`: what each kind is called, and what may be said of it. Pure.

What steers is filled in here: models, addresses, numbers, folders. What is handed on when the target is
opened keeps `${{ NAME }}` as written: keys, `env`, command lines, health checks, responses, system prompts.
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from proctor.env_vars import REFERENCE, filled, names_in
from proctor.errors import UsageError, suggestion
from proctor.model import Params, TargetSpec
from proctor.targets.parse import HTTP, SERVICES, http_spec, parse_target
from proctor.targets.process.command_template import BATCH_PLACES, FILE_PLACES, FOLDER, Line
from proctor.validation import Fields

AGENTS: Final[dict[str, str]] = {
    "claude": "claude -p {PROMPT}",
    "codex": "codex exec {PROMPT}",
    "copilot": "copilot -p {PROMPT}",
    "pi": "pi -p {PROMPT}",
    "vscode": "my-agent --prompt-file {PROMPT_FILE} --answer {OUTPUT_FILE}",
    "agentv": "my-agent --prompt-file {PROMPT_FILE} --answer {OUTPUT_FILE}",
}
"""Agents that have no kind of their own, by the beginning of their names, and how to call them."""

_ALIASES: Final = {
    "azure-openai": "azure",
    "command": "cli",
    "gemini": "google",
    "google-gemini": "google",
    "transcript": "replay",
}
IDLE: Final = (
    *("provider_batching", "subagent_mode_allowed", "verbose", "log_dir", "log_format", "thinking_budget"),
    *("retry_initial_delay_ms", "retry_max_delay_ms", "retry_backoff_factor", "retry_status_codes"),
)
"""Fields that other programs know and that change nothing here, unless they are among the kind's `FIELDS`."""

_ASKED = ("temperature", "max_output_tokens", "seed", "system_prompt", "timeout_seconds")
_OVER_HTTP = ("model", "deployment", "variant", "base_url", "endpoint", "api_key", "api_format", *_ASKED)
_CLI = ("command", "cwd", "timeout_seconds", "files_format", "healthcheck", "keep_temp_files", "env")
_BATCHING = "provider_batching"
_HEALTH = ("url", "command", "cwd", "timeout_seconds")
FIELDS: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(HTTP, _OVER_HTTP),
    "azure": (*_OVER_HTTP, "api_version"),
    "cli": (*_CLI, _BATCHING),
    "echo": (),
    "function": ("function",),
    "local": ("model", *_ASKED),
    "mock": ("response",),
    "replay": ("file", "path"),
    "scripted": ("file", "path"),
}
"""Every kind, and the fields it has besides those that all have."""
KEPT: Final = frozenset({"api_key", "command", "env", "healthcheck", "response", "system_prompt"})
"""Fields in which references stay as written."""

_WHOLE = re.compile(rf"\s*(?:{REFERENCE.pattern})\s*")
SECRET: Final = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)(_|$)", re.IGNORECASE)
"""What the name of a field or of a variable has in it that holds a secret."""
# While nothing is known of the environment, it is taken to have what a kind cannot do without.
_ANYWHERE = {"AZURE_OPENAI_ENDPOINT": "https://anywhere.openai.azure.com"}


class Setting(Struct, frozen=True, kw_only=True):
    """Where a targets file is, and with what its targets are asked."""

    folder: str
    """The file's folder, absolute: where its relative paths begin."""
    environ: Mapping[str, str] | None
    """None: only what can be known without it is checked, and the specifications are of no use."""
    params: Params = Params()
    """What the user asks with; what a target says counts where these are the usual ones."""


class Row(Struct, frozen=True):
    """The fields of one target, and which of them are references whose value is not known."""

    fields: Fields
    unknown: frozenset[str]
    setting: Setting
    written: Mapping[str, str] = {}
    """The texts among them that have references, as they were before these were filled in."""

    @property
    def environ(self) -> Mapping[str, str]:
        """The environment, or a stand-in."""
        return _ANYWHERE if self.setting.environ is None else self.setting.environ

    def required(self, name: str) -> str:
        """A text that must be there; a stand-in where its value is not known."""
        return "unknown" if name in self.unknown else self.fields.required_text(name)

    def either(self, *names: str) -> str:
        """The one of several names for the same field that is there, else the first."""
        there = [name for name in names if name in self.fields or name in self.unknown]
        for name in there[1:]:
            self.fields.error("duplicate-field", name, f"says the same as `{there[0]}`. Remove one of them.")
            self.fields.take(name)
        return there[0] if there else names[0]

    def seconds(self, fields: Fields, name: str) -> float | None:
        """A number of seconds above 0, if it is there."""
        value = fields.number(name)
        if value is not None and value <= 0:
            fields.error("out-of-range", name, f"is {value:g}; it must be more than 0 seconds.")
        return value

    def place(self, path: str) -> str:
        """A path of the file's as an absolute one."""
        return os.path.normpath(os.path.join(self.setting.folder, path))  # noqa: PTH118 - a path that is not opened


def kind_of(provider: str) -> str:
    """The kind that a provider's name stands for; unknown ones stand for themselves."""
    return _ALIASES.get(provider, provider)


def agent_of(provider: str) -> str | None:
    """How to call an agent that has no kind of its own; None for anything else."""
    return AGENTS.get(provider.partition("-")[0])


def specified(name: str, kind: str, row: Row) -> TargetSpec:
    """The target of a kind, one of `FIELDS`, without what it says of others; its problems go to the notes."""
    if kind in HTTP:
        return _over_http(name, kind, row)
    return _KINDS[kind](TargetSpec(name=name, kind=kind, params=row.setting.params), row)


def short(name: str, word: str, row: Row) -> TargetSpec:
    """The target that the short form names in one word, as the command line takes it."""
    try:
        spec = parse_target(word, row.setting.params, row.environ)
    except UsageError as error:
        row.fields.error("unknown-target", "target", f"names no target. {error}")
        return TargetSpec(name=name, kind="echo")
    spec = replace(spec, name=name)
    if spec.kind in {"openai", "anthropic", "azure", "google"}:
        at_url = row.written.get("target", "").partition("@")[2]
        return _asked(spec, row, _keyed(row) | ({"base_url": at_url} if names_in(at_url) else {}))
    return _asked(spec, row, {}) if spec.kind == "local" else spec


def fields_of_short(word: str) -> tuple[str, ...]:
    """What may stand beside the short form."""
    kind = word.partition(":")[0]
    return _ASKED if kind == "local" else () if kind in FIELDS and kind not in HTTP else ("api_key", *_ASKED)


# --- each kind ---------------------------------------------------------------------------------------------


def _over_http(name: str, kind: str, row: Row) -> TargetSpec:
    model = row.required(row.either("model", "deployment", "variant"))
    where = row.either("base_url", "endpoint")
    endpoint = row.fields.text(where)
    options = _keyed(row)
    if where in row.written:
        options["base_url"] = row.written[where]
    if kind == "azure":
        version = row.fields.text("api_version")
        options |= {} if version is None else {"api_version": version}
    form = row.fields.text("api_format")
    if form not in {None, "chat"}:
        row.fields.error(
            "unsupported", "api_format", f"is {form!r}; only `chat`, the chat completions, can be asked."
        )
    environ = _ANYWHERE if where in row.unknown else row.environ
    try:
        spec = http_spec(name, kind, model, endpoint, row.setting.params, environ)
    except UsageError as error:
        row.fields.error("bad-address", where, f"cannot be used. {error}")
        return TargetSpec(name=name, kind="openai" if kind in SERVICES else kind)
    return _asked(spec, row, options)


def _keyed(row: Row) -> dict[str, Any]:
    """The reference to a target's key; the key itself is refused and never repeated."""
    if "api_key" not in row.fields:
        return {}
    value = row.fields.take("api_key")
    if isinstance(value, str) and _WHOLE.fullmatch(value):
        return {"api_key": value.strip()}
    row.fields.error(
        "literal-secret",
        "api_key",
        "must name a variable, as in ${{ OPENAI_API_KEY }}, and nothing else: a key in a file is soon no "
        "secret any more.",
    )
    return {}


def _asked(spec: TargetSpec, row: Row, options: dict[str, Any]) -> TargetSpec:
    """The target with what it is asked with; the user's own parameters come first."""
    fields = row.fields
    temperature = fields.number("temperature")
    if temperature is not None and not 0 <= temperature <= 2:
        fields.error("out-of-range", "temperature", f"is {temperature:g}; it must be from 0 to 2.")
    own = {
        "temperature": temperature,
        "max_tokens": fields.integer("max_output_tokens", least=1),
        "seed": fields.integer("seed"),
    }
    system = fields.text("system_prompt")
    usual, given = Params(), row.setting.params
    mine = {
        name: value
        for name, value in own.items()
        if value is not None and getattr(given, name) == getattr(usual, name)
    }
    seconds = row.seconds(fields, "timeout_seconds")
    more = {"system_prompt": system, "timeout_seconds": seconds}
    options = options | {name: value for name, value in more.items() if value is not None}
    return replace(spec, params=replace(given, **mine), options=options)


def _cli(spec: TargetSpec, row: Row) -> TargetSpec:
    fields = row.fields
    command = row.required("command")
    _check_line(row, "command", command)
    options: dict[str, Any] = {}
    if (cwd := fields.text("cwd")) is not None:
        options["cwd"] = row.place(cwd)
    if (seconds := row.seconds(fields, "timeout_seconds")) is not None:
        options["timeout_seconds"] = seconds
    if (form := fields.text("files_format")) is not None:
        _check(row, "files_format", form, FILE_PLACES)
        options["files_format"] = form
    if "keep_temp_files" in fields and fields.truth("keep_temp_files", default=False):
        options["keep_temp_files"] = True
    if _BATCHING in fields and fields.truth(_BATCHING, default=False):
        options[_BATCHING] = True
        _check_batch(row, command)
    if (health := _health(row)) is not None:
        options["healthcheck"] = health
    if (variables := _variables(row)) is not None:
        options["env"] = variables
    if FOLDER in f"{command} {options}" or _WHOLE.fullmatch(command):
        options["folder"] = row.setting.folder
    return replace(spec, model=command, options=options)


def _check_line(row: Row, name: str, command: str) -> None:
    if not _WHOLE.fullmatch(command):
        for variable in names_in(command)[:1]:
            reference = f"${{{{ {variable} }}}}"
            row.fields.error(
                "reference-inside",
                name,
                f"has {reference} inside a command line, where everybody could see its value. "
                f"Write `env: {{{variable}: {reference}}}`, and ${variable} in the line.",
            )
        _check(row, name, command)
    elif row.setting.environ is not None and all(one in row.setting.environ for one in names_in(command)):
        _check(row, name, filled(command, row.setting.environ))


def _check_batch(row: Row, command: str) -> None:
    """Refuse places that have no value where a line runs once for all tests."""
    with suppress(ValueError):  # a line that cannot be read is a problem already
        for place in sorted(Line(command).places.difference(BATCH_PLACES)):
            row.fields.error(
                "bad-placeholder",
                "command",
                f"has {{{place}}}, but with `provider_batching` it runs once for all tests and is shown none "
                "of them. Remove one of the two.",
            )


def _check(row: Row, name: str, template: str, known: tuple[str, ...] | None = None) -> None:
    try:
        Line(template) if known is None else Line(template, known)
    except ValueError as error:
        row.fields.error("bad-placeholder", name, str(error))


def _health(row: Row) -> dict[str, Any] | None:
    health = row.fields.object("healthcheck")
    if health is None:
        return None
    made: dict[str, Any] = {}
    for name in ("url", "command"):
        if (text := health.text(name)) is not None:
            made[name] = text
    if len(made) != 1:
        row.fields.error("missing-field", "healthcheck", "needs either `url` or `command`.")
    if not made.get("url", "http").startswith(("http", "${{")):
        health.error("bad-address", "url", "must begin with http:// or https://.")
    if (cwd := health.text("cwd")) is not None:
        made["cwd"] = row.place(cwd)
    if (seconds := row.seconds(health, "timeout_seconds")) is not None:
        made["timeout_seconds"] = seconds
    health.finish(_HEALTH)
    return made


def _variables(row: Row) -> dict[str, str] | None:
    variables = row.fields.object("env")
    if variables is None:
        return None
    made = {}
    for name in variables.names():
        value = variables.take(name)
        if SECRET.search(name) and not (isinstance(value, str) and _WHOLE.fullmatch(value)):
            variables.error(
                "literal-secret", name, "sounds like a secret; it must name a variable, as in ${{ MY_KEY }}."
            )
        elif isinstance(value, bool) or not isinstance(value, str | int | float):
            variables.error("wrong-type", name, "must be text.")
        else:
            made[name] = str(value)
    return made


def _echo(spec: TargetSpec, _row: Row) -> TargetSpec:
    return spec


def _function(spec: TargetSpec, row: Row) -> TargetSpec:
    named = row.required("function")
    if named and ":" not in named and "function" not in row.unknown:
        row.fields.error("unknown-value", "function", f"is {named!r}; write MODULE:NAME.")
    return replace(spec, model=named)


def _local(spec: TargetSpec, row: Row) -> TargetSpec:
    model = row.fields.text("model") or ""
    if model.lower().endswith(".gguf"):
        model = row.place(model)
    return _asked(replace(spec, model=model), row, {})


def _mock(spec: TargetSpec, row: Row) -> TargetSpec:
    response = row.fields.text("response")
    return spec if response is None else replace(spec, options={"response": response})


def _file(spec: TargetSpec, row: Row) -> TargetSpec:
    named = row.required(row.either("file", "path"))
    return replace(spec, model=row.place(named) if named else "")


_KINDS: Final[dict[str, Callable[[TargetSpec, Row], TargetSpec]]] = {
    "cli": _cli,
    "echo": _echo,
    "function": _function,
    "local": _local,
    "mock": _mock,
    "replay": _file,
    "scripted": _file,
}


def unknown_kind(provider: str) -> str:
    """What is wrong with a provider that is neither a kind nor an agent."""
    known = sorted({*FIELDS, *_ALIASES})
    return f"is {provider[:60]!r}. {suggestion(provider[:60], known)}"


def no_kind(provider: str, example: str) -> str:
    """What to do about an agent that has no kind of its own."""
    if provider == "agentv":
        return "is 'agentv', which is part of another program. Name a model, as in `provider: openai`."
    return (
        f"is {provider!r}, an agent, and agents are asked by their command line. Write `provider: cli` and "
        f"`command: {example}`, or whatever its command line is."
    )

"""Defaults of flags from `proctor.toml`."""

from __future__ import annotations

import os
from typing import Any

import click

from proctor.cli.main import load_command
from proctor.cli.number_ranges import ShareRange
from proctor.errors import UsageError
from proctor.services.runs.config import Config, load_config

_COMMAND_FLAGS = frozenset(
    {
        *("help", "json", "quiet", "output", "resume", "retry-errors", "suite"),
        *("group", "saved", "no-holdout", "last-failed", "lf", "watch"),
    }
)
"""Flags that `proctor.toml` cannot set, as they belong to a single command."""


class ConfigDefaultsCommand(click.Command):
    """A command whose flags have the values in `proctor.toml` as defaults."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parses arguments, with the values of the file as defaults."""
        if not (ctx.resilient_parsing or set(args) & set(self.get_help_option_names(ctx))):
            config = load_cli_config()
            ctx.obj = config
            ctx.default_map = {**self._defaults(ctx, config), **(ctx.default_map or {})}
        return super().parse_args(ctx, args)

    def _defaults(self, ctx: click.Context, config: Config) -> dict[str, Any]:
        """Returns the values of the file for the parameters of this command."""
        params = {name: param for param in self.get_params(ctx) for name in config_names(param)}
        defaults: dict[str, Any] = {}
        for name, value in config.flags.items():
            param = params.get(name)
            if param is None or param.name is None:
                continue
            prefix = f"{os.path.relpath(config.path or 'proctor.toml')}: error: `{name}` is {value!r}"
            several = param.multiple or param.nargs != 1
            values = value if several and isinstance(value, list) else [value]
            kind, expected = _expected_type(param)
            if not all(
                isinstance(item, kind) and isinstance(item, bool) == (kind is bool) for item in values
            ):
                raise UsageError(f"{prefix}. Give {expected}{' or a list of these' if several else ''}.")
            try:
                defaults[param.name] = values if several else value
                param.type_cast_value(ctx, defaults[param.name])
            except click.BadParameter as error:
                raise UsageError(f"{prefix}: {error.message}") from None
        return defaults


def _expected_type(param: click.Parameter) -> tuple[Any, str]:
    """Returns the type that a value in the file must have, and its name for messages."""
    if isinstance(param.type, click.types.BoolParamType):
        return bool, "true or false"
    if isinstance(param.type, click.types.IntParamType):
        return int, "a whole number"
    if isinstance(param.type, ShareRange):
        return (int, float), 'a number such as 0.9, or a percentage such as "90%"'
    if isinstance(param.type, click.types.FloatParamType):
        return (int, float), "a number"
    return str, "a text"


def load_cli_config() -> Config:
    """Loads the project's `proctor.toml`; during shell completion, an invalid one counts as empty.

    Raises:
        UsageError: it is wrong.
    """
    context = click.get_current_context(silent=True)
    try:
        return load_config(name for param in load_command("run").params for name in config_names(param))
    except UsageError:
        if context is not None and context.resilient_parsing:
            return Config()
        raise


def config_names(param: click.Parameter) -> list[str]:
    """Returns the names of a parameter in the file: its long flags, and `suite` for the argument."""
    if isinstance(param, click.Argument):
        return [param.name] if param.name == "suite" else []
    names = [flag.removeprefix("--") for flag in param.opts if flag.startswith("--")]
    return [name for name in names if name not in _COMMAND_FLAGS]

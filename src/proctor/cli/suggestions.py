"""Suggests the right command for an unknown command or a flag of another command."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Collection, Iterator, Sequence

import click

from proctor.errors import suggestion

_OTHER_WORDS = {
    "check": "validate",
    "dashboard": "serve",
    "delete": "runs delete",
    "diff": "compare",
    "eval": "run",
    "evaluate": "run",
    "export": "runs export",
    "grade": "regrade",
    "help": "--help",
    "history": "runs list",
    "import": "runs import",
    "lint": "validate",
    "list": "runs list",
    "ls": "runs list",
    "pull": "models pull",
    "report": "runs show",
    "save": "suites save",
    "show": "runs show",
    "start": "run",
    "stop": "runs stop",
    "tag": "runs tag",
    "test": "run",
    "ui": "serve",
    "version": "--version",
    "view": "serve",
    "web": "serve",
}
"""Commands by other words for them, which people or other programs use."""
_MAX_COMMANDS = 3
"""Maximum number of commands that a suggestion names; a flag of more commands gets no suggestion."""


def suggest_command(words: Sequence[str], names: Collection[str]) -> str:
    """Returns a sentence with the command that may be meant.

    Args:
        words: the words of the command line, which begin with an unknown one.
        names: the names of all commands.
    """
    name, rest = words[0], list(words[1:])
    if name in _OTHER_WORDS:
        return f"Did you mean `{' '.join(['proctor', _OTHER_WORDS[name], shlex.join(rest)]).rstrip()}`?"
    if os.path.exists(name):  # noqa: PTH110  # a name with a null character is no error
        return f"Did you mean `{shlex.join(['proctor', 'run', *words])}`?"
    return suggestion(name, sorted(names))


def suggest_flag(flag: str, words: Collection[str], load: Callable[[str], click.Command]) -> str:
    """Returns a sentence, after a space, with the commands that have a flag; empty if none or many do.

    Args:
        flag: the flag, such as `--gate`.
        words: the names of all commands.
        load: returns the command of a name.
    """
    names = [name for word in words for name in _commands_with(flag, load(word), word)]
    if not 0 < len(names) <= _MAX_COMMANDS:
        return ""
    *others, last = (f"`proctor {name}`" for name in names)
    return f" {', '.join(others)} and {last} have it." if others else f" {last} has it."


def _commands_with(flag: str, command: click.Command, name: str) -> Iterator[str]:
    if isinstance(command, click.Group):
        for subcommand in command.commands.values():
            yield from _commands_with(flag, subcommand, f"{name} {subcommand.name}")
    elif any(flag in (*param.opts, *param.secondary_opts) for param in command.params):
        yield name

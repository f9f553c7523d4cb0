"""`proctor completion`: prints the script by which a shell completes commands."""

from __future__ import annotations

import os
from pathlib import PurePath

import click

from proctor.errors import UsageError

_SHELLS = ("bash", "zsh", "fish", "powershell")


@click.command("completion")
@click.argument("shell", required=False, metavar="[SHELL]", type=click.Choice(_SHELLS))
def command(shell: str | None) -> None:
    """Print the completion script for SHELL.

    \b
    ~/.bashrc     eval "$(proctor completion bash)"
    ~/.zshrc      eval "$(proctor completion zsh)"
    config.fish   proctor completion fish | source
    $PROFILE      proctor completion powershell | Out-String | iex

    Add the line for your shell to its startup file. Tab then completes commands, files, targets, runs, suites
    and tags. Without SHELL, $SHELL decides.
    """  # noqa: D301  # click wants the character \b itself
    from proctor.cli.completion.shells import get_script

    name = shell or PurePath(os.environ.get("SHELL", "")).name
    if name not in _SHELLS:
        raise UsageError(f"Name a shell: {', '.join(_SHELLS)}. $SHELL is none of them.")
    click.echo(get_script(name), nl=False)

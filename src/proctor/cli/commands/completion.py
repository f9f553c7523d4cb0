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
    """Print the script by which SHELL completes commands, files, targets, runs, suites and tags.

    \b
    ~/.bashrc     eval "$(proctor completion bash)"
    ~/.zshrc      eval "$(proctor completion zsh)"
    config.fish   proctor completion fish | source
    $PROFILE      proctor completion powershell | Out-String | iex

    Put the line of your shell into its file. Without SHELL it is the one that $SHELL names.
    """  # noqa: D301  # click wants the character \b itself
    from proctor.cli.completion.shells import get_script

    name = shell or PurePath(os.environ.get("SHELL", "")).name
    if name not in _SHELLS:
        raise UsageError(f"Name a shell: {', '.join(_SHELLS)}. $SHELL does not name one of them.")
    click.echo(get_script(name), nl=False)

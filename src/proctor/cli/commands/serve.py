"""`proctor serve`: the web application."""

from __future__ import annotations

import os
import secrets
from contextlib import nullcontext
from pathlib import Path

import click
from click.core import ParameterSource

from proctor.cli.config_defaults import load_cli_config
from proctor.cli.echo import echo, echo_err
from proctor.cli.options import durable_store_address, open_store, store_location, store_option
from proctor.errors import UsageError

_DEFAULT_PORT = 7357
_MIN_TOKEN_LENGTH = 16
"""Minimum length of a token that the user chooses."""

_FEW_FILES_WARNING = (
    "The server may open only {:,} files, too few for 1,000 live pages. Raise the hard limit to {:,} or "
    "more, for example with `ulimit -Hn`."
)
_TYPED_TOKEN_WARNING = (
    "proctor: warning: Every user of this machine can read --token in the process list. "
    "Set the environment variable PROCTOR_TOKEN instead, or use --token random."
)


@click.command("serve")
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Where to listen. Any host but this machine's own takes a token.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=_DEFAULT_PORT,
    help=f"0 takes any.  [default: {_DEFAULT_PORT}, or the next free one]",
)
@click.option(
    "--token",
    envvar="PROCTOR_TOKEN",
    metavar="TOKEN",
    help="What visitors must show; `random` makes one. Other users of this machine can read a token typed "
    "here: set $PROCTOR_TOKEN instead.  [default: $PROCTOR_TOKEN]",
)
@click.option(
    "--allow-host",
    "more_hosts",
    multiple=True,
    metavar="NAME",
    help="A further name by which people reach this server, such as that of a proxy. May be repeated.",
)
@store_option
@click.pass_context
def command(
    ctx: click.Context,
    host: str,
    port: int,
    token: str | None,
    more_hosts: tuple[str, ...],
    store: str | None,
) -> None:
    """Open the web application over this folder and its store.

    Suites, runs, comparisons and certificates are those of the command line: what one does there, the other
    sees. Pages offer the targets of this folder's targets.yaml by name. Runs go on when the server stops.

    \b
    proctor serve
    proctor serve --host 0.0.0.0 --token random
    """  # noqa: D301  # click wants the character \b itself
    try:
        from proctor.web.project import Project
        from proctor.web.server import (
            MIN_OPEN_FILES,
            allowed_hosts,
            bind_socket,
            is_loopback,
            raise_file_limit,
            serve,
        )
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] == "proctor":
            raise
        raise UsageError(
            f"The web application needs the package {missing.name!r}. Install it: pip install 'proctor[web]'."
        ) from None
    typed = token != "random" and ctx.get_parameter_source("token") is ParameterSource.COMMANDLINE
    token = _check_token(token, loopback=is_loopback(host) and not more_hosts)
    if typed:
        echo_err(_TYPED_TOKEN_WARNING)
    os.environ.pop("PROCTOR_TOKEN", None)  # no program that is started from here needs it
    store_address = durable_store_address(store)
    with open_store(store) if store_location(store).exists() else nullcontext():  # reports errors now
        project = Project(store_address, folder=Path.cwd(), config=load_cli_config(), token=token)
    socket_ = bind_socket(host, port, exactly=ctx.get_parameter_source("port") is not ParameterSource.DEFAULT)
    project.hosts = allowed_hosts(host, socket_.getsockname()[1], more_hosts)
    address = f"http://{_url_host(host)}:{socket_.getsockname()[1]}"

    open_files = raise_file_limit()

    def ready() -> None:
        echo(f"Proctor is at {address}/" + ("" if token is None else f"login?token={token}"))
        who = "this machine" if token is None else "whoever has the token"
        echo_err(f"It shows {store_address} to {who}. Ctrl-C stops it; runs go on.")
        if open_files < MIN_OPEN_FILES:
            echo_err(_FEW_FILES_WARNING.format(open_files, MIN_OPEN_FILES))

    try:
        serve(project, socket_, ready)
    except KeyboardInterrupt:
        echo_err("Stopped.")


def _check_token(token: str | None, *, loopback: bool) -> str | None:
    """Returns the token for login; `random` makes one.

    Raises:
        UsageError: there is none although others can reach the server; or it is too short.
    """
    if token == "random":
        return secrets.token_urlsafe(24)
    if token is None:
        if not loopback:
            raise UsageError(
                "Others would reach this server, and see and do all that you can. Add --token random, or a "
                "token of your own."
            )
        return None
    if len(token) < _MIN_TOKEN_LENGTH or not token.isascii() or not token.isprintable():
        raise UsageError(
            f"A token has at least {_MIN_TOKEN_LENGTH} printable ASCII characters. `--token random` makes "
            "one."
        )
    return token


def _url_host(host: str) -> str:
    """Returns the host as it is written in a URL."""
    if host in ("0.0.0.0", "::"):  # noqa: S104  # compared with, not listened to
        return "localhost"
    return f"[{host}]" if ":" in host and not host.startswith("[") else host

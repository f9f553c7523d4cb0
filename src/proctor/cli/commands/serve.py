"""`proctor serve`: the web application."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

import click
from click.core import ParameterSource
from msgspec import Struct

from proctor.cli.config_defaults import load_cli_config
from proctor.cli.echo import echo, echo_err
from proctor.cli.options import durable_store_address, open_store, store_location, store_option
from proctor.errors import UsageError
from proctor.open_file_limit import raise_open_file_limit

_DEFAULT_PORT = 7357
_MIN_TOKEN_LENGTH = 16
"""Minimum length of a token that the user chooses."""

_NAMED_TOKEN = re.compile(rf"([A-Za-z][A-Za-z0-9._-]{{0,39}})=(random|.{{{_MIN_TOKEN_LENGTH},}})")
"""A token with the name of its owner. Any other text is a token as a whole."""

_FEW_FILES_WARNING = (
    "The server can open only {:,} files, which is too few for 1,000 live pages. Raise the hard limit "
    "to {:,} or more, for example with `ulimit -Hn`."
)
_TYPED_TOKEN_WARNING = (
    "proctor: warning: Every user of this machine can see the value of --token in the process list. "
    "Set the environment variable PROCTOR_TOKEN instead, or use --token random."
)


class _TokenType(click.types.StringParamType):
    """The values of `--token`; the environment variable has one value, which may contain several tokens."""

    def split_envvar_value(self, rv: str) -> list[str]:
        return [rv]


class _Tokens(Struct, frozen=True):
    """The tokens that visitors may show."""

    unnamed: str | None
    named: dict[str, str]

    @property
    def logins(self) -> list[tuple[str, str]]:
        """The names and tokens; the name is empty for the one without."""
        unnamed = [] if self.unnamed is None else [("", self.unnamed)]
        return [*unnamed, *self.named.items()]


@click.command("serve")
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    metavar="ADDRESS",
    help="Address to listen on. Any address other than this machine's own needs a token.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=_DEFAULT_PORT,
    metavar="N",
    help=f"Port to listen on; 0 for any free one.  [default: {_DEFAULT_PORT}, or the next free one]",
)
@click.option(
    "--token",
    "token_words",
    envvar="PROCTOR_TOKEN",
    type=_TokenType(),
    multiple=True,
    metavar="TOKEN",
    help="Token that visitors need to log in. `random` generates one. NAME=TOKEN is the token of one "
    "person, and may be repeated. Other users of this machine can see a token in the command "
    "line; set $PROCTOR_TOKEN to avoid that.  [default: $PROCTOR_TOKEN]",
)
@click.option(
    "--allow-host",
    "more_hosts",
    multiple=True,
    metavar="NAME",
    help="Another host name of this server, such as that of a proxy. May be repeated.",
)
@store_option
@click.pass_context
def command(
    ctx: click.Context,
    host: str,
    port: int,
    token_words: tuple[str, ...],
    more_hosts: tuple[str, ...],
    store: str | None,
) -> None:
    """Start the web application for this folder and its store.

    The web application and the command line share suites, runs, comparisons and certificates. Pages offer the
    targets in this folder's targets.yaml. Runs continue when the server stops. Several servers, even on
    several machines, can share a store in PostgreSQL.

    \b
    proctor serve
    proctor serve --host 0.0.0.0 --token random
    """  # noqa: D301  # click wants the character \b itself
    try:
        from proctor.web.project import Project
        from proctor.web.server import (
            MAX_OPEN_FILES,
            MIN_OPEN_FILES,
            allowed_hosts,
            bind_socket,
            is_loopback,
            serve,
        )
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] == "proctor":
            raise
        raise UsageError(
            f"The web application needs the package {missing.name!r}. Install it with: pip install "
            "'proctor[web]'"
        ) from None
    tokens, typed = _parse_tokens(token_words)
    if not tokens.logins and not (is_loopback(host) and not more_hosts):
        raise UsageError(
            "Others could reach this server, and see and do everything that you can. Add --token "
            "random, or a token of your own."
        )
    if typed and ctx.get_parameter_source("token_words") is ParameterSource.COMMANDLINE:
        echo_err(_TYPED_TOKEN_WARNING)
    os.environ.pop("PROCTOR_TOKEN", None)  # no program that is started from here needs it
    store_address = durable_store_address(store)
    with open_store(store) if store_location(store).exists() else nullcontext():  # reports errors now
        project = Project(store_address, folder=Path.cwd(), config=load_cli_config())
    project.token, project.named_tokens = tokens.unnamed, tokens.named
    socket_ = bind_socket(host, port, exactly=ctx.get_parameter_source("port") is not ParameterSource.DEFAULT)
    project.hosts = allowed_hosts(host, socket_.getsockname()[1], more_hosts)
    address = f"http://{_url_host(host)}:{socket_.getsockname()[1]}"

    open_files = raise_open_file_limit(MAX_OPEN_FILES)

    def ready() -> None:
        if not tokens.logins:
            echo(f"Proctor is at {address}/")
        for name, token in tokens.logins:
            echo(f"Proctor{name and f' for {name}'} is at {address}/login?token={token}")
        who = "everyone who has a token" if tokens.logins else "this machine"
        echo_err(f"It shows {store_address} to {who}. Press Ctrl-C to stop the server; runs continue.")
        if open_files < MIN_OPEN_FILES:
            echo_err(_FEW_FILES_WARNING.format(open_files, MIN_OPEN_FILES))

    try:
        serve(project, socket_, ready)
    except KeyboardInterrupt:
        echo_err("Stopped.")


def _parse_tokens(words: Sequence[str]) -> tuple[_Tokens, bool]:
    """Returns the tokens, and whether any was typed; `random` generates one.

    Args:
        words: tokens, or `NAME=TOKEN`; a word may have several of the latter, separated by commas.

    Raises:
        UsageError: a token is too short or used twice, or several have no name.
    """
    pieces = [part for word in words for part in _split_named(word)]
    typed = any(piece.rpartition("=")[2] != "random" for piece in pieces)
    named, unnamed = dict[str, str](), list[str]()
    for piece in pieces:
        match = _NAMED_TOKEN.fullmatch(piece)
        token = _check_token(piece if match is None else match[2])
        if match is None:
            unnamed.append(token)
        elif match[1] in named:
            raise UsageError(f"There are two tokens for {match[1]}. Give each person one token.")
        else:
            named[match[1]] = token
    if len(unnamed) + bool(named) > 1:
        raise UsageError("Several tokens need names: `--token ana=random --token ben=random`.")
    if len(set(named.values())) < len(named):
        raise UsageError("Two people have the same token. Give each their own: `--token NAME=random`.")
    return _Tokens(next(iter(unnamed), None), named), typed


def _split_named(word: str) -> list[str]:
    """Splits a word at its commas if all its parts are named tokens."""
    parts = word.split(",")
    return parts if all(_NAMED_TOKEN.fullmatch(part) for part in parts) else [word]


def _check_token(token: str) -> str:
    """Returns a token for login; `random` makes one.

    Raises:
        UsageError: it is too short.
    """
    if token == "random":
        return secrets.token_urlsafe(24)
    if len(token) < _MIN_TOKEN_LENGTH or not token.isascii() or not token.isprintable():
        raise UsageError(
            f"A token needs at least {_MIN_TOKEN_LENGTH} printable ASCII characters. `--token random` "
            "generates one."
        )
    return token


def _url_host(host: str) -> str:
    """Returns the host as it is written in a URL."""
    if host in ("0.0.0.0", "::"):  # noqa: S104  # compared with, not listened to
        return "localhost"
    return f"[{host}]" if ":" in host and not host.startswith("[") else host

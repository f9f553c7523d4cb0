"""`proctor serve`: the web application."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

import click
from click.core import ParameterSource

from proctor.cli.configured import config_of
from proctor.cli.options import open_store, store_option, store_path
from proctor.cli.saying import say, tell
from proctor.errors import UsageError

_PORT = 7357
_SHORTEST = 16
"""Letters of a token that somebody chooses."""


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
    default=_PORT,
    help=f"0 takes any.  [default: {_PORT}, or the next free one]",
)
@click.option(
    "--token",
    envvar="PROCTOR_TOKEN",
    metavar="TOKEN",
    help="What visitors must show; `random` makes one.  [default: $PROCTOR_TOKEN]",
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
        from proctor.web.serving import bound, hosts_of, is_loopback, serve
        from proctor.web.site import Site
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] == "proctor":
            raise
        raise UsageError(
            f"The web application needs the package {missing.name!r}. Install it: pip install 'proctor[web]'."
        ) from None
    token = _checked(token, loopback=is_loopback(host) and not more_hosts)
    os.environ.pop("PROCTOR_TOKEN", None)  # no program that is started from here needs it
    with open_store(store):  # makes it where there is none, and says now what is wrong with one that is there
        site = Site(store_path(store), folder=Path.cwd(), config=config_of(), token=token)
    chosen = ctx.get_parameter_source("port") is not ParameterSource.DEFAULT
    made = bound(host, port, exactly=chosen)
    site.hosts = hosts_of(host, made.getsockname()[1], more_hosts)
    address = f"http://{_shown(host)}:{made.getsockname()[1]}"

    def ready() -> None:
        say(f"Proctor is at {address}/" + ("" if token is None else f"login?token={token}"))
        who = "this machine" if token is None else "whoever has the token"
        tell(f"It shows {site.store_path} to {who}. Ctrl-C stops it; runs go on.")

    try:
        serve(site, made, ready)
    except KeyboardInterrupt:
        tell("Stopped.")


def _checked(token: str | None, *, loopback: bool) -> str | None:
    """The token that visitors must show.

    Raises:
        UsageError: there is none, and others reach this server; or it is easily guessed.
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
    if len(token) < _SHORTEST or not token.isascii() or not token.isprintable():
        raise UsageError(
            f"A token has at least {_SHORTEST} printable ASCII characters. `--token random` makes one."
        )
    return token


def _shown(host: str) -> str:
    """The host as an address has it."""
    if host in ("0.0.0.0", "::"):  # noqa: S104  # compared with, not listened to
        return "localhost"
    return f"[{host}]" if ":" in host and not host.startswith("[") else host

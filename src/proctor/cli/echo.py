"""Prints text to stdout and stderr, made safe for terminals and CI logs."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TextIO

import click


def wants_colour(stream: TextIO, environ: Mapping[str, str] = os.environ) -> bool:
    """Returns whether a stream gets colours: a terminal does, unless variables say otherwise.

    `NO_COLOR` comes before `FORCE_COLOR`, and that before `TERM=dumb`, as in Python's own tools. An empty
    variable counts as not set.

    Source: no-color.org, force-color.org.
    """
    if environ.get("NO_COLOR"):
        return False
    if environ.get("FORCE_COLOR", "0") not in ("", "0"):
        return True
    return environ.get("TERM") != "dumb" and stream.isatty()


def echo(text: str = "", *, err: bool = False) -> None:
    """Prints a line. If the reader of the stream is gone, as with `| head`, later output is dropped.

    All output goes through here, so that no text can control a terminal or a CI system that reads the log.

    Args:
        text: the line, without its ending; foreign text on one line goes through `one_line` first.
        err: print to stderr instead of stdout.
    """
    from proctor.safe_text import terminal_text

    try:
        click.echo(terminal_text(text), err=err)
    except BrokenPipeError:
        stream = sys.stderr if err else sys.stdout
        # Flushing the stream when the interpreter exits would raise again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def echo_line(line: str, *, err: bool = False) -> None:
    r"""Prints text on one line; line ends in it are shown as `\n`."""
    echo(line.replace("\n", r"\n"), err=err)


def echo_err(line: str) -> None:
    """Prints a line to stderr."""
    echo_line(line, err=True)


def echo_json(text: str) -> None:
    r"""Prints JSON; if stdout is not UTF-8, non-ASCII characters become `\u` escapes."""
    if (sys.stdout.encoding or "").lower().replace("_", "-") not in ("utf-8", "utf8"):
        import json
        import re

        text = re.sub(r"[^\x00-\x7f]+", lambda match: json.dumps(match[0])[1:-1], text)
    from proctor.safe_text import json_text

    echo(json_text(text.removesuffix("\n")))


def echo_document(document: bytes) -> None:
    """Prints a document: byte for byte, except on a terminal, where control characters are escaped."""
    if sys.stdout.isatty():
        echo(document.decode().removesuffix("\n"))
    else:
        click.echo(document, nl=False)

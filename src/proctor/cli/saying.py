"""Text to stdout and stderr, whoever reads them."""

from __future__ import annotations

import os
import sys

import click


def say(text: str = "", *, err: bool = False) -> None:
    """Print a line; where its reader has gone, as with `| head`, nothing more is said and work goes on.

    Args:
        text: the line, without its ending.
        err: to stderr instead of stdout.
    """
    try:
        click.echo(text, err=err)
    except BrokenPipeError:
        stream = sys.stderr if err else sys.stdout
        # What the stream still holds would raise again when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def tell(line: str) -> None:
    """Print a line to stderr."""
    say(line, err=True)


def warning(message: str) -> str:
    """The line of a warning; one that says where it was found says already what it is."""
    return message if ": warning: " in message else f"proctor: warning: {message}"


def say_json(text: str) -> None:
    r"""Print JSON; where stdout is not UTF-8, with everything beyond ASCII as `\u` escapes."""
    if (sys.stdout.encoding or "").lower().replace("_", "-") not in ("utf-8", "utf8"):
        import json
        import re

        text = re.sub(r"[^\x00-\x7f]+", lambda found: json.dumps(found[0])[1:-1], text)
    say(text.removesuffix("\n"))

"""Faults of Proctor's own: told to whoever runs the server, and not shown to the network."""

from __future__ import annotations

import os
import sys
import traceback

from proctor.safe_text import one_line, terminal_text


def report(where: str, error: Exception) -> None:
    """Say on stderr what broke; all of it where PROCTOR_DEBUG is 1.

    Args:
        where: where that was, such as `at /runs`.
        error: what was raised.
    """
    lines = [one_line(f"Proctor broke {where}: {type(error).__name__}: {error}")]
    if os.environ.get("PROCTOR_DEBUG") == "1":
        lines += traceback.format_exception(error)
    print(*map(terminal_text, lines), sep="\n", file=sys.stderr)

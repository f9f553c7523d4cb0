"""Reports internal errors in the server's terminal, and not to clients."""

from __future__ import annotations

import os
import sys
import traceback

from proctor.safe_text import one_line, terminal_text


def report_error(location: str, error: Exception) -> None:
    """Prints an internal error to stderr; with PROCTOR_DEBUG=1 including its traceback.

    Args:
        location: where it happened, such as `at /runs`.
        error: what was raised.
    """
    lines = [one_line(f"Internal error {location}: {type(error).__name__}: {error}")]
    if os.environ.get("PROCTOR_DEBUG") == "1":
        lines += traceback.format_exception(error)
    print(*map(terminal_text, lines), sep="\n", file=sys.stderr)

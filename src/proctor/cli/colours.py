"""Colours lines on a terminal. Colours only repeat what the text says."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Literal

from rich.console import Console
from rich.highlighter import RegexHighlighter
from rich.theme import Theme

from proctor.safe_text import terminal_text

THEME = Theme(
    {
        "verdict.pass": "green",
        "verdict.fail": "bold red",
        "verdict.error": "bold magenta",
        "verdict.unscored": "bold yellow",
        "verdict.dot": "bold cyan",
        "verdict.band": "cyan",
        "verdict.axis": "bright_black",
    }
)


class VerdictHighlighter(RegexHighlighter):
    """Marks verdicts and drawn intervals."""

    base_style = "verdict."
    highlights = [  # noqa: RUF012  # the base class declares it so
        r"^(?P<fail>FAIL) ",
        r"^(?P<error>ERROR) ",
        r"^(?P<unscored>UNSCORED) ",
        r"^(?P<pass>PASS) ",
        r"(?P<pass>\d+ passed)",
        r"(?P<fail>[1-9]\d* failed)",
        r"(?P<error>[1-9]\d* errors?)",
        r"(?P<unscored>[1-9]\d* unscored)",
        r"(?P<axis>·{2,}|(?<=[━●])·+|·+(?=[━●]))",
        r"(?P<band>━+)",
        r"(?P<dot>●)",
    ]


def print_coloured(lines: Iterable[str], console: Console | None = None) -> None:
    """Prints lines with colours, to whatever stdout is; long lines are not wrapped."""
    if console is None:
        # Named, as rich gives no colours to a pipe or a dumb terminal, not even when they are forced.
        colours: Literal["auto", "standard"] = "auto" if sys.platform == "win32" else "standard"
        console = Console(theme=THEME, force_terminal=True, color_system=colours)
    highlight = VerdictHighlighter()
    for line in lines:
        console.print(highlight(terminal_text(line.replace("\n", r"\n"))), soft_wrap=True)

"""A difference of shares as an option takes it: `5pp`, `5%` or `0.05`."""

from __future__ import annotations

import re

import click

_POINTS = re.compile(r"(\d+(?:\.\d+)?|\.\d+)\s*(pp|%)?")


def parse_percentage_points(_context: click.Context, _option: click.Parameter, text: str) -> float:
    """Parses percentage points such as `5pp` or `5%`, or a share such as `0.05`, as callback of an option.

    Returns:
        A share, above 0 and at most 1.

    Raises:
        click.BadParameter: it is none of these, or outside that range.
    """
    match = _POINTS.fullmatch(text.strip())
    share = 0.0 if match is None else float(match[1]) / (100 if match[2] else 1)
    if not 0 < share <= 1:
        raise click.BadParameter(
            f"{text!r} is not a difference. Give percentage points such as 5pp, or a share such as 0.05."
        )
    return share

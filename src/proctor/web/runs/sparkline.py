"""The pass rates of runs over time as a line of the height of a row, on an axis from 0 to 100 %; pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from msgspec import Struct

from proctor.reports.formatting import percent

WIDTH, HEIGHT = 124, 28
_MARGIN = 4

Rate: TypeAlias = tuple[float, tuple[float, float]]
"""A pass rate with its interval."""


class Sparkline(Struct, frozen=True, kw_only=True):
    """Where the line and its band are, in pixels."""

    line: str
    band: str
    x: float
    """The place of the last rate."""
    y: float
    rate: str
    """The last rate."""
    title: str
    width: int = WIDTH
    height: int = HEIGHT


def draw_sparkline(rates: Sequence[Rate]) -> Sparkline | None:
    """Returns the line of pass rates in time order; None without any."""
    if not rates:
        return None
    step = (WIDTH - 2 * _MARGIN) / max(1, len(rates) - 1)
    xs = [round(_MARGIN + place * step, 1) for place in range(len(rates))]
    if len(rates) == 1:
        xs = [WIDTH / 2]
    middle = [_point(x, rate) for x, (rate, _) in zip(xs, rates, strict=True)]
    lows = [_point(x, low) for x, (_, (low, _)) in zip(xs, rates, strict=True)]
    highs = [_point(x, high) for x, (_, (_, high)) in zip(xs, rates, strict=True)]
    first, last = percent(rates[0][0]), percent(rates[-1][0])
    return Sparkline(
        line=" ".join(middle),
        band=" ".join([*highs, *lows[::-1]]),
        x=xs[-1],
        y=_height(rates[-1][0]),
        rate=last,
        title=f"Pass rate of the last {len(rates)} runs: {first} to {last}, on an axis from 0 to 100 %",
    )


def _point(x: float, share: float) -> str:
    return f"{x:g},{_height(share):g}"


def _height(share: float) -> float:
    return round(_MARGIN + (1 - share) * (HEIGHT - 2 * _MARGIN), 1)

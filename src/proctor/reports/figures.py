"""Numbers to the short texts in which people read them. Pure."""

from __future__ import annotations

import re

NONE = "–"
"""Stands for a number where there is none."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]+")


def one_line(text: str) -> str:
    """The text without line ends and whatever else would move a terminal's cursor or turn its writing."""
    return " ".join(_CONTROL.sub(" ", text).split())


def percent(share: float | None, digits: int = 1) -> str:
    """A share of 1 as percent; a dash when there is none."""
    return NONE if share is None else f"{share * 100:.{digits}f}%"


def interval(bounds: tuple[float, float] | None) -> str:
    """Two shares of 1 as `62–88%`; those that are close together as `0.6–1.3%`."""
    if bounds is None:
        return NONE
    digits = 0 if bounds[1] - bounds[0] >= 0.03 else 1
    return f"{bounds[0] * 100:.{digits}f}–{bounds[1] * 100:.{digits}f}%"


def points(difference: float) -> str:
    """A difference of two shares in percentage points, with its sign: `+12.5pp`."""
    return f"{difference * 100:+.1f}pp"


def milliseconds(value: float | None) -> str:
    """A time in the unit that keeps it short."""
    if value is None:
        return NONE
    if value < 10:
        return f"{value:.1f} ms"
    return f"{value:.0f} ms" if value < 10_000 else f"{value / 1000:.1f} s"


def seconds(value: float) -> str:
    """A duration as `41 s`, `3 min 20 s` or `2 h 05 min`."""
    whole = round(value)
    if whole < 60:
        return f"{value:.1f} s" if value < 10 else f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} min"


def cost(usd: float | None) -> str:
    """US dollars, with as many digits as a small sum needs; `unknown` when a price is not known."""
    if usd is None:
        return "unknown"
    if usd == 0:
        return "$0"
    if usd < 0.0001:
        return "under $0.0001"
    return f"${usd:.2f}" if usd >= 1 else f"${usd:.4f}"


def costs(target_usd: float | None, judges_usd: float | None, judge_calls: int) -> str:
    """What the target cost, and where judges were asked what they did: `$0.12 + $0.0300 for judging`."""
    if not judge_calls or (target_usd is None and judges_usd is None):
        return cost(target_usd)
    return f"{cost(target_usd)} + {cost(judges_usd)} for judging"

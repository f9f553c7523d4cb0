"""Numbers, times and names to the short texts in which people and programs read them. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from proctor.safe_text import json_text

NONE = "–"
"""Stands for a number where there is none."""
AXIS = 26
"""Columns on which 0 to 100 % are drawn."""
AXIS_HEAD = f"0%{'95% interval':^{AXIS - 6}}100%"
"""What stands above such an axis."""


def utc(moment: datetime) -> str:
    """A moment in UTC as JSON has it: `2026-10-03T14:00:00Z`."""
    return moment.isoformat().replace("+00:00", "Z")


def rounded(bounds: tuple[float, float] | None) -> list[float] | None:
    """The ends of an interval as JSON has them, to three digits."""
    return None if bounds is None else [round(bound, 3) for bound in bounds]


def as_json(data: Any) -> str:
    """Plain data as a JSON document with letters as they are; without an ending."""
    import json

    return json_text(json.dumps(data, ensure_ascii=False, indent=2))


def percent(share: float | None, digits: int = 1) -> str:
    """A share of 1 as percent; a dash when there is none."""
    return NONE if share is None else f"{share * 100:.{digits}f}%"


def interval(bounds: tuple[float, float] | None) -> str:
    """Two shares of 1 as `62–88%`; those that are close together as `0.6–1.3%` or `99.96–100.00%`."""
    if bounds is None:
        return NONE
    low, high = (bound * 100 for bound in bounds)
    digits = 0 if high - low >= 3 else 1
    digits = next((more for more in range(digits, 5) if round(low, more) != round(high, more)), digits)
    return f"{low:.{digits}f}–{high:.{digits}f}%"


def drawn(share: float | None, bounds: tuple[float, float] | None) -> str:
    """A dot for a share on a band for its interval, on an axis from 0 to 100 %; blank where there is none."""
    if share is None or bounds is None:
        return " " * AXIS
    low, high = (round(bound * (AXIS - 1)) for bound in bounds)
    axis = ["━" if low <= column <= high else "·" for column in range(AXIS)]
    axis[round(share * (AXIS - 1))] = "●"
    return "".join(axis)


def points(difference: float) -> str:
    """A difference of two shares in percentage points, with its sign: `+12.5pp`."""
    return f"{difference * 100:+.1f}pp"


def p_value(p: float | None) -> str:
    """A p-value with as many digits as it needs: `0.013`, `< 0.001`; a dash when there is none."""
    if p is None:
        return NONE
    return "< 0.001" if p < 0.001 else f"{p:.{2 if p >= 0.095 else 3}f}"


def probability(p: float | None) -> str:
    """The same with its name: `p = 0.013`, `p < 0.001`."""
    return f"p {'' if p is None or p < 0.001 else '= '}{p_value(p)}"


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

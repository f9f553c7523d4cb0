"""Formats numbers and times for people and for JSON. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from msgspec import to_builtins

from proctor.model import Run
from proctor.safe_text import json_text

NONE = "–"
"""Stands for a missing number."""
AXIS_WIDTH = 26
"""Width of the axis from 0 to 100 %, in columns."""
AXIS_HEAD = f"0%{'95% interval':^{AXIS_WIDTH - 6}}100%"
"""The heading of such an axis."""
_HALF_WIDTH = 12
"""Width of the axis of a difference on each side of zero, in columns."""
_AXIS_LIMITS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0)
"""The possible limits of such an axis, on either side of zero."""


def format_utc(moment: datetime) -> str:
    """Formats a moment in UTC as ISO 8601: `2026-10-03T14:00:00Z`."""
    return moment.isoformat().replace("+00:00", "Z")


def format_run_name(run: Run) -> str:
    """Formats the name of a run for people: target, prompt and start, as `gpt-5 · terse · 27 Nov 14:05`."""
    return f"{run.target_title} · {run.started_at.day} {run.started_at:%b %H:%M}"


def round_interval(bounds: tuple[float, float] | None) -> tuple[float, float] | None:
    """Rounds the bounds of an interval to three digits, for JSON."""
    return None if bounds is None else (round(bounds[0], 3), round(bounds[1], 3))


def to_json(data: Any) -> str:
    """Encodes data or records as indented JSON without escaping non-ASCII characters; no final newline."""
    return json_text(json.dumps(to_builtins(data), ensure_ascii=False, indent=2))


def to_json_line(data: Any) -> str:
    """Encodes data or records as JSON in one line; no final newline."""
    return json_text(json.dumps(to_builtins(data), ensure_ascii=False))


def truncate_with_count(text: str, limit: int) -> str:
    """Cuts a text to the limit, and appends how many characters were cut."""
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text) - limit:,} more characters)"


def percent(share: float | None, digits: int = 1) -> str:
    """Formats a fraction of 1 as percent; a dash for None."""
    return NONE if share is None else f"{share * 100:.{digits}f}%"


def interval(bounds: tuple[float, float] | None) -> str:
    """Formats two fractions of 1 as `62–88%`, or with more digits if they are close: `0.6–1.3%`."""
    if bounds is None:
        return NONE
    low, high = (bound * 100 for bound in bounds)
    digits = 0 if high - low >= 3 else 1
    digits = next((more for more in range(digits, 5) if round(low, more) != round(high, more)), digits)
    return f"{low:.{digits}f}–{high:.{digits}f}%"


def unmeasured(count: int, bounds: tuple[float, float] | None) -> str:
    """Formats how many trials a rate leaves out, and what it would be if all had failed or all had passed.

    As `3: 70.0–77.5%`; empty for none.
    """
    if not count or bounds is None:
        return ""
    return f"{count:,}: {bounds[0] * 100:.1f}–{percent(bounds[1])}"


def unmeasured_difference(count: int, bounds: tuple[float, float] | None) -> str:
    """Formats how many pairs a difference leaves out, and what it would be at both extremes.

    As `3: +17.5 to +25.0pp`; empty for none.
    """
    return f"{count:,}: {difference_interval(bounds)}" if count and bounds is not None else ""


def draw_interval(share: float | None, bounds: tuple[float, float] | None) -> str:
    """Draws a dot for a fraction on a band for its interval, from 0 to 100 %; blank if either is None."""
    if share is None or bounds is None:
        return " " * AXIS_WIDTH
    low, high = (round(bound * (AXIS_WIDTH - 1)) for bound in bounds)
    axis = ["━" if low <= column <= high else "·" for column in range(AXIS_WIDTH)]
    axis[round(share * (AXIS_WIDTH - 1))] = "●"
    return "".join(axis)


def percentage_points(difference: float | None) -> str:
    """Formats a difference of two fractions in percentage points: `+12.5pp`; a dash for None."""
    return NONE if difference is None else f"{difference * 100:+.1f}pp"


def difference_interval(bounds: tuple[float, float] | None) -> str:
    """Formats an interval of a difference in percentage points: `+2.1 to +18.0pp`; a dash for None."""
    return NONE if bounds is None else f"{bounds[0] * 100:+.1f} to {percentage_points(bounds[1])}"


def axis_limit(differences: Iterable[Any]) -> float:
    """Returns the limit of an axis around zero that fits differences, each with its `value` and `ci95`."""
    ends = (end for each in differences for end in (each.value or 0.0, *(each.ci95 or ())))
    farthest = max(map(abs, ends), default=0.0)
    return next((limit for limit in _AXIS_LIMITS if farthest <= limit), 1.0)


def difference_axis_head(limit: float) -> str:
    """Returns the heading of an axis around zero."""
    end = f"{limit * 100:.0f}pp"
    return f"-{end}{'0':^{2 * _HALF_WIDTH - 2 * len(end) - 1}}+{end}"


def draw_difference(value: float | None, bounds: tuple[float, float] | None, limit: float) -> str:
    """Draws a dot for a difference on a band for its interval, around zero; blank if either is None."""
    if value is None or bounds is None:
        return " " * (2 * _HALF_WIDTH + 1)
    low, at, high = (_HALF_WIDTH + round(end / limit * _HALF_WIDTH) for end in (bounds[0], value, bounds[1]))
    axis = ["━" if low <= column <= high else "·" for column in range(2 * _HALF_WIDTH + 1)]
    axis[_HALF_WIDTH] = "┼" if low <= _HALF_WIDTH <= high else "│"
    axis[at] = "●"
    return "".join(axis)


def p_value(p: float | None) -> str:
    """Formats a p-value with two or three digits: `0.013`, `< 0.001`; a dash for None."""
    if p is None:
        return NONE
    return "< 0.001" if p < 0.001 else f"{p:.{2 if p >= 0.095 else 3}f}"


def probability(p: float | None) -> str:
    """Formats a p-value with its name: `p = 0.013`, `p < 0.001`."""
    return f"p {'' if p is None or p < 0.001 else '= '}{p_value(p)}"


def milliseconds(value: float | None) -> str:
    """Formats milliseconds as `8.1 ms`, `850 ms` or `12.3 s`; a dash for None."""
    if value is None:
        return NONE
    if value < 10:
        return f"{value:.1f} ms"
    return f"{value:.0f} ms" if value < 10_000 else f"{value / 1000:.1f} s"


def rate(value: float | None) -> str:
    """Formats a number per second as `8.4` or `84`; a dash for None."""
    if value is None:
        return NONE
    return f"{value:.1f}" if value < 10 else f"{value:,.0f}"


def token_counts(usage: Any, unit: str = "") -> str:
    """Formats tokens as `1,204 in (800 cached), 300 out (120 reasoning)`, without parts that are 0.

    Args:
        usage: an object with the counts of `Usage`.
        unit: what stands after the first number, such as ` tokens`.
    """
    input_parts = (
        (usage.cached_tokens, "cached"),
        (usage.cache_write_tokens, "written to the cache"),
    )
    sides = ((usage.input_tokens, f"{unit} in", input_parts),
             (usage.output_tokens, " out", ((usage.reasoning_tokens, "reasoning"),)))  # fmt: skip
    texts = []
    for total, word, parts in sides:
        named_parts = ", ".join(f"{count:,} {name}" for count, name in parts if count)
        texts.append(f"{total:,}{word}" + (f" ({named_parts})" if named_parts else ""))
    return ", ".join(texts)


def seconds(value: float) -> str:
    """Formats a duration as `41 s`, `3 min 20 s` or `2 h 05 min`."""
    whole = round(value)
    if whole < 60:
        return f"{value:.1f} s" if value < 10 else f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} min"


def cost(usd: float | None) -> str:
    """Formats US dollars, with four decimals below $1; `unknown` for None."""
    if usd is None:
        return "unknown"
    if usd == 0:
        return "$0"
    if usd < 0.0001:
        return "under $0.0001"
    return f"${usd:.2f}" if usd >= 1 else f"${usd:.4f}"


def costs(target_usd: float | None, judges_usd: float | None, judge_calls: int) -> str:
    """Formats the cost of the target, and of judges if any were called: `$1.20 + $0.0300 for judging`."""
    if not judge_calls or (target_usd is None and judges_usd is None):
        return cost(target_usd)
    return f"{cost(target_usd)} + {cost(judges_usd)} for judging"

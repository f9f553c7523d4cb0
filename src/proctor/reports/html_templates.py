"""The Jinja2 environment of reports and pages, in which every value is text and never markup.

It reads the templates of the package and nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any

from jinja2 import BaseLoader, ChoiceLoader, Environment, PackageLoader, StrictUndefined
from msgspec import to_builtins

from proctor.reports import formatting
from proctor.reports.evidence import first_of, pieces
from proctor.reports.runs.serialize import gates_of
from proctor.safe_text import cut, one_line, visible
from proctor.verdicts import Counts

_REACHES = (0.05, 0.1, 0.25, 0.5, 1.0)
"""How far the axis of a difference may go, on either side of zero."""


def environment(*more_loaders: BaseLoader) -> Environment:
    """Returns an environment with the templates of reports and of the given loaders, with one set of filters.

    An undefined name is an error, not an empty text. No filter turns a value into markup.

    Args:
        more_loaders: further sources of templates, which are searched first.
    """
    loaders = [*more_loaders, PackageLoader("proctor.reports", "templates")]
    templates = Environment(
        loader=ChoiceLoader(loaders),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        auto_reload=False,
        finalize=_finalize,
    )
    del templates.filters["safe"]
    templates.filters |= {
        "percent": formatting.percent,
        "interval": formatting.interval,
        "bounds": _bounds,
        "cost": formatting.cost,
        "ms": formatting.milliseconds,
        "points": _points,
        "p_value": formatting.p_value,
        "one_line": one_line,
        "cut": cut,
        "number": _number,
        "moment": _moment,
        "iso": _iso,
        "head": _head,
        "written": _to_text,
        "pieces": pieces,
        "first_of": first_of,
        "gates_of": gates_of,
        "capitalize_first": _capitalize,
        "in_terminal": str,  # the web replaces it where the store has another name
    }
    templates.globals["reach_of"] = reach_of
    return templates


def _finalize(value: Any) -> Any:
    """Returns text with invisible characters escaped; `|e` keeps them, for values that a form sends back."""
    return visible(value) if type(value) is str else value


@cache
def stylesheet() -> str:
    """The stylesheet that pages and reports share."""
    environment_ = environment()
    assert environment_.loader is not None
    return environment_.loader.get_source(environment_, "proctor.css")[0]


def reach_of(ends: Sequence[float | None]) -> float:
    """How far an axis must go on either side of zero to hold all of these differences of shares."""
    farthest = max((abs(end) for end in ends if end is not None), default=0.0)
    return next((reach for reach in _REACHES if farthest <= reach), 1.0)


def _bounds(counts: Any) -> tuple[float, float] | None:
    """The interval of a pass rate; that of a `counts_row` is rounded already, and so it is computed again."""
    if not isinstance(counts, Mapping) or "errors" not in counts:
        bounds: tuple[float, float] | None = counts["ci95"] if isinstance(counts, Mapping) else counts.ci95
        return bounds
    exact = Counts()
    for name in exact.__slots__:
        setattr(exact, name, counts[name])
    return exact.ci95


def _points(value: float | None) -> str:
    return formatting.NONE if value is None else formatting.points(value)


def _number(value: Any) -> str:
    """A count or a measure with its thousands apart; a dash when there is none."""
    if value is None:
        return formatting.NONE
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"


def _moment(value: datetime | str | None) -> str:
    """A moment as `2026-10-03 14:00`, in UTC; a dash when there is none."""
    moment = _datetime(value)
    return formatting.NONE if moment is None else f"{moment:%Y-%m-%d %H:%M}"


def _iso(value: datetime | str | None) -> str:
    moment = _datetime(value)
    return "" if moment is None else formatting.utc(moment)


def _head(text: str, limit: int | None = None) -> str:
    """The text, or its beginning with a word on how much was left out."""
    if limit is None or len(text) <= limit:
        return text
    return f"{text[:limit]}… ({len(text) - limit:,} more characters)"


def _to_text(value: Any) -> str:
    """A text as it is, anything else as JSON."""
    if isinstance(value, str):
        return value
    return json.dumps(to_builtins(value), ensure_ascii=False, indent=2)


def _capitalize(text: str) -> str:
    return text[:1].upper() + text[1:]


def _datetime(value: datetime | str | None) -> datetime | None:
    if not value:
        return None
    moment = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)

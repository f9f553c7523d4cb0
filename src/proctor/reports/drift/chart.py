"""Draws the drift of a target as a chart. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from proctor.charts import WIDTH, Chart, layered
from proctor.drift.detector import Drift, SeriesPoint
from proctor.drift.identical_answers import STABLE_SHARE, WATCH_SHARE
from proctor.reports.drift.report import DriftReport, describe_change, format_moments, format_series_title
from proctor.safe_text import one_line

_PASSED, _FIRST, _BEFORE = (
    "passed, with its 95 % interval",
    "same as the first run",
    "same as the previous run",
)
_GREY = "#7a7a7a"
_MAX_MARKS = 4
"""At most this many changes are marked: the change point and the latest changes."""
_TIMES = (
    dict.fromkeys(("week", "date", "day"), "%-d %b")
    | dict.fromkeys(("hours", "minutes"), "%H:%M")
    | {"seconds": "%H:%M:%S"}
)
"""Tick formats for days and times of day; Vega-Lite formats months and years."""
_MAX_POINTS = 60
"""Up to this many runs, each has a point."""


def draw_chart(report: DriftReport) -> Chart:
    """Returns a chart of the pass rate with its interval, the identical answers, and the changes."""
    drift, run = report.drift, report.last_run
    rows = [row for step in drift.points for row in _rows(step)]
    x = {"field": "at", "type": "temporal", "title": "UTC", "scale": {"type": "utc"}}
    x["axis"] = {
        "grid": False,
        "labelOverlap": "greedy",
        "labelSeparation": 8,
        "tickCount": 8,
        "format": _TIMES,
    }
    legend = {"symbolType": "stroke", "symbolStrokeWidth": 3, "symbolOpacity": 1, "columns": 3}
    legend |= {"columnPadding": 30}  # browsers may write the labels in a wider font
    colour = {"field": "series", "type": "nominal", "sort": [_PASSED, _FIRST, _BEFORE], "legend": legend}
    band = {"x": x, "y": _share("low"), "y2": {"field": "high"}, "color": colour}
    line = {"type": "line", "point": len(drift.points) <= _MAX_POINTS}
    # Dashes keep two equal lines visible.
    dash = {"condition": {"test": f"datum.series == '{_BEFORE}'", "value": [6, 6]}, "value": [1, 0]}
    layers = [
        {"mark": {"type": "area", "opacity": 0.18}, "encoding": band},
        *_levels(),
        {"mark": line, "encoding": {"x": x, "y": _share("share"), "color": colour, "strokeDash": dash}},
    ]
    for place, (at, text) in enumerate(_marks(drift)):
        late = at - drift.points[0].started_at > (drift.last.started_at - drift.points[0].started_at) / 2
        layers += _mark_layers({"at": _utc(at), "name": one_line(text)}, place, x, late=late)
    return layered(rows, layers, title=format_series_title(run))


def _rows(step: SeriesPoint) -> Iterator[dict[str, Any]]:
    at, counts = _utc(step.started_at), step.observation.passed
    if counts.ci95 is not None:
        low, high = counts.ci95
        yield {"at": at, "share": counts.pass_rate, "low": low, "high": high, "series": _PASSED}
    for series, same in ((_FIRST, step.with_first), (_BEFORE, step.with_before)):
        if same is not None:
            yield {"at": at, "share": same.share, "series": series}


def _share(field: str) -> dict[str, Any]:
    scale, axis = {"domain": [0, 1]}, {"format": ".0%"}
    return {"field": field, "type": "quantitative", "title": "share of cases", "scale": scale, "axis": axis}


def _levels() -> Iterator[dict[str, Any]]:
    """Yields the layers of the thresholds `stable` and `watch`."""
    data = {"values": [{"share": STABLE_SHARE, "name": "stable"}, {"share": WATCH_SHARE, "name": "watch"}]}
    rule = {"type": "rule", "strokeDash": [4, 4], "color": _GREY}
    text = {"type": "text", "align": "left", "dx": 4, "fontSize": 11, "color": _GREY}
    text_encoding = {"y": _share("share"), "x": {"value": WIDTH}, "text": {"field": "name"}}
    yield {"data": data, "mark": rule, "encoding": {"y": _share("share")}}
    yield {"data": data, "mark": text, "encoding": text_encoding}


def _marks(drift: Drift) -> Iterator[tuple[datetime, str]]:
    if drift.change_point is not None:
        at = drift.points[drift.change_point.after].started_at
        yield at, f"changed by {format_moments(drift)[at]}"
    for change in drift.recorded_changes[1 - _MAX_MARKS :]:
        yield drift.points[change.place].started_at, describe_change(change)


def _mark_layers(mark: dict[str, str], place: int, x: dict[str, Any], *, late: bool) -> list[dict[str, Any]]:
    """Returns a vertical line with its label on the side with more room; each label has its own height."""
    data = {"values": [mark]}
    placement = {"align": "right", "dx": -5} if late else {"align": "left", "dx": 5}
    words = {"type": "text", "fontSize": 11, "limit": 250, **placement}
    text_encoding = {"x": x, "y": {"value": 200 + 14 * place}, "text": {"field": "name"}}
    return [
        {"data": data, "mark": {"type": "rule", "strokeWidth": 1.5, "color": "#222"}, "encoding": {"x": x}},
        {"data": data, "mark": words, "encoding": text_encoding},
    ]


def _utc(at: datetime) -> str:
    return at.astimezone(UTC).isoformat()

"""Charts of numbers: Vega-Lite specifications, drawn as SVG by vl-convert. Pure, without any type of Proctor.

Notebooks draw a `Chart` themselves; `svg` needs the extra `charts`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from math import isfinite
from pathlib import Path
from typing import Any, Literal

from proctor.errors import UsageError
from proctor.safe_text import escape_invisible

SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"
COLOURS = (
    *("#3b6ea8", "#d9822b", "#3f8f6b", "#a3557f", "#7a7a7a", "#8a6d3b"),
    *("#6fb8e0", "#e3c13c", "#1c2f52", "#e08fb4", "#8fcfae", "#5b3f99"),
)
"""Colours for up to twelve series. The first six can be distinguished with red-green colour blindness."""
DARK_COLOURS = (
    *("#7fa8dc", "#e8993f", "#5fb58c", "#cf7fa8", "#a3a3a3", "#c4a15f"),
    *("#b3dcf5", "#f0d566", "#5c7fbd", "#f0b6cf", "#c3e8d5", "#a58be0"),
)
"""The same colours, in the same order, for a dark page."""
WIDTH = 520
"""Width of the area within the axes, in pixels."""
_PADDING = 12
"""Space around a chart, in pixels."""
_LETTER_WIDTH = 6.6
"""Approximate width of a letter in a label, in pixels."""
_LETTER_SLACK = 1.3
"""Extra width of a letter in a label, in pixels: vl-convert measures Helvetica, and browsers that do not have
it use wider fonts."""
_MAX_LEGEND_LENGTH = 72
"""The maximum length of a label in a legend, in characters."""

_INK, _GRID, _DOTS = "#222", "#e8e8e8", "#b5b5b5"
_DARK = dict(zip(COLOURS, DARK_COLOURS, strict=True)) | {
    _INK: "#e6e6e2",
    _GRID: "#34383e",
    _DOTS: "#6a7078",
    "white": "transparent",
}
"""Each colour with its replacement on a dark page; the background becomes transparent."""
_DARK_TEXT = {
    "axis": {"labelColor": "#a3a8af", "titleColor": "#a3a8af", "domainColor": "#7b828b"},
    "legend": {"labelColor": _DARK[_INK]},
    "title": {"color": _DARK[_INK]},
    "text": {"color": _DARK[_INK]},
    "rule": {"color": _DARK[_INK]},
}
"""Text and uncoloured lines on a dark page."""

_CONFIG = {
    "font": "Helvetica, Arial, sans-serif",
    "background": "white",
    "view": {"stroke": None},
    "axis": {"labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal", "gridColor": _GRID},
    "axisX": {"titleLimit": WIDTH},
    "axisY": {"domain": False, "ticks": False, "labelLimit": 0, "labelPadding": 6, "titleLimit": 260},
    "legend": {"labelFontSize": 12, "labelLimit": 0, "title": None, "orient": "top"},
    "title": {"fontSize": 14, "anchor": "start", "fontWeight": "bold", "offset": 12, "limit": 760},
    "range": {"category": list(COLOURS)},
}

_TEXT_PARTS = frozenset({"data", "domain", "sort", "title", "text", "labelExpr"})
"""Parts of a specification that contain texts of the data."""

Scale = Literal["number", "share"]
"""How values are written: as numbers, or as percentages of a share from 0 to 1."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar: a value, and its interval if it has one."""

    label: str
    value: float
    low: float | None = None
    high: float | None = None
    series: str = ""


@dataclass(frozen=True, slots=True)
class Point:
    """One point of a line: a value, and its interval if it has one."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None
    series: str = ""
    dashed: bool = False
    """Whether it is on the second line of its series, which has the same colour and is dashed."""


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart, as data."""

    spec: dict[str, Any]
    """A Vega-Lite 5 specification that contains its own data."""

    def __repr__(self) -> str:
        return f"<Chart {self.spec.get('title', '')!r}>"

    def svg(self, *, dark: bool = False) -> str:
        """Returns the chart as SVG; equal charts give equal texts.

        Args:
            dark: for a dark page, in lighter colours and without a background.

        Raises:
            UsageError: the extra `charts` is not installed.
        """
        names: dict[str, str] = {}  # vl-convert's clip numbers continue from one chart to the next
        return re.sub(
            r'(?<=url\(#)clip\d+(?=\))|(?<= id=")clip\d+(?=")',
            lambda clip: names.setdefault(clip[0], f"clip{len(names) + 1}"),
            import_vl_convert().vegalite_to_svg(json.dumps(_to_dark(self.spec) if dark else self.spec)),
        )

    def save(self, path: str | Path) -> Path:
        """Writes the chart as SVG to a file, and returns its path.

        Raises:
            UsageError: as `svg`.
            OSError: the file cannot be written.
        """
        target = Path(path)
        target.write_text(self.svg() + "\n", encoding="utf-8")
        return target

    def _repr_mimebundle_(self, **_kwargs: Any) -> dict[str, Any]:
        """Returns the data, and SVG for notebooks that cannot draw it if the extra is installed."""
        bundle: dict[str, Any] = {"application/vnd.vegalite.v5+json": self.spec}
        if find_spec("vl_convert") is not None:
            bundle["image/svg+xml"] = self.svg()
        return bundle


def _to_dark(spec: dict[str, Any]) -> dict[str, Any]:
    """Returns a specification for a dark page."""
    dark: dict[str, Any] = _recolour(spec)
    config = dark.get("config", {})
    for part, colours in _DARK_TEXT.items():
        config[part] = {**config.get(part, {}), **colours}
    return {**dark, "config": config}


def _recolour(part: Any) -> Any:
    """Replaces colours, except in the data, whose texts are not colours."""
    if isinstance(part, dict):
        return {name: value if name in _TEXT_PARTS else _recolour(value) for name, value in part.items()}
    if isinstance(part, list | tuple):
        return [_recolour(value) for value in part]
    return _DARK.get(part, part) if isinstance(part, str) else part


def import_vl_convert() -> Any:
    """Imports the package that draws.

    Raises:
        UsageError: the extra `charts` is not installed.
    """
    try:
        import vl_convert  # takes 0.4 s, and is an extra
    except ImportError as error:
        raise UsageError(
            "Charts are drawn by vl-convert-python. Install it: pip install 'proctor[charts]'."
        ) from error
    return vl_convert


def bars(values: Sequence[Bar], *, title: str, unit: str, scale: Scale = "number") -> Chart:
    """Draws horizontal bars in the order of the values, with a line for each interval; series side by side.

    Args:
        values: the bars; labels may repeat only between series.
        title: the title of the chart.
        unit: the unit or measure of the values, such as "accuracy" or "ms".
        scale: how the values are written.

    Raises:
        ValueError: there are no values.
    """
    labels = list(dict.fromkeys(bar.label for bar in values))
    series = list(dict.fromkeys(bar.series for bar in values))
    y: dict[str, Any] = {"field": "label", "type": "nominal", "sort": labels, "title": None}
    y["axis"] = {"labelExpr": _label_expression(labels, 44)}
    shared: dict[str, Any] = {"y": y}
    if len(series) > 1:
        y["scale"] = {"paddingInner": 0.15, "paddingOuter": 0.08}
        shared["yOffset"] = {"field": "series", "sort": series}
    colour = _colour(series, "circle")
    data = [
        _row(label=bar.label, value=bar.value, low=bar.low, high=bar.high, series=bar.series)
        for bar in values
    ]
    x_axis = _axis("value", unit, scale)
    if scale == "number":
        x_axis["axis"] = _whole_ticks([0, *(bar.value for bar in values)])
    layers: list[dict[str, Any]] = [
        {
            "mark": {"type": "bar", "opacity": 0.85, "cornerRadiusEnd": 2},
            "encoding": {"x": x_axis, "color": colour},
        }
    ]
    if any(bar.low is not None for bar in values):
        ends = {"x": _axis("low", unit, scale), "x2": {"field": "high"}}
        layers.append({"mark": {"type": "rule", "strokeWidth": 1.5, "color": _INK}, "encoding": ends})
    height = {"step": 26 if len(series) == 1 else 18}
    parts = {"height": height, "padding": _row_padding(labels, 44), "encoding": shared, "layer": layers}
    return Chart(_spec(data, title, parts))


def forest(
    values: Sequence[Bar], *, title: str, unit: str, scale: Scale = "share", origin: float | None = None
) -> Chart:
    """Draws a dot for each value on a line for its interval, one below the other.

    Args:
        values: the dots, in order; labels must not repeat.
        title: the title of the chart.
        unit: the unit or measure of the values, such as "share of answers".
        scale: how the values are written.
        origin: a value with a vertical line, such as no difference.

    Raises:
        ValueError: there are no values.
    """
    labels = [bar.label for bar in values]
    y: dict[str, Any] = {"field": "label", "type": "nominal", "sort": labels, "title": None}
    y["axis"] = {"labelExpr": _label_expression(labels, 52), "grid": True}
    data = [_row(label=bar.label, value=bar.value, low=bar.low, high=bar.high) for bar in values]
    line = {"type": "rule", "strokeWidth": 2.5, "color": COLOURS[0], "opacity": 0.55}
    layers: list[dict[str, Any]] = [
        {"mark": line, "encoding": {"x": _axis("low", unit, scale), "x2": {"field": "high"}}},
        {
            "mark": {"type": "point", "filled": True, "size": 90, "opacity": 1, "color": COLOURS[0]},
            "encoding": {"x": _axis("value", unit, scale)},
        },
    ]
    for layer in layers:
        layer["encoding"]["y"] = y
    if origin is not None:
        mark = {"type": "rule", "color": _INK, "strokeDash": [4, 3]}
        layers.insert(0, {"mark": mark, "encoding": {"x": {"datum": origin}}})
    parts = {"height": {"step": 26}, "padding": _row_padding(labels, 52), "layer": layers}
    return Chart(_spec(data, title, parts))


def lines(
    points: Sequence[Point],
    *,
    title: str,
    x: str,
    y: str,
    scale: Scale = "number",
    steps: bool = False,
    dots: Sequence[Point] = (),
) -> Chart:
    """Draws lines through points, with a band for the intervals.

    Args:
        points: in any order; each series is a line, or a solid one and a dashed one.
        title: the title of the chart.
        x: the title of the horizontal axis.
        y: the title of the vertical axis.
        scale: how the vertical values are written.
        steps: a value holds until the next one, as a best so far does.
        dots: single points in grey behind the lines.

    Raises:
        ValueError: there are no points.
    """
    series = list(dict.fromkeys(point.series for point in points))
    ticks = _whole_ticks([point.x for point in points])
    x_axis = {"field": "x", "type": "quantitative", "title": x, "axis": {"grid": False, **ticks}}
    y_axis = _axis("y", y, scale, zero=False)
    line = {"type": "line", "point": len(points) <= 60, "interpolate": "step-after" if steps else "linear"}
    colour = _colour(series, "stroke")
    layers: list[dict[str, Any]] = []
    if dots:
        dot_rows = [_row(x=dot.x, y=dot.y) for dot in dots]
        encoding = {"x": x_axis, "y": y_axis}
        layers.append(
            {
                "data": {"values": dot_rows},
                "mark": {"type": "point", "filled": True, "color": _DOTS, "size": 28},
                "encoding": encoding,
            }
        )
    if any(point.low is not None for point in points):
        band = {
            "x": x_axis,
            "y": _axis("low", y, scale, zero=False),
            "y2": {"field": "high"},
            "color": colour,
        }
        layers.append({"mark": {"type": "area", "opacity": 0.18}, "encoding": band})
    line_encoding = {"x": x_axis, "y": y_axis, "color": colour}
    data = [
        _row(x=point.x, y=point.y, low=point.low, high=point.high, series=point.series) for point in points
    ]
    if any(point.dashed for point in points):
        dashes = {"domain": [False, True], "range": [[1, 0], [5, 4]]}
        line_encoding["strokeDash"] = {"field": "dashed", "type": "nominal", "scale": dashes, "legend": None}
        data = [{**row, "dashed": point.dashed} for row, point in zip(data, points, strict=True)]
    layers.append({"mark": line, "encoding": line_encoding})
    return Chart(_spec(data, title, {"height": 260, "layer": layers}))


def layered(rows: Sequence[dict[str, Any]], layers: Sequence[dict[str, Any]], *, title: str) -> Chart:
    """Draws any layers of Vega-Lite over shared rows, in the fonts, colours and size of the other charts.

    Raises:
        ValueError: there are no rows.
    """
    return Chart(_spec(rows, title, {"height": 260, "layer": list(layers)}))


def _row(**values: Any) -> dict[str, Any]:
    """Returns the values that can be drawn: no None, NaN or infinity."""
    return {
        name: value
        for name, value in values.items()
        if value is not None and not (isinstance(value, float) and not isfinite(value))
    }


def _colour(series: Sequence[str], symbol: str) -> dict[str, Any]:
    """Returns the colour of each series, with a legend that is not wider than the chart."""
    if len(series) <= 1:
        return {"value": COLOURS[0]}
    longest = min(_MAX_LEGEND_LENGTH, max(map(len, series)))
    widest = longest * _LETTER_WIDTH + 32
    columns = max(1, min(len(series), int(WIDTH / widest)))
    legend = {"symbolType": symbol, "symbolOpacity": 1, "columns": columns}
    legend |= {"columnPadding": 10 + round(longest * _LETTER_SLACK), "symbolStrokeWidth": 3}
    legend |= {"labelExpr": _label_expression(series, _MAX_LEGEND_LENGTH)}
    return {"field": "series", "type": "nominal", "sort": list(series), "legend": legend}


def _row_padding(labels: Sequence[str], max_length: int) -> dict[str, int]:
    """Returns the padding of a chart with row labels, so that a wider font does not cut them off."""
    longest = min(max_length, max(map(len, labels), default=0))
    slack = round(longest * _LETTER_SLACK)
    return {"left": _PADDING + slack, "top": _PADDING, "right": _PADDING, "bottom": _PADDING}


def _label_expression(labels: Sequence[str], max_length: int) -> str:
    """Returns Vega's expression that shortens long labels in the middle, so that all still differ."""

    def shorten(label: str, half: int) -> str:
        return label if len(label) <= 2 * half else f"{label[:half]}…{label[-half:]}"

    half = max_length // 2
    while len({shorten(label, half) for label in labels}) < len(set(labels)):
        half *= 2
    shortened = f"slice(datum.label, 0, {half}) + '…' + slice(datum.label, -{half})"
    return f"length(datum.label) > {2 * half} ? {shortened} : datum.label"


def _axis(field: str, title: str, scale: Scale, *, zero: bool = True) -> dict[str, Any]:
    axis: dict[str, Any] = {"field": field, "type": "quantitative", "title": title, "scale": {"zero": zero}}
    if scale == "share":
        axis["axis"] = {"format": ".0%"}
        axis["scale"] = {"domain": [0, 1]}
    return axis


def _whole_ticks(values: Sequence[float]) -> dict[str, Any]:
    """Returns an axis without ticks between whole numbers, if all values are whole."""
    if not values or not all(isinstance(value, int) for value in values):
        return {}
    return {"tickCount": max(1, min(10, max(values) - min(values)))}


def _spec(data: Sequence[dict[str, Any]], title: str, parts: dict[str, Any]) -> dict[str, Any]:
    if not data:
        raise ValueError(f"There is nothing to draw: {title!r} has no values.")
    spec = {
        "$schema": SCHEMA,
        "title": title,
        "width": WIDTH,
        "padding": _PADDING,
        "config": _CONFIG,
        "data": {"values": data},
        **parts,
    }
    escaped: dict[str, Any] = _escape(spec)
    return escaped


def _escape(part: Any) -> Any:
    """Escapes characters that SVG does not allow and that would crash vl-convert."""
    if isinstance(part, str):
        return escape_invisible(part)
    if isinstance(part, dict):
        return {name: _escape(value) for name, value in part.items()}
    return [_escape(value) for value in part] if isinstance(part, list | tuple) else part

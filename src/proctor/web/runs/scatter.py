"""The cost of runs against their pass rates, as places on a drawing; pure.

Places are in percent of the drawing, so that its text keeps the size of the page's at every width.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import floor, log10
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from proctor.model import Run
from proctor.reports.formatting import cost, format_run_name, interval, percent
from proctor.safe_text import truncate

_PADDING = 3.0
"""Percent of the width on either side of the outermost costs."""
_LOG_RATIO = 20
"""If the largest cost is this many times the smallest, the axis is logarithmic."""
_MAX_TICKS = 5
_NOMINAL_WIDTH, _NOMINAL_HEIGHT = 640, 260
"""The smallest drawing that shows labels, in pixels; in a larger one they are farther apart."""
_LETTER_WIDTH, _LINE_HEIGHT = 7.5, 14
_DOT_RADIUS, _BAND_RADIUS = 6, 4
_LABEL_DISTANCE = 10
_MAX_LABEL_LENGTH = 28

Side: TypeAlias = Literal["left", "right"]
_SIDES: tuple[Side, ...] = ("right", "left")
_LABEL_PLACES: tuple[tuple[Side, int], ...] = tuple((side, drop) for drop in (0, -13, 13) for side in _SIDES)
Box: TypeAlias = tuple[float, float, float, float]
"""Left, top, right and bottom in pixels."""


class PricedRun(Struct, frozen=True, kw_only=True):
    """A run with its cost and its pass rate."""

    run: Run
    usd: float
    rate: float
    ci95: tuple[float, float]


class ScatterPoint(Struct, frozen=True, kw_only=True):
    """A run on the drawing; places in percent from the top left."""

    run: Run
    x: float
    y: float
    top: float
    bottom: float
    title: str
    label: str = ""
    """Its target and prompt; empty if there is no room."""
    side: Side = "right"
    drop: int = 0
    """How far the label is below the middle of its point, in pixels."""


class AxisTick(Struct, frozen=True):
    """A number on an axis."""

    place: float
    text: str


class Scatter(Struct, frozen=True, kw_only=True):
    """Where everything is."""

    points: tuple[ScatterPoint, ...]
    x_ticks: tuple[AxisTick, ...]
    y_ticks: tuple[AxisTick, ...]
    is_logarithmic: bool


def draw_scatter(runs: Sequence[PricedRun]) -> Scatter | None:
    """Returns where the runs and their axes are; None for fewer than two runs or if all are free."""
    costs = [priced.usd for priced in runs]
    if len(runs) < 2 or not max(costs) > 0:
        return None
    is_logarithmic = min(costs) > 0 and max(costs) >= _LOG_RATIO * min(costs)
    ticks = _log_ticks(min(costs), max(costs)) if is_logarithmic else _linear_ticks(max(costs))
    ends = [*costs, *ticks] if is_logarithmic else [0.0, *costs, *ticks]

    def place_cost(usd: float) -> float:
        value, low, high = (
            log10(number) if is_logarithmic else number for number in (usd, min(ends), max(ends))
        )
        share = (value - low) / (high - low) if high > low else 0.5
        return round(_PADDING + share * (100 - 2 * _PADDING), 2)

    points = [_make_point(priced, place_cost(priced.usd)) for priced in runs]
    return Scatter(
        points=tuple(_add_labels(points)),
        x_ticks=tuple(
            AxisTick(place_cost(usd), _format_tick(usd, usd if is_logarithmic else ticks[1])) for usd in ticks
        ),
        y_ticks=tuple(AxisTick(100 - share, f"{share}%") for share in (0, 25, 50, 75, 100)),
        is_logarithmic=is_logarithmic,
    )


def _make_point(priced: PricedRun, x: float) -> ScatterPoint:
    low, high = priced.ci95
    numbers = f"{percent(priced.rate)} passed, {interval(priced.ci95)}, {cost(priced.usd)}"
    return ScatterPoint(
        run=priced.run,
        x=x,
        y=round(100 - 100 * priced.rate, 2),
        top=round(100 - 100 * high, 2),
        bottom=round(100 - 100 * low, 2),
        title=f"{truncate(format_run_name(priced.run), 120)} UTC: {numbers}",
    )


# --- ticks -------------------------------------------------------------------------------------------------


def _linear_ticks(highest: float) -> list[float]:
    """Returns round numbers from 0 to the highest cost or a little below it."""
    exponent = floor(log10(highest)) - 1
    steps = [digit * 10.0**power for power in range(exponent, exponent + 3) for digit in (1, 2, 5)]
    step = next(step for step in steps if highest / step < _MAX_TICKS)
    return [number * step for number in range(floor(highest / step) + 1)]


def _log_ticks(lowest: float, highest: float) -> list[float]:
    """Returns powers of ten and three times these, or fewer where these would be too many."""
    powers = range(floor(log10(lowest)) - 1, floor(log10(highest)) + 2)
    for digits, stride in (((1, 3), 1), ((1,), 1), ((1,), 2), ((1,), 4)):
        numbers = [digit * 10.0**power for power in powers[::stride] for digit in digits]
        ticks = [number for number in numbers if lowest * 0.99 <= number <= highest * 1.01]
        if len(ticks) <= _MAX_TICKS:
            return ticks or [lowest]
    return [lowest, highest]


def _format_tick(usd: float, unit: float) -> str:
    """Formats a number of an axis with the decimals that the unit has."""
    return f"${usd:.{max(0, -floor(log10(unit) + 1e-9))}f}" if usd else "$0"


# --- labels ------------------------------------------------------------------------------------------------


def _add_labels(points: Sequence[ScatterPoint]) -> list[ScatterPoint]:
    """Returns the points, of which those have a label that has room beside the points and other labels."""
    boxes = [box for point in points for box in _point_boxes(point)]
    result = []
    for point in points:
        label = truncate(point.run.target_title, _MAX_LABEL_LENGTH)
        for side, drop in _LABEL_PLACES:
            box = _label_box(point, label, side, drop)
            if box[0] >= 0 and box[2] <= _NOMINAL_WIDTH and not any(_overlap(box, other) for other in boxes):
                boxes.append(box)
                point = replace(point, label=label, side=side, drop=drop)
                break
        result.append(point)
    return result


def _center(point: ScatterPoint) -> tuple[float, float]:
    return point.x / 100 * _NOMINAL_WIDTH, point.y / 100 * _NOMINAL_HEIGHT


def _point_boxes(point: ScatterPoint) -> tuple[Box, Box]:
    """Returns where the dot and the interval of a point are."""
    x, y = _center(point)
    top, bottom = (place / 100 * _NOMINAL_HEIGHT for place in (point.top, point.bottom))
    dot = x - _DOT_RADIUS, y - _DOT_RADIUS, x + _DOT_RADIUS, y + _DOT_RADIUS
    return dot, (x - _BAND_RADIUS, top, x + _BAND_RADIUS, bottom)


def _label_box(point: ScatterPoint, label: str, side: Side, drop: int) -> Box:
    x, y = _center(point)
    y += drop
    width = len(label) * _LETTER_WIDTH
    left = x - _LABEL_DISTANCE - width if side == "left" else x + _LABEL_DISTANCE
    return left, y - _LINE_HEIGHT / 2, left + width, y + _LINE_HEIGHT / 2


def _overlap(box: Box, other: Box) -> bool:
    return box[0] < other[2] and other[0] < box[2] and box[1] < other[3] and other[1] < box[3]

"""Histograms of latencies and costs, with round bin widths. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from math import floor, log10
from typing import TYPE_CHECKING, Any

from msgspec import Struct

if TYPE_CHECKING:
    from proctor.charts import Chart

WIDTH, HEIGHT = 560, 260
"""The size of a chart with its axes, so that a page can reserve the space."""
_LABEL_GAP = 14
"""The least distance between two labels of the axis, in pixels."""
_TARGET_BINS = 16
"""The approximate number of bins."""


class Bin(Struct, frozen=True, kw_only=True):
    """The number of values from one bound to another."""

    low: float
    high: float | None
    """None for a last bin with all values far above the others."""
    count: int

    def label(self, write: Callable[[float], str]) -> str:
        """Returns the bounds as text."""
        if self.high is None:
            return f"{write(self.low)} or more"
        return f"{write(self.low)} to {write(self.high)}"


def make_bins(sorted_values: Sequence[float]) -> list[Bin]:
    """Groups sorted values into bins of equal width, from the first non-empty one to the last."""
    if not sorted_values:
        return []
    upper = min(sorted_values[-1], 2 * sorted_values[int(0.95 * (len(sorted_values) - 1))])
    width = _round_up(upper / _TARGET_BINS)
    last = floor(upper / width + 1e-9)
    over = sorted_values[-1] > (last + 1) * width

    def find_bin(value: float) -> int:
        return floor(min(value / width + 1e-9, last + over))

    bins, start = list[Bin](), 0
    for place in range(find_bin(sorted_values[0]), last + over + 1):
        end = bisect_right(sorted_values, place, key=find_bin)
        high = None if place > last else (place + 1) * width
        bins.append(Bin(low=place * width, high=high, count=end - start))
        start = end
    return bins


def draw_histogram(
    bins: Sequence[Bin],
    *,
    title: str,
    unit: str,
    write: Callable[[float], str],
    size: tuple[int, int] = (WIDTH, HEIGHT),
    font: str | None = None,
) -> Chart:
    """Returns a bar chart of the bins.

    Args:
        bins: the bins.
        title: the title of the chart.
        unit: the name of the values, for the axis.
        write: formats a bound.
        size: its width and height with the axes, in pixels.
        font: the font family; None for that of all charts.

    Raises:
        ValueError: there are no bins.
    """
    from proctor.charts import COLOURS, Chart, layered

    names = [write(bin_.low) + ("+" if bin_.high is None else "") for bin_ in bins]
    rows = [
        {"place": place, "from": name, "count": bin_.count}
        for place, (name, bin_) in enumerate(zip(names, bins, strict=True))
    ]
    across = {
        "field": "from",
        "type": "ordinal",
        "sort": names,
        "title": f"{unit}, from",
        # The browser's font may be wider than the one that the labels are measured with.
        "axis": {
            "labelAngle": 0,
            "labelOverlap": "greedy",
            "labelSeparation": _LABEL_GAP,
            "ticks": False,
            "domain": True,
        },
        "scale": {"paddingInner": 0.06},
    }
    up = {
        "field": "count",
        "type": "quantitative",
        "title": "answers",
        "axis": {"tickCount": 4, "format": ",d"},
    }
    bar = {"type": "bar", "color": COLOURS[0], "opacity": 0.85, "cornerRadiusEnd": 2}
    layers = layered(rows, [{"mark": bar, "encoding": {"x": across, "y": up}}], title=title)
    fixed: dict[str, Any] = {
        "width": size[0],
        "height": size[1],
        "autosize": {"type": "fit", "contains": "padding"},
    }
    if font is not None:
        fixed["config"] = layers.spec["config"] | {"font": font}
    return Chart(layers.spec | fixed)


def format_usd(value: float) -> str:
    """Formats a cost for an axis, with the four digits that tell bins apart."""
    return f"${value:.4g}"


def format_ms(value: float) -> str:
    """Formats a time in milliseconds for an axis."""
    if value == 0:
        return "0"
    return f"{value:.4g} ms" if value < 10_000 else f"{value / 1000:.4g} s"


def _round_up(width: float) -> float:
    """Rounds up to 1, 2 or 5 times a power of ten."""
    if width <= 0:
        return 1.0
    unit = 10.0 ** floor(log10(width))
    return unit * next(step for step in (1, 2, 5, 10) if width <= step * unit * (1 + 1e-9))

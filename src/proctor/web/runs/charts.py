"""The charts of a run's page, as tables and as SVG; cached for the same numbers."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from msgspec import Struct

from proctor.reports.runs import histogram
from proctor.reports.runs.histogram import Bin, format_ms, format_usd
from proctor.services.runs.reading.run_summaries import RunSummary

_CACHE_SIZE = 128
WIDTH, HEIGHT = 320, 200
"""The size of a chart, which stands at the side of the page: its texts are as large as those of the page."""
PAGE_FONT = "system-ui, -apple-system, Segoe UI, Roboto, Noto Sans, Liberation Sans, Arial, sans-serif"
"""The font family of the pages, as in proctor.css."""


class ChartKind(Struct, frozen=True):
    """What one kind of chart shows."""

    title: str
    unit: str
    write: Callable[[float], str]


CHARTS = {
    "latency": ChartKind("Latency of answers", "latency", format_ms),
    "cost": ChartKind("Cost of answers", "cost of an answer", format_usd),
}
"""Charts by their name in an address."""


class Drawing(Struct, frozen=True, kw_only=True):
    """A chart as shown on the page."""

    name: str
    title: str
    rows: tuple[tuple[str, int], ...]
    """The chart as a table: each class with its number of answers."""
    width: int = WIDTH
    height: int = HEIGHT


def list_drawings(run_summary: RunSummary) -> list[Drawing]:
    """Returns the charts for which a run has different numbers: a single bar would say nothing."""
    drawings = []
    for name, kind in CHARTS.items():
        classes = run_summary.totals.bins(name)
        if sum(bucket.count > 0 for bucket in classes) > 1:
            rows = tuple([(bucket.label(kind.write), bucket.count) for bucket in classes])
            left_out = run_summary.summary.latency_ms.left_out if name == "latency" else 0
            more = f", without {left_out:,} from the cache or reused" if left_out else ""
            drawings.append(Drawing(name=name, title=f"{kind.title}{more}", rows=rows))
    return drawings


def render_svg(run_summary: RunSummary, name: str, *, dark: bool) -> str | None:
    """Returns a chart as SVG; None if there is nothing to draw.

    Raises:
        UsageError: the package that draws is not installed.
    """
    classes = tuple(run_summary.totals.bins(name))
    return _render_chart(name, classes, dark=dark) if classes else None


@lru_cache(_CACHE_SIZE)
def _render_chart(name: str, classes: tuple[Bin, ...], *, dark: bool) -> str:
    kind = CHARTS[name]
    chart = histogram.draw_histogram(
        classes, title=kind.title, unit=kind.unit, write=kind.write, size=(WIDTH, HEIGHT), font=PAGE_FONT
    )
    return chart.svg(dark=dark)

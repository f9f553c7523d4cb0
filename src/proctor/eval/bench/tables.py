"""Statistics of benches as tables and charts, one bench beside another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from proctor.eval.bench.statistics import LATENCY, Statistic
from proctor.safe_text import markdown_text

if TYPE_CHECKING:
    from proctor.charts import Bar, Chart, Scale

Labelled = Sequence[tuple[str, dict[str, Statistic]]]
"""The statistics of benches or of groups of calls, each with what it is called."""

_PERCENTILES = (("p50", "median"), ("p90", "p90"), ("p95", "p95"), ("p99", "p99"))


def figure(value: float | None) -> str:
    """A number with four digits, or with all that stand before its point; a dash for None."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e15 else f"{value:.4g}"


def columns(labelled: Labelled) -> list[str]:
    """What `cells` are; those about failed calls are there when there are some."""
    names = ["n", "mean", "95 % interval", "p50", "p95", "p99"]
    return [*names, "failed", "mean, failed as 0"] if _failures(labelled) else names


def cells(one: Statistic, labelled: Labelled) -> list[str]:
    """The numbers of one statistic, as short texts in the order of `columns`."""
    interval = "–" if one.interval is None else f"{figure(one.interval[0])} – {figure(one.interval[1])}"
    shown = [f"{one.n:,}", figure(one.mean), interval, *map(figure, (one.median, one.p95, one.p99))]
    return [*shown, f"{one.failed:,}", figure(one.mean_failed_as_0)] if _failures(labelled) else shown


def markdown(labelled: Labelled, by: str | None) -> Iterator[str]:
    """A table in Markdown: a row for each metric, and within it for each value of the tag `by`."""
    texts = ["metric"] if by is None else ["metric", by]
    numbers = columns(labelled)
    yield _line([*texts, *numbers])
    yield "|" + "---|" * len(texts) + "---:|" * len(numbers)
    for name in names_of(labelled):
        for label, statistics in labelled:
            if name in statistics:
                yield _line([name, label][: len(texts)] + cells(statistics[name], labelled))


def names_of(labelled: Labelled) -> list[str]:
    """The latency and the metrics, each once."""
    return list(dict.fromkeys(name for _, statistics in labelled for name in statistics))


def chart(labelled: Labelled, metrics: Sequence[str], *, title: str) -> Chart:
    """Bars of the latency's percentiles, or with metrics of their means with their intervals.

    Raises:
        ValueError: none has that metric, their units differ, or there is nothing to draw.
    """
    from proctor.charts import bars

    known = names_of(labelled)
    for name in metrics:
        if name not in known:
            raise ValueError(f"There is no metric {name!r}; there are {', '.join(known)}.")
    drawn = _means(labelled, metrics) if metrics else _percentiles(labelled)
    if not metrics:
        return bars(drawn, title=f"{title}: latency", unit="ms")
    units = {statistics[name].unit for _, statistics in labelled for name in metrics if name in statistics}
    if len(units - {""}) > 1:
        raise ValueError(
            f"{', '.join(metrics)} have different units: {', '.join(sorted(units))}. Draw each alone."
        )
    what = f"mean of {metrics[0]}" if len(metrics) == 1 else "mean"
    unit = "" if units & {"", "share"} else f" in {units.pop()}"
    scale: Scale = "share" if units == {"share"} else "number"
    return bars(drawn, title=title, unit=f"{what}{unit}, with its 95 % interval", scale=scale)


def _failures(labelled: Labelled) -> bool:
    return any(one.failed for _, statistics in labelled for one in statistics.values())


def _line(written: Sequence[str]) -> str:
    return f"| {' | '.join(map(markdown_text, written))} |"


def _percentiles(labelled: Labelled) -> list[Bar]:
    from proctor.charts import Bar

    return [
        Bar(written, value, series=label)
        for written, field in _PERCENTILES
        for label, statistics in labelled
        if LATENCY in statistics and (value := getattr(statistics[LATENCY], field)) is not None
    ]


def _means(labelled: Labelled, metrics: Sequence[str]) -> list[Bar]:
    """One metric has a bar for each label; several have the labels as series."""
    from proctor.charts import Bar

    drawn = []
    for name in metrics:
        for label, statistics in labelled:
            one = statistics.get(name)
            if one is None or one.mean is None:
                continue
            low, high = one.interval or (None, None)
            if len(metrics) == 1:
                drawn.append(Bar(label or name, one.mean, low, high))
            else:
                drawn.append(Bar(name, one.mean, low, high, series=label))
    return drawn

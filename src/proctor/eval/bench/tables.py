"""Statistics of benches as tables and charts, one bench beside another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from proctor.eval.bench.statistics import LATENCY, Statistic
from proctor.eval.tables import NO_VALUE, format_number, markdown_table

if TYPE_CHECKING:
    from proctor.charts import Bar, Chart, Scale

LabelledStatistics = Sequence[tuple[str, dict[str, Statistic]]]
"""The statistics of benches or of groups of calls, each with its label."""

_PERCENTILES = (("p50", "median"), ("p90", "p90"), ("p95", "p95"), ("p99", "p99"))


def column_names(labelled: LabelledStatistics) -> list[str]:
    """Returns the headings of `format_cells`; those about failed calls only if there are any."""
    names = ["n", "mean", "95 % interval", "p50", "p95", "p99"]
    return [*names, "failed", "mean, failed as 0"] if _has_failures(labelled) else names


def format_cells(statistic: Statistic, labelled: LabelledStatistics) -> list[str]:
    """Returns the numbers of one statistic as short texts, in the order of `column_names`."""
    interval = (
        NO_VALUE
        if statistic.interval is None
        else f"{format_number(statistic.interval[0])} – {format_number(statistic.interval[1])}"
    )
    percentiles = map(format_number, (statistic.median, statistic.p95, statistic.p99))
    texts = [f"{statistic.n:,}", format_number(statistic.mean), interval, *percentiles]
    if _has_failures(labelled):
        texts += [f"{statistic.failed:,}", format_number(statistic.mean_failed_as_0)]
    return texts


def markdown_lines(labelled: LabelledStatistics, by: str | None) -> Iterator[str]:
    """Yields a Markdown table: a row for each metric, and within it for each value of the tag `by`."""
    texts = ["metric"] if by is None else ["metric", by]
    rows = (
        [*[name, label][: len(texts)], *format_cells(statistics[name], labelled)]
        for name in list_metrics(labelled)
        for label, statistics in labelled
        if name in statistics
    )
    return markdown_table([*texts, *column_names(labelled)], rows, texts=len(texts))


def list_metrics(labelled: LabelledStatistics) -> list[str]:
    """Returns the names of the latency and the metrics, each once."""
    return list(dict.fromkeys(name for _, statistics in labelled for name in statistics))


def draw_chart(labelled: LabelledStatistics, metrics: Sequence[str], *, title: str) -> Chart:
    """Draws the latency's percentiles, or the means of metrics with their intervals, as bars.

    Raises:
        ValueError: there is no such metric, their units differ, or there is nothing to draw.
    """
    from proctor.charts import bars

    names = list_metrics(labelled)
    for name in metrics:
        if name not in names:
            raise ValueError(f"There is no metric {name!r}; there are {', '.join(names)}.")
    if not metrics:
        return bars(_percentile_bars(labelled), title=f"{title}: latency", unit="ms")
    units = {statistics[name].unit for _, statistics in labelled for name in metrics if name in statistics}
    if len(units - {""}) > 1:
        raise ValueError(
            f"{', '.join(metrics)} have different units: {', '.join(sorted(units))}. Draw each alone."
        )
    measure = f"mean of {metrics[0]}" if len(metrics) == 1 else "mean"
    unit = "" if units & {"", "share"} else f" in {units.pop()}"
    scale: Scale = "share" if units == {"share"} else "number"
    return bars(
        _mean_bars(labelled, metrics),
        title=title,
        unit=f"{measure}{unit}, with its 95 % interval",
        scale=scale,
    )


def _has_failures(labelled: LabelledStatistics) -> bool:
    return any(statistic.failed for _, statistics in labelled for statistic in statistics.values())


def _percentile_bars(labelled: LabelledStatistics) -> list[Bar]:
    from proctor.charts import Bar

    return [
        Bar(percentile, value, series=label)
        for percentile, field in _PERCENTILES
        for label, statistics in labelled
        if LATENCY in statistics and (value := getattr(statistics[LATENCY], field)) is not None
    ]


def _mean_bars(labelled: LabelledStatistics, metrics: Sequence[str]) -> list[Bar]:
    """Returns a bar for each label of one metric; several metrics have the labels as series."""
    from proctor.charts import Bar

    mean_bars = []
    for name in metrics:
        for label, statistics in labelled:
            statistic = statistics.get(name)
            if statistic is None or statistic.mean is None:
                continue
            low, high = statistic.interval or (None, None)
            if len(metrics) == 1:
                mean_bars.append(Bar(label or name, statistic.mean, low, high))
            else:
                mean_bars.append(Bar(name, statistic.mean, low, high, series=label))
    return mean_bars

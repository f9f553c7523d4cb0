"""Statistics of calls: rounded summaries; medians, percentiles and 95 % intervals, also by tag."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import fsum, isfinite
from numbers import Integral
from typing import Any, TypeVar

from proctor import stats
from proctor.eval.bench.calls import BenchCall, finite_number
from proctor.eval.json_files import to_plain, to_text

Value = TypeVar("Value")

LATENCY = "latency_ms"


def summarize_metric(values: Iterable[Any]) -> dict[str, Any]:
    """Returns how many numbers there are, and their mean, median, least and greatest.

    Without numbers only `n`. The mean is rounded to two decimals; the median is one of the numbers, of an
    even count the greater of the middle two. `Bench.statistics` has unrounded means and true medians.

    Args:
        values: numbers; None, NaN and infinities are left out, and not in `n`. Those of other libraries, such
            as numpy's, become Python's own.

    Raises:
        TypeError: a value is not a number.
    """
    numbers = sorted(_to_builtin(value) for value in values if value is not None and _is_finite(value))
    if not numbers:
        return {"n": 0}
    count = len(numbers)
    return {
        "n": count,
        "mean": round(sum(numbers) / count, 2),
        "median": numbers[count // 2],
        "min": numbers[0],
        "max": numbers[-1],
    }


def _to_builtin(value: Any) -> Any:
    """Returns the number as a type that JSON can write."""
    if type(value) in (int, float, bool):
        return value
    return int(value) if isinstance(value, Integral) else float(value)


def _is_finite(value: Any) -> bool:
    try:
        return isfinite(value)
    except OverflowError:
        return False
    except TypeError:
        raise TypeError(f"{value!r} is no number, and only numbers have a mean.") from None


@dataclass(frozen=True, slots=True)
class Statistic:
    """Statistics of the latency or of one metric over the successful calls.

    Numbers are None if `n` is 0, and if they would be too large for a float.
    """

    name: str
    """`latency_ms`, or the metric."""
    unit: str
    """`ms`, `s`, `USD`, `tokens`, `share` of metrics that are only ever 0 or 1, or nothing."""
    n: int
    """Successful calls that have it, as a finite number."""
    missing: int
    """Successful calls that do not."""
    failed: int
    """Failed calls. They count only in the two numbers called `…_failed_as_0`."""
    mean: float | None
    interval: tuple[float, float] | None
    """The 95 % interval of the mean: Wilson's of a share, else Student's; None if there is none."""
    median: float | None
    """For an even `n` the middle of the middle two."""
    stdev: float | None
    """Of a sample, over n - 1; None below two values."""
    min: float | None
    p5: float | None
    p25: float | None
    p75: float | None
    p90: float | None
    p95: float | None
    p99: float | None
    max: float | None
    mean_failed_as_0: float | None
    """The mean if each failed call counts as 0; None for the latency."""
    interval_failed_as_0: tuple[float, float] | None
    """Its 95 % interval."""

    def __repr__(self) -> str:
        return f"<Statistic {self.name!r:.60}{self.summary_line().removeprefix(self.name)}>"

    def _repr_html_(self) -> str:
        from proctor.eval.tables import html_table

        rows = {
            name.replace("interval", "95 % interval").replace("_", " "): getattr(self, name)
            for name in self.__slots__[2:]
        }
        unit = f" in {self.unit}" if self.unit else ""
        return html_table(f"{self.name}{unit}", ["", "value"], rows.items())

    def summary_line(self) -> str:
        """Returns the mean, the number of values and the interval, as one line."""
        low, high = self.interval or (None, None)
        between = "" if low is None or high is None else f", 95 % interval {low:.3f} to {high:.3f}"
        mean = "none" if self.mean is None else f"{self.mean:.3f}"
        return f"{self.name}: {mean} of n = {self.n}{between}"

    def to_dict(self) -> dict[str, Any]:
        """Returns data for JSON: the fields, with `ci95` and `ci95_failed_as_0` for the intervals."""
        return {name.replace("interval", "ci95"): to_plain(getattr(self, name)) for name in self.__slots__}


def compute_statistics(
    calls: Sequence[BenchCall], metrics: Iterable[str], metrics_key: str | None = None
) -> dict[str, Statistic]:
    """Returns the statistics of the latency and of each metric, the declared ones first.

    Args:
        calls: in any order.
        metrics: the declared metrics.
        metrics_key: the key of the outputs that holds them; an ending such as `_ms` gives their unit.
    """
    names = dict.fromkeys((LATENCY, *metrics))
    for call in calls:
        names.update(
            dict.fromkeys(name for name, value in call.metrics.items() if finite_number(value) is not None)
        )
    return {name: _compute_statistic(name, calls, metrics_key) for name in names}


def group_by_tag(calls: Iterable[BenchCall], by: str) -> dict[str, list[BenchCall]]:
    """Groups calls by the value of a tag, in the order of first use; calls without it are `(no TAG)`.

    Raises:
        ValueError: there are calls, and none has that tag.
    """
    groups: dict[str, list[BenchCall]] = {}
    tags: dict[str, None] = {}
    for call in calls:
        tags.update(dict.fromkeys(map(to_text, call.tags)))
        groups.setdefault(to_text(call.tags[by]) if by in call.tags else f"(no {by})", []).append(call)
    if groups and by not in tags:
        tag_list = f"their tags are {', '.join(tags)}" if tags else "they have no tags"
        raise ValueError(f"No call has the tag {by!r}; {tag_list}.")
    return groups


def _compute_statistic(name: str, calls: Sequence[BenchCall], metrics_key: str | None) -> Statistic:
    successful = [call for call in calls if call.success]
    measures = [
        finite_number(call.latency_ms if name == LATENCY else call.metrics.get(name)) for call in successful
    ]
    values = sorted(value for value in measures if value is not None)
    failed = len(calls) - len(successful)
    unit = _detect_unit(name, values, metrics_key)
    with_failures = [] if name == LATENCY else [0.0] * failed + values
    return Statistic(
        name=name,
        unit=unit,
        n=len(values),
        missing=len(successful) - len(values),
        failed=failed,
        interval=_interval(values, unit),
        **describe(values),
        mean_failed_as_0=_mean(with_failures),
        interval_failed_as_0=_interval(with_failures, unit or _detect_unit(name, with_failures, metrics_key)),
    )


_PERCENTILES = (
    *(("p5", 0.05), ("p25", 0.25), ("median", 0.5)),
    *(("p75", 0.75), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99)),
)


def describe(values: Sequence[float]) -> dict[str, float | None]:
    """Returns mean, stdev, min, max, median and percentiles of sorted finite numbers, by these names.

    They are None where there are too few numbers, and beyond what a float can hold.
    """
    quantiles = [(name, stats.quantile(values, share)) for name, share in _PERCENTILES]
    return {
        "mean": _mean(values),
        "stdev": _unless_too_large(stats.deviation, values),
        "min": values[0] if values else None,
        "max": values[-1] if values else None,
        **{name: value if value is None or isfinite(value) else None for name, value in quantiles},
    }


def _mean(values: Sequence[float]) -> float | None:
    return _unless_too_large(lambda numbers: fsum(numbers) / len(numbers), values) if values else None


def _interval(values: Sequence[float], unit: str) -> tuple[float, float] | None:
    if unit == "share":
        return stats.wilson(sum(values), len(values))
    return _unless_too_large(stats.mean_interval, values)


def _unless_too_large(statistic: Callable[[Sequence[float]], Value], values: Sequence[float]) -> Value | None:
    """Returns a statistic; None if it is beyond what a float can hold."""
    try:
        return statistic(values)
    except OverflowError:
        return None


_UNITS = (("_ms", "ms"), ("_s", "s"), ("_seconds", "s"), ("_usd", "USD"), ("tokens", "tokens"))


def _detect_unit(name: str, values: Sequence[float], metrics_key: str | None) -> str:
    for text in (name, metrics_key or ""):
        for ending, unit in _UNITS:
            if text.endswith(ending):
                return unit
    return "share" if values and all(value in (0.0, 1.0) for value in values) else ""

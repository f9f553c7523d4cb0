"""Numbers of calls to their summary, and to true medians, percentiles and 95 % intervals, also by tag."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import fsum, isfinite
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

from proctor import stats
from proctor.eval.json_files import plain, text_of

if TYPE_CHECKING:
    from proctor.eval.bench.bench import BenchCall

LATENCY = "latency_ms"


def summarize_metric(values: Iterable[Any]) -> dict[str, Any]:
    """How many numbers there are, and their mean, median, least and greatest.

    Of no numbers only `n`. The mean is rounded to two decimals; the median is one of the numbers, of an even
    count the greater of the middle two. `Bench.statistics` has unrounded means and true medians.

    Args:
        values: numbers; None, NaN and infinities are left out, and not in `n`. Those of other libraries, such
            as numpy's, become Python's own.

    Raises:
        TypeError: a value is no number.
    """
    kept = sorted(_own(value) for value in values if value is not None and _is_finite(value))
    if not kept:
        return {"n": 0}
    count = len(kept)
    return {
        "n": count,
        "mean": round(sum(kept) / count, 2),
        "median": kept[count // 2],
        "min": kept[0],
        "max": kept[-1],
    }


def _own(value: Any) -> Any:
    """The number as JSON can write it."""
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
    """What the successful calls say of the latency or of one metric.

    Numbers are None where `n` is 0, and where they would be beyond what a float can hold.
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
    """Failed calls. They are in none of the numbers, but for those that say so."""
    mean: float | None
    interval: tuple[float, float] | None
    """The 95 % interval of the mean: Wilson's of a share, else Student's; None where there is none."""
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
    """The mean where each failed call counts as 0; None of the latency."""
    interval_failed_as_0: tuple[float, float] | None
    """Its 95 % interval."""

    def __repr__(self) -> str:
        return f"<Statistic {self.name!r:.60}{self.sure().removeprefix(self.name)}>"

    def _repr_html_(self) -> str:
        from proctor.eval.notebook import table

        shown = {
            name.replace("interval", "95 % interval").replace("_", " "): getattr(self, name)
            for name in self.__slots__[2:]
        }
        unit = f" in {self.unit}" if self.unit else ""
        return table(f"{self.name}{unit}", ["", "value"], shown.items())

    def sure(self) -> str:
        """The mean of how many values, with its interval, as a line below a table that has neither."""
        low, high = self.interval or (None, None)
        between = "" if low is None or high is None else f", 95 % interval {low:.3f} to {high:.3f}"
        mean = "none" if self.mean is None else f"{self.mean:.3f}"
        return f"{self.name}: {mean} of n = {self.n}{between}"

    def to_dict(self) -> dict[str, Any]:
        """As data for JSON: the fields, with `ci95` and `ci95_failed_as_0` for the intervals."""
        return {name.replace("interval", "ci95"): plain(getattr(self, name)) for name in self.__slots__}


def statistics_of(
    calls: Sequence[BenchCall], metrics: Iterable[str], metrics_key: str | None = None
) -> dict[str, Statistic]:
    """The statistics of the latency and of each metric, those that were declared first.

    Args:
        calls: in any order.
        metrics: the metrics that were declared.
        metrics_key: where outputs had them; an ending such as `_ms` tells their unit.
    """
    names = dict.fromkeys((LATENCY, *metrics))
    for call in calls:
        names.update(dict.fromkeys(name for name, value in call.metrics.items() if number(value) is not None))
    return {name: _statistic(name, calls, metrics_key) for name in names}


def grouped(calls: Iterable[BenchCall], by: str) -> dict[str, list[BenchCall]]:
    """The calls by what a tag says, in the order of their first; calls without it are `(no TAG)`.

    Raises:
        ValueError: calls are there, and none has that tag.
    """
    groups: dict[str, list[BenchCall]] = {}
    known: dict[str, None] = {}
    for call in calls:
        known.update(dict.fromkeys(map(text_of, call.tags)))
        groups.setdefault(text_of(call.tags[by]) if by in call.tags else f"(no {by})", []).append(call)
    if groups and by not in known:
        there = f"their tags are {', '.join(known)}" if known else "they have no tags"
        raise ValueError(f"No call has the tag {by!r}; {there}.")
    return groups


def number(value: Any) -> float | None:
    """A value as a finite number, or None; true and false are 1 and 0."""
    if type(value) is not float:
        if not isinstance(value, Real):
            return None
        try:
            value = float(value)
        except (OverflowError, ValueError):
            return None
    return value if isfinite(value) else None


def _statistic(name: str, calls: Sequence[BenchCall], metrics_key: str | None) -> Statistic:
    successful = [call for call in calls if call.success]
    told = [number(call.latency_ms if name == LATENCY else call.metrics.get(name)) for call in successful]
    values = sorted(value for value in told if value is not None)
    failed = len(calls) - len(successful)
    unit = _unit(name, values, metrics_key)
    with_failures = [] if name == LATENCY else [0.0] * failed + values
    count = len(values)

    def at(share: float) -> float | None:
        return _finite(stats.quantile(values, share))

    return Statistic(
        name=name,
        unit=unit,
        n=count,
        missing=len(successful) - count,
        failed=failed,
        mean=_mean(values),
        interval=_interval(values, unit),
        median=at(0.5),
        stdev=_deviation(values),
        min=at(0),
        p5=at(0.05),
        p25=at(0.25),
        p75=at(0.75),
        p90=at(0.9),
        p95=at(0.95),
        p99=at(0.99),
        max=at(1),
        mean_failed_as_0=_mean(with_failures),
        interval_failed_as_0=_interval(with_failures, unit or _unit(name, with_failures, metrics_key)),
    )


def _finite(value: float | None) -> float | None:
    return value if value is not None and isfinite(value) else None


def _mean(values: Sequence[float]) -> float | None:
    try:
        return fsum(values) / len(values) if values else None
    except OverflowError:
        return None


def _deviation(values: Sequence[float]) -> float | None:
    try:
        return stats.deviation(values)
    except OverflowError:
        return None


def _interval(values: Sequence[float], unit: str) -> tuple[float, float] | None:
    if unit == "share":
        return stats.wilson(sum(values), len(values))
    try:
        return stats.mean_interval(values)
    except OverflowError:
        return None


_UNITS = (("_ms", "ms"), ("_s", "s"), ("_seconds", "s"), ("_usd", "USD"), ("tokens", "tokens"))


def _unit(name: str, values: Sequence[float], metrics_key: str | None) -> str:
    for written in (name, metrics_key or ""):
        for ending, unit in _UNITS:
            if written.endswith(ending):
                return unit
    return "share" if values and all(value in (0.0, 1.0) for value in values) else ""

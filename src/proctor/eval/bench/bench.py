"""Calls with their latencies and metrics: recorded, summed up, reported and dumped."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

from proctor.eval.bench.statistics import Statistic, grouped, statistics_of, summarize_metric

if TYPE_CHECKING:
    from types import TracebackType

    from proctor.charts import Chart
    from proctor.eval.jsonl_rows import DroppedRow
    from proctor.eval.parallel import OnError

__all__ = ["Bench", "BenchCall", "summarize_metric"]

Input = TypeVar("Input")

RESERVED = ("name", "n", "n_success", "n_failure", "latency_ms", "wall_seconds")
"""The keys of a summary, which no metric may take."""
_COLUMNS = ("mean", "median", "min", "max")


@dataclass
class BenchCall:
    """One call."""

    input: Any
    output: Any
    """What it gave; None of a failed one."""
    latency_ms: float
    success: bool = True
    error: str | None = None
    """Of a failed one, `TypeName: message`."""
    metrics: dict[str, Any] = field(default_factory=dict)
    tags: dict[str, Any] = field(default_factory=dict)


@dataclass
class Bench:
    """Calls of one thing, with their latencies in milliseconds and their metrics.

    As a context manager it measures the seconds from beginning to end. `record` and `run` may be used from
    several threads at once.

    Args:
        name: what stands above the report.
        metrics: what `summary` and `report` show beside the latency.
        metrics_key: where the outputs of `run` have the metrics; None: they are the outputs' own keys.
        calls: those there are already.
        wall_seconds: how long they took.
        partial: a file of JSON Lines to which each call is added when it ends; `load` reads it back.
        partial_outputs: whether outputs are in it too.

    Raises:
        TypeError: `metrics` is a text.
        ValueError: a metric has the name of a key of `summary`.
    """

    name: str
    metrics: list[str] = field(default_factory=list)
    metrics_key: str | None = None
    calls: list[BenchCall] = field(default_factory=list)
    wall_seconds: float = 0.0
    partial: str | Path | None = field(default=None, kw_only=True)
    partial_outputs: bool = field(default=False, kw_only=True)
    dropped: list[DroppedRow] = field(default_factory=list, init=False, repr=False, compare=False)
    """The lines that `load` could not use."""

    def __post_init__(self) -> None:
        given: object = self.metrics
        if isinstance(given, str):
            raise TypeError(f"metrics must be a list of names, not the text {self.metrics!r}.")
        for name in self.metrics:
            if name in RESERVED:
                raise ValueError(
                    f"A metric cannot be called {name!r}: summary() has a key of that name. "
                    f"Give it another name, such as {name + '_value'!r}."
                )
        self._prepare()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._prepare()

    def _prepare(self) -> None:
        """What a copy has anew: these are no fields."""
        from threading import RLock

        self._lock = RLock()
        self._began: float | None = None
        self._headed: str | None = None

    def __enter__(self) -> Self:
        from time import perf_counter

        self._began = perf_counter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        from time import perf_counter

        if self._began is not None:
            self.wall_seconds = perf_counter() - self._began
        with self._lock:
            if self.partial is not None and self._headed is not None:
                self._append({"wall_seconds": self.wall_seconds})

    def run(
        self,
        fn: Callable[[Input], Any | Awaitable[Any]],
        inputs: Iterable[Input],
        *,
        on_error: OnError = "record",
        tag_fn: Callable[[Input], Mapping[str, Any] | None] | None = None,
        workers: int = 1,
        progress: bool = False,
    ) -> Bench:
        """Call a function on each input, measure it, and give this bench.

        A call is in `calls` as soon as it ends, at its input's place; so Ctrl-C and errors leave what is
        done. The metrics are the numbers that the output, a dictionary, has under the declared names; true,
        false and texts of digits are none.

        Args:
            fn: called with one input; may be async, also where an event loop is running already.
            inputs: taken one by one.
            on_error: `record` an exception as a failed call, or `raise` it, unrecorded.
            tag_fn: the tags of an input. What it raises is raised.
            workers: how many calls at once, at least 1. One calls `fn` in this thread.
            progress: show a bar on stderr where that is a terminal or a notebook.

        Raises:
            ValueError: `on_error` or `workers` is none of these.
            OSError: `partial` cannot be written.
        """
        from proctor.eval.bench.runner import sweep

        sweep(self, fn, inputs, on_error=on_error, tag_fn=tag_fn, workers=workers, progress=progress)
        return self

    def record(
        self,
        *,
        input: Any = None,  # noqa: A002  # the name is a contract
        output: Any = None,
        latency_ms: float,
        success: bool = True,
        error: str | None = None,
        tags: Mapping[str, Any] | None = None,
        **metrics: Any,
    ) -> BenchCall:
        """Add a call that was measured elsewhere, and give it.

        Args:
            input: what was asked.
            output: what came back.
            latency_ms: how long it took.
            success: whether it did what it should; of failed calls only their number is summed up.
            error: why it failed.
            tags: what `statistics(by=…)` may group by.
            **metrics: numbers by their names, kept as they are. Those not declared are in `statistics` only.

        Raises:
            OSError: `partial` cannot be written.
        """
        call = BenchCall(input, output, latency_ms, success, error, metrics, dict(tags or {}))
        self._keep(call)
        return call

    def _keep(self, call: BenchCall, before: BenchCall | None = None) -> None:
        """Add a call, before that one or else at the end."""
        with self._lock:
            place = len(self.calls)
            if before is not None:
                backwards = range(place - 1, -1, -1)  # it is near the end
                place = next((one for one in backwards if self.calls[one] is before), place)
            self.calls.insert(place, call)
            if self.partial is not None:
                self._append(_row(call, include_outputs=self.partial_outputs))

    def _append(self, row: dict[str, Any]) -> None:
        from proctor.eval.json_files import append_lines

        path = str(self.partial)
        head = {"bench": self.name, "metrics": list(self.metrics), "metrics_key": self.metrics_key}
        append_lines(path, [row] if self._headed == path else [head, row])
        self._headed = path

    def summary(self) -> dict[str, Any]:
        """The counts, and of the successful calls `summarize_metric` of the latency and each declared metric.

        Keys: name, n, and unless n is 0 n_success, n_failure, latency_ms, the metrics, and wall_seconds where
        it was measured.

        Raises:
            TypeError: a declared metric was recorded with what is no number.
        """
        calls = list(self.calls)
        if not calls:
            return {"name": self.name, "n": 0}
        successful = [call for call in calls if call.success]
        told: dict[str, Any] = {
            "name": self.name,
            "n": len(calls),
            "n_success": len(successful),
            "n_failure": len(calls) - len(successful),
            "latency_ms": summarize_metric(call.latency_ms for call in successful),
        }
        for name in self.metrics:
            try:
                told[name] = summarize_metric(call.metrics.get(name) for call in successful)
            except TypeError as error:
                raise TypeError(f"Metric {name!r}: {error}") from None
        if self.wall_seconds:
            told["wall_seconds"] = round(self.wall_seconds, 3)
        return told

    @overload
    def statistics(self, *, by: None = None) -> dict[str, Statistic]: ...

    @overload
    def statistics(self, *, by: str) -> dict[str, dict[str, Statistic]]: ...

    def statistics(self, *, by: str | None = None) -> dict[str, Statistic] | dict[str, dict[str, Statistic]]:
        """Percentiles, deviations and 95 % intervals of the latency and of each metric, by their names.

        Args:
            by: a tag; the statistics are then of each of its values. Calls without it are `(no TAG)`.

        Raises:
            ValueError: no call has that tag.
        """
        calls = list(self.calls)
        if by is None:
            return statistics_of(calls, self.metrics, self.metrics_key)
        return {
            group: statistics_of(some, self.metrics, self.metrics_key)
            for group, some in grouped(calls, by).items()
        }

    def _labelled(self, by: str | None) -> Sequence[tuple[str, dict[str, Statistic]]]:
        return [("", self.statistics())] if by is None else list(self.statistics(by=by).items())

    def report(self, *, statistics: bool = False, by: str | None = None) -> str:
        """The summary as a Markdown table; below it the interval of each metric that is only ever 0 or 1.

        Args:
            statistics: a second table stands below, with percentiles and intervals.
            by: it does, with a row for each value of this tag.

        Raises:
            TypeError: a declared metric was recorded with what is no number.
            ValueError: no call has the tag `by`.
        """
        from proctor.safe_text import markdown_text

        told = self.summary()
        lines = [f"### Bench: {markdown_text(self.name)} (n={told['n']})"]
        if told.get("n_failure"):
            lines.append(f"- success: {told['n_success']} / {told['n']}, failures: {told['n_failure']}")
        if "wall_seconds" in told:
            lines.append(f"- wall: {told['wall_seconds']}s")
        lines += ["", f"| metric | {' | '.join(_COLUMNS)} |", "|---|---:|---:|---:|---:|"]
        for name in ("latency_ms", *self.metrics):
            cells = told.get(name, {})
            values = [str(cells.get(column, "—")) for column in _COLUMNS]
            lines.append(f"| {' | '.join([markdown_text(name), *values])} |")
        if by is not None or not statistics:  # else the table below has it
            shares = [each for each in self.statistics().values() if each.unit == "share" and each.n]
            lines += [""] * bool(shares) + [f"- {markdown_text(each.sure())}" for each in shares]
        if statistics or by is not None:
            from proctor.eval.bench.tables import markdown

            lines += ["", *markdown(self._labelled(by), by)]
        return "\n".join(lines)

    def __repr__(self) -> str:
        calls = list(self.calls)
        failed = sum(not call.success for call in calls)
        return f"<{type(self).__name__} {self.name!r}: {len(calls)} calls, {failed} failed>"

    def _repr_markdown_(self) -> str:
        return self.report(statistics=True)

    def chart(self, *metrics: str, by: str | None = None) -> Chart:
        """Bars of the latency's percentiles, or of the means of metrics with their 95 % intervals.

        Args:
            *metrics: names, also `latency_ms` for its mean; none for the percentiles of the latency.
            by: a tag; each of its values has bars of its own.

        Raises:
            ValueError: no call has that tag or metric, units differ, or there is nothing to draw.
        """
        from proctor.eval.bench.tables import chart

        return chart(self._labelled(by), metrics, title=self.name)

    def to_dict(self, *, include_outputs: bool = False) -> dict[str, Any]:
        """The summary, and the calls as dictionaries.

        Lists, dictionaries and dataclasses in them are copied, with None for NaN and infinities; outputs only
        where they are asked for.

        Args:
            include_outputs: whether calls have their `output`.

        Raises:
            TypeError: a declared metric was recorded with what is no number.
        """
        rows = [_row(call, include_outputs=include_outputs) for call in list(self.calls)]
        return {"summary": self.summary(), "calls": rows}

    def dump(self, path: str | Path, *, include_outputs: bool = False) -> Path:
        """Write `to_dict` as JSON, and give the file's path; missing folders are made.

        NaN and infinities are null, sets sorted lists, objects their attributes, and all else text. The file
        is there whole or not at all.

        Args:
            path: the file; one that is there is replaced.
            include_outputs: whether calls have their `output`.

        Raises:
            OSError: it cannot be written.
            TypeError: a declared metric was recorded with what is no number.
        """
        import json

        from proctor.eval.json_files import plain, write_whole

        return write_whole(path, json.dumps(plain(self.to_dict(include_outputs=include_outputs)), indent=2))

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """A bench from a dump, from a partial file, or from any JSON Lines of calls.

        What cannot be used is in `dropped`, such as a last line that a crash cut off. Latencies that JSON
        could not write are NaN again. Exported runs of Proctor are read too.

        Raises:
            OSError: the file cannot be read.
        """
        from proctor.eval.bench.files import load

        return load(path, cls)

    @classmethod
    def from_jsonl(cls, path: str | Path) -> Self:
        """As `load`, from JSON Lines.

        Raises:
            OSError: the file cannot be read.
        """
        from proctor.eval.bench.files import from_jsonl

        return from_jsonl(path, cls)


def _row(call: BenchCall, *, include_outputs: bool) -> dict[str, Any]:
    from proctor.eval.json_files import copied

    row = vars(call)
    return {name: copied(value) for name, value in row.items() if include_outputs or name != "output"}

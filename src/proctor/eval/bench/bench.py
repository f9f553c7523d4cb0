"""`Bench`: calls with their latencies and metrics, run, recorded, summarized, reported, dumped and loaded."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, overload

from proctor.eval.bench.calls import BenchCall, finite_number, parse_call
from proctor.eval.bench.statistics import Statistic, compute_statistics, group_by_tag, summarize_metric

if TYPE_CHECKING:
    from types import TracebackType

    from proctor.charts import Chart
    from proctor.eval.jsonl_rows import DroppedRow
    from proctor.eval.parallel import CallOutcome, OnError

Input = TypeVar("Input")

_RESERVED_NAMES = ("name", "n", "n_success", "n_failure", "latency_ms", "wall_seconds")
"""The keys of a summary, which no metric may use."""
_COLUMNS = ("mean", "median", "min", "max")


@dataclass
class Bench:
    """Calls of one function or model, with their latencies in milliseconds and their metrics.

    As a context manager it measures the wall time of its block. `record` and `run` may be used from several
    threads at once.

    Args:
        name: the title of the report.
        metrics: the names that `summary` and `report` show beside the latency.
        metrics_key: the key under which the outputs of `run` hold the metrics; None: the top level.
        calls: calls that exist already.
        wall_seconds: their duration.
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
        metrics: object = self.metrics
        if isinstance(metrics, str):
            raise TypeError(f"metrics must be a list of names, not the text {self.metrics!r}.")
        for name in self.metrics:
            if name in _RESERVED_NAMES:
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
        """Sets the attributes that are not copied with the fields."""
        from threading import RLock

        self._lock = RLock()
        self._start: float | None = None
        self._path_with_head: str | None = None
        """The partial file to which the head was written."""

    def __enter__(self) -> Self:
        from time import perf_counter

        self._start = perf_counter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        from time import perf_counter

        if self._start is not None:
            self.wall_seconds = perf_counter() - self._start
        with self._lock:
            if self.partial is not None and self._path_with_head is not None:
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
        """Calls a function on each input, measures it, and returns this bench.

        Each call is added to `calls` as soon as it ends, in the order of inputs, so Ctrl-C and errors keep
        the finished ones. The metrics are the numbers that the output, a dictionary, has under the declared
        names; true, false and texts of digits do not count.

        Args:
            fn: called with one input; may be async, also where an event loop is running already.
            inputs: taken one by one.
            on_error: `record` an exception as a failed call, or `raise` it, unrecorded.
            tag_fn: returns the tags of an input. Its exceptions are raised.
            workers: how many calls at once, at least 1. One calls `fn` in this thread.
            progress: show a bar on stderr where that is a terminal or a notebook.

        Raises:
            ValueError: `on_error` or `workers` is invalid.
            OSError: `partial` cannot be written.
        """
        tasks = (CallTask(item, dict(tag_fn(item) or {}) if tag_fn is not None else {}) for item in inputs)
        total = len(inputs) if isinstance(inputs, Sized) else None
        with _progress_bar(self.name, total, is_visible=progress) as advance:
            self._measure(fn, tasks, self._make_call, on_error=on_error, workers=workers, on_call=advance)
        return self

    def _measure(
        self,
        fn: Callable[[Input], Any],
        tasks: Iterable[CallTask[Input]],
        make_call: Callable[[CallTask[Input], CallOutcome[Any]], tuple[BenchCall, Exception | None]],
        *,
        on_error: OnError,
        workers: int,
        should_stop: Callable[[], bool] | None = None,
        on_call: Callable[[], None],
    ) -> None:
        """Calls a function on the input of each task, and adds each call when it ends, in order of the tasks.

        `make_call` returns the call, and the exception that `raise` raises; `on_call` is called when it is
        added, both in its thread. Once `should_stop` returns true no task is started.
        """
        from bisect import bisect
        from operator import itemgetter

        from proctor.eval.parallel import map_ordered, should_record

        records = should_record(on_error)
        added: list[tuple[int, BenchCall]] = []
        errors: dict[int, Exception] = {}
        is_closed = False

        def add(outcome: CallOutcome[tuple[int, CallTask[Input]]]) -> None:
            place, task = outcome.item
            call, error = make_call(task, outcome)
            if error is not None and not records:
                errors[place] = error
                return
            with self._lock:
                if is_closed:
                    return
                rank = bisect(added, place, key=itemgetter(0))
                self._insert(call, added[rank][1] if rank < len(added) else None)
                added.insert(rank, (place, call))
            on_call()

        outcomes = map_ordered(
            lambda item: fn(item[1].input),
            enumerate(tasks),
            workers=workers,
            should_stop=should_stop,
            on_outcome=add,
        )
        try:
            with closing(outcomes):
                for outcome in outcomes:
                    if outcome.item[0] in errors:
                        raise errors[outcome.item[0]]
        finally:
            with self._lock:
                is_closed = True

    def _make_call(
        self, task: CallTask[Any], outcome: CallOutcome[Any]
    ) -> tuple[BenchCall, Exception | None]:
        output, error = outcome.value, outcome.error
        latency_ms = round(outcome.seconds * 1000, 2)
        if error is not None:
            message = f"{type(error).__name__}: {error}"
            return BenchCall(task.input, None, latency_ms, False, message, {}, task.tags), error
        metrics = _extract_metrics(output, self.metrics, self.metrics_key)
        return BenchCall(task.input, output, latency_ms, metrics=metrics, tags=task.tags), None

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
        """Adds a call that was measured elsewhere, and returns it.

        Args:
            input: the input of the call.
            output: its result.
            latency_ms: how long it took.
            success: whether the call succeeded; failed calls are only counted.
            error: why it failed.
            tags: values that `statistics(by=…)` may group by.
            **metrics: numbers by their names, kept as they are. Those not declared are in `statistics` only.

        Raises:
            OSError: `partial` cannot be written.
        """
        call = BenchCall(input, output, latency_ms, success, error, metrics, dict(tags or {}))
        self._insert(call)
        return call

    def _insert(self, call: BenchCall, before: BenchCall | None = None) -> None:
        """Inserts a call before another one, or else at the end."""
        with self._lock:
            place = len(self.calls)
            if before is not None:
                backwards = range(place - 1, -1, -1)  # it is near the end
                place = next((index for index in backwards if self.calls[index] is before), place)
            self.calls.insert(place, call)
            if self.partial is not None:
                self._append(_call_to_dict(call, include_outputs=self.partial_outputs))

    def _append(self, row: dict[str, Any]) -> None:
        from proctor.eval.json_files import append_lines

        path = str(self.partial)
        head = {"bench": self.name, "metrics": list(self.metrics), "metrics_key": self.metrics_key}
        append_lines(path, [row] if self._path_with_head == path else [head, row])
        self._path_with_head = path

    def summary(self) -> dict[str, Any]:
        """Returns counts, and `summarize_metric` of the latency and each declared metric of successful calls.

        Keys: name, n, and unless n is 0 n_success, n_failure, latency_ms, the metrics, and wall_seconds if
        it was measured.

        Raises:
            TypeError: a declared metric was recorded with a value that is not a number.
        """
        calls = list(self.calls)
        if not calls:
            return {"name": self.name, "n": 0}
        successful = [call for call in calls if call.success]
        summary: dict[str, Any] = {
            "name": self.name,
            "n": len(calls),
            "n_success": len(successful),
            "n_failure": len(calls) - len(successful),
            "latency_ms": summarize_metric(call.latency_ms for call in successful),
        }
        for name in self.metrics:
            try:
                summary[name] = summarize_metric(call.metrics.get(name) for call in successful)
            except TypeError as error:
                raise TypeError(f"Metric {name!r}: {error}") from None
        if self.wall_seconds:
            summary["wall_seconds"] = round(self.wall_seconds, 3)
        return summary

    @overload
    def statistics(self, *, by: None = None) -> dict[str, Statistic]: ...

    @overload
    def statistics(self, *, by: str) -> dict[str, dict[str, Statistic]]: ...

    def statistics(self, *, by: str | None = None) -> dict[str, Statistic] | dict[str, dict[str, Statistic]]:
        """Returns percentiles, deviations and 95 % intervals of the latency and each metric, by their names.

        Args:
            by: a tag; returns the statistics for each of its values. Calls without it are `(no TAG)`.

        Raises:
            ValueError: no call has that tag.
        """
        calls = list(self.calls)
        if by is None:
            return compute_statistics(calls, self.metrics, self.metrics_key)
        return {
            value: compute_statistics(group, self.metrics, self.metrics_key)
            for value, group in group_by_tag(calls, by).items()
        }

    def _statistics_by_label(self, by: str | None) -> Sequence[tuple[str, dict[str, Statistic]]]:
        return [("", self.statistics())] if by is None else list(self.statistics(by=by).items())

    def report(self, *, statistics: bool = False, by: str | None = None) -> str:
        """Returns the summary as a Markdown table, and the interval of each metric that is only ever 0 or 1.

        Args:
            statistics: add a second table with percentiles and intervals.
            by: add it with a row for each value of this tag.

        Raises:
            TypeError: a declared metric was recorded with a value that is not a number.
            ValueError: no call has the tag `by`.
        """
        from proctor.eval.tables import markdown_table
        from proctor.safe_text import markdown_text

        summary = self.summary()
        lines = [f"### Bench: {markdown_text(self.name)} (n={summary['n']})"]
        if summary.get("n_failure"):
            lines.append(
                f"- success: {summary['n_success']} / {summary['n']}, failures: {summary['n_failure']}"
            )
        if "wall_seconds" in summary:
            lines.append(f"- wall: {summary['wall_seconds']}s")
        rows = []
        for name in ("latency_ms", *self.metrics):
            cells = summary.get(name, {})
            rows.append([name, *(str(cells.get(column, "—")) for column in _COLUMNS)])
        lines += ["", *markdown_table(("metric", *_COLUMNS), rows)]
        if by is not None or not statistics:  # else the table below has it
            shares = [share for share in self.statistics().values() if share.unit == "share" and share.n]
            lines += [""] * bool(shares) + [f"- {markdown_text(share.summary_line())}" for share in shares]
        if statistics or by is not None:
            from proctor.eval.bench.tables import markdown_lines

            lines += ["", *markdown_lines(self._statistics_by_label(by), by)]
        return "\n".join(lines)

    def __repr__(self) -> str:
        calls = list(self.calls)
        failed = sum(not call.success for call in calls)
        return f"<{type(self).__name__} {self.name!r}: {len(calls)} calls, {failed} failed>"

    def _repr_markdown_(self) -> str:
        return self.report(statistics=True)

    def chart(self, *metrics: str, by: str | None = None) -> Chart:
        """Draws the latency's percentiles, or the means of metrics with their 95 % intervals, as bars.

        Args:
            *metrics: names, also `latency_ms` for its mean; none for the percentiles of the latency.
            by: a tag; each of its values has bars of its own.

        Raises:
            ValueError: no call has that tag or metric, units differ, or there is nothing to draw.
        """
        from proctor.eval.bench.tables import draw_chart

        return draw_chart(self._statistics_by_label(by), metrics, title=self.name)

    def to_dict(self, *, include_outputs: bool = False) -> dict[str, Any]:
        """Returns the summary, and the calls as dictionaries.

        Lists, dictionaries and dataclasses in them are copied, with None for NaN and infinities.

        Args:
            include_outputs: whether calls have their `output`.

        Raises:
            TypeError: a declared metric was recorded with a value that is not a number.
        """
        rows = [_call_to_dict(call, include_outputs=include_outputs) for call in list(self.calls)]
        return {"summary": self.summary(), "calls": rows}

    def dump(self, path: str | Path, *, include_outputs: bool = False) -> Path:
        """Writes `to_dict` as JSON, and returns the file's path; missing folders are made.

        NaN and infinities are null, sets sorted lists, objects their attributes, and all else text. The file
        is never written in part.

        Args:
            path: the file; an existing one is replaced.
            include_outputs: whether calls have their `output`.

        Raises:
            OSError: it cannot be written.
            TypeError: a declared metric was recorded with a value that is not a number.
        """
        import json

        from proctor.eval.json_files import to_plain, write_atomic

        return write_atomic(
            path, json.dumps(to_plain(self.to_dict(include_outputs=include_outputs)), indent=2)
        )

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Loads a bench from a dump, from a partial file, or from any JSON Lines of calls.

        Lines that cannot be used are in `dropped`, such as a last line that a crash cut off. Latencies that
        JSON could not write are NaN again. Exported runs of Proctor are read too.

        Raises:
            OSError: the file cannot be read.
        """
        from proctor.eval.jsonl_rows import flatten_trials, read_single_object

        whole = read_single_object(path)
        if whole is None:
            return cls.from_jsonl(path)
        bench = cls(Path(path).stem)
        if not isinstance(whole.get("calls"), list):
            rows = flatten_trials(whole["runs"]) if isinstance(whole.get("runs"), list) else [whole]
            bench._add_rows(enumerate(rows, 1))
            return bench
        summary = whole["summary"] if isinstance(whole.get("summary"), dict) else {}
        bench.name = str(summary.get("name", bench.name))
        bench._add_rows(enumerate(whole["calls"], 1))
        bench.metrics = [name for name in summary if name not in _RESERVED_NAMES] or bench.metrics
        bench.wall_seconds = finite_number(summary.get("wall_seconds")) or 0.0
        return bench

    @classmethod
    def from_jsonl(cls, path: str | Path) -> Self:
        """Loads a bench from JSON Lines, otherwise as `load`.

        Raises:
            OSError: the file cannot be read.
        """
        from proctor.eval.jsonl_rows import read_object_rows

        bench = cls(Path(path).stem)
        dropped: list[DroppedRow] = []
        bench._add_rows(read_object_rows(path, dropped))
        bench.dropped = sorted([*dropped, *bench.dropped], key=lambda row: row.line)
        return bench

    def _add_rows(self, rows: Iterable[tuple[int, Any]]) -> None:
        """Adds the calls of rows; declares the metrics of their heads, or else all that calls have."""
        from proctor.eval.jsonl_rows import DroppedRow, register_trial

        head_metrics: dict[str, None] = {}
        trials: set[tuple[str, ...]] = set()
        for line, row in rows:
            try:
                if isinstance(row, dict) and "bench" in row and "latency_ms" not in row:
                    head_metrics.update(self._read_head(row))
                elif isinstance(row, dict) and set(row) == {"wall_seconds"}:
                    self.wall_seconds += finite_number(row["wall_seconds"]) or 0.0
                else:
                    call = parse_call(row)
                    if "case_id" in row:
                        register_trial(row, trials)
                    self.calls.append(call)
            except ValueError as error:
                self.dropped.append(DroppedRow(line, str(error)))
        names = head_metrics or {name: None for call in self.calls for name in call.metrics}
        self.metrics = [name for name in names if name not in _RESERVED_NAMES]

    def _read_head(self, row: dict[str, Any]) -> dict[str, None]:
        """Reads name and key from the head of a partial file, and returns the declared metrics."""
        names = row.get("metrics")
        if not isinstance(row["bench"], str) or not isinstance(names, list):
            raise ValueError("The line has `bench` and is no head of a partial file.")
        key = row.get("metrics_key")
        self.name, self.metrics_key = row["bench"], key if isinstance(key, str) else None
        return dict.fromkeys(map(str, names))


@dataclass(frozen=True, slots=True)
class CallTask(Generic[Input]):
    """An input with the tags of its call."""

    input: Input
    tags: dict[str, Any]


def _call_to_dict(call: BenchCall, *, include_outputs: bool) -> dict[str, Any]:
    from proctor.eval.json_files import copy_data

    row = vars(call)
    return {name: copy_data(value) for name, value in row.items() if include_outputs or name != "output"}


def _extract_metrics(output: Any, names: Sequence[str], key: str | None) -> dict[str, Any]:
    """Returns the numbers that an output, or its part under `key`, has under these names."""
    source = output.get(key) if key is not None and isinstance(output, dict) else output
    if not isinstance(source, dict):
        return {}
    return {
        name: _as_float(source[name])
        for name in names
        if isinstance(source.get(name), Real) and not isinstance(source[name], bool)
    }


def _as_float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


@contextmanager
def _progress_bar(name: str, total: int | None, *, is_visible: bool) -> Iterator[Callable[[], None]]:
    """Shows a bar on stderr, and yields the function that moves it by one call."""
    if not is_visible:
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    has_display = console.is_terminal or console.is_jupyter
    with Progress(*columns, console=console, transient=True, disable=not has_display) as progress:
        row = progress.add_task(name, total=total)
        yield lambda: progress.advance(row)

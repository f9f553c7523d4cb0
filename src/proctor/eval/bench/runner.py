"""How `Bench.run` calls a function on inputs: measured, in threads or an event loop, and kept as they end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import closing, contextmanager
from dataclasses import dataclass
from numbers import Real
from typing import Any, Generic, TypeVar

from proctor.eval.bench.bench import Bench, BenchCall
from proctor.eval.parallel import OnError, Outcome, in_order, is_recorded

Input = TypeVar("Input")


@dataclass(frozen=True, slots=True)
class _Task(Generic[Input]):
    place: int
    input: Input
    tags: dict[str, Any]


def sweep(
    bench: Bench,
    fn: Callable[[Input], Any | Awaitable[Any]],
    inputs: Iterable[Input],
    *,
    on_error: OnError,
    tag_fn: Callable[[Input], Mapping[str, Any] | None] | None,
    workers: int,
    progress: bool,
) -> None:
    """Do what `Bench.run` says."""
    records = is_recorded(on_error)
    tasks = (
        _Task(place, item, dict(tag_fn(item) or {}) if tag_fn is not None else {})
        for place, item in enumerate(inputs)
    )
    total = len(inputs) if isinstance(inputs, Sized) else None
    with _bar(bench.name, total, shown=progress) as advance:
        calls = _Calls[Input](bench, records=records, advance=advance)
        outcomes = in_order(lambda task: fn(task.input), tasks, workers=workers, on_outcome=calls.keep)
        try:
            with closing(outcomes):
                for outcome in outcomes:
                    if not records:
                        outcome.result()
        finally:
            calls.close()


class Places:
    """Adds calls to a bench when they end, before those of later inputs, wherever others add theirs."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._places: list[int] = []
        self._calls: list[BenchCall] = []
        self._closed = False

    def add(self, place: int, call: BenchCall) -> bool:
        """Whether the call is kept: none is after `close`."""
        from bisect import bisect

        with self._bench._lock:
            if self._closed:
                return False
            rank = bisect(self._places, place)
            self._bench._keep(call, self._calls[rank] if rank < len(self._calls) else None)
            self._places.insert(rank, place)
            self._calls.insert(rank, call)
            return True

    def close(self) -> None:
        """Keep nothing from now on."""
        with self._bench._lock:
            self._closed = True


class _Calls(Generic[Input]):
    """Makes outcomes to calls, and keeps them."""

    def __init__(self, bench: Bench, *, records: bool, advance: Callable[[], None]) -> None:
        self._bench = bench
        self._records = records
        self._advance = advance
        self._places = Places(bench)

    def keep(self, outcome: Outcome[_Task[Input], Any]) -> None:
        """Add the call, unless it failed and errors are raised, or it ended after the sweep did."""
        if outcome.error is not None and not self._records:
            return
        if self._places.add(outcome.item.place, self._call(outcome)):
            self._advance()

    def _call(self, outcome: Outcome[_Task[Input], Any]) -> BenchCall:
        task, output, error = outcome.item, outcome.value, outcome.error
        latency_ms = round(outcome.seconds * 1000, 2)
        if error is not None:
            told = f"{type(error).__name__}: {error}"
            return BenchCall(task.input, None, latency_ms, False, told, {}, task.tags)
        metrics = _metrics_of(output, self._bench.metrics, self._bench.metrics_key)
        return BenchCall(task.input, output, latency_ms, metrics=metrics, tags=task.tags)

    def close(self) -> None:
        """Keep nothing from now on."""
        self._places.close()


def _metrics_of(output: Any, names: Sequence[str], key: str | None) -> dict[str, Any]:
    """The numbers that an output, or its part under `key`, has under these names."""
    source = output.get(key) if key is not None and isinstance(output, dict) else output
    if not isinstance(source, dict):
        return {}
    found = {name: source[name] for name in names if name in source}
    return {
        name: _as_float(value)
        for name, value in found.items()
        if not isinstance(value, bool) and isinstance(value, Real)
    }


def _as_float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


@contextmanager
def _bar(name: str, total: int | None, *, shown: bool) -> Iterator[Callable[[], None]]:
    """A bar on stderr, and what moves it by one call."""
    if not shown:
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
    hidden = not (console.is_terminal or console.is_jupyter)
    with Progress(*columns, console=console, transient=True, disable=hidden) as progress:
        row = progress.add_task(name, total=total)
        yield lambda: progress.advance(row)

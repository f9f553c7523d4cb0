"""Files to benches: dumps, partial files, JSON Lines of calls, and what `proctor runs export` writes."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

from proctor.eval.bench.bench import RESERVED, Bench, BenchCall
from proctor.eval.bench.statistics import number
from proctor.eval.jsonl_rows import DroppedRow, check_new, object_of, objects_of, trials_of

Kind = TypeVar("Kind", bound=Bench)

_OF_CALLS = frozenset({"input", "output", "latency_ms", "success", "error", "metrics", "tags"})
_TOLD_OF_TRIALS = ("run", "suite", "target", "case_id", "category", "split", "verdict")


def load(path: str | Path, kind: type[Kind]) -> Kind:
    """Do what `Bench.load` says."""
    whole = object_of(path)
    if whole is None:
        return from_jsonl(path, kind)
    bench = kind(Path(path).stem)
    if isinstance(whole.get("calls"), list):
        return _from_dump(whole, bench)
    rows = trials_of(whole["runs"]) if isinstance(whole.get("runs"), list) else [whole]
    return _with_calls(bench, enumerate(rows, 1))


def from_jsonl(path: str | Path, kind: type[Kind]) -> Kind:
    """Do what `Bench.from_jsonl` says."""
    bench = kind(Path(path).stem)
    dropped: list[DroppedRow] = []
    _with_calls(bench, objects_of(path, dropped))
    bench.dropped = sorted([*dropped, *bench.dropped], key=lambda row: row.line)
    return bench


def _from_dump(told: dict[str, Any], bench: Kind) -> Kind:
    written = told.get("summary")
    summary = written if isinstance(written, dict) else {}
    bench.name = str(summary.get("name", bench.name))
    _with_calls(bench, enumerate(told["calls"], 1))
    bench.metrics = [name for name in summary if name not in RESERVED] or bench.metrics
    bench.wall_seconds = number(summary.get("wall_seconds")) or 0.0
    return bench


def _with_calls(bench: Kind, rows: Iterable[tuple[int, Any]]) -> Kind:
    """Add the calls of rows, and declare the metrics that heads declare, or else all that calls have."""
    declared: dict[str, None] = {}
    trials: set[tuple[str, ...]] = set()
    for line, row in rows:
        try:
            if isinstance(row, dict) and "bench" in row and "latency_ms" not in row:
                declared.update(_head(bench, row))
            elif isinstance(row, dict) and set(row) == {"wall_seconds"}:
                bench.wall_seconds += number(row["wall_seconds"]) or 0.0
            else:
                call = call_of(row)
                if "case_id" in row:
                    check_new(row, trials)
                bench.calls.append(call)
        except ValueError as error:
            bench.dropped.append(DroppedRow(line, str(error)))
    found = {name: None for call in bench.calls for name in call.metrics}
    bench.metrics = [name for name in declared or found if name not in RESERVED]
    return bench


def _head(bench: Bench, row: dict[str, Any]) -> dict[str, None]:
    names = row.get("metrics")
    if not isinstance(row["bench"], str) or not isinstance(names, list):
        raise ValueError("The line has `bench` and is no head of a partial file.")
    key = row.get("metrics_key")
    bench.name, bench.metrics_key = row["bench"], key if isinstance(key, str) else None
    return dict.fromkeys(map(str, names))


def call_of(row: Any) -> BenchCall:
    """The call that a row tells of: a call of a dump, a trial of an exported run, or a flat row.

    Of a flat row, numbers, true and false are metrics, and texts are tags.

    Raises:
        ValueError: it tells of none.
    """
    if not isinstance(row, dict):
        raise ValueError("It is not an object.")
    if "case_id" in row and "verdict" in row:
        return _of_trial(row)
    if "latency_ms" not in row and not isinstance(row.get("metrics"), dict):
        raise ValueError("It has no `latency_ms`, and is no call.")
    error = row.get("error")
    success = row.get("success", error is None)
    metrics, tags = row.get("metrics") or {}, row.get("tags") or {}
    if not isinstance(success, bool):
        raise ValueError(f"`success` must be true or false, not {success!r}.")
    for name, value in (("metrics", metrics), ("tags", tags)):
        if not isinstance(value, dict):
            raise ValueError(f"`{name}` must be an object, not {value!r}.")
    beside = {name: value for name, value in row.items() if name not in _OF_CALLS}
    measured = {name: value for name, value in beside.items() if number(value) is not None}
    said = {name: value for name, value in beside.items() if isinstance(value, str)}
    return BenchCall(
        row.get("input"),
        row.get("output"),
        _latency(row.get("latency_ms")),
        success,
        None if error is None else str(error),
        {**measured, **metrics},
        {**said, **tags},
    )


def _latency(value: Any) -> float:
    """NaN where there is none."""
    if value is None:
        return float("nan")
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        raise ValueError(f"`latency_ms` must be a number of at least 0, not {value!r}.")
    return value


def _of_trial(row: dict[str, Any]) -> BenchCall:
    """A trial succeeded when there was an answer; whether it passed is a metric."""
    failure, verdict = row.get("failure"), str(row["verdict"]).lower()
    usage = row.get("usage") if isinstance(row.get("usage"), dict) else {}
    told = {
        "passed": {"pass": 1.0, "fail": 0.0}.get(verdict),
        "score": row.get("score"),
        "input_tokens": (usage or {}).get("input_tokens"),
        "output_tokens": (usage or {}).get("output_tokens"),
        "cost_usd": row.get("cost_usd"),
    }
    tags = {name: row[name] for name in _TOLD_OF_TRIALS if row.get(name) is not None}
    if isinstance(failure, dict):
        failure = f"{failure.get('kind')}: {failure.get('message')}"
    elif failure is None and verdict == "error":
        failure = "The export does not say what failed."
    return BenchCall(
        row["case_id"],
        row.get("output"),
        _latency(row.get("latency_ms")),
        failure is None,
        None if failure is None else str(failure),
        {name: value for name, value in told.items() if number(value) is not None},
        tags,
    )

"""`BenchCall`: one measured call, and rows of files as calls."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isfinite
from numbers import Real
from typing import Any

_CALL_KEYS = frozenset({"input", "output", "latency_ms", "success", "error", "metrics", "tags"})
_TRIAL_TAGS = ("run", "suite", "target", "case_id", "category", "split", "verdict")


@dataclass
class BenchCall:
    """One call."""

    input: Any
    output: Any
    """The result; None for a failed call."""
    latency_ms: float
    success: bool = True
    error: str | None = None
    """For a failed call, `TypeName: message`."""
    metrics: dict[str, Any] = field(default_factory=dict)
    tags: dict[str, Any] = field(default_factory=dict)


def parse_call(row: Any) -> BenchCall:
    """Parses a row as a call: a call of a dump, a trial of an exported run, or a flat row.

    In a flat row, numbers, true and false are metrics, and texts are tags.

    Raises:
        ValueError: the row is not a call.
    """
    if not isinstance(row, dict):
        raise ValueError("It is not an object.")
    if "case_id" in row and "verdict" in row:
        return _call_from_trial(row)
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
    extras = {name: value for name, value in row.items() if name not in _CALL_KEYS}
    numbers = {name: value for name, value in extras.items() if finite_number(value) is not None}
    texts = {name: value for name, value in extras.items() if isinstance(value, str)}
    return BenchCall(
        row.get("input"),
        row.get("output"),
        _parse_latency(row.get("latency_ms")),
        success,
        None if error is None else str(error),
        {**numbers, **metrics},
        {**texts, **tags},
    )


def _parse_latency(value: Any) -> float:
    """Returns NaN if there is no latency; raises ValueError if it is not a number of at least 0."""
    if value is None:
        return float("nan")
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        raise ValueError(f"`latency_ms` must be a number of at least 0, not {value!r}.")
    return value


def _call_from_trial(row: dict[str, Any]) -> BenchCall:
    """Returns the call of a trial: it succeeded if there was an answer; whether it passed is a metric.

    An answer from the cache or another run has no latency, as none was measured in the run.
    """
    failure, verdict = row.get("failure"), str(row["verdict"]).lower()
    usage = row.get("usage") if isinstance(row.get("usage"), dict) else {}
    metrics = {
        "passed": {"pass": 1.0, "fail": 0.0}.get(verdict),
        "score": row.get("score"),
        "input_tokens": (usage or {}).get("input_tokens"),
        "output_tokens": (usage or {}).get("output_tokens"),
        "cost_usd": row.get("cost_usd"),
    }
    tags = {name: row[name] for name in _TRIAL_TAGS if row.get(name) is not None}
    if isinstance(failure, dict):
        failure = f"{failure.get('kind')}: {failure.get('message')}"
    elif failure is None and verdict == "error":
        failure = "The export does not say what failed."
    output = row.get("output")
    was_measured = not row.get("source_run") and not (isinstance(output, dict) and output.get("cached"))
    return BenchCall(
        row["case_id"],
        output,
        _parse_latency(row.get("latency_ms") if was_measured else None),
        failure is None,
        None if failure is None else str(failure),
        {name: value for name, value in metrics.items() if finite_number(value) is not None},
        tags,
    )


def finite_number(value: Any) -> float | None:
    """Returns a value as a finite number, or None; true and false are 1 and 0."""
    if type(value) is not float:
        if not isinstance(value, Real):
            return None
        try:
            value = float(value)
        except (OverflowError, ValueError):
            return None
    return value if isfinite(value) else None

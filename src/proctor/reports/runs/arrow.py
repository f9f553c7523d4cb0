"""Renders runs as Arrow tables and as Parquet, one row for each trial."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from proctor.errors import UsageError
from proctor.model import Run, Verdict
from proctor.reports.formatting import to_json_line
from proctor.reports.runs.serialize import RunReport, TrialResult, question_text, trial_record

if TYPE_CHECKING:
    import pyarrow

BATCH_ROWS = 4_096
"""The number of trials that are in memory at once."""


def render(runs: Sequence[RunReport]) -> Iterator[bytes]:
    """Yields a Parquet file with each trial of each run.

    Raises:
        UsageError: pyarrow is not installed.
    """
    _import_arrow()
    from pyarrow import parquet

    buffer = io.BytesIO()
    with parquet.ParquetWriter(buffer, schema()) as writer:
        for report in runs:
            for batch in read_batches(report.run, report.rows()):
                writer.write_batch(batch)
                yield buffer.getvalue()
                buffer.seek(0)
                buffer.truncate()
    yield buffer.getvalue()


def make_table(run: Run, rows: Iterable[TrialResult]) -> pyarrow.Table:
    """Returns trials of a run as a table.

    Raises:
        UsageError: pyarrow is not installed.
    """
    return _import_arrow().Table.from_batches(read_batches(run, rows), schema())


def read_batches(run: Run, rows: Iterable[TrialResult]) -> Iterator[pyarrow.RecordBatch]:
    """Yields trials of a run in batches."""
    arrow = _import_arrow()
    remaining = iter(rows)
    while some := list(islice(remaining, BATCH_ROWS)):
        yield arrow.RecordBatch.from_pylist([_make_row(run, row) for row in some], schema())


def schema() -> pyarrow.Schema:
    """Returns the columns of the tables."""
    arrow = _import_arrow()
    text, number, count = arrow.string(), arrow.float64(), arrow.int64()
    types = {
        "run": text,
        "suite": text,
        "suite_version": text,
        "target": text,
        "prompt": text,
        "case_id": text,
        "repeat": count,
        "verdict": text,
        "score": number,
        "input": text,
        "expected": text,
        "answer": text,
        "reason": text,
        "scores": arrow.list_(
            arrow.struct({"name": text, "grader": text, "value": number, "outcome": text, "reason": text})
        ),
        "error": text,
        "latency_ms": number,
        "input_tokens": count,
        "output_tokens": count,
        "cost_usd": number,
        "category": text,
        "tags": arrow.list_(text),
        "metadata": text,
        "split": text,
        "sealed": arrow.bool_(),
        "started_at": arrow.timestamp("us", "UTC"),
        "source_run": text,
    }
    return arrow.schema(list(types.items()))


def _make_row(run: Run, row: TrialResult) -> dict[str, Any]:
    record, case = trial_record(run, row), row.case
    usage, output, failure = record.usage, record.output, record.failure
    fields = (
        *("run", "suite", "suite_version", "target", "prompt", "case_id", "repeat", "score"),
        *("latency_ms", "cost_usd", "category", "split", "sealed", "started_at", "source_run"),
    )
    return {
        **{name: getattr(record, name) for name in fields},
        "verdict": record.verdict.value,
        "input": None if row.sealed else question_text(case),
        "expected": None if row.sealed else _to_text(case.expected),
        "answer": None if output is None else output.text,
        "reason": None if row.verdict is Verdict.PASS else row.reason,
        "scores": [
            {
                "name": score.name,
                "grader": score.grader,
                "value": score.value,
                "outcome": score.outcome.value,
                "reason": score.reason,
            }
            for score in record.scores
        ],
        "error": None if failure is None else f"{failure.kind}: {failure.message}",
        "input_tokens": None if usage is None else usage.input_tokens,
        "output_tokens": None if usage is None else usage.output_tokens,
        "tags": list(case.tags),
        "metadata": to_json_line(case.metadata) if case.metadata and not row.sealed else None,
    }


def _to_text(value: Any) -> str | None:
    """Returns a text as it is, and other values as JSON."""
    return value if value is None or isinstance(value, str) else to_json_line(value)


def _import_arrow() -> Any:
    try:
        import pyarrow
    except ImportError:
        raise UsageError('Tables need pyarrow. Install it: pip install "proctor[data]"') from None
    return pyarrow

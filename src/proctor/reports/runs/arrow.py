"""Renders runs as Arrow tables and as Parquet, one row for each trial."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from proctor.errors import UsageError
from proctor.model import Run, Verdict
from proctor.reports.formatting import to_json_line
from proctor.reports.runs.answer_parts import attachment_data, summarize_logprobs
from proctor.reports.runs.records import OutputRecord
from proctor.reports.runs.serialize import RunReport, TrialResult, question_text, trial_record

if TYPE_CHECKING:
    import pyarrow

BATCH_ROWS = 4_096
"""The number of trials that are in memory at once."""
_TOKEN_PARTS = ("cached_tokens", "cache_write_tokens", "reasoning_tokens")
_ANSWER_FIELDS = (
    *("reasoning", "first_token_ms", "tokens_per_second", "finish_reason", "model"),
    *("response_id", "request_id", "service_tier"),
)


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
        "reasoning": text,
        "cached_tokens": count,
        "cache_write_tokens": count,
        "reasoning_tokens": count,
        "first_token_ms": number,
        "tokens_per_second": number,
        "mean_logprob": number,
        "logprobs": text,
        "finish_reason": text,
        "model": text,
        "response_id": text,
        "request_id": text,
        "service_tier": text,
        "attachments": arrow.list_(
            arrow.struct({"kind": text, "path": text, "media_type": text, "data": arrow.binary()})
        ),
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
        **({} if output is None else _answer_columns(output)),
        **({} if usage is None else {name: getattr(usage, name) for name in _TOKEN_PARTS}),
    }


def _answer_columns(output: OutputRecord) -> dict[str, Any]:
    """Returns what an answer has besides its text; log-probabilities as JSON."""
    summary = summarize_logprobs(output.logprobs)
    return {
        **{name: getattr(output, name) for name in _ANSWER_FIELDS},
        "mean_logprob": None if summary is None else summary.mean,
        "logprobs": to_json_line(output.logprobs) if output.logprobs else None,
        "attachments": [
            {
                "kind": attachment.kind,
                "path": attachment.path,
                "media_type": attachment.media_type,
                "data": attachment_data(attachment),
            }
            for attachment in output.attachments
        ],
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

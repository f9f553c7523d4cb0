"""Renders runs as CSV (RFC 4180), one row for each trial."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence

from proctor.model import Verdict
from proctor.reports.formatting import format_utc
from proctor.reports.runs.answer_parts import attachment_text, summarize_logprobs
from proctor.reports.runs.records import OutputRecord
from proctor.reports.runs.serialize import RunReport, question_text, trial_record
from proctor.safe_text import csv_cell

_COLUMNS = (
    "run",
    "suite",
    "suite_version",
    "target",
    "prompt",
    "case_id",
    "repeat",
    "verdict",
    "score",
    "category",
    "tags",
    "split",
    "sealed",
    "question",
    "output",
    "why",
    "latency_ms",
    "input_tokens",
    "output_tokens",
    "cost_usd",
    "started_at",
    "source_run",
    "reasoning",
    "cached_tokens",
    "cache_write_tokens",
    "reasoning_tokens",
    "first_token_ms",
    "tokens_per_second",
    "mean_logprob",
    "finish_reason",
    "model",
    "response_id",
    "request_id",
    "service_tier",
    "attachments",
)
_USAGE_COLUMNS = ("input_tokens", "output_tokens", "cached_tokens", "cache_write_tokens", "reasoning_tokens")
_OUTPUT_COLUMNS = (
    *("reasoning", "first_token_ms", "tokens_per_second", "finish_reason", "model"),
    *("response_id", "request_id", "service_tier"),
)


def render(runs: Sequence[RunReport]) -> Iterator[str]:
    """Yields a header row, then each trial of each run."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\r\n")
    writer.writerow(_COLUMNS)
    for report in runs:
        for row in report.rows():
            record = trial_record(report.run, row)
            usage, output = record.usage, record.output
            cells = {
                "sealed": str(row.sealed).lower(),
                "tags": ",".join(row.case.tags),
                "question": question_text(row.case),
                "output": None if output is None else output.text,
                "why": "" if row.verdict is Verdict.PASS else row.reason,
                "started_at": format_utc(record.started_at),
                "mean_logprob": _mean_logprob(output),
                "attachments": "" if output is None else "\n".join(map(attachment_text, output.attachments)),
                **{name: getattr(usage, name, None) for name in _USAGE_COLUMNS},
                **{name: getattr(output, name, None) for name in _OUTPUT_COLUMNS},
            }
            writer.writerow(
                [csv_cell(cells[name] if name in cells else getattr(record, name)) for name in _COLUMNS]
            )
            yield buffer.getvalue()
            buffer.seek(0)
            buffer.truncate()
    yield buffer.getvalue()


def _mean_logprob(output: OutputRecord | None) -> float | None:
    summary = None if output is None else summarize_logprobs(output.logprobs)
    return None if summary is None else summary.mean

"""Renders runs as CSV (RFC 4180), one row for each trial."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence

from proctor.model import Verdict
from proctor.reports.formatting import format_utc
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
)


def render(runs: Sequence[RunReport]) -> Iterator[str]:
    """Yields a header row, then each trial of each run."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\r\n")
    writer.writerow(_COLUMNS)
    for report in runs:
        for row in report.rows():
            record = trial_record(report.run, row)
            usage = record.usage
            cells = {
                "sealed": str(row.sealed).lower(),
                "tags": ",".join(row.case.tags),
                "question": question_text(row.case),
                "output": None if record.output is None else record.output.text,
                "why": "" if row.verdict is Verdict.PASS else row.reason,
                "input_tokens": None if usage is None else usage.input_tokens,
                "output_tokens": None if usage is None else usage.output_tokens,
                "started_at": format_utc(record.started_at),
            }
            writer.writerow(
                [csv_cell(cells[name] if name in cells else getattr(record, name)) for name in _COLUMNS]
            )
            yield buffer.getvalue()
            buffer.seek(0)
            buffer.truncate()
    yield buffer.getvalue()

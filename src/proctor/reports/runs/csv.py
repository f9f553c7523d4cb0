"""Renders runs as CSV (RFC 4180), one row for each trial."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence

from proctor.model import Verdict
from proctor.reports.runs.serialize import RunReport, question_text, trial_row
from proctor.safe_text import csv_cell

_COLUMNS = (
    "run",
    "suite",
    "suite_version",
    "target",
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
            data = trial_row(report.run, row)
            usage = data["usage"] or {}
            data |= {
                "sealed": str(row.sealed).lower(),
                "tags": ",".join(row.case.tags),
                "question": question_text(row.case),
                "output": None if row.trial.output is None else row.trial.output.text,
                "why": "" if row.verdict is Verdict.PASS else row.reason,
                "input_tokens": usage.get("input_tokens"),
                "output_tokens": usage.get("output_tokens"),
            }
            writer.writerow([csv_cell(data[column]) for column in _COLUMNS])
            yield buffer.getvalue()
            buffer.seek(0)
            buffer.truncate()
    yield buffer.getvalue()

"""Renders runs as JSON Lines, one trial a line; the target `replay:FILE` reads them back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from proctor.reports.formatting import to_json_line
from proctor.reports.runs.serialize import RunReport, trial_record


def render(runs: Sequence[RunReport]) -> Iterator[str]:
    """Yields each trial of each run as a line."""
    for report in runs:
        for row in report.rows():
            yield to_json_line(trial_record(report.run, row)) + "\n"

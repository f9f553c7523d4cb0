"""Renders runs as JSON Lines, one trial a line; the target `replay:FILE` reads them back."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from proctor.reports.runs.serialize import RunReport, trial_row
from proctor.safe_text import json_text


def render(runs: Sequence[RunReport]) -> Iterator[str]:
    """Yields each trial of each run as a line."""
    for report in runs:
        for row in report.rows():
            yield json_text(json.dumps(trial_row(report.run, row), ensure_ascii=False)) + "\n"

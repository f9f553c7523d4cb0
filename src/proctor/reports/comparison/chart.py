"""Draws comparisons as a chart: a dot for each difference with its interval, around zero. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from proctor.charts import Bar, Chart, forest
from proctor.model import Run
from proctor.reports.comparison.report import ComparisonReport
from proctor.safe_text import one_line

_MAX_PARTS = 40
"""At most this many parts are drawn, the largest ones."""


def draw_chart(report: ComparisonReport) -> Chart:
    """Returns the chart of two runs, whole and by part; of several runs, of each against the first.

    Raises:
        ValueError: nothing was measured.
    """
    if report.ranking is None:
        (comparison,) = report.comparisons
        parts = sorted(comparison.parts, key=lambda part: -part.difference.cases)[:_MAX_PARTS]
        rows = [("all", comparison.whole)]
        rows += [(part.name, part.difference) for part in comparison.splits]
        used_names = {name for name, _ in rows}
        rows += [
            (f"{comparison.by} {part.name}" if part.name in used_names else part.name, part.difference)
            for part in comparison.parts
            if part in parts
        ]
        baseline, candidate = comparison.baseline, comparison.candidate
        title = f"{candidate.target_title} against {baseline.target_title}"
        if candidate.target_title == baseline.target_title:
            title = f"{candidate.target_title}: {candidate.id} against {baseline.id}"
        if len(parts) < len(comparison.parts):
            title += f" (the {_MAX_PARTS} largest of {len(comparison.parts):,} parts)"
    else:
        comparisons = report.baseline_comparisons
        names = _name_runs([comparisons[0].baseline, *(each.candidate for each in comparisons)])
        rows = list(zip(names[1:], (each.whole for each in comparisons), strict=True))
        title = f"Against {names[0]}"
    bars = []
    for name, difference in rows:
        if difference.value is not None and difference.ci95 is not None:
            low, high = difference.ci95
            errors = f", {difference.unmeasured:,} not measured" if difference.unmeasured else ""
            label = f"{one_line(name)} (n = {difference.cases:,}{errors})"
            bars.append(Bar(label, 100 * difference.value, 100 * low, 100 * high))
    return forest(
        bars,
        title=one_line(title),
        unit="difference in passed cases, in percentage points, with 95 % intervals",
        scale="number",
        origin=0,
    )


def _name_runs(runs: Sequence[Run]) -> list[str]:
    """Returns the target and the prompt of each run, with its id if other runs have the same."""
    counts = Counter(run.target_title for run in runs)
    return [
        run.target_title if counts[run.target_title] == 1 else f"{run.target_title} · {run.id}"
        for run in runs
    ]

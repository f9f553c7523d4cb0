"""Draws comparisons as a chart: a dot for each difference with its interval, around zero. Pure."""

from __future__ import annotations

from proctor.charts import Bar, Chart, forest
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
        title = f"{candidate.target.name} against {baseline.target.name}"
        if candidate.target.name == baseline.target.name:
            title = f"{candidate.target.name}: {candidate.id} against {baseline.id}"
        if len(parts) < len(comparison.parts):
            title += f" (the {_MAX_PARTS} largest of {len(comparison.parts):,} parts)"
    else:
        rows = [
            (f"{comparison.candidate.target.name} {comparison.candidate.id}", comparison.whole)
            for comparison in report.baseline_comparisons
        ]
        baseline = report.comparisons[0].baseline
        title = f"Against {baseline.target.name} {baseline.id}"
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

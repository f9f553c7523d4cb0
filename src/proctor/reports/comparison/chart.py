"""Comparisons to a picture: a dot for each difference on a band for its interval, around zero. Pure."""

from __future__ import annotations

from proctor.charts import Bar, Chart, forest
from proctor.comparison.differences import Difference
from proctor.reports.comparison.text import Compared
from proctor.safe_text import one_line

_MOST = 40
"""So many parts are drawn, the largest."""


def chart_of(compared: Compared) -> Chart:
    """The differences of all, of each split and of each part; of several runs each one's to the first.

    Raises:
        ValueError: nothing was measured.
    """
    if compared.ranking is None:
        (found,) = compared.comparisons
        kept = sorted(found.parts, key=lambda part: -part.difference.cases)[:_MOST]
        rows = [("all", found.whole)]
        rows += [(part.name, part.difference) for part in found.splits]
        taken = {name for name, _ in rows}
        rows += [
            (f"{found.by} {part.name}" if part.name in taken else part.name, part.difference)
            for part in found.parts
            if part in kept
        ]
        title = f"{found.candidate.target.name} against {found.baseline.target.name}"
        if found.candidate.target.name == found.baseline.target.name:
            title = f"{found.candidate.target.name}: {found.candidate.id} against {found.baseline.id}"
        if len(kept) < len(found.parts):
            title += f" (the {_MOST} largest of {len(found.parts):,} parts)"
    else:
        rows = [
            (f"{found.candidate.target.name} {found.candidate.id}", found.whole) for found in compared.gated
        ]
        baseline = compared.comparisons[0].baseline
        title = f"Against {baseline.target.name} {baseline.id}"
    bars = [bar for name, difference in rows for bar in _bar(name, difference)]
    return forest(
        bars,
        title=one_line(title),
        unit="difference in passed cases, in percentage points, with 95 % intervals",
        scale="number",
        origin=0,
    )


def _bar(name: str, difference: Difference) -> list[Bar]:
    if difference.value is None or difference.ci95 is None:
        return []
    low, high = difference.ci95
    label = f"{one_line(name)} (n = {difference.cases:,})"
    return [Bar(label, 100 * difference.value, 100 * low, 100 * high)]

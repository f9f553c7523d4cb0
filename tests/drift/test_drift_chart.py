"""The chart of a target over time: its axis is in UTC and has 24 hours."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest

from proctor.drift.detector import detect_drift
from proctor.reports.drift.chart import draw_chart
from proctor.reports.drift.report import DriftReport, run_table
from support.series import make_series


@pytest.mark.parametrize(
    ("began", "every", "ticks"),
    [
        (datetime(2026, 11, 22, 23, 58, tzinfo=UTC), timedelta(minutes=4), {"23:58", "23 Nov", "00:14"}),
        (datetime(2026, 11, 22, 22, 14, tzinfo=UTC), timedelta(hours=1), {"23:00", "23 Nov", "00:30"}),
        (datetime(2026, 11, 22, 12, 14, 1, tzinfo=UTC), timedelta(seconds=2), {"12:14:01", "12:14:09"}),
        (datetime(2026, 11, 22, 0, 14, tzinfo=UTC), timedelta(days=1), {"23 Nov", "24 Nov", "26 Nov"}),
    ],
)
def test_times_are_utc_in_24_hours(began: datetime, every: timedelta, ticks: set[str]) -> None:
    runs = {number: {"started_at": began + number * every} for number in range(5)}
    drawing = draw_chart(DriftReport(drift=detect_drift(make_series(*[["yes"] * 9] * 5, runs=runs)))).svg()
    words = {word.strip() for word in re.findall(r">([^<>]+)</text>", drawing)}
    assert ticks <= words
    assert not [word for word in words if re.search(r"\b[AP]M\b", word)]


def test_of_many_runs_a_terminal_lists_the_first_and_the_latest() -> None:
    table = run_table(detect_drift(make_series(*[["yes"]] * 6)), max_runs=3)
    assert [row[0] for row in table.rows] == ["r0", "r4", "r5"]
    assert table.notes == ["The first run and the last 2; --json has all 6."]

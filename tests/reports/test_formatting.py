"""Numbers to short texts."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from proctor.reports.formatting import (
    cost,
    costs,
    format_utc,
    interval,
    milliseconds,
    percent,
    percentage_points,
    probability,
    round_interval,
    seconds,
)


@pytest.mark.parametrize(
    ("share", "digits", "text"),
    [(None, 1, "–"), (0.0, 1, "0.0%"), (1.0, 1, "100.0%"), (2 / 3, 1, "66.7%"), (2 / 3, 0, "67%")],
)
def test_a_share_is_a_percentage(share: float | None, digits: int, text: str) -> None:
    assert percent(share, digits) == text


@pytest.mark.parametrize(
    ("bounds", "text"),
    [
        (None, "–"),
        ((0.397, 0.892), "40–89%"),
        ((0.0, 0.278), "0–28%"),
        ((0.72, 1.0), "72–100%"),
        ((0.981, 0.998), "98.1–99.8%"),
        ((0.99962, 1.0), "99.96–100.00%"),
        ((1.0, 1.0), "100.0–100.0%"),
    ],
)
def test_an_interval_is_two_percentages(bounds: tuple[float, float] | None, text: str) -> None:
    assert interval(bounds) == text


@pytest.mark.parametrize(("difference", "text"), [(0.125, "+12.5pp"), (-0.5, "-50.0pp"), (0.0, "+0.0pp")])
def test_a_difference_is_in_points_with_its_sign(difference: float, text: str) -> None:
    assert percentage_points(difference) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (0.0, "0.0 ms"),
        (3.64, "3.6 ms"),
        (10.0, "10 ms"),
        (812.4, "812 ms"),
        (9999.0, "9999 ms"),
        (12_345.0, "12.3 s"),
    ],
)
def test_a_latency_has_the_unit_that_keeps_it_short(value: float | None, text: str) -> None:
    assert milliseconds(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.04, "0.0 s"),
        (9.5, "9.5 s"),
        (41.2, "41 s"),
        (59.7, "1 min 00 s"),
        (200.0, "3 min 20 s"),
        (7500.0, "2 h 05 min"),
    ],
)
def test_a_duration_has_at_most_two_units(value: float, text: str) -> None:
    assert seconds(value) == text


@pytest.mark.parametrize(
    ("usd", "text"),
    [
        (None, "unknown"),
        (0.0, "$0"),
        (0.0001, "$0.0001"),
        (0.000012, "under $0.0001"),
        (0.0042, "$0.0042"),
        (0.5, "$0.5000"),
        (1.0, "$1.00"),
        (12.345, "$12.35"),
    ],
)
def test_a_cost_is_in_dollars_and_unknown_is_not_0(usd: float | None, text: str) -> None:
    assert cost(usd) == text


@pytest.mark.parametrize(
    ("target", "judges", "calls", "text"),
    [
        (0.12, 0.0, 0, "$0.1200"),
        (None, 0.0, 0, "unknown"),
        (0.12, 0.03, 1, "$0.1200 + $0.0300 for judging"),
        (0.0, 0.03, 9, "$0 + $0.0300 for judging"),
        (None, 0.03, 1, "unknown + $0.0300 for judging"),
        (0.12, None, 1, "$0.1200 + unknown for judging"),
        (None, None, 1, "unknown"),
    ],
)
def test_what_judging_cost_is_told_apart(
    target: float | None, judges: float | None, calls: int, text: str
) -> None:
    assert costs(target, judges, calls) == text


@pytest.mark.parametrize(
    ("p", "text"),
    [(1.0, "p = 1.00"), (0.0946, "p = 0.095"), (0.0014, "p = 0.001"), (0.0009, "p < 0.001"), (None, "p –")],
)
def test_a_p_value_has_as_many_digits_as_it_needs(p: float | None, text: str) -> None:
    assert probability(p) == text


def test_a_moment_and_an_interval_are_short_in_json() -> None:
    assert format_utc(datetime(2026, 10, 3, 14, tzinfo=UTC)) == "2026-10-03T14:00:00Z"
    assert round_interval((0.12345, 1.0)) == (0.123, 1.0)
    assert round_interval(None) is None

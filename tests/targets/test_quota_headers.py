"""Rate limits in reply headers: the names of several services, and unknown ones."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.protocols import Quota
from proctor.targets.api.quota_headers import QuotaObserver, parse_pause_s, parse_quotas


def soon(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")


@pytest.mark.parametrize(
    ("reset", "seconds"),
    [("6m0s", 360), ("20ms", 0.02), ("1s", 1), ("1m30.5s", 90.5), ("1h", 3600), ("17", 17), ("0", 0)],
)
def test_a_duration_until_a_reset_is_read(reset: str, seconds: float) -> None:
    headers = {
        "x-ratelimit-limit-requests": "60",
        "x-ratelimit-remaining-requests": "59",
        "x-ratelimit-reset-requests": reset,
    }
    (quota,) = parse_quotas(headers)
    assert (quota.resource, quota.remaining) == ("requests", 59)
    assert quota.reset_s == pytest.approx(seconds)


def test_dates_of_anthropic_are_read() -> None:
    headers = {
        "anthropic-ratelimit-requests-remaining": "0",
        "anthropic-ratelimit-requests-reset": soon(30),
        "anthropic-ratelimit-input-tokens-remaining": "1000",
        "anthropic-ratelimit-input-tokens-reset": soon(90),
        "anthropic-ratelimit-output-tokens-remaining": "0",
        "anthropic-ratelimit-output-tokens-reset": soon(-90),
    }
    quotas = parse_quotas(headers)
    assert [(quota.resource, quota.remaining) for quota in quotas] == [
        ("requests", 0),
        ("tokens", 1000),
        ("tokens", 0),
    ]
    assert [quota.reset_s for quota in quotas] == pytest.approx([30, 90, 0], abs=5)
    assert parse_pause_s(headers) == pytest.approx(30, abs=5)


@pytest.mark.parametrize(
    "headers",
    [
        {"ratelimit": '"default";r=5;t=30'},
        {"ratelimit": "limit=100, remaining=5, reset=30"},
        {"ratelimit-remaining": "5", "ratelimit-reset": "30"},
        {"x-ratelimit-remaining": "5", "x-ratelimit-reset": "30"},
    ],
)
def test_headers_of_the_ietf_are_read(headers: dict[str, str]) -> None:
    assert parse_quotas(headers) == [Quota("requests", 5, 30)]


def test_a_time_since_1970_is_read() -> None:
    at = datetime.now(UTC).timestamp() + 60
    (quota,) = parse_quotas({"x-ratelimit-remaining": "0", "x-ratelimit-reset": f"{at:.0f}"})
    assert quota.reset_s == pytest.approx(60, abs=5)


@given(remaining=st.text(), reset=st.text())
def test_any_text_is_read_as_a_reset_or_ignored(remaining: str, reset: str) -> None:
    headers = {
        "x-ratelimit-remaining-tokens": remaining,
        "x-ratelimit-reset-tokens": reset,
        "ratelimit": reset,
    }
    assert all(quota.remaining >= 0 and quota.reset_s >= 0 for quota in parse_quotas(headers))


@pytest.mark.parametrize("reset", ["-5", "NaN", "inf", "99999999999-01-01T00:00:00Z", "soon", "", "9" * 400])
def test_what_cannot_be_read_says_nothing(reset: str) -> None:
    assert parse_quotas({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": reset}) == []


def test_replies_after_one_without_limits_are_not_read() -> None:
    quotas = list[list[Quota]]()
    watch = QuotaObserver(quotas.append)
    watch({})
    watch({"x-ratelimit-remaining": "5", "x-ratelimit-reset": "30"})
    assert quotas == []

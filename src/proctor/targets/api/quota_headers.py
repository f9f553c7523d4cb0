"""Parses an endpoint's rate limits from the headers of its replies.

Sources: https://platform.openai.com/docs/guides/rate-limits (which many services follow),
https://docs.anthropic.com/en/api/rate-limits, and the IETF's draft-ietf-httpapi-ratelimit-headers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Literal

from proctor.lazy_pattern import lazy_pattern
from proctor.protocols import Quota

_Resource = Literal["requests", "tokens"]
_HEADER_FAMILIES: tuple[tuple[_Resource, str, str], ...] = (
    ("requests", "x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"),
    ("tokens", "x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"),
    ("requests", "anthropic-ratelimit-requests-remaining", "anthropic-ratelimit-requests-reset"),
    ("tokens", "anthropic-ratelimit-tokens-remaining", "anthropic-ratelimit-tokens-reset"),
    ("tokens", "anthropic-ratelimit-input-tokens-remaining", "anthropic-ratelimit-input-tokens-reset"),
    ("tokens", "anthropic-ratelimit-output-tokens-remaining", "anthropic-ratelimit-output-tokens-reset"),
    ("requests", "ratelimit-remaining", "ratelimit-reset"),
    ("requests", "x-ratelimit-remaining", "x-ratelimit-reset"),
)
_MAX_CHARACTERS = 100
_UNIT_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_NUMBER = r"[0-9]{1,12}(?:\.[0-9]{1,12})?"
_DURATION = lazy_pattern(rf"(?:{_NUMBER}(?:ms|s|m|h|d))+")
_DURATION_PART = lazy_pattern(rf"({_NUMBER})(ms|s|m|h|d)")
_IETF_QUOTA = lazy_pattern(r"\br(?:emaining)?=([0-9]{1,12})\b.*?\b(?:t|reset)=([0-9]{1,12})\b")
_MIN_TIMESTAMP = 1e9
"""From this value on, a number of seconds is a time since 1970."""


def parse_quotas(headers: Mapping[str, str]) -> list[Quota]:
    """Returns what is left of each limit and until when; headers that cannot be parsed are ignored."""
    quotas = []
    for resource, remaining_name, reset_name in _HEADER_FAMILIES:
        remaining = headers.get(remaining_name)
        if remaining is not None and re.fullmatch(r"[0-9]{1,12}", remaining.strip()):
            reset_s = _parse_seconds(headers.get(reset_name, "").strip()[:_MAX_CHARACTERS])
            if reset_s is not None:
                quotas.append(Quota(resource, int(remaining), reset_s))
    match = _IETF_QUOTA.search(headers.get("ratelimit", "")[:_MAX_CHARACTERS])
    if match is not None:
        quotas.append(Quota("requests", int(match[1]), float(match[2])))
    return quotas


def parse_pause_s(headers: Mapping[str, str]) -> float | None:
    """Returns how long until no limit is exhausted; None if the headers do not say."""
    return max((quota.reset_s for quota in parse_quotas(headers) if not quota.remaining), default=None)


class QuotaObserver:
    """Reports the rate limits in replies; stops looking if the first reply has none."""

    def __init__(self, observe: Callable[[list[Quota]], None]) -> None:
        self._observe = observe
        self.is_silent = False
        """Whether the first reply had none, so that no other needs to be read."""

    def __call__(self, headers: Mapping[str, str]) -> None:
        """Reads the headers of one reply."""
        if self.is_silent:
            return
        quotas = parse_quotas(headers)
        self.is_silent = not quotas
        if quotas:
            self._observe(quotas)


def _parse_seconds(value: str) -> float | None:
    """Parses the seconds until a reset: a duration such as `6m0s`, a number of seconds, or a time."""
    if _DURATION.fullmatch(value):
        return sum(float(number) * _UNIT_SECONDS[unit] for number, unit in _DURATION_PART.findall(value))
    if re.fullmatch(_NUMBER, value):
        seconds = float(value)
        return max(0.0, seconds - datetime.now(UTC).timestamp()) if seconds >= _MIN_TIMESTAMP else seconds
    try:
        at = datetime.fromisoformat(value)
        at = at if at.tzinfo else at.replace(tzinfo=UTC)
        return max(0.0, (at - datetime.now(UTC)).total_seconds())
    except (ValueError, OverflowError):
        return None

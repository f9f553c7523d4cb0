"""Paces the requests to an endpoint that has refused some.

The rate returns to the refused one along the curve of CUBIC (RFC 9438), as in the adaptive retry mode of
AWS's SDKs: quickly at first, slowly near that rate, then faster and faster while nothing is refused.
"""

from __future__ import annotations

from collections import deque
from math import ceil, inf

_REDUCTION = 0.04
"""The share by which the rate is cut below the refused one."""
_REPEATED_REDUCTION = 0.95
"""The factor for the rate after a refusal soon after another one."""
_PLATEAU_S = 60.0
"""The time from a cut until the rate is back at the refused one."""
_FORGET_AFTER_S = 600.0
"""The time without a refusal after which pacing ends."""
_CATCH_UP_S = 0.25
"""How much delay of the event loop is made up for, without exceeding the refused rate in any second."""
_OVERDRIVEN_SHARE = 0.8
"""If a smaller share of the rate was accepted, the rate was far too high."""
_MIN_PER_PAUSE = 10
"""The rate stays above this number of requests per pause. A lower rate gains almost nothing, and an endpoint
that refuses some requests at any rate would be slowed down to a stop."""


class RatePacer:
    """Spaces requests evenly. Pure arithmetic over the times passed to it, in seconds."""

    def __init__(self, accepted_per_s: float, pause_s: float, now: float) -> None:
        """Starts pacing now.

        Args:
            accepted_per_s: the requests per second that the endpoint accepted before it refused one.
            pause_s: the length of the pause after that.
            now: the current time.
        """
        self._refused_rate = max(accepted_per_s, _MIN_PER_PAUSE / pause_s)
        self._cut_at = now
        self._next_at = now
        self._sent_at = deque[float]()
        """The times of the requests in the last second."""

    def rate(self, now: float) -> float:
        """Returns the current rate in requests per second."""
        curve = (now - self._cut_at) / _PLATEAU_S - 1
        return self._refused_rate * (1 + _REDUCTION * curve**3)

    def slow_down(self, accepted_per_s: float | None, pause_s: float, now: float) -> None:
        """Reduces the rate after refused requests.

        Args:
            accepted_per_s: the requests per second that were accepted since the last refusal; None if that
                was too recent to measure.
            pause_s: the length of the pause after that.
            now: the current time.
        """
        rate = self.rate(now)
        if accepted_per_s is None:
            self._refused_rate = rate * _REPEATED_REDUCTION
        else:
            is_overdriven = accepted_per_s < _OVERDRIVEN_SHARE * rate
            self._refused_rate = max(accepted_per_s, rate / 2) if is_overdriven else rate
        self._refused_rate = max(self._refused_rate, _MIN_PER_PAUSE / pause_s)
        self._cut_at = now
        self._next_at = now

    def wait_s(self, now: float) -> float:
        """Returns how long until the next request; 0 for now."""
        window_at = -inf
        if len(self._sent_at) >= ceil(self._refused_rate):
            window_at = self._sent_at[0] + len(self._sent_at) / max(self._refused_rate, self.rate(now))
        return max(0.0, self._next_at - now, window_at - now)

    def record_request(self, now: float) -> None:
        """Records that a request is sent now."""
        self._next_at = max(self._next_at, now - _CATCH_UP_S) + 1 / self.rate(now)
        self._sent_at.append(now)
        while len(self._sent_at) > ceil(self._refused_rate):
            self._sent_at.popleft()

    def is_over(self, now: float) -> bool:
        """Whether nothing was refused for so long that pacing can end."""
        return now - self._cut_at > _FORGET_AFTER_S

"""How many requests a second an endpoint is sent that has refused some.

The rate returns to where it was refused along the curve of CUBIC (RFC 9438), as in the adaptive retry mode of
AWS's SDKs: quickly at first, hardly at all near that rate, then faster and faster where nothing is refused.
"""

from __future__ import annotations

from collections import deque
from math import ceil, inf

_REDUCTION = 0.04
"""By which share the rate is cut below the one that was refused."""
_SHORT_CUT = 0.95
"""What is left of the rate after a refusal soon after another one."""
_PLATEAU_S = 60.0
"""Time from a cut until the rate is back where it was refused."""
_FORGET_S = 600.0
"""Time without a refusal after which there is no limit any more."""
_CATCH_UP_S = 0.25
"""How much lateness of the event loop is made up for, without exceeding the refused rate in any second."""
_OVERDRIVEN = 0.8
"""Where a smaller share of the rate was accepted, the rate was far too high, and not a little."""
_MIN_PER_PAUSE = 10
"""The rate stays above this number of requests in the time of a pause. A lower one gains next to nothing, and
an endpoint that refuses some requests whatever the rate is would be slowed down to a stop."""


class RatePacer:
    """Spaces requests evenly. Pure arithmetic over times that it is given, in seconds."""

    def __init__(self, accepted_per_s: float, pause_s: float, now: float) -> None:
        """Paced from now on.

        Args:
            accepted_per_s: how many requests a second the endpoint took before it refused one.
            pause_s: how long nobody asked after that.
            now: the time.
        """
        self._refused_rate = max(accepted_per_s, _MIN_PER_PAUSE / pause_s)
        self._cut_at = now
        self._next_at = now
        self._sent_at = deque[float]()
        """When the last second's worth of requests was sent."""

    def rate(self, now: float) -> float:
        """Requests a second."""
        curve = (now - self._cut_at) / _PLATEAU_S - 1
        return self._refused_rate * (1 + _REDUCTION * curve**3)

    def cut(self, accepted_per_s: float | None, pause_s: float, now: float) -> None:
        """The endpoint refused requests.

        Args:
            accepted_per_s: how many a second it had taken since it last did; None where that was so short a
                time ago that it tells nothing.
            pause_s: how long nobody asked after that.
            now: the time.
        """
        rate = self.rate(now)
        if accepted_per_s is None:
            self._refused_rate = rate * _SHORT_CUT
        else:
            is_overdriven = accepted_per_s < _OVERDRIVEN * rate
            self._refused_rate = max(accepted_per_s, rate / 2) if is_overdriven else rate
        self._refused_rate = max(self._refused_rate, _MIN_PER_PAUSE / pause_s)
        self._cut_at = now
        self._next_at = now

    def wait_s(self, now: float) -> float:
        """How long until the next request; 0 for now."""
        window_at = -inf
        if len(self._sent_at) >= ceil(self._refused_rate):
            window_at = self._sent_at[0] + len(self._sent_at) / max(self._refused_rate, self.rate(now))
        return max(0.0, self._next_at - now, window_at - now)

    def take(self, now: float) -> None:
        """A request is sent now."""
        self._next_at = max(self._next_at, now - _CATCH_UP_S) + 1 / self.rate(now)
        self._sent_at.append(now)
        while len(self._sent_at) > ceil(self._refused_rate):
            self._sent_at.popleft()

    def is_over(self, now: float) -> bool:
        """Whether nothing was refused for so long that no pacing is needed any more."""
        return now - self._cut_at > _FORGET_S

"""The limits of a run, whether or not several processes share them."""

from __future__ import annotations

from typing import Protocol

from proctor.engines.adaptive_limit import AdaptiveLimit
from proctor.engines.budget import Budget


class CallLimits(Protocol):
    """The limits of the calls of a run."""

    def open_limit(self, endpoint: str, ceiling: int) -> AdaptiveLimit:
        """Returns the limit of an endpoint, with its maximum number of concurrent requests."""

    def open_budget(self, limit_usd: float) -> Budget:
        """Returns the budget of the run."""

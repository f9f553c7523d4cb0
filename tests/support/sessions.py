"""What tests of services share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from proctor.services import events

MakeRuns = Callable[..., Awaitable[list[events.RunFinished]]]
"""The fixture `make`, which makes the runs of a request."""

"""Prints progress as lines where something may take long and there is no progress bar."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

Notify = Callable[[str], None]
"""A callback that receives lines for the user."""

_FIRST_S, _EVERY_S = 2.0, 5.0


class Throttle:
    """Says when a line is due: after two seconds, then every five."""

    def __init__(self) -> None:
        """Starts the clock."""
        self._next = monotonic() + _FIRST_S

    def is_due(self) -> bool:
        """Whether a line is due; if so, restarts the interval."""
        now = monotonic()
        if now < self._next:
            return False
        self._next = now + _EVERY_S
        return True


def progress_reporter(notify: Notify | None, what: str) -> Callable[[int, int], None]:
    """Returns a callback that reports progress when a line is due: `300 of 1,000 trials written so far`.

    Args:
        notify: called with each line; None for no lines.
        what: what is counted, such as `trials written`.
    """
    pace = Throttle()

    def tell(count: int, total: int) -> None:
        if notify is not None and pace.is_due() and count < total:
            notify(f"{count:,} of {total:,} {what} so far")

    return tell

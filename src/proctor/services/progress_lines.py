"""Progress in lines for the user, where something may take long and there is no progress bar."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

Tell = Callable[[str], None]
"""Receives lines for the user."""

_FIRST_S, _EVERY_S = 2.0, 5.0


class Pace:
    """Tells when a line is due: after two seconds, and then every five."""

    def __init__(self) -> None:
        """The time begins to run."""
        self._next = monotonic() + _FIRST_S

    def is_due(self) -> bool:
        """Whether it is time for a line, which the next one then waits for."""
        now = monotonic()
        if now < self._next:
            return False
        self._next = now + _EVERY_S
        return True


def telling(told: Tell | None, what: str) -> Callable[[int, int], None]:
    """A callback that reports progress when a line is due: `300 of 1,000 trials written so far`.

    Args:
        told: receives the lines; None for no lines.
        what: what is counted, such as `trials written`.
    """
    pace = Pace()

    def tell(count: int, total: int) -> None:
        if told is not None and pace.is_due() and count < total:
            told(f"{count:,} of {total:,} {what} so far")

    return tell

"""How tests wait: for the event itself, and never for a time that a busy machine may exceed."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic, sleep
from typing import TypeVar

T = TypeVar("T")

PATIENCE_S = 300.0
"""The last resort: what has not happened after so many seconds never will."""


def wait_until(ready: Callable[[], T]) -> T:
    """What `ready` gives, as soon as that is true."""
    last = monotonic() + PATIENCE_S
    while not (result := ready()):
        assert monotonic() < last, f"It did not happen within {PATIENCE_S:g} s; last there was {result!r}."
        sleep(0.01)
    return result

"""Sums of floating-point numbers that do not depend on their order."""

from __future__ import annotations


def add_exactly(parts: list[float], value: float) -> None:
    """Adds a finite number to a sum, which is the `math.fsum` of its parts.

    The parts stay few: they do not overlap (Shewchuk, "Adaptive precision floating-point arithmetic", 1997).
    """
    if len(parts) == 1:  # the usual case: such a sum of few digits is exact
        part = parts[0]
        total = part + value
        if total - part == value and total - value == part:
            parts[0] = total
            return
    count = 0
    for part in parts:
        larger, smaller = (value, part) if abs(value) >= abs(part) else (part, value)
        total = larger + smaller
        rest = smaller - (total - larger)
        if rest:
            parts[count] = rest
            count += 1
        value = total
    parts[count:] = [value]

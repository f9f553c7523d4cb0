"""Repeats: how often the same question does not get the same verdict."""

from __future__ import annotations

from collections.abc import Sequence


def flake_rate(outcomes: Sequence[Sequence[bool]]) -> float | None:
    """Returns the share of cases whose repeats do not all agree; None if no case has two repeats.

    Args:
        outcomes: for each case, whether each of its repeats passed. Cases with fewer than two repeats say
            nothing about agreement and are left out.
    """
    repeated_cases = [case for case in outcomes if len(case) > 1]
    return (
        sum(len(set(case)) > 1 for case in repeated_cases) / len(repeated_cases) if repeated_cases else None
    )

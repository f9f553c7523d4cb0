"""How often a gate on a point estimate is wrong."""

from __future__ import annotations

from math import ceil
from typing import NamedTuple

from proctor.stats.incomplete_beta import at_most

_MARGIN = 0.05
"""How far the true rates are from the gate, if there is room."""


class PointGateErrors(NamedTuple):
    """The error rates of a gate on the share of cases that passed, for a true rate on each side of it."""

    below: float
    """A true rate below the gate."""
    false_passes: float
    """The chance that it passes the gate."""
    above: float
    """A true rate above the gate."""
    false_failures: float
    """The chance that it fails the gate."""


def point_gate_errors(cases: int, bar: float) -> PointGateErrors:
    """Returns how often a gate passes a rate 5 points below it, and fails one 5 points above it.

    The chances are those of a binomial distribution: cases are independent, with one trial each. Rates are
    half as far from the gate as 0 and 1, if these are nearer than 10 points.

    Args:
        cases: the number of cases, above 0.
        bar: the gate, within 0..1.
    """
    needed = max(0, ceil(cases * (bar - 1e-9)))
    below, above = bar - min(_MARGIN, bar / 2), bar + min(_MARGIN, (1 - bar) / 2)
    passes = 1 - at_most(needed - 1, cases, below)
    return PointGateErrors(below, passes, above, at_most(needed - 1, cases, above))

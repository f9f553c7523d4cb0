"""The variance of a pass rate in a sentence: whether more cases or more repeats would help. Pure."""

from __future__ import annotations

from collections import Counter
from math import sqrt

from proctor.reports.formatting import percent
from proctor.stats import VarianceComponents, variance_components
from proctor.verdicts import Counts, parse_shape

_NEARLY_ALL = 0.9
"""The share of the variance between cases from which on more repeats are not worth while; and within them,
from which on they are as good as cases."""


def count_variance(counts: Counts) -> VarianceComponents | None:
    """Returns the variance of the trials behind some counts; None without repeats."""
    shapes: Counter[tuple[int, int]] = Counter()
    for key, cases in counts.shapes.items():
        shape = parse_shape(key)
        shapes[shape.passed, shape.measured] += cases
    return variance_components(shapes)


def variance_sentence(components: VarianceComponents | None) -> str | None:
    """Returns whether more cases or more repeats would narrow the interval of a pass rate.

    Repeats reduce only the part within cases: without it the interval would be narrower by the square root.

    Args:
        components: the variance of the trials; None if there are no repeats.

    Returns:
        None without repeats, or if all trials have the same verdict.
    """
    share = None if components is None else components.between_share
    if share is None:
        return None
    part = f"{percent(share, 0)} of its variance is between cases"
    if share >= _NEARLY_ALL:
        return f"More cases would narrow the interval; more repeats would not: {part}."
    if share <= 1 - _NEARLY_ALL:
        return f"More repeats would narrow the interval about as much as more cases: {part}."
    gain = percent(1 - sqrt(share), 0)
    return f"More cases would narrow the interval, and more repeats by at most {gain}: {part}."

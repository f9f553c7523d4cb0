"""Several tests at once: p-values adjusted for the number of tests."""

from __future__ import annotations

from collections.abc import Sequence


def holm(p_values: Sequence[float]) -> list[float]:
    """Returns adjusted p-values, in the order of the input, that limit the chance of even one false alarm.

    Values of 0.05 or below are significant at 5 % over all tests together, however the tests depend on one
    another.

    Source: S. Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of
    Statistics 6 (1979), 65-70.

    Raises:
        ValueError: a p-value is not within 0..1.
    """
    order, count = _rank(p_values), len(p_values)
    adjusted, maximum = [0.0] * count, 0.0
    for rank, place in enumerate(order):
        maximum = max(maximum, min(1.0, (count - rank) * p_values[place]))
        adjusted[place] = maximum
    return adjusted


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """Returns adjusted p-values, in the order of the input, that limit the share of false alarms.

    Of the values of 0.05 or below, at most 5 % are chance on average, if the tests are independent or depend
    on one another positively.

    Source: Y. Benjamini and Y. Hochberg, "Controlling the false discovery rate: a practical and powerful
    approach to multiple testing", Journal of the Royal Statistical Society B 57 (1995), 289-300.

    Raises:
        ValueError: a p-value is not within 0..1.
    """
    order, count = _rank(p_values), len(p_values)
    adjusted, minimum = [0.0] * count, 1.0
    for rank, place in reversed(list(enumerate(order, 1))):
        minimum = min(minimum, p_values[place] * count / rank)
        adjusted[place] = minimum
    return adjusted


def _rank(p_values: Sequence[float]) -> list[int]:
    for p in p_values:
        if not 0 <= p <= 1:
            raise ValueError(f"p-values must be within 0 and 1, not {p}.")
    return sorted(range(len(p_values)), key=p_values.__getitem__)

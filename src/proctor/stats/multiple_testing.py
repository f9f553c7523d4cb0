"""Several tests at once: p-values that stay honest when the best of many is looked at."""

from __future__ import annotations

from collections.abc import Sequence


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted p-values, in the order given, that hold the chance of even one false alarm.

    What stays at 0.05 or below is shown at 5 % over all tests together, however they depend on one another.

    Source: S. Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of
    Statistics 6 (1979), 65-70.

    Raises:
        ValueError: a p-value is not within 0..1.
    """
    ascending, count = _ascending(p_values), len(p_values)
    adjusted, most = [0.0] * count, 0.0
    for rank, place in enumerate(ascending):
        most = max(most, min(1.0, (count - rank) * p_values[place]))
        adjusted[place] = most
    return adjusted


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """Adjusted p-values, in the order given, that hold the expected share of false alarms among all alarms.

    Of what stays at 0.05 or below, at most 5 % is chance on average, where the tests are independent or
    depend on one another positively.

    Source: Y. Benjamini and Y. Hochberg, "Controlling the false discovery rate: a practical and powerful
    approach to multiple testing", Journal of the Royal Statistical Society B 57 (1995), 289-300.

    Raises:
        ValueError: a p-value is not within 0..1.
    """
    ascending, count = _ascending(p_values), len(p_values)
    adjusted, least = [0.0] * count, 1.0
    for rank, place in reversed(list(enumerate(ascending, 1))):
        least = min(least, p_values[place] * count / rank)
        adjusted[place] = least
    return adjusted


def _ascending(p_values: Sequence[float]) -> list[int]:
    for p in p_values:
        if not 0 <= p <= 1:
            raise ValueError(f"p-values must be within 0 and 1, not {p}.")
    return sorted(range(len(p_values)), key=p_values.__getitem__)

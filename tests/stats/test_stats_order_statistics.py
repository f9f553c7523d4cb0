"""The mean of the largest of several normal numbers."""

from __future__ import annotations

from math import pi, sqrt

import pytest

from proctor.stats import expected_maximum


@pytest.mark.parametrize(
    ("count", "mean"),
    [
        (1, 0.0),
        (2, 1 / sqrt(pi)),
        (3, 1.5 / sqrt(pi)),
        (5, 1.16296),
        (10, 1.53875),
        (100, 2.50759),
        (1000, 3.24144),
    ],
)
def test_the_largest_of_several_has_its_published_mean(count: int, mean: float) -> None:
    assert expected_maximum(count) == pytest.approx(mean, abs=5e-6)  # H. L. Harter (1961)


def test_the_largest_of_none_is_refused() -> None:
    with pytest.raises(ValueError, match="count must be 1 or more, not 0"):
        expected_maximum(0)

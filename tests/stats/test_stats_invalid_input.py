"""What no statistic can be of is refused with its value, and becomes no NaN and no number without meaning."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from proctor import stats

OF_VALUES: list[Callable[[list[float]], Any]] = [
    stats.deviation,
    stats.mean_interval,
    stats.bootstrap,
    stats.bounded_interval,
    stats.bca,
    stats.permutation,
    partial(stats.quantile, share=0.5),
    partial(stats.clustered_error, groups=[0, 1]),
    partial(stats.clustered_interval, groups=[0, 1]),
    partial(stats.paired_bootstrap, [0.0, 0.0]),
]
NO_NUMBERS = [float("nan"), float("inf"), float("-inf")]


@pytest.mark.parametrize("of", OF_VALUES)
@pytest.mark.parametrize("value", NO_NUMBERS)
def test_values_that_are_not_finite(of: Callable[[list[float]], Any], value: float) -> None:
    with pytest.raises(ValueError, match=r"values must be finite numbers, not -?(nan|inf)"):
        of([1.0, value])


@pytest.mark.parametrize("level", ["nominal", "ordinal", "interval"])
def test_ratings_that_are_no_number(level: Any) -> None:
    with pytest.raises(ValueError, match="not nan"):
        stats.alpha([[float("nan"), 1.0], [1.0, 1.0]], level)


def test_endless_ratings_have_an_order_and_no_difference() -> None:
    ratings = [[float("inf"), 1.0], [1.0, 1.0]]
    assert stats.alpha(ratings, "ordinal") == 0
    with pytest.raises(ValueError, match="not inf"):
        stats.alpha(ratings, "interval")


@pytest.mark.parametrize("of", [stats.bootstrap, stats.bca, stats.permutation])
@pytest.mark.parametrize("draws", [0, -5])
def test_draws_of_nothing(of: Callable[..., Any], draws: int) -> None:
    with pytest.raises(ValueError, match=f"draws must be at least 1, not {draws}"):
        of([1.0, 2.0], draws=draws)


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_shares_beyond_all(share: float) -> None:
    with pytest.raises(ValueError, match=f"share must be within 0 and 1, not {share}"):
        stats.quantile([1.0, 2.0], share)


@pytest.mark.parametrize("counts", [(3, 0), (1, float("inf")), (float("nan"), 0), (0, -1)])
def test_counts_that_cannot_be(counts: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="passed must be within 0 and"):
        stats.wilson(*counts)

"""Invalid input is refused with its value, and never gives NaN or a meaningless number."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from proctor import stats

FUNCTIONS_OF_VALUES: list[Callable[[list[float]], Any]] = [
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


@pytest.mark.parametrize("function", FUNCTIONS_OF_VALUES)
@pytest.mark.parametrize("value", NO_NUMBERS)
def test_values_that_are_not_finite_are_refused(function: Callable[[list[float]], Any], value: float) -> None:
    with pytest.raises(ValueError, match=r"values must be finite numbers, not -?(nan|inf)"):
        function([1.0, value])


@pytest.mark.parametrize("level", ["nominal", "ordinal", "interval"])
def test_ratings_that_are_nan_are_refused(level: Any) -> None:
    with pytest.raises(ValueError, match="not nan"):
        stats.alpha([[float("nan"), 1.0], [1.0, 1.0]], level)


def test_endless_ratings_have_an_order_and_no_difference() -> None:
    ratings = [[float("inf"), 1.0], [1.0, 1.0]]
    assert stats.alpha(ratings, "ordinal") == 0
    with pytest.raises(ValueError, match="not inf"):
        stats.alpha(ratings, "interval")


@pytest.mark.parametrize("function", [stats.bootstrap, stats.bca, stats.permutation])
@pytest.mark.parametrize("draws", [0, -5])
def test_a_bootstrap_without_draws_is_refused(function: Callable[..., Any], draws: int) -> None:
    with pytest.raises(ValueError, match=f"draws must be at least 1, not {draws}"):
        function([1.0, 2.0], draws=draws)


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_shares_outside_0_and_1_are_refused(share: float) -> None:
    with pytest.raises(ValueError, match=f"share must be within 0 and 1, not {share}"):
        stats.quantile([1.0, 2.0], share)


@pytest.mark.parametrize("counts", [(3, 0), (1, float("inf")), (float("nan"), 0), (0, -1)])
def test_impossible_counts_are_refused(counts: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="passed must be within 0 and"):
        stats.wilson(*counts)

"""Whether more cases or more repeats would narrow an interval, in a sentence."""

from __future__ import annotations

import pytest

from proctor.reports.variance import variance_sentence
from proctor.stats import variance_components


@pytest.mark.parametrize(
    ("shapes", "clause"),
    [
        ({(3, 3): 70, (0, 3): 25, (2, 3): 5}, "; more repeats would not: 97% of its"),
        ({(3, 3): 40, (0, 3): 10, (2, 3): 20, (1, 3): 30}, ", and more repeats by at most 26%: 55% of its"),
    ],
)
def test_the_variance_is_split(shapes: dict[tuple[int, int], int], clause: str) -> None:
    sentence = variance_sentence(variance_components(shapes))
    assert sentence == f"More cases would narrow the interval{clause} variance is between cases."


def test_where_cases_hardly_differ_repeats_are_as_good() -> None:
    components = variance_components({(2, 4): 50, (3, 4): 20, (1, 4): 20, (4, 4): 10})
    assert variance_sentence(components) == (
        "More repeats would narrow the interval about as much as more cases: 0% of its variance is between "
        "cases."
    )


@pytest.mark.parametrize("shapes", [{(1, 1): 10, (0, 1): 4}, {(3, 3): 20}, {}])
def test_there_is_no_sentence_without_repeats_and_without_variance(
    shapes: dict[tuple[int, int], int],
) -> None:
    assert variance_sentence(variance_components(shapes)) is None

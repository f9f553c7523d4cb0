"""The variance of a pass rate, split into what cases and what repeats contribute."""

from __future__ import annotations

from collections.abc import Mapping
from math import fsum
from typing import NamedTuple


class VarianceComponents(NamedTuple):
    """The variance of trials that pass (1) or fail (0), between cases and within them."""

    between: float
    """The variance of the cases' own pass rates; 0 where cases differ no more than their repeats do."""
    within: float
    """The variance of one trial about the pass rate of its case, as a mean over cases."""
    cases: int
    """The number of cases with a trial."""
    repeats: float
    """The number of trials of a case: the harmonic mean, as a case counts by the mean of its trials."""

    @property
    def variance(self) -> float:
        """The variance of one case's share of passed trials, with `repeats` trials."""
        return self.between + self.within / self.repeats

    @property
    def between_share(self) -> float | None:
        """The share of `variance` that is between cases, which repeats do not reduce; None if it is 0."""
        return self.between / self.variance if self.variance else None


def variance_components(shapes: Mapping[tuple[int, int], int]) -> VarianceComponents | None:
    """Estimates the variance between cases and within them, by analysis of variance (one-way, random cases).

    Args:
        shapes: the number of cases by their passed trials and all their measured trials. Cases without
            a measured trial are left out.

    Returns:
        None below two cases, or if no case has two trials.

    Source: S. R. Searle, G. Casella and C. E. McCulloch, "Variance Components" (1992), section 3.6, whose
    estimator for unequal numbers this is; that it suits answers of yes and no: M. S. Ridout, C. G. B.
    Demétrio and D. Firth, "Estimating intraclass correlation for binary data", Biometrics 55 (1999), 137-148.

    Raises:
        ValueError: a number is negative, or more trials passed than there are.
    """
    for (passed, trials), count in shapes.items():
        if not 0 <= passed <= trials or count < 0:
            raise ValueError(f"{count} cases with {passed} of {trials} trials passed cannot be.")
    groups = [(*shape, count) for shape, count in sorted(shapes.items()) if shape[1] and count]
    cases = sum(count for _, _, count in groups)
    total = sum(trials * count for _, trials, count in groups)
    if cases < 2 or total == cases:
        return None
    mean = sum(passed * count for passed, _, count in groups) / total
    within = fsum(count * passed * (trials - passed) / trials for passed, trials, count in groups)
    between = fsum(count * trials * (passed / trials - mean) ** 2 for passed, trials, count in groups)
    within_square, between_square = within / (total - cases), between / (cases - 1)
    size = (total - sum(count * trials * trials for _, trials, count in groups) / total) / (cases - 1)
    return VarianceComponents(
        between=max(0.0, (between_square - within_square) / size),
        within=within_square,
        cases=cases,
        repeats=cases / fsum(count / trials for _, trials, count in groups),
    )

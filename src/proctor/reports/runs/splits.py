"""Compares the pass rates of dev and holdout, in sentences. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping

from msgspec import Struct

from proctor.reports.formatting import percentage_points
from proctor.stats import newcombe
from proctor.verdicts import Counts

_LARGE_DROP = 0.2
"""A holdout that can only show drops from dev of at least this much is called too small."""
_MIN_CASES = 2
"""Minimum effective number of cases in each part for a warning; the interval of one case is too narrow."""


class _SplitRate(Struct, frozen=True):
    """One split: its cases with PASS or FAIL; others cannot show overfitting."""

    passed: float
    """The effective number of cases that passed, fractional with repeats and clusters."""
    total: float
    """The effective number of cases, on which the interval of the split's pass rate rests too."""
    cases: int

    @property
    def rate(self) -> float:
        return self.passed / self.total


def split_sizes_line(dev: int | None, holdout: int | None) -> str | None:
    """Returns a line with the sizes of dev and holdout; None for a suite that is not split."""
    if dev is None or holdout is None:
        return None
    return f"Running custom suite: {dev} dev + {holdout} holdout tests"


def split_notes(splits: Mapping[str, Counts]) -> list[str]:
    """Returns a warning, a note on how little the holdout can show, or nothing.

    The warning is for a holdout below dev by more than chance: where the 95 % interval of the difference,
    over effectively at least two cases of each, ends below 0. The note is for a holdout of which only a drop
    of 20 points or more, or none at all, would get that warning.

    Args:
        splits: the counts of `dev` and `holdout`; if either is missing, there is no note.
    """
    dev, holdout = _split_rate(splits.get("dev")), _split_rate(splits.get("holdout"))
    note = None if dev is None or holdout is None else _warning(dev, holdout) or _too_small_note(dev, holdout)
    return [] if note is None else [note]


def _warning(dev: _SplitRate, holdout: _SplitRate) -> str | None:
    interval = _drop_interval(dev, holdout)
    if interval is None:
        return None
    low, high = map(percentage_points, interval)
    return (
        "Warning: the holdout is further below dev than chance explains (95 % interval of the difference "
        f"{low} to {high}): the prompt may be overfitted to the dev cases. Trust the holdout, and write "
        "new cases."
    )


def _drop_interval(dev: _SplitRate, holdout: _SplitRate) -> tuple[float, float] | None:
    """Returns the interval of the difference of the two rates; None if it can be chance."""
    interval = newcombe(holdout.passed, holdout.total, dev.passed, dev.total)
    if interval is None or interval[1] >= 0 or min(dev.total, holdout.total) < _MIN_CASES - 1e-9:
        return None
    return interval


def _too_small_note(dev: _SplitRate, holdout: _SplitRate) -> str | None:
    drop = smallest_drop(dev.passed, dev.total, holdout.cases, holdout.total)
    if not dev.passed or (drop is not None and drop < _LARGE_DROP - 1e-9):
        return None
    beginning = "Note: too few holdout cases were measured to show a drop from dev"
    if drop is None:
        return f"{beginning}: even if none of them passed, that could be chance. Write more cases."
    if drop > dev.rate - 1e-9:
        return f"{beginning}, unless none of them passes. Write more cases."
    return f"{beginning} of less than {drop * 100:.1f}pp: it could be chance. Write more cases."


def smallest_drop(
    dev_passed: float, dev_cases: float, holdout_cases: int, effective_holdout: float | None = None
) -> float | None:
    """Returns the smallest drop from dev to holdout that is more than chance, as a fraction of 1.

    Args:
        dev_passed: the effective number of dev cases that passed.
        dev_cases: the effective number of dev cases, above 0.
        holdout_cases: the number of held-out cases, at least 1.
        effective_holdout: their effective number; None if they are independent and of one trial each.

    Returns:
        The difference of the two rates; None if even a holdout without a passed case could be chance.
    """
    dev = _SplitRate(dev_passed, dev_cases, holdout_cases)
    total = holdout_cases if effective_holdout is None else effective_holdout

    def could_be_chance(passed: int) -> bool:
        effective_passed = min(passed * (total / holdout_cases), total)
        return _drop_interval(dev, _SplitRate(effective_passed, total, holdout_cases)) is None

    # The interval rises with the number of passed cases: the first that could be chance is the limit.
    chance_count = bisect_left(range(holdout_cases + 1), True, key=could_be_chance)
    return None if chance_count == 0 else dev_passed / dev_cases - (chance_count - 1) / holdout_cases


def _split_rate(counts: Counts | None) -> _SplitRate | None:
    effective = None if counts is None else counts.effective_cases
    return None if counts is None or effective is None else _SplitRate(*effective, counts.cases)

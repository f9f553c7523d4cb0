"""Trajectories as pictures: how good so far, and which knobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import pairwise
from math import isfinite
from typing import TYPE_CHECKING

from proctor.charts import Bar, Chart, Point, bars, lines

if TYPE_CHECKING:
    from proctor.eval.trajectory.trajectory import Trajectory


_FEW = 60
"""Iterations that are drawn each by itself."""
_MOST_DOTS = 2000


def best_chart(named: Mapping[str, Trajectory]) -> Chart:
    """The best score so far as steps, a line for each trajectory; of a single one also each score as a dot.

    A single trajectory's baseline is a line of its own.

    Args:
        named: the trajectories by the names that the lines get; they share the first one's score field.
    """
    points: list[Point] = []
    for name, one in named.items():
        points += [Point(x, best, series=name) for x, best in _steps(one)]
    (first, *others) = named.values()
    dots: list[Point] = []
    if not others:
        places = _across(first)
        scores = zip(places, first.iters, strict=True)
        dots = [Point(x, one.score) for x, one in scores if isfinite(one.score)]
        points += _baseline(first, places)
    apart = 1 + len(dots) // _MOST_DOTS
    direction = "lower" if first.lower_is_better else "higher"
    what = f"{first.score_field} ({direction} is better)"
    dotted = "each iteration" if apart == 1 else f"one of {apart} iterations"
    title = f"Best {first.score_field} so far" + ("" if others else f", and {dotted} as a dot")
    return lines(points, title=title, x="iteration", y=what, steps=True, dots=dots[::apart])


def knob_chart(trajectory: Trajectory, top_n: int) -> Chart:
    """Bars of how often each knob was tried and kept, the most frequent first."""
    counts = trajectory.knob_coverage()
    kept = Counter(one.knob for one in trajectory.keeps())
    shown = list(counts)[:top_n]
    values = [
        bar
        for knob in shown
        for bar in (
            Bar(knob, counts[knob], series="tried"),
            Bar(knob, kept[knob], series="kept"),
        )
    ]
    left = len(counts) - len(shown)
    title = "How often each knob was tried" + (
        f" (the {len(shown)} most frequent of {len(counts)})" if left else ""
    )
    return bars(values, title=title, unit="iterations")


def _across(trajectory: Trajectory) -> list[int]:
    """The iterations' numbers where they rise, else their places."""
    numbers = [one.iter for one in trajectory.iters]
    rising = all(before < after for before, after in pairwise(numbers))
    return numbers if rising else list(range(1, len(numbers) + 1))


def _steps(trajectory: Trajectory) -> list[tuple[int, float]]:
    """Where it is how good; of a long trajectory only where that changes, and its two ends."""
    bests = zip(_across(trajectory), trajectory.cumulative_best(), strict=True)
    known = [(x, best) for x, best in bests if isfinite(best)]
    if len(known) <= _FEW:
        return known
    inner = (after for before, after in pairwise(known[:-1]) if before[1] != after[1])
    return [known[0], *inner, known[-1]]


def _baseline(trajectory: Trajectory, places: list[int]) -> list[Point]:
    score = trajectory.baseline
    if score is None or not isfinite(score) or not places:
        return []
    return [Point(place, score, series="baseline") for place in dict.fromkeys((places[0], places[-1]))]

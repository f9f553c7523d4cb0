"""Where the points, ticks and labels of the scatter of runs are."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.model import TargetSpec
from proctor.web.runs.scatter import PricedRun, Scatter, _label_box, _overlap, draw_scatter
from support.builders import make_run


def priced(usd: float, rate: float = 0.5, target: str = "gpt-x") -> PricedRun:
    low, high = max(0.0, rate - 0.1), min(1.0, rate + 0.1)
    run = make_run(target=TargetSpec(name=target, kind="echo"))
    return PricedRun(run=run, usd=usd, rate=rate, ci95=(low, high))


def draw(*runs: PricedRun) -> Scatter:
    scatter = draw_scatter(runs)
    assert scatter is not None
    return scatter


@pytest.mark.parametrize("runs", [[], [priced(0.1)], [priced(0.0), priced(0.0)]])
def test_a_single_run_and_free_runs_have_no_scatter(runs: list[PricedRun]) -> None:
    assert draw_scatter(runs) is None


def test_costs_go_from_left_to_right_and_rates_from_bottom_to_top() -> None:
    cheap, expensive = draw(priced(0.1, 0.25), priced(0.4, 0.75)).points
    assert cheap.x < expensive.x
    assert (cheap.y, expensive.y) == (75, 25)
    assert (expensive.top, expensive.bottom) == (15, 35)


@pytest.mark.parametrize(
    ("costs", "texts"),
    [
        ((0.1, 0.4), ["$0", "$0.1", "$0.2", "$0.3", "$0.4"]),
        ((0.0, 0.031), ["$0", "$0.01", "$0.02", "$0.03"]),
        ((12.0, 90.0), ["$0", "$20", "$40", "$60", "$80"]),
        ((0.004, 0.9), ["$0.01", "$0.03", "$0.1", "$0.3"]),
        ((0.0001, 40.0), ["$0.0001", "$0.001", "$0.01", "$0.1", "$1", "$10"]),
    ],
)
def test_ticks_are_round_amounts(costs: tuple[float, float], texts: list[str]) -> None:
    scatter = draw(*map(priced, costs))
    tick_texts = [tick.text for tick in scatter.x_ticks]
    assert tick_texts[-1] in texts
    assert set(tick_texts[1:]) <= set(texts)
    assert len(tick_texts) <= 5


@given(st.lists(st.tuples(st.floats(0, 1e4), st.floats(0, 1)), min_size=2, max_size=30))
def test_everything_is_on_the_drawing_and_labels_hide_nothing(runs: list[tuple[float, float]]) -> None:
    scatter = draw_scatter([priced(usd, rate, f"target-{n}") for n, (usd, rate) in enumerate(runs)])
    if scatter is None:
        return
    for point in scatter.points:
        assert 0 <= point.x <= 100
        assert 0 <= point.top <= point.y <= point.bottom <= 100
    places = [tick.place for tick in scatter.x_ticks]
    assert places == sorted(places)
    assert all(after - before >= 8 for before, after in pairwise(places))
    boxes = [
        _label_box(point, point.label, point.side, point.drop) for point in scatter.points if point.label
    ]
    assert not any(_overlap(box, other) for n, box in enumerate(boxes) for other in boxes[:n])

"""How often gates and runs that stop early decide wrongly: docs/guides/gates-and-early-stopping.md."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from proctor.run_gate import GateDecision

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "guides/gates-and-early-stopping.md"


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import gate_figures  # type: ignore[import-not-found,unused-ignore]

    yield gate_figures
    del sys.modules["gate_figures"]


def test_the_page_has_the_exact_figures_of_now(tool: Any) -> None:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    for line in tool.gates((20, 50, 200)):
        assert line in lines, f"run: python tools/gate_figures.py, and put its tables into {PAGE.name}"


@pytest.mark.parametrize("cases", [20, 50, 200])
def test_an_interval_gate_decides_wrongly_at_most_one_time_in_forty(tool: Any, cases: int) -> None:
    decisions = tool.decisions(cases, "interval")
    for place in range(1, 80):
        assert tool.chance(GateDecision.SHOWN, decisions, place / 100) <= 0.025
    for place in range(80, 100):
        assert tool.chance(GateDecision.RULED_OUT, decisions, place / 100) <= 0.025
    assert tool.chance(GateDecision.SHOWN, tool.decisions(cases, "point"), 0.79) > 0.3


def test_a_run_that_stops_when_its_gate_is_decided_is_seldom_wrong(tool: Any) -> None:
    tool.MAX_CASES = 400
    rng = Random(7)
    for rate, wrong in ((0.79, GateDecision.SHOWN), (0.8, GateDecision.RULED_OUT)):
        runs = [tool.stopped_run(tool.sequence, rng, rate)[0] for _ in range(200)]
        assert runs.count(wrong) <= 10
    runs = [tool.stopped_run(tool.sequence, rng, 0.95) for _ in range(100)]
    assert all(decision is GateDecision.SHOWN for decision, _ in runs)
    assert sum(count for _, count in runs) / 100 < 80


def test_the_interval_of_a_run_that_stops_at_its_gate_has_the_true_rate(tool: Any) -> None:
    tool.MAX_CASES = 400
    rng = Random(7)
    for rate in (0.7, 0.8, 0.9):
        ends = [tool.shown_interval(rng, rate)[1] for _ in range(200)]
        assert sum(low <= rate <= high for low, high in ends) >= 190

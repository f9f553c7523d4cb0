"""How often intervals contain the truth: docs/explanation/statistics-figures.md, and what it rests on."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from proctor.stats import clopper_pearson, wilson

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "explanation/statistics-figures.md"


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import coverage_figures  # type: ignore[import-not-found,unused-ignore]

    yield coverage_figures
    del sys.modules["coverage_figures"]


def test_the_page_has_the_exact_figures_of_now(tool: Any) -> None:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    for line in (*tool.shares((5, 10, 20, 40)), *tool.pairs((10,))):
        assert line in lines, f"run: python tools/coverage_figures.py, and put its tables into {PAGE.name}"


@pytest.mark.slow
def test_the_page_has_the_simulated_figures_of_now_to_what_few_samples_tell(tool: Any) -> None:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    for line in list(tool.related(200))[2:]:
        label = line.split(" | ")[0]
        page_line = next(candidate for candidate in lines if candidate.startswith(label))
        for few, many in zip(line.split(" | ")[1:], page_line.split(" | ")[1:], strict=True):
            assert float(few.strip(" |%")) == pytest.approx(float(many.strip(" |%")), abs=9)


@pytest.mark.parametrize("total", [1, 7, 20, 60])
def test_the_exact_interval_never_covers_less_than_it_promises(tool: Any, total: int) -> None:
    assert min(tool.coverage_of_share(clopper_pearson, total, share) for share in tool.GRID) >= 0.95


@pytest.mark.parametrize("total", [5, 12, 30])
def test_wilsons_interval_covers_what_it_promises_on_average(tool: Any, total: int) -> None:
    coverages = [tool.coverage_of_share(wilson, total, share) for share in tool.GRID]
    assert sum(coverages) / len(coverages) == pytest.approx(0.953, abs=0.004)
    assert min(coverages) > 0.82


def test_coverage_is_the_probability_of_what_covers(tool: Any) -> None:
    # Of two cases, Wilson's interval of none reaches to 65.8 %, that of one from 9.5 to 90.5 %.
    assert tool.coverage_of_share(wilson, 2, 0.5) == pytest.approx(1)
    assert tool.coverage_of_share(wilson, 2, 0.7) == pytest.approx(1 - 0.3**2)
    assert tool.coverage_of_share(wilson, 2, 0.93) == pytest.approx(0.93**2)


def test_the_picture_draws_the_figures_of_the_table(tool: Any) -> None:
    points = tool.chart().spec["data"]["values"]
    least = min(point["y"] for point in points if point["series"] == "Wilson's interval")
    assert f"| 20 | 85.1 % | 9.5 % | 95.3 % | {100 * least:.1f} % |" in PAGE.read_text(encoding="utf-8")
    assert "How often the interval of 20 cases contains" in (
        ROOT / "docs" / "images/statistics.svg"
    ).read_text(encoding="utf-8")

"""Figures of docs/explanation/judge-figures.md and docs/reference/toolbox/passk.md, with few samples."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "explanation/judge-figures.md"

pytestmark = pytest.mark.slow


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import judge_figures  # type: ignore[import-not-found,unused-ignore]

    yield judge_figures
    del sys.modules["judge_figures"]


def numbers(line: str) -> list[float]:
    cells = [cell.strip(" %") for cell in line.strip("|").split("|")]
    return [float(cell) for cell in cells if cell.replace(".", "").isdecimal()]


@pytest.mark.parametrize(
    ("table", "samples"), [("kappa", 40), ("flags", 150), ("people", 12), ("related", 6), ("corrected", 10)]
)
def test_the_page_has_the_figures_of_now_to_what_few_samples_tell(
    tool: Any, table: str, samples: int
) -> None:
    header, _, *rows = tool.TABLES[table](samples)
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    start = lines.index(header) + 2
    for row, published in zip(rows, lines[start : start + len(rows)], strict=True):
        for name, few, many in zip(*map(_cells, (header, row, published)), strict=True):
            if "least" not in name and "width" not in name and many.replace(".", "").isdecimal():
                assert float(few) == pytest.approx(float(many), abs=15)


def _cells(line: str) -> list[str]:
    return [cell.strip(" %") for cell in line.strip("|").split("|")]


def test_kappa_is_inside_as_often_as_promised_and_not_much_more(tool: Any) -> None:
    for row in list(tool.kappas(20))[2:]:
        _, _, _, mean, least, _ = numbers(row)
        assert 93.5 <= mean <= 96.5
        assert least >= 88


def test_intervals_of_passk_hold_for_few_tasks(tool: Any) -> None:
    for row in list(tool.passk(30, population=5_000))[2:]:
        *_, mean, _ = numbers(row)
        assert mean >= 90

"""Charts: what they show, and that they can be drawn."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

from proctor.charts import COLOURS, DARK_COLOURS, Bar, Chart, Point, bars, forest, lines
from proctor.errors import UsageError

WORDS: Any = {"title": "t", "x": "x", "y": "y"}
THREE = [Bar("short", 0.9, 0.8, 0.95), Bar("long & <odd>", 0.4, 0.2, 0.6), Bar("none", 0.0)]


def find_texts(chart: Chart) -> set[str]:
    """Returns the texts of the drawing."""
    return {text.strip() for text in re.findall(r">([^<>]+)</text>", chart.svg())}


@pytest.mark.slow
def test_bars_are_drawn_with_their_labels_and_in_their_order() -> None:
    chart = bars(THREE, title="Accuracy by length", unit="accuracy", scale="share")
    assert {"Accuracy by length", "accuracy", "short", "long &amp; &lt;odd&gt;", "100%"} <= find_texts(chart)
    assert chart.spec["encoding"]["y"]["sort"] == ["short", "long & <odd>", "none"]


def test_an_interval_is_a_line_over_its_bar() -> None:
    with_interval = bars(THREE, title="t", unit="u")
    without = bars([Bar("a", 1.0), Bar("b", 2.0)], title="t", unit="u")
    assert [layer["mark"]["type"] for layer in with_interval.spec["layer"]] == ["bar", "rule"]
    assert [layer["mark"]["type"] for layer in without.spec["layer"]] == ["bar"]


@pytest.mark.slow
@pytest.mark.parametrize("draw", [bars, forest])
@pytest.mark.parametrize("label", ["all", "people agree among themselves (2 of 3)", "W" * 200])
def test_labels_have_room_in_a_font_that_is_wider_than_the_one_measured(draw: Any, label: str) -> None:
    svg = draw([Bar(label, 0.5)], title="t", unit="u").svg()
    offset = int(re.findall(r"translate\((\d+),", svg)[0])
    (text,) = re.findall(r'text-anchor="end" transform="translate\(-6,[^>]*>([^<]+)</text>', svg)
    assert offset >= 6 + 6.8 * len(text)  # DejaVu Sans, a common replacement of Helvetica, at 12 pixels


@pytest.mark.slow
def test_series_have_a_legend_and_one_series_has_none() -> None:
    two = [Bar("a", 1.0, series="base"), Bar("a", 2.0, series="tuned")]
    assert {"base", "tuned"} <= find_texts(bars(two, title="t", unit="u"))
    assert "base" not in find_texts(bars(two[:1], title="t", unit="u"))


def test_lines_have_bands_steps_and_dots() -> None:
    points = [Point(1, 0.2, 0.1, 0.3), Point(2, 0.4, 0.3, 0.6)]
    spec: Any = lines(
        points, title="t", x="k", y="pass@k", scale="share", steps=True, dots=[Point(1, 0.9)]
    ).spec
    assert [layer["mark"]["type"] for layer in spec["layer"]] == ["point", "area", "line"]
    assert spec["layer"][2]["mark"]["interpolate"] == "step-after"
    assert [row["y"] for row in spec["data"]["values"]] == [0.2, 0.4]


@pytest.mark.slow
def test_a_chart_is_saved_as_the_same_svg_every_time(tmp_path: Path) -> None:
    chart = lines([Point(1, 1.0), Point(2, 3.0)], title="Größe", x="step", y="score")
    path = chart.save(tmp_path / "chart.svg")
    bars(THREE, title="another one between", unit="u").svg()
    assert path.read_text(encoding="utf-8") == chart.svg() + "\n"
    assert path.read_text(encoding="utf-8").startswith("<svg")
    assert "Größe" in find_texts(chart)


def test_unencodable_labels_are_escaped_and_missing_values_left_out() -> None:
    chart = bars([Bar("half \ud800", float("nan")), Bar("whole", 1.0)], title="t", unit="u")
    assert r"half \ud800" in find_texts(chart)
    assert (
        chart.spec["data"]["values"][0]["label"] == r"half \ud800"
    )  # a notebook could not be sent it either
    assert [row.get("value") for row in chart.spec["data"]["values"]] == [None, 1.0]


def test_control_characters_in_labels_are_escaped() -> None:
    chart = bars([Bar("bell \a", 1.0)], title="red \x1b[31m\ufffe", unit="u\b")
    assert {r"bell \x07", r"red \x1b[31m\ufffe", r"u\x08"} <= set(find_texts(chart))


@pytest.mark.slow
def test_a_notebook_is_given_the_specification_and_the_drawing(monkeypatch: pytest.MonkeyPatch) -> None:
    chart = bars(THREE, title="t", unit="u")
    data = {"application/vnd.vegalite.v5+json": chart.spec}
    assert chart._repr_mimebundle_() == {**data, "image/svg+xml": chart.svg()}
    monkeypatch.setitem(sys.modules, "vl_convert", None)  # the extra is not installed
    assert chart._repr_mimebundle_() == data
    assert repr(chart) == f"<Chart {chart.spec['title']!r}>"


def test_without_the_package_that_draws_an_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    with pytest.raises(UsageError, match=r"pip install 'proctor\[charts\]'"):
        bars(THREE, title="t", unit="u").svg()


def measure_width(chart: Chart) -> float:
    match = re.search(r'width="([\d.]+)"', chart.svg())
    assert match
    return float(match[1])


@pytest.mark.slow
def test_twelve_series_have_twelve_colours_and_a_legend_no_wider_than_the_chart() -> None:
    names = [f"checkpoint-{place:05}.jsonl" for place in range(12)]
    for chart in (
        lines([Point(x, x + at, series=name) for at, name in enumerate(names) for x in (1, 2)], **WORDS),
        bars([Bar("p50", 1.0, series=name) for name in names], title="t", unit="u"),
    ):
        svg = chart.svg()
        assert set(names) <= find_texts(chart)
        assert {colour for colour in COLOURS if colour in svg} == set(COLOURS)
        assert len(set(COLOURS)) == 12
        assert measure_width(chart) < 650


def test_the_axis_of_counts_has_no_halves() -> None:
    assert find_texts(bars([Bar("a", 1), Bar("b", 2)], title="t", unit="u")) == {"0", "1", "2", *"abtu"}
    texts = find_texts(lines([Point(1, 0.1), Point(3, 0.2)], title="t", x="k", y="share", scale="share"))
    assert {"1", "2", "3"} <= texts
    assert "1.5" not in texts


@pytest.mark.slow
@pytest.mark.parametrize(
    ("labels", "is_cut"),
    [
        (["a-model-with-a-very-long-name-" * 4 + end for end in ("first", "last")], True),
        ([f"{'a' * 60}{middle}{'b' * 60}" for middle in "12"], False),
    ],
)
def test_long_labels_lose_their_middle_unless_that_is_where_they_differ(
    labels: list[str], is_cut: bool
) -> None:
    for chart in (
        bars([Bar(label, 1.0) for label in labels], title="t", unit="u"),
        lines([Point(1, 2.0, series=label) for label in labels], **WORDS),
    ):
        texts = [word for word in find_texts(chart) if word.startswith("a")]
        assert len(texts) == 2
        assert all(("…" in word) == is_cut for word in texts)


def test_the_second_line_of_a_series_is_dashed_in_its_colour() -> None:
    points = [
        Point(x, x, series=name, dashed=dashed) for name in "ab" for dashed in (False, True) for x in (1, 2)
    ]
    svg = lines(points, **WORDS).svg()
    strokes = set(re.findall(r'stroke="(#\w+)" stroke-width="2" stroke-dasharray="([\d,]+)"', svg))
    assert strokes >= {(colour, dash) for colour in COLOURS[:2] for dash in ("1,0", "5,4")}
    assert {colour for colour, _ in strokes} == set(COLOURS[:2])


@pytest.mark.slow
def test_on_a_dark_page_the_same_is_drawn_in_lighter_colours_without_a_ground() -> None:
    values = [Bar("white", 0.9, 0.8, 0.95, series="#222"), Bar(COLOURS[0], 0.4, 0.2, 0.6, series="b")]
    chart = bars(values, title="#222", unit="u", scale="share")
    before = str(chart.spec)
    light, dark = chart.svg(), chart.svg(dark=True)
    assert str(chart.spec) == before
    assert COLOURS[0] in re.findall('fill="([^"]*)"', light)
    colours = set(re.findall('(?:fill|stroke)="([^"]*)"', dark))
    assert DARK_COLOURS[0] in colours
    assert not colours & {"white", "#222", "black", "#000", *COLOURS}
    texts = [re.findall(r">([^<>]+)</text>", drawing) for drawing in (light, dark)]
    assert texts[0] == texts[1]

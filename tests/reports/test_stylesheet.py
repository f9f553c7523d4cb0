"""The stylesheet: colours can be read and told apart in both themes, and nothing in it needs the network."""

from __future__ import annotations

import re
from itertools import combinations
from math import dist

import pytest

from proctor.reports.html_templates import make_environment

VERDICTS = ("pass", "fail", "error", "unscored")
TEXT = ("ink", "quiet", "accent", *VERDICTS)
GROUNDS = ("paper", "sunk")
RED_GREEN_BLIND = (
    ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
)
"""What people without red cones, and without green ones, see of linear red, green and blue."""


def load_stylesheet() -> str:
    return make_environment().get_template("proctor.css").render()


def colours(theme: str) -> dict[str, str]:
    """The custom properties that hold a colour; the dark theme's over the light one's."""
    css = load_stylesheet()
    light, dark = (block[1] for block in list(re.finditer(r":root \{(.*?)\}", css, re.DOTALL))[:2])
    properties = light if theme == "light" else light + dark
    return dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6});", properties))


def linear(colour: str) -> tuple[float, float, float]:
    red, green, blue = (int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5))
    lit = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in (red, green, blue)
    ]
    return lit[0], lit[1], lit[2]


def luminance(colour: str) -> float:
    red, green, blue = linear(colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(first: str, second: str) -> float:
    """WCAG 2.2's contrast ratio, from 1 to 21."""
    darker, lighter = sorted((luminance(first), luminance(second)))
    return (lighter + 0.05) / (darker + 0.05)


def to_oklab(colour: tuple[float, float, float]) -> tuple[float, float, float]:
    """Converts a linear colour to OKLab, in which distances are about as people see them."""
    red, green, blue = (min(1.0, max(0.0, part)) for part in colour)
    long = (0.4122214708 * red + 0.5363325363 * green + 0.0514459929 * blue) ** (1 / 3)
    middle = (0.2119034982 * red + 0.6806995451 * green + 0.1073969566 * blue) ** (1 / 3)
    short = (0.0883024619 * red + 0.2817188376 * green + 0.6299787005 * blue) ** (1 / 3)
    return (
        0.2104542553 * long + 0.7936177850 * middle - 0.0040720468 * short,
        1.9779984951 * long - 2.4285922050 * middle + 0.4505937099 * short,
        0.0259040371 * long + 0.7827717662 * middle - 0.8086757660 * short,
    )


def distance(first: tuple[float, float, float], second: tuple[float, float, float]) -> float:
    return dist(to_oklab(first), to_oklab(second))


both_themes = pytest.mark.parametrize("theme", ["light", "dark"])


def test_the_ratio_is_that_of_the_standard() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@both_themes
@pytest.mark.parametrize("ground", GROUNDS)
def test_text_has_a_contrast_of_at_least_four_and_a_half(theme: str, ground: str) -> None:
    palette = colours(theme)
    low = {name: contrast(palette[name], palette[ground]) for name in TEXT}
    assert min(low.values()) >= 4.5, low
    assert contrast(palette["on-accent"], palette["accent"]) >= 4.5
    assert contrast(palette["ink"], palette["mark"]) >= 4.5


@both_themes
def test_edges_and_outlines_have_a_contrast_of_at_least_three(theme: str) -> None:
    palette = colours(theme)
    for ground in GROUNDS:
        assert contrast(palette["edge"], palette[ground]) >= 3  # borders of fields and buttons, axes
        assert contrast(palette["accent"], palette[ground]) >= 3  # the outline of what has the focus


@both_themes
def test_verdicts_differ_in_lightness_and_for_those_who_see_no_red_or_green(theme: str) -> None:
    palette = {name: linear(colour) for name, colour in colours(theme).items() if name in VERDICTS}
    for first, second in combinations(VERDICTS, 2):
        assert abs(to_oklab(palette[first])[0] - to_oklab(palette[second])[0]) >= 0.03, (first, second)
        assert distance(palette[first], palette[second]) >= 0.08, (first, second)
        for matrix in RED_GREEN_BLIND:
            first_seen, second_seen = (
                tuple(
                    sum(factor * part for factor, part in zip(row, palette[name], strict=True))
                    for row in matrix
                )
                for name in (first, second)
            )
            assert distance(first_seen, second_seen) >= 0.06, (first, second)  # type: ignore[arg-type]


def test_every_verdict_has_a_shape_of_its_own_and_its_word() -> None:
    parts = make_environment().from_string('{% import "parts.html" as parts %}{{ parts.verdict(name) }}')
    markup = {name: parts.render(name=name) for name in VERDICTS}
    assert all(f"<span>{name}</span>" in text for name, text in markup.items())
    shapes = {
        re.sub(r'<svg class="[^"]*"', "", text.split("<span>")[0].split(">", 1)[1])
        for text in markup.values()
    }
    assert len(shapes) == len(VERDICTS)


def test_the_stylesheet_loads_nothing_and_supports_print_reduced_motion_and_dark_pages() -> None:
    css = load_stylesheet()
    assert "url(" not in css
    assert "@import" not in css
    for feature in ("@media print", "prefers-reduced-motion", "prefers-color-scheme: dark", ":focus-visible"):
        assert feature in css
    assert make_environment().get_template("proctor.css").render() == css


@pytest.mark.parametrize("template", ["parts.html", "sheet.html", "report.html"])
def test_no_template_has_an_inline_style_a_script_or_a_way_around_escaping(template: str) -> None:
    loader = make_environment().loader
    assert loader is not None
    source = loader.get_source(make_environment(), template)[0]
    assert not re.search(r"\sstyle=|<script|\son[a-z]+=|\|\s*safe|autoescape", source)
    assert "safe" not in make_environment().filters

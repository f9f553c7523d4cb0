"""Badges are well-formed with any text, as wide as it, readable, and without active content."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.reports.certificates.badge import (
    Badge,
    badge_image,
    fill_for_rate,
    render_badge,
    text_width,
)
from proctor.reports.document import render_markdown

SVG = "{http://www.w3.org/2000/svg}"
LINE = Badge(label="facts holdout", message="77.5 % verified · n=40 · 62–88 %", rate=0.775, link="bundle.zip")

HOSTILE = st.one_of(
    st.text(max_size=400),
    st.sampled_from(
        [
            "</text><script>alert(1)</script>",
            '"><a href="javascript:alert(1)">',
            "&amp;&lt;![CDATA[ ]]>",
            "a\x00b\x0bc\x1b[31m\x7f\u2028d\ufffe\uffff",
            "\u202eevil\u2066\u200f שלום \u061c مرحبا",
            "n" * 300,
            "漢" * 300,
            "🦉" * 300,
            "",
        ]
    ),
)


def read_texts(svg: str) -> list[str]:
    root = ElementTree.fromstring(svg)
    return [element.text or "" for element in root.iter(f"{SVG}text")]


@pytest.mark.slow
@given(HOSTILE, HOSTILE, HOSTILE, st.none() | HOSTILE)
def test_with_any_text_a_badge_is_xml_with_six_kinds_of_elements(
    label: str, message: str, title: str, link: str | None
) -> None:
    svg = render_badge(Badge(label=label, message=message, title=title, link=link))
    root = ElementTree.fromstring(svg.encode("utf-8"))
    kinds = {element.tag.removeprefix(SVG) for element in root.iter()}
    assert kinds - {"a"} == {"svg", "title", "g", "rect", "path", "text"}
    allowed = {"width", "height", "viewBox", "role", "aria-label", "href", "rx", "x", "y", "d", "fill"}
    allowed |= {"font-family", "font-size", "textLength", "lengthAdjust"}
    assert {name for element in root.iter() for name in element.attrib} <= allowed
    assert len(read_texts(svg)) == 2
    assert all(len(text) <= 200 for text in read_texts(svg))


@given(HOSTILE, HOSTILE)
def test_control_characters_and_marks_of_direction_are_removed(label: str, message: str) -> None:
    svg = render_badge(Badge(label=label, message=message, title=label, link=message))
    assert not set(svg) & {chr(code) for code in (*range(9), *range(11, 32), 127, 0x202E, 0x2066, 0x200F)}


@given(st.text(max_size=30), st.text(max_size=30))
def test_a_badge_is_as_wide_as_its_texts(label: str, message: str) -> None:
    root = ElementTree.fromstring(render_badge(Badge(label=label, message=message)))
    inside = sum(text_width(text) for text in read_texts(render_badge(Badge(label=label, message=message))))
    assert 28 + inside <= float(root.attrib["width"]) < 28 + inside + 2
    assert [float(element.attrib["textLength"]) for element in root.iter(f"{SVG}text")] == pytest.approx(
        [text_width(text) for text in read_texts(render_badge(Badge(label=label, message=message)))], abs=1
    )


def test_letters_have_widths_of_their_own() -> None:
    assert text_width("iiii") < text_width("nnnn") < text_width("WWWW") < text_width("漢漢漢漢")
    assert text_width("e\u0301") == text_width("e")


def test_a_long_text_loses_its_end_and_says_so() -> None:
    assert [len(text) for text in read_texts(render_badge(Badge(label="n" * 300, message="m" * 300)))] == [
        40,
        200,
    ]
    assert all(
        text.endswith("…") for text in read_texts(render_badge(Badge(label="n" * 300, message="m" * 300)))
    )


def test_a_badge_has_a_label_for_screen_readers_and_links_to_its_bundle() -> None:
    root = ElementTree.fromstring(render_badge(LINE))
    description = (
        "facts holdout: 77.5 % verified · n=40 · 62–88 %. The colour is that of the pass rate: green from "
        "90 %, olive from 75 %, amber from 50 %, red below."
    )
    assert root.attrib["role"] == "img"
    assert root.attrib["aria-label"] == description
    assert root[0].tag == f"{SVG}title"
    assert root[0].text == description
    (link,) = root.iter(f"{SVG}a")
    assert link.attrib == {"href": "bundle.zip"}
    assert "<a" not in render_badge(Badge(label="a", message="b"))


def luminance(colour: str) -> float:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@given(st.none() | st.floats(0, 1))
def test_white_is_readable_on_every_colour(rate: float | None) -> None:
    svg = render_badge(Badge(label="a", message="b", rate=rate))
    fills = {
        element.attrib["fill"] for element in ElementTree.fromstring(svg).iter() if "fill" in element.attrib
    }
    assert fill_for_rate(rate) in fills
    assert all(1.05 / (luminance(fill) + 0.05) >= 4.5 for fill in fills - {"#ffffff"})


def test_the_colour_is_that_of_the_rate_and_the_title_says_so() -> None:
    assert [fill_for_rate(rate) for rate in (0.1, 0.49)] == [fill_for_rate(0.0)] * 2
    assert fill_for_rate(25 / 30) == fill_for_rate(0.75) != fill_for_rate(27 / 30) == fill_for_rate(0.9)
    assert len({fill_for_rate(rate) for rate in (None, 0.2, 0.6, 0.8, 0.95)}) == 5
    for rate, words in (
        (0.83, "The colour is that of the pass rate"),
        (None, "Grey: nobody vouches for it."),
    ):
        badge = Badge(
            label="a", message="b", rate=rate, grey_reason="Grey: nobody vouches for it.", title="t" * 900
        )
        title = ElementTree.fromstring(render_badge(badge))[0].text or ""
        assert words in title
        assert len(title) < 600


def test_in_markdown_the_picture_links_as_the_badge_does_and_shows_its_text_as_it_is() -> None:
    def render_image(badge: Badge, path: str) -> str:
        return "".join(render_markdown([badge_image(badge, path)])).rstrip("\n")

    assert render_image(LINE, "b.svg") == "[![77.5 % verified · n=40 · 62–88 %](b.svg)](bundle.zip)"
    hostile = Badge(label="a", message="](x) <b> | ![y]", link="my bundle (1).zip")
    assert render_image(hostile, "a b.svg") == (
        "[![\\](x) \\<b\\> \\| !\\[y\\]](a%20b.svg)](my%20bundle%20%281%29.zip)"
    )

"""Draws badges: SVG images of one line of text, as wide as the text. Pure.

The width of a text comes from a table of glyph widths. Texts are escaped, invisible characters removed.
A badge has no script and no font, and loads nothing.
"""

from __future__ import annotations

import unicodedata
from math import ceil
from xml.sax.saxutils import escape, quoteattr

from msgspec import Struct

from proctor.reports.document import Image
from proctor.safe_text import one_line, truncate

_FONT_PX = 11
_GAP = 7
"""Padding on both sides of a text, in pixels."""
_ROUND = 3
_MAX_LABEL_LENGTH, _MAX_MESSAGE_LENGTH, _MAX_TITLE_LENGTH = 40, 200, 400
"""Maximum number of characters; longer texts are cut."""

_LABEL_FILL = "#3a3f45"
_FILLS = ((0.9, "#1a6b3a"), (0.75, "#55650f"), (0.5, "#8a5700"), (0.0, "#a2372b"))
"""The fill of a pass rate: green, olive, amber and red."""
COLOUR_MEANING = (
    "The colour is that of the pass rate: green from 90 %, olive from 75 %, amber from 50 %, red below."
)
"""Explains the colour of a badge."""
_GREY_FILL = "#5d6167"

_WIDTHS = dict(
    zip(
        " !\"#$%&'()*+,-./0123456789:;<=>?@"
        "ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`"
        "abcdefghijklmnopqrstuvwxyz{|}~·–…",
        (
            *(35, 39, 46, 82, 64, 108, 73, 27, 45, 45, 64, 82, 36, 45, 36, 45),
            *(64,) * 10,
            *(45, 45, 82, 82, 82, 55, 100),
            *(68, 69, 70, 77, 63, 57, 78, 75, 42, 45, 69, 56, 84, 75, 79, 60, 79, 70, 68, 62, 73, 68, 99, 69),
            *(62, 69, 45, 45, 45, 82, 64, 64),
            *(60, 62, 52, 62, 60, 35, 62, 63, 27, 34, 59, 27, 97, 63, 61, 62, 62, 43, 52, 39, 63, 59, 82, 59),
            *(59, 53, 64, 45, 64, 82, 36, 64, 82),
        ),
        strict=True,
    )
)
"""Glyph widths of Verdana, in hundredths of the font size; those of DejaVu Sans are nearly the same."""
_OTHER, _WIDE = 70, 105
"""Widths of characters that are not in the table: of alphabets, and of East Asian scripts."""


class Badge(Struct, frozen=True, kw_only=True):
    """The texts, colour and link of a badge."""

    label: str
    """The left side: the subject."""
    message: str
    """The right side: the statement."""
    rate: float | None = None
    """The pass rate, which gives the colour; None for grey."""
    grey_reason: str = ""
    """Why the badge is grey, as a sentence."""
    title: str = ""
    """The tooltip and the text for screen readers; the SVG adds the meaning of its colour."""
    link: str | None = None
    """The link target: an http or https URL, or a path."""


def render_badge(badge: Badge) -> str:
    """Returns the badge as SVG; equal badges give equal text."""
    label = truncate(badge.label, _MAX_LABEL_LENGTH)
    message = truncate(badge.message, _MAX_MESSAGE_LENGTH)
    left_width, right_width = _GAP * 2 + ceil(text_width(label)), _GAP * 2 + ceil(text_width(message))
    width = left_width + right_width
    title = one_line(badge.title or f"{badge.label}: {badge.message}")[:_MAX_TITLE_LENGTH]
    meaning = badge.grey_reason if badge.rate is None else COLOUR_MEANING
    title = f"{title}. {meaning}" if meaning else title
    shapes = "\n".join(
        (
            f'<rect width="{width}" height="20" rx="{_ROUND}" fill="{_LABEL_FILL}"/>',
            f'<path d="{_right_side_path(left_width, right_width)}" fill="{fill_for_rate(badge.rate)}"/>',
            _text_element(label, _GAP),
            _text_element(message, left_width + _GAP),
        )
    )
    if badge.link is not None:
        shapes = f"<a href={quoteattr(one_line(badge.link))}>\n{shapes}\n</a>"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="20" viewBox="0 0 {width} 20" '
        f'role="img" aria-label={quoteattr(title)}>\n<title>{escape(title)}</title>\n'
        f'<g fill="#ffffff" font-family="Verdana, DejaVu Sans, sans-serif" '
        f'font-size="{_FONT_PX}">\n{shapes}\n</g>\n</svg>\n'
    )


def fill_for_rate(rate: float | None) -> str:
    """Returns the background colour for a pass rate; white text on it has a contrast of at least 4.5.

    That is the minimum of WCAG 2.2, https://www.w3.org/TR/WCAG22/#contrast-minimum.
    """
    if rate is None:
        return _GREY_FILL
    return next(fill for bar, fill in _FILLS if rate >= bar)


def badge_image(badge: Badge, path: str) -> Image:
    """Returns the badge for a document, with a link; links inside the SVG do not work there.

    Args:
        badge: the badge.
        path: the path of its SVG, relative to the document.
    """
    return Image(badge.title or badge.message, path, badge.link)


def text_width(text: str) -> float:
    """Returns the width of a text as drawn, in pixels."""
    return sum(_glyph_width(letter) for letter in text) * _FONT_PX / 100


def _glyph_width(letter: str) -> int:
    hundredths = _WIDTHS.get(letter)
    if hundredths is not None:
        return hundredths
    if unicodedata.category(letter) in ("Mn", "Me", "Cf"):
        return 0
    return _WIDE if unicodedata.east_asian_width(letter) in "WF" else _OTHER


def _right_side_path(left_width: int, right_width: int) -> str:
    straight, round_ = right_width - _ROUND, f"{_ROUND} {_ROUND} 0 0 1"
    return (
        f"M{left_width} 0h{straight}a{round_} {_ROUND} {_ROUND}v{20 - 2 * _ROUND}"
        f"a{round_} -{_ROUND} {_ROUND}h-{straight}z"
    )


def _text_element(text: str, x: int) -> str:
    # `textLength` fixes the width: another font may be wider than the one of the table.
    length = f'textLength="{ceil(text_width(text))}" lengthAdjust="spacingAndGlyphs"'
    return f'<text x="{x}" y="14" {length}>{escape(text)}</text>'

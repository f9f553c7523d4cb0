"""The Markdown of an answer as HTML: what it may show, and what no text can make it do."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.web.answer_markdown import MAX_MARKDOWN_LENGTH, markdown_to_html

TAGS = frozenset(
    re.findall(
        "[a-z]+", "a p em strong s code pre ul ol li blockquote br hr div table thead tbody tr th td span"
    )
)
ATTRIBUTES = frozenset({"href", "rel", "title", "class", "tabindex", "role", "aria-label", "start"})
HOSTILE = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<svg/onload=alert(1)>",
    "[a](javascript:alert(1))",
    "[a](JaVaScRiPt:alert(1))",
    "[a](&#106;avascript:alert(1))",
    "[a](data:text/html,<script>alert(1)</script>)",
    "[a](vbscript:x)",
    "[a](file:///etc/passwd)",
    "[a](//evil.example)",
    "[a](/runs/x/reveal)",
    "[a](#reveal)",
    "<javascript:alert(1)>",
    "[a]\n\n[a]: javascript:alert(1)",
    "![x](https://evil.example/pixel.png)",
    '![x" onerror="alert(1)](https://evil.example/"onerror="alert(1))',
    '[a](https://x.example/"onclick="alert(1) "title\\" onclick=alert(1)")',
    '```"><script>alert(1)</script>\n</pre><script>alert(1)</script>\n```',
    "| <b onclick=x> |\n|:-:|\n| ![i](http://evil.example/i) |",
    "# <h1 id=main onclick=x>",
    "<!-- --><!--[if IE]><script>alert(1)</script><![endif]-->",
    "<a href='https://x.example'>",
    "    <script>alert(1)</script>",
)


class Tags(HTMLParser):
    """All tags of a text, with their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def assert_harmless(html: str) -> None:
    """Only tags and attributes that show, and links that lead to the web or to mail."""
    for tag, attributes in Tags(html).tags:
        assert tag in TAGS, html
        assert attributes.keys() <= ATTRIBUTES, html
        if tag == "a":
            assert re.match(r"(https?://|mailto:)", attributes["href"] or "", re.IGNORECASE), html
            assert "noopener" in (attributes["rel"] or "")
            assert "nofollow" in (attributes["rel"] or "")
            assert attributes["title"] == attributes["href"]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_markdown_shows_and_does_nothing(text: str) -> None:
    assert_harmless(markdown_to_html(text))


@given(st.lists(st.sampled_from([*HOSTILE, "\n", "\n\n", " ", "`", "*", "[", "](", ")", "<", ">", "|", "&"])))
def test_no_mixture_of_hostile_pieces_does_anything(pieces: list[str]) -> None:
    assert_harmless(markdown_to_html("".join(pieces)))


def test_markdown_is_rendered() -> None:
    html = markdown_to_html(
        "# Title\n\n**Bold** [site](https://a.example/x?y=1&z=2) ~~old~~\n\n| a |\n|--:|\n| 1 |"
    )
    assert '<p class="heading h1">Title</p>' in html
    assert "<strong>Bold</strong>" in html
    assert 'href="https://a.example/x?y=1&amp;z=2"' in html
    assert "<s>old</s>" in html
    assert '<td class="num">1</td>' in html


def test_a_refused_link_and_raw_html_stay_as_they_were_written() -> None:
    assert "[a](javascript:alert(1))" in markdown_to_html("[a](javascript:alert(1))")
    assert "&lt;b&gt;x&lt;/b&gt;" in markdown_to_html("<b>x</b>")


def test_an_image_is_its_words_and_its_address() -> None:
    html = markdown_to_html("![A **map**](https://evil.example/i.png)")
    assert "A **map** <code>https://evil.example/i.png</code>" in html


def test_characters_that_reorder_a_text_are_shown_as_escapes() -> None:
    for text in ("a \u202e b", "a &#x202e; b", "`\u202e`", "![\u202e](https://a.example)"):
        html = markdown_to_html(text)
        assert "\u202e" not in html
        assert "\\u202e" in html
    assert "\u202e" not in markdown_to_html("[good](https://a.example/\u202egpj.exe)")


def test_of_a_long_answer_the_beginning_is_rendered() -> None:
    html = markdown_to_html("word " * MAX_MARKDOWN_LENGTH)
    assert "more characters" in html
    assert len(html) < 1.1 * MAX_MARKDOWN_LENGTH


@pytest.mark.slow
@pytest.mark.parametrize("piece", ["a**", "[", "![", "[a](", "> ", "`", "_a ", "- ", "<", "|a", "~~a "])
def test_the_worst_text_takes_little_time(piece: str) -> None:
    text = (piece * MAX_MARKDOWN_LENGTH)[:MAX_MARKDOWN_LENGTH]
    seconds: list[float] = []
    while len(seconds) < 3 and (not seconds or min(seconds) >= 2):
        start = process_time()
        markdown_to_html(text)
        seconds.append(process_time() - start)
    assert min(seconds) < 2

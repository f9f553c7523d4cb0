"""Renders the Markdown of an answer as HTML that loads nothing and runs nothing.

The parser makes no tag but those of its own table: HTML in the text stays text. Links lead to http, https and
mailto alone, and an image is its words and its address. Invisible characters are shown as escapes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from markupsafe import Markup, escape

from proctor.reports.formatting import truncate_with_count
from proctor.safe_text import escape_invisible

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.renderer import RendererHTML
    from markdown_it.token import Token
    from markdown_it.utils import OptionsDict

MAX_MARKDOWN_LENGTH: Final = 20_000
"""Characters rendered of an answer; the text that takes longest takes half a second."""
_SAFE_ADDRESS: Final = re.compile(r"(?:https?://|mailto:)", re.IGNORECASE)
_LINK_RULES: Final = "noopener nofollow noreferrer ugc"


def markdown_to_html(text: str, limit: int = MAX_MARKDOWN_LENGTH) -> Markup:
    """Returns the text as HTML for a page with a strict content security policy."""
    html = _parser().render(truncate_with_count(text, limit))
    # After rendering, as `&#x202e;` becomes such a character. Every tag is the parser's or made below.
    return Markup(escape_invisible(html))  # noqa: S704


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False, "xhtmlOut": False}).enable(["table", "strikethrough"])
    parser.validateLink = _is_safe_address  # type: ignore[method-assign, assignment]
    for name, rule in {
        "link_open": _open_link,
        "image": _describe_image,
        "heading_open": _open_heading,
        "heading_close": _close_heading,
        "fence": _show_code,
        "code_block": _show_code,
        "table_open": _open_table,
        "table_close": _close_table,
        "th_open": _open_cell,
        "td_open": _open_cell,
    }.items():
        parser.add_render_rule(name, rule)
    return parser


def _is_safe_address(address: str) -> bool:
    """Tells whether a link may lead there; the text of any other link stays as it was written."""
    return _SAFE_ADDRESS.match(address.strip()) is not None


def _address(token: Token, name: str) -> str:
    return str(token.attrs.get(name, ""))


# The parser gives each rule its renderer, the tokens, the place among them, its options and its environment.


def _open_link(
    _renderer: RendererHTML, tokens: Sequence[Token], index: int, _options: OptionsDict, _env: Any
) -> str:
    address = _address(tokens[index], "href")
    return str(
        Markup('<a href="{0}" rel="{1}" title="{0}">').format(address, _LINK_RULES)
    )  # the title is the address, so that no text hides where it leads


def _describe_image(
    _renderer: RendererHTML, tokens: Sequence[Token], index: int, _options: OptionsDict, _env: Any
) -> str:
    words, address = tokens[index].content, _address(tokens[index], "src")
    return str(
        Markup('<span class="image">image: {} <code>{}</code></span>').format(words or "(no text)", address)
    )


def _open_heading(
    _renderer: RendererHTML, tokens: Sequence[Token], index: int, _options: OptionsDict, _env: Any
) -> str:
    """Headings of answers stay out of the page's outline."""
    return f'<p class="heading {tokens[index].tag}">'


def _close_heading(
    _renderer: RendererHTML, _tokens: Sequence[Token], _index: int, _options: OptionsDict, _env: Any
) -> str:
    return "</p>\n"


def _show_code(
    _renderer: RendererHTML, tokens: Sequence[Token], index: int, _options: OptionsDict, _env: Any
) -> str:
    return f'<pre class="text">\n{escape(tokens[index].content)}</pre>\n'


def _open_table(
    _renderer: RendererHTML, _tokens: Sequence[Token], _index: int, _options: OptionsDict, _env: Any
) -> str:
    return '<div class="scroll" tabindex="0" role="group" aria-label="Table of the answer"><table>\n'


def _close_table(
    _renderer: RendererHTML, _tokens: Sequence[Token], _index: int, _options: OptionsDict, _env: Any
) -> str:
    return "</table></div>\n"


def _open_cell(
    _renderer: RendererHTML, tokens: Sequence[Token], index: int, _options: OptionsDict, _env: Any
) -> str:
    """A column's alignment as a class: the policy of pages allows no style in a tag."""
    token = tokens[index]
    is_right = "right" in _address(token, "style")
    return f'<{token.tag} class="num">' if is_right else f"<{token.tag}>"

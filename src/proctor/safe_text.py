r"""Makes text of models, suites and other people safe to show: one function for each medium. Pure.

| medium | function | what it neutralizes |
|---|---|---|
| terminals, CI logs | `terminal_text` | control sequences, and commands that CI systems read from logs |
| tables, names, first lines | `one_line`, `truncate` | control sequences, CI commands, line breaks |
| HTML, XML, SVG | `escape_invisible`, then the writer's escaping | invisible characters, invalid XML |
| Markdown | `markdown_text`, `…_code`, `…_block`, `…_html` | markup, links, images, mentions |
| CSV | `csv_cell` | formulas of spreadsheets |
| JSON | `json_text` | control sequences; the data stay the same |

Invisible characters are shown as Python escapes, such as `\x1b` or `\u202e`; nothing is dropped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Final

from proctor.lazy_pattern import lazy_pattern

_JOINED_SCRIPTS: Final = (
    "\u0600-\u08ff\u0900-\u0dff\u0e00-\u109f\u1780-\u17b3\u17b6-\u180a\u1810-\u18af"  # Arabic to Mongolian
    "\ufe0f\u2190-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"  # emoji
)
"""Characters between which a joiner has a visible meaning."""
_EMOJI: Final = "\xa9\xae\u203c\u2049\u2122\u2139\u2190-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
_MARKS: Final = "\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f"
_INVISIBLE: Final = (
    # Controls, and Unicode's default ignorable characters: directions, zero width, tags, fillers.
    "\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f"
    "\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
    # Surrogates and noncharacters, which UTF-8 or XML do not allow.
    "\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff"
)
_SUSPICIOUS: Final = lazy_pattern(f"[{_INVISIBLE}\u200c\u200d\ufe0e\ufe0f{_MARKS}]")
"""A search for one character is ten times as fast as the rules below."""
_CI_COMMAND: Final = lazy_pattern(r"^(?P<before>[^\S\n]*):(?=:)|#(?=#(?:vso|teamcity)?\[)", re.MULTILINE)
"""A line `::name::` or `##[name]` of GitHub Actions, `##vso[name]` of Azure, `##teamcity[name]`."""
_ACTIVE_IN_MARKDOWN: Final = lazy_pattern(r"[\\`*{}\[\]<>#|~&$^]|(?<![^\W_])_|_(?![^\W_])")
_BLOCK_IN_MARKDOWN: Final = lazy_pattern(r"^(?:[-+](?=[\s-]|$)|=(?==*$)|\d{1,9}(?=[.)](?:\s|$)))")
_AUTOLINK: Final = lazy_pattern(
    r"(?<=(?<!\w)@)(?=\w)|(?<=@)(?=[\w-]+\.\w)"  # user names and e-mail addresses
    r"|(?i:(?<=#)(?=\d)|(?<=\bGH)(?=-\d))"  # issues
    r"|(?i:(?<=www)(?=\.)|(?<=\b(?:http|xmpp))(?=s?:)|(?<=\bftp)(?=s?:)|(?<=\bmailto)(?=:))"
)
_EMPTY_COMMENT: Final = "<!-- -->"
"""A comment between two characters, where Markdown would otherwise make a link of them."""
_FORMULA: Final = lazy_pattern(r"'*[=+\-@\t\n\uff1d\uff0b\uff0d\uff20]")
_NUMBER: Final = lazy_pattern(r"[+-]?\d+(\.\d+)?")


@cache
def _invisible_pattern() -> re.Pattern[str]:
    """Matches everything that is shown as an escape; compiled on first use, as that takes milliseconds."""
    return re.compile(
        f"[{_INVISIBLE}]"
        # Joiners and variation selectors without a visible effect.
        f"|(?<![{_JOINED_SCRIPTS}])[\u200c\u200d]|[\u200c\u200d](?![{_JOINED_SCRIPTS}])"
        f"|(?<![{_EMOJI}])[\ufe0e\ufe0f](?!\u20e3)"
        # Many marks on one letter, which would cover the lines above and below.
        f"|(?<=[{_MARKS}][{_MARKS}][{_MARKS}][{_MARKS}])[{_MARKS}]"
    )


def escape_invisible(text: str) -> str:
    """Escapes invisible characters; tabs and line feeds stay.

    Emoji and scripts that need joiners keep them.
    """
    return text if _SUSPICIOUS.search(text) is None else _invisible_pattern().sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    return ascii(match[0])[1:-1]


def one_line(text: str) -> str:
    """Returns the text on one line, with single spaces and escaped invisible characters."""
    return escape_invisible(" ".join(text.split()))


def truncate(text: str, longest: int) -> str:
    """Returns the text on one line, cut to a maximum number of characters."""
    line = one_line(text)
    return line if len(line) <= longest else f"{line[: longest - 1]}…"


def truncate_middle(text: str, longest: int) -> str:
    """Returns the text on one line, without its middle if it has more than a maximum number of characters.

    Only words of more than 20 characters are cut.
    """
    line, end = one_line(text), longest // 3
    if len(line) <= longest:
        return line
    start, tail = line[: longest - end - 3], line[-end - 1 :]
    if " " in start[-20:]:
        start = start[: start.rindex(" ")]
    tail = tail[tail.index(" ") + 1 if " " in tail[:20] else 1 :]
    return f"{start} … {tail}"


def terminal_text(text: str) -> str:
    """Escapes what would move a cursor, or be a command to the CI system that reads the log."""
    return _CI_COMMAND.sub(_escape_command, escape_invisible(text))


def _escape_command(match: re.Match[str]) -> str:
    return r"\x23" if match["before"] is None else rf"{match['before']}\x3a"


def json_text(document: str) -> str:
    r"""Returns a JSON document with `\u` escapes for what a terminal would act on; its data stay the same."""
    if _SUSPICIOUS.search(document) is not None:
        document = _invisible_pattern().sub(lambda match: "".join(_json_escapes(match[0])), document)
    return document.replace("##", r"#\u0023")


def _json_escapes(character: str) -> Iterator[str]:
    units = character.encode("utf-16-be", "surrogatepass")
    for place in range(0, len(units), 2):
        yield f"\\u{units[place : place + 2].hex()}"


def csv_cell(value: object) -> object:
    """Returns a text that no spreadsheet takes for a formula; numbers and numeric texts stay as they are.

    An apostrophe is put before a text that begins like a formula, or with apostrophes and then like a
    formula, so that removing one apostrophe restores the text.

    Source: OWASP, "CSV Injection".
    """
    if not isinstance(value, str):
        return value
    safe_text = escape_invisible(value.replace("\r\n", "\n"))
    return f"'{safe_text}" if _FORMULA.match(safe_text) and not _NUMBER.fullmatch(safe_text) else safe_text


def markdown_text(text: str) -> str:
    """Returns one line of Markdown that shows the text literally, without links or mentions."""
    escaped = _ACTIVE_IN_MARKDOWN.sub(r"\\\g<0>", one_line(text))
    escaped = _BLOCK_IN_MARKDOWN.sub(_escape_block, escaped)
    return _AUTOLINK.sub(_EMPTY_COMMENT, escaped)


def _escape_block(match: re.Match[str]) -> str:
    """Escapes the character that begins a list, a heading or a rule, alone or after a number."""
    return f"{match[0]}\\" if match[0].isdigit() else f"\\{match[0]}"


def markdown_html(text: str) -> str:
    """Returns one line for an HTML element that begins a line of Markdown, without links or mentions."""
    from html import escape

    return _AUTOLINK.sub(_EMPTY_COMMENT, escape(one_line(text), quote=False))


def markdown_code(text: str) -> str:
    """Returns one line of Markdown code that the text cannot end; not for cells of tables."""
    line = one_line(text)
    fence = "`" * (_longest_fence(line) + 1)
    space = " " * (line[:1] in ("`", "") or line[-1:] == "`")
    return f"{fence}{space}{line}{space}{fence}"


def markdown_block(text: str, language: str = "text") -> str:
    """Returns a block of Markdown code that the text cannot end."""
    safe_text = escape_invisible(text)
    fence = "`" * max(3, _longest_fence(safe_text) + 1)
    return f"{fence}{language}\n{safe_text}\n{fence}\n\n"


def _longest_fence(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)


def display_width(text: str) -> int:
    """Returns the width in terminal columns: 2 for wide letters and emoji, 0 for marks and joiners."""
    if text.isascii():
        return len(text)
    from unicodedata import category, east_asian_width

    total, last, is_joined = 0, 0, False
    for letter in text:
        if letter == "\u200d" and last:
            is_joined = True
        elif letter == "\ufe0f":  # shows the character before it as an emoji
            total, last = total + 2 - last, 2
        elif is_joined or "\U0001f3fb" <= letter <= "\U0001f3ff" or category(letter) in ("Mn", "Me", "Cf"):
            is_joined = False
        else:
            last = 1 + (east_asian_width(letter) in "WF")
            total += last
    return total


def pad_to_width(text: str, width: int) -> str:
    """Pads the text with spaces to a number of terminal columns."""
    return text + " " * (width - display_width(text))

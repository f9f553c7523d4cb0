"""Turns messages of the YAML parser into sentences for users: the line, the mistake, and the remedy.

A parser reports what it expected, often far from the mistake. The lines around it show which mistake it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from msgspec import Struct

_MAX_LINE_LENGTH: Final = 80
"""How many characters of a line are quoted."""
_MAX_PART_LENGTH: Final = 30
"""How many of them, where a part of the line is."""
_FIELD: Final = re.compile(r"\s*(?:- |[\w$.-]+:(?:\s|$))")
"""How a line begins that is a field or an item of a list."""
_FIELD_WITHOUT_SPACE: Final = re.compile(r"\s*(?:- )*[\w.-]+:[^\s/]")
"""A field without a space after its colon; `https://` is none."""
_TAB: Final = "A tab cannot indent a line in YAML. Use spaces."
_NO_SPACE: Final = "A space is missing after the colon."
_NO_COLON: Final = "The line has no `: `. Write `name: value`, or indent it if it continues the text above."
_QUOTED_KEY: Final = re.compile(r"""(?:^|[{,])\s*(?:"[^"]*"|'[^']*')$""")
"""How that ends which stands before the colon of a field in quotes."""
_SURROGATE_ESCAPE: Final = re.compile(r"\\(?:u|U0000)[dD][89a-fA-F]")
_CLOSING_BRACKETS: Final = {"[": "]", "{": "}"}


class Mistake(Struct, frozen=True):
    """The message and the position of a parser error; lines and columns count from 0."""

    lines: list[str]
    problem: str
    line: int
    column: int
    begin_line: int
    """The line on which the list, object or text with the problem begins."""
    begin_column: int

    @property
    def before(self) -> str:
        """The line up to the problem."""
        return self.text(self.line)[: self.column].rstrip()

    @property
    def after(self) -> str:
        """The line from the problem on."""
        return self.text(self.line)[self.column :].strip()

    @property
    def opening(self) -> str:
        """The first character of the list, object or text with the problem."""
        return self.text(self.begin_line)[self.begin_column :][:1]

    def text(self, line: int) -> str:
        """A line; the end of the text counts as an empty one."""
        return self.lines[line] if line < len(self.lines) else ""


Advice = tuple[int, str]
"""A line, from 0, and what is wrong with it."""


def explain_mistake(mistake: Mistake) -> Advice | None:
    """Returns the line and the description of a mistake; None if the parser's own message must do."""
    tell = next((tell for words, tell in _ADVISERS.items() if words in mistake.problem), None)
    return _advise_odd_space(mistake) or (tell(mistake) if tell else None)


def quote_line(text: str, line: int, message: str) -> str:
    """Puts a line of the YAML in front of a message about it.

    Args:
        text: the YAML.
        line: from 1; an empty one is not quoted.
        message: a sentence.
    """
    lines = text.split("\n")
    quote = excerpt(lines[line - 1] if 0 < line <= len(lines) else "", _MAX_LINE_LENGTH)
    return f"`{quote}`: {message}" if quote else message


def excerpt(text: str, max_length: int) -> str:
    """Returns a text for display: stripped, cut, and with invisible characters escaped."""
    bare = text.strip(" \r")
    visible_text = bare if len(bare) <= max_length else bare[: max_length - 1] + "…"
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in visible_text)


# --- values ------------------------------------------------------------------------------------------------


def _advise_character(mistake: Mistake) -> Advice:
    """A character that can begin nothing."""
    sign = mistake.after[:1]
    return mistake.line, _needs_quotes(sign) if sign in ("@", "`", "%") else _TAB


def _advise_sign(mistake: Mistake) -> Advice:
    """A sign with a meaning of its own, that is meant as a text."""
    return mistake.begin_line, _needs_quotes(mistake.opening)


def _advise_alias(mistake: Mistake) -> Advice:
    name = excerpt(re.split(r"[\s,\]}]", mistake.after)[0], _MAX_PART_LENGTH)
    message = (
        f"{_needs_quotes('*')} Without quotes, `{name}` repeats an earlier value, but no value has that name."
    )
    return mistake.line, message


def _advise_block_text(mistake: Mistake) -> Advice:
    sign = mistake.opening
    message = f"{_needs_quotes(sign)} Where `{sign}` begins a long text, the text starts on the next line."
    return mistake.begin_line, message


def _advise_nothing(mistake: Mistake) -> Advice:
    """Something that cannot begin a value, or the end where one must be."""
    if mistake.after and "flow node" in mistake.problem:
        sign = mistake.after[0]
        return mistake.line, f"`{sign}` is in the place of a value. Remove it, or put the text in quotes."
    if mistake.after:
        return mistake.line, _needs_quotes(mistake.after[0])
    return _line_above(mistake), "The text ends where a value is expected. Close every quote, `[` and `{`."


def _advise_odd_space(mistake: Mistake) -> Advice | None:
    """A space of another kind, such as one copied from a web page, which is a part of the text to YAML."""
    for at in (mistake.line, _line_above(mistake)):
        first = mistake.text(at).lstrip(" ")[:1]
        if first > "\x7f" and first.isspace():
            return at, f"U+{ord(first):04X} cannot indent a line in YAML. Use spaces."
    return None


def _advise_colon(mistake: Mistake) -> Advice:
    """A colon where none can be."""
    if re.search(r":(?:\s|$)", mistake.before):
        where = "`:` at its end" if mistake.after == ":" else "`: ` in it"
        return mistake.line, f"A value with {where} needs quotes."
    above = _line_above(mistake)
    line = mistake.text(above)
    if re.match(r" *-\w", line):
        return above, "A space is missing after the dash."
    if _FIELD_WITHOUT_SPACE.match(line):
        return above, _NO_SPACE
    if above < mistake.line and ":" not in line and _indent(line) == _indent(mistake.text(mistake.line)):
        return above, _NO_COLON
    return mistake.line, (
        "A field cannot begin below the text of another one. Begin the fields of an object in the same "
        "column, and put text that contains `: ` in quotes."
    )


def _line_above(mistake: Mistake) -> int:
    """The last line above the problem that says something, or that of the problem."""
    above = (at for at in range(mistake.line - 1, -1, -1) if mistake.text(at).strip())
    return next(above, mistake.line)


def _needs_quotes(sign: str) -> str:
    sign_name = "a backtick" if sign == "`" else f"`{sign}`"
    return f"A value that begins with {sign_name} needs quotes."


# --- quotes and brackets -----------------------------------------------------------------------------------


def _advise_open_quote(mistake: Mistake) -> Advice:
    return mistake.begin_line, _unclosed_message(mistake.opening)


def _advise_escape(mistake: Mistake) -> Advice:
    if _SURROGATE_ESCAPE.search(mistake.text(mistake.line), max(0, mistake.column - 2)):
        return mistake.line, "There is only half of a character. Write the character itself."
    return mistake.line, (
        "In double quotes, `\\` begins an escape such as `\\n`, but this is not an escape. Write `\\\\`, or "
        "use single quotes."
    )


def _advise_open_bracket(mistake: Mistake) -> Advice:
    """A list or an object in brackets that does not go on as it must."""
    opening, line, remainder = mistake.opening, mistake.text(mistake.line), mistake.after
    closing, first = _CLOSING_BRACKETS.get(opening, "]"), mistake.text(mistake.begin_line)
    is_new = _FIELD.match(line) and _indent(line) <= _indent(first) and mistake.line > mistake.begin_line
    if is_new or not any(map(str.strip, (remainder, *mistake.lines[mistake.line + 1 :]))):
        return (
            mistake.begin_line,
            f"{_unclosed_message(opening)} A text that begins with `{opening}` needs quotes.",
        )
    if remainder.startswith(("]", "}")):
        origin = f"line {mistake.begin_line + 1} has the `{opening}`"
        return mistake.line, f"`{remainder[0]}` is in the place of `{closing}`: {origin}."
    return _advise_in_brackets(mistake, closing)


def _advise_in_brackets(mistake: Mistake, closing: str) -> Advice:
    """What is missing between two parts of a list or an object in brackets."""
    before, remainder = mistake.before, mistake.after
    quote = before[-1:] if before.endswith(("'", '"')) else ""
    if quote and before.count(quote) == 1:
        return _advise_odd_quote(mistake, quote)
    if remainder.startswith(":") and quote:
        remainder = mistake.text(mistake.line)
    elif remainder.startswith(":"):
        advice = "A value with `: ` in it needs quotes."
        part = excerpt(before.split()[-1] + remainder, _MAX_PART_LENGTH) if before else remainder
        return mistake.line, f"`,` is missing before `{part}`. {advice}" if closing == "}" else advice
    elif closing == "}" and _QUOTED_KEY.search(before):
        return mistake.line, f"`:` is missing before `{excerpt(remainder, _MAX_PART_LENGTH)}`."
    return mistake.line, (
        f"`,` or `{closing}` is missing before `{excerpt(remainder, _MAX_PART_LENGTH)}`. Text that contains "
        f"commas, brackets or quotes needs quotes around it."
    )


def _advise_odd_quote(mistake: Mistake, quote: str) -> Advice:
    """A quote that ends a text which began, without one at its end, in a line above."""
    odd = (at for at in range(mistake.line - 1, -1, -1) if mistake.text(at).count(quote) % 2)
    return next(odd, mistake.line), _unclosed_message(quote)


def _unclosed_message(opening: str) -> str:
    return f"The `{opening}` is not closed. Add `{_CLOSING_BRACKETS.get(opening, opening)}` at its end."


def _advise_text_behind(mistake: Mistake) -> Advice:
    """Text that follows on a value which has ended."""
    end, remainder = mistake.before[-1], excerpt(mistake.after, _MAX_PART_LENGTH)
    if end in "]}":
        if re.search(r"(?:^|[:-] ) *\{\{", mistake.before):
            return mistake.line, _needs_quotes("{{")
        if remainder.startswith(("]", "}")):
            more = "Remove it, or put the value in quotes if it is text."
            return mistake.line, f"`{remainder[0]}` closes nothing. {more}"
        return (
            mistake.line,
            f"The value ends before `{remainder}`. Put all of it in quotes if it is text.",
        )
    if mistake.before.count(end) == 1:
        return _advise_odd_quote(mistake, end)
    if remainder == ",":
        return mistake.line, "Outside brackets, there is no `,` between fields. Remove it."
    quote = "''" if end == "'" else r"\""
    return mistake.line, (
        f"The quotes end before `{remainder}`. Put the whole value in quotes, and write `{quote}` for "
        "a quote inside it."
    )


# --- indentation -------------------------------------------------------------------------------------------


def _advise_structure(mistake: Mistake) -> Advice:
    """A line that fits none above it, or text behind a value."""
    if mistake.before.endswith(("'", '"', "]", "}")):
        return _advise_text_behind(mistake)
    if mistake.after.startswith(":"):
        return mistake.line, "The name of the field is missing before the colon."
    if mistake.after.startswith("- "):
        message = (
            "A list item is among the fields of an object. Begin it in the column of the items "
            "above, or indent it below its field."
        )
    elif "'-' indicator" in mistake.problem:
        message = (
            f"The line is among the items of the list that begins on line {mistake.begin_line + 1}, "
            f"but does not begin with `- `. Indent it like the fields of its item, or less than the list."
        )
    else:
        message = (
            "The indentation of the line matches no line above it. Begin the fields of an object in the same "
            "column, and the lines of a long text no further left than its first."
        )
    return mistake.line, message


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


# --- lines -------------------------------------------------------------------------------------------------


def _advise_no_colon(mistake: Mistake) -> Advice:
    sign = mistake.text(mistake.begin_line).strip()[:2]
    if sign in ("//", "/*"):
        return mistake.begin_line, f"A comment begins with `#` in YAML. Write `#` instead of `{sign}`."
    return mistake.begin_line, _NO_COLON


def _advise_list(mistake: Mistake) -> Advice:
    return mistake.line, (
        "A list begins on its own line, below the name of its field. A text that begins with `- ` needs "
        "quotes."
    )


def _advise_more(mistake: Mistake) -> Advice:
    if mistake.lines[0].startswith("%"):
        return (
            0,
            "A line `---` must follow the lines that begin with `%`. Add it, or put the text in quotes.",
        )
    return mistake.line, "The document ends above this line. Keep only one object or list."


def _advise_anchor(mistake: Mistake) -> Advice:
    first = f"line {mistake.begin_line + 1}"
    return mistake.line, f"The name after `&` is already used on {first}. Choose another name."


def _at_line(sentence: str) -> Callable[[Mistake], Advice]:
    return lambda mistake: (mistake.line, sentence)


_ADVISERS: Final[dict[str, Callable[[Mistake], Advice]]] = {
    "mapping values are not allowed": _advise_colon,
    "cannot start any token": _advise_character,
    "tab character": _at_line(_TAB),
    "undefined alias": _advise_alias,
    "duplicate anchor": _advise_anchor,
    "alphabetic or numeric character": _advise_sign,
    "undefined tag handle": _at_line(_needs_quotes("!")),
    "non-alphabetical character": _at_line(_needs_quotes("%")),
    "comment or line break": _advise_block_text,
    "found unexpected ':'": _at_line(_NO_SPACE),
    "mapping keys are not allowed": _at_line(_needs_quotes("?")),
    "sequence entries are not allowed": _advise_list,
    "expected node content": _advise_nothing,
    "unexpected end of stream": _advise_open_quote,
    "unexpected document indicator": _advise_open_quote,
    "unknown escape character": _advise_escape,
    "hexdecimal number": _advise_escape,
    "Unicode character escape": _advise_escape,
    "expected ',' or": _advise_open_bracket,
    "expected key": _advise_structure,
    "expected '-' indicator": _advise_structure,
    "could not find expected ':'": _advise_no_colon,
    "expected <document start>": _advise_more,
    "another document": _at_line("`---` begins a second document, but only one is allowed. Remove the line."),
}
"""The advisers, by words in libyaml's message."""

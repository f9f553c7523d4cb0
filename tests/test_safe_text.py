"""Untrusted text, escaped for each medium."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from proctor.safe_text import (
    csv_cell,
    display_width,
    escape_invisible,
    json_text,
    markdown_block,
    markdown_code,
    markdown_text,
    one_line,
    pad_to_width,
    terminal_text,
    truncate,
    truncate_middle,
)
from support.hostile_texts import FAMILIES, HOSTILE_TEXTS, raw_characters, terminal_faults

any_text = st.text() | st.sampled_from(HOSTILE_TEXTS)


@given(any_text)
def test_no_text_acts_on_a_terminal_or_a_ci_system(text: str) -> None:
    assert [fault for fault in terminal_faults(terminal_text(text)) if "forged" not in fault] == []
    assert "\n" not in one_line(text)


@given(any_text)
def test_what_is_safe_stays_as_it_is(text: str) -> None:
    for function in (escape_invisible, one_line, terminal_text):
        assert function(function(text)) == function(text)


@pytest.mark.parametrize(
    "text",
    [
        "größer als 日本 😀",
        "👨\u200d👩\u200d👧 ❤\ufe0f 1\ufe0f\u20e3 👍🏽",
        "می\u200cخواهم",  # Persian, with the non-joiner that its spelling needs
        "क\u094d\u200dष",
        "Vi\u0302\u0323t e\u0301",
        "עברית 123",
        "a\tb\n\tc",
    ],
)
def test_text_of_any_language_stays_as_it_is(text: str) -> None:
    assert escape_invisible(text) == text
    assert raw_characters(text) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\x1b[2J\x9b\x00\r", r"\x1b[2J\x9b\x00\r"),
        ("a\u200db", r"a\u200db"),
        ("\u202egpj", r"\u202egpj"),
        ("a\U000e0041", r"a\U000e0041"),
        ("\ud800\ufffe", r"\ud800\ufffe"),
        ("e" + "\u0301" * 6, "e" + "\u0301" * 4 + r"\u0301\u0301"),
    ],
)
def test_invisible_characters_are_shown_as_escapes(text: str, expected: str) -> None:
    assert escape_invisible(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("::error::x", r"\x3a:error::x"),
        ("a\n \u3000::add-mask::x", "a\n \u3000" + r"\x3a:add-mask::x"),
        ("a ##[group]", r"a \x23#[group]"),
        ("##vso[task.complete]", r"\x23#vso[task.complete]"),
        ("a::b ## c", "a::b ## c"),
    ],
)
def test_no_line_is_a_command_to_a_ci_system(text: str, expected: str) -> None:
    assert terminal_text(text) == expected


@pytest.mark.slow
@given(st.recursive(any_text, lambda inner: st.lists(inner) | st.dictionaries(any_text, inner)))
def test_json_says_the_same_as_before(data: object) -> None:
    document = json_text(json.dumps(data, ensure_ascii=False))
    assert json.loads(document) == data
    assert terminal_text(document) == document


@given(any_text)
def test_a_cell_without_its_apostrophe_is_the_text_again(text: str) -> None:
    cell = csv_cell(text)
    escaped = escape_invisible(text.replace("\r\n", "\n"))
    assert isinstance(cell, str)
    assert cell == escaped or (cell[0] == "'" and cell[1:] == escaped)
    if cell == escaped and cell.startswith("'"):
        assert cell.lstrip("'")[:1] not in tuple("=+-@\t\n")


@pytest.mark.parametrize("value", [-5, -0.5, "-5", "+1.5", None, True, "a=b"])
def test_a_number_stays_a_number(value: object) -> None:
    assert csv_cell(value) is value


@given(any_text)
def test_markdown_shows_a_text_as_it_is(text: str) -> None:
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    (opening, inline, closing) = parser.parse(f"{markdown_text(text) or 'x'}\n")
    assert (opening.type, closing.type) == ("paragraph_open", "paragraph_close")
    parts = inline.children or []
    assert {part.type for part in parts} <= {"text", "html_inline", "text_special"}
    assert {part.content for part in parts if part.type == "html_inline"} <= {"<!-- -->"}
    visible_text = "".join(part.content for part in parts if part.type != "html_inline")
    assert visible_text == (one_line(text) or "x")


@given(any_text)
def test_code_in_markdown_is_nothing_but_the_text(text: str) -> None:
    (_, inline, _) = MarkdownIt().parse(f"a {markdown_code(text)} b")
    assert [part.type for part in inline.children or []] == ["text", "code_inline", "text"]
    (block,) = MarkdownIt().parse(markdown_block(text))
    assert (block.type, block.content) == ("fence", escape_invisible(text) + "\n")


@pytest.mark.parametrize(
    ("text", "wide"),
    [
        ("abc", 3),
        ("日本", 4),
        ("e\u0301", 1),
        ("👨\u200d👩\u200d👧", 2),
        ("❤\ufe0f", 2),
        ("1\ufe0f\u20e3", 2),
        ("👍🏽", 2),
        ("", 0),
    ],
)
def test_letters_take_as_many_columns_as_a_terminal_gives_them(text: str, wide: int) -> None:
    assert display_width(text) == wide
    assert pad_to_width(text, 9) == text + " " * (9 - wide)


def test_a_long_text_loses_its_end() -> None:
    assert truncate("a\n" + "b" * 9, 5) == "a bb…"


def test_a_text_without_its_middle_keeps_whole_words_at_both_ends() -> None:
    text = "The answer is 'one two three four five six seven'; expected 'eight nine'."
    assert truncate_middle(text, 60) == "The answer is 'one two three four … 'eight nine'."
    assert truncate_middle(text, len(text)) == text


@given(any_text, st.integers(30, 200))
def test_a_text_without_its_middle_is_no_longer_than_asked_for(text: str, longest: int) -> None:
    assert len(truncate_middle(text, longest)) <= longest


def test_every_family_is_there() -> None:
    assert len(set(HOSTILE_TEXTS)) == 200
    assert all(FAMILIES.values())

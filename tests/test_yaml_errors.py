"""Messages on mistakes in YAML: the line, its text, what is wrong with it, and the remedy."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.errors import SuiteError
from proctor.model import Problem
from proctor.services.suites.validate import validate_suite
from proctor.targets.targets_file import TargetsFile
from proctor.yaml12 import YamlError, load

COLUMN = (
    "A field cannot begin below the text of another one. Begin the fields of an object in the same column, "
    "and put text that contains `: ` in quotes."
)
FITS_NONE = (
    "The indentation of the line matches no line above it. Begin the fields of an object in the same "
    "column, and the lines of a long text no further left than its first."
)
NO_ITEM = (
    "The line is among the items of the list that begins on line 2, but does not begin with `- `. Indent "
    "it like the fields of its item, or less than the list."
)
AN_ITEM = (
    "A list item is among the fields of an object. Begin it in the column of the items above, or "
    "indent it below its field."
)
LIST = (
    "A list begins on its own line, below the name of its field. A text that begins with `- ` needs quotes."
)
ESCAPE = (
    "In double quotes, `\\` begins an escape such as `\\n`, but this is not an escape. Write `\\\\`, "
    "or use single quotes."
)
NO_COLON = "The line has no `: `. Write `name: value`, or indent it if it continues the text above."
TAB = "A tab cannot indent a line in YAML. Use spaces."
NO_COMMA = "`,` is missing before `y: 2}`. A value with `: ` in it needs quotes."
NO_SPACE = "U+00A0 cannot indent a line in YAML. Use spaces."
NEEDS_END = "A line `---` must follow the lines that begin with `%`. Add it, or put the text in quotes."


def ends(tail: str, quote: str) -> str:
    return (
        f"The quotes end before `{tail}`. Put the whole value in quotes, and write `{quote}` for a quote "
        "inside it."
    )


def open_(bracket: str, end: str) -> str:
    return (
        f"The `{bracket}` is not closed. Add `{end}` at its end. A text that begins with `{bracket}` needs "
        "quotes."
    )


def missing(end: str, tail: str) -> str:
    return (
        f"`,` or `{end}` is missing before `{tail}`. Text that contains commas, brackets or quotes needs "
        f"quotes around it."
    )


def begins(sign: str) -> str:
    return f"A value that begins with `{sign}` needs quotes."


MISTAKES = [
    # a colon
    ("a: foo: bar: baz", 1, "a: foo: bar: baz", "A value with `: ` in it needs quotes."),
    ("- id: a\n  input: Say this: yes", 2, "input: Say this: yes", "A value with `: ` in it needs quotes."),
    ("a: b:", 1, "a: b:", "A value with `:` at its end needs quotes."),
    ("a: [x, y: z: w]", 1, "a: [x, y: z: w]", "A value with `: ` in it needs quotes."),
    ("a:1\nb: 2", 1, "a:1", "A space is missing after the colon."),
    ("a: 1\nb\nc: 2", 2, "b", NO_COLON),
    ("b\nc: 2", 1, "b", NO_COLON),
    ("a: 1\n: 2", 2, ": 2", "The name of the field is missing before the colon."),
    ("a: 1\n// b\nc: 2", 2, "// b", "A comment begins with `#` in YAML. Write `#` instead of `//`."),
    ("a:\n  -b: 1\n   c: 2", 2, "-b: 1", "A space is missing after the dash."),
    ("a: &x 1\nb: &x 2", 2, "b: &x 2", "The name after `&` is already used on line 1. Choose another name."),
    # a sign with a meaning
    (
        "a: *x",
        1,
        "a: *x",
        begins("*") + " Without quotes, `*x` repeats an earlier value, but no value has that name.",
    ),
    ("a: **bold** text", 1, "a: **bold** text", begins("*")),
    ("- *.py", 1, "- *.py", begins("*")),
    ("a: & co", 1, "a: & co", begins("&")),
    ("a: @you", 1, "a: @you", begins("@")),
    ("a: %x", 1, "a: %x", begins("%")),
    ("%a: 1", 1, "%a: 1", begins("%")),
    ("a: `x`", 1, "a: `x`", "A value that begins with a backtick needs quotes."),
    ("a: ? x", 1, "a: ? x", begins("?")),
    ("a: , x", 1, "a: , x", begins(",")),
    ("a: !x!y 1", 1, "a: !x!y 1", begins("!")),
    (
        "a: >= 3",
        1,
        "a: >= 3",
        begins(">") + " Where `>` begins a long text, the text starts on the next line.",
    ),
    ("a: {{name}}", 1, "a: {{name}}", begins("{{")),
    ("- {{ name }} and more", 1, "- {{ name }} and more", begins("{{")),
    ("a: 1\nb: {{x}} {{y}}", 2, "b: {{x}} {{y}}", begins("{{")),
    # quotes and brackets
    ("a: 'open\nb: 1\nc: 2", 1, "a: 'open", "The `'` is not closed. Add `'` at its end."),
    ('a: "open\nb: 1\nc: "x"', 1, 'a: "open', 'The `"` is not closed. Add `"` at its end.'),
    ("a: 'it's'", 1, "a: 'it's'", ends("s'", "''")),
    ('a: "x" and "y"', 1, 'a: "x" and "y"', ends('and "y"', '\\"')),
    ('a: "\\d+"', 1, 'a: "\\d+"', ESCAPE),
    ("a: [1, 2\nb: 3", 1, "a: [1, 2", open_("[", "]")),
    ("a: {x: 1\nb: 3", 1, "a: {x: 1", open_("{", "}")),
    ("a: [1, 2", 1, "a: [1, 2", open_("[", "]")),
    ("a: [1, 2}", 1, "a: [1, 2}", "`}` is in the place of `]`: line 1 has the `[`."),
    ("a: [\n  'x'\n  'y'\n]", 3, "'y'", missing("]", "'y'")),
    ('{"a": 1\n "b": 2}', 2, '"b": 2}', missing("}", '"b": 2}')),
    ("a: [\n\n", 1, "a: [", "The text ends where a value is expected. Close every quote, `[` and `{`."),
    ("a: [x] y", 1, "a: [x] y", "The value ends before `y`. Put all of it in quotes if it is text."),
    ("a: [1]]", 1, "a: [1]]", "`]` closes nothing. Remove it, or put the value in quotes if it is text."),
    ('a: ["x" "y"]', 1, 'a: ["x" "y"]', missing("]", '"y"]')),
    ("a: {x: 1 y: 2}", 1, "a: {x: 1 y: 2}", NO_COMMA),
    ('{"a" 1}', 1, '{"a" 1}', "`:` is missing before `1}`."),
    ("{a:[1]}", 1, "{a:[1]}", "A space is missing after the colon."),
    ("a: [1,, 2]", 1, "a: [1,, 2]", "`,` is in the place of a value. Remove it, or put the text in quotes."),
    ('"a": "x",\n"b": "y"', 1, '"a": "x",', "Outside brackets, there is no `,` between fields. Remove it."),
    ('{"a": "x,\n "b": "y"}', 1, '{"a": "x,', 'The `"` is not closed. Add `"` at its end.'),
    ('a: "\\ud83d"', 1, 'a: "\\ud83d"', "There is only half of a character. Write the character itself."),
    # indentation
    ("a:\n\tb: 1", 2, "\\tb: 1", TAB),
    ("a:\n  b: 1\n\tc: 2", 3, "\\tc: 2", TAB),
    ("a: 1\n  b: 2", 2, "b: 2", COLUMN),
    ("- a: 1\n\u00a0\u00a0b: 2\n  c: 3", 2, "\\xa0\\xa0b: 2", NO_SPACE),
    ("a:\n  b: 1\n c: 2", 3, "c: 2", FITS_NONE),
    ("a: |\n  x\n y", 3, "y", FITS_NONE),
    ("a:\n  - b: 1\n     c: 2", 3, "c: 2", COLUMN),
    ("a:\n  - b\n  c: 2", 3, "c: 2", NO_ITEM),
    ("a: 1\n- b", 2, "- b", AN_ITEM),
    ("a:\n  - b: 1\n   - b: 2", 3, "- b: 2", AN_ITEM),
    ("a: - x", 1, "a: - x", LIST),
    # the whole
    ("a: 1\nb: 2\na: 3", 3, "a: 3", "Field 'a' is already on line 1. Remove one of them."),
    (
        "a: 1\n---\nb: 2",
        2,
        "---",
        "`---` begins a second document, but only one is allowed. Remove the line.",
    ),
    ("%YAML 1.2\na: 1", 1, "%YAML 1.2", NEEDS_END),
    ('{"a": 1}\nb', 2, "b", "The document ends above this line. Keep only one object or list."),
    (
        "a: !important",
        1,
        "a: !important",
        "The tag !important is unknown. Remove it, or put the value in quotes.",
    ),
    ("a: \x07", 1, "a: \\x07", "The character U+0007 is not allowed in YAML; remove it."),
]


@pytest.mark.parametrize(
    ("text", "line", "quote", "message"), MISTAKES, ids=[problem[0] for problem in MISTAKES]
)
@pytest.mark.parametrize("end", ["", "\n", "\r\n"], ids=["open", "lf", "crlf"])
def test_a_mistake_is_reported_with_its_line_and_the_remedy(
    text: str, line: int, quote: str, message: str, end: str
) -> None:
    with pytest.raises(YamlError) as caught:
        load(text.replace("\n", end) + end if end else text)
    assert (caught.value.line, str(caught.value)) == (line, f"`{quote}`: {message}")


def test_a_quoted_line_is_cut_and_shows_what_is_invisible() -> None:
    with pytest.raises(YamlError) as caught:
        load("a: foo: \u202e" + "x" * 500)
    quote, _, message = str(caught.value).partition("`: ")
    assert (len(quote) < 100, quote.startswith("`a: foo: \\u202exxx"), quote.endswith("x…")) == (True,) * 3
    assert message == "A value with `: ` in it needs quotes."


@given(
    st.lists(
        st.sampled_from(
            [*"aä:'\"[]{},|>!%@`&*?#- \t\n\\", "{{x}}", "a: ", "- ", "\n  ", "\r\n", "---\n", "\ufeff"]
        )
    ).map("".join)
)
def test_every_mistake_is_told_in_sentences_at_a_line_of_the_text(text: str) -> None:
    error = refusal(text)
    if error is not None:
        assert 1 <= error.line <= text.count("\n") + 1
        assert str(error).endswith(".")


def refusal(text: str) -> YamlError | None:
    try:
        load(text)
    except YamlError as error:
        return error
    return None


# --- who reads YAML ----------------------------------------------------------------------------------------

COLON = "`b: see: this`: A value with `: ` in it needs quotes."


def list_errors(path: Path) -> list[Problem]:
    return [problem for problem in validate_suite(path).problems if problem.level == "error"]


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("a.eval.yaml", "tests:\n  - id: a\nb: see: this\n", 3),
        ("promptfooconfig.yaml", "prompts: [x]\ntests: []\nb: see: this\n", 3),
        ("t.md", "---\ntags: [a]\nb: see: this\n---\n\n# 👤\n\nx\n\n---\n\ny\n", 3),
    ],
)
def test_every_suite_in_yaml_has_its_mistakes_explained(
    name: str, text: str, line: int, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    (problem,) = list_errors(path)
    assert (problem.code, problem.line, problem.message) == ("bad-yaml", line, COLON)


def test_a_targets_file_has_its_mistakes_explained() -> None:
    with pytest.raises(SuiteError) as caught:
        TargetsFile("targets:\n  - name: a\nb: see: this\n", "targets.yaml", "")
    (problem,) = caught.value.problems
    assert str(problem) == f"targets.yaml:3: error: {COLON}"

"""JavaScript's regular expressions, translated so that they match the same in Python."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.dialects.shared.js_regex import BadPattern, get_compile_error, to_python
from proctor.graders.safe_regex import pattern_matches

_WORD_PATTERNS = [(r"^\w$", "i"), (r"^[\w-]$", "i"), (r"^[^\W]$", "i"), (r"^[\w]$", ""), (r"^(?i:\w)$", "")]
_NON_WORD_PATTERNS = [
    (r"^\W$", "i"),
    (r"^[\W_]$", "i"),
    (r"^[^\w]$", "i"),
    (r"^[\W]$", ""),
    (r"^(?i:[\W])$", ""),
]


@pytest.mark.parametrize(
    ("pattern", "flags", "text", "matches"),
    [
        (r"(?<year>\d{4})-\k<year>", "", "2020-2020", True),
        (r"(?<year>\d{4})-\k<year>", "", "2020-2021", False),
        (r"(?<=a)b(?<!c)", "", "ab", True),
        (r"^42$", "", "42", True),
        (r"^42$", "", "42\n", False),
        (r"^42$", "m", "x\n42\ny", True),
        (r"cost: \$5", "", "cost: $5", True),
        (r"[$]5", "", "$5", True),
        (r"a[^]b", "", "a\nb", True),
        (r"a[]", "", "a", False),
        (r"http:\/\/x", "", "http://x", True),
        (r"\cJ", "", "\n", True),
        (r"[\cJ]", "", "\n", True),
        (r"\u{1F600}", "u", "😀", True),
        (r"[\u{61}-\u{63}]{2}", "u", "bc", True),
        (r"^u\u{3}$", "", "uuuu", True),
        (r"a{,2}", "", "a{,2}", True),
        (r"a{,2}", "", "aa", False),
        (r"b", "y", "ab", False),
        (r"a|b", "y", "ba", True),
        (r"x.y", "", "x\ny", False),
        (r"x.y", "s", "x\ny", True),
        (r"ABC", "gi", "xabc", True),
        (r"^${{ WHO }}$", "", "${{ WHO }}", False),
        # Classes know ASCII only.
        (r"^\d+$", "", "42", True),
        (r"^\d+$", "", "٤٢", False),
        (r"^\D+$", "", "٤٢", True),
        (r"^[\D]$", "", "٤", True),
        (r"^\w$", "", "ä", False),
        (r"^\W$", "", "ä", True),
        (r"^[\w-]+$", "", "a-b_1", True),
        (r"^[\w-]$", "", "ä", False),
        (r"[\w-.]", "", "-", True),
        (r"[\w-.]", "", "/", False),
        (r"[+-\d]", "", "-", True),
        (r"[^\W]", "", "ä", False),
        (r"[\W]", "i", "k", False),
        # The same with the flag i, with which Python matches four other letters as i, k or s.
        *((pattern, flags, letter, False) for pattern, flags in _WORD_PATTERNS for letter in "ſ\u212aıİ"),
        *((pattern, flags, letter, True) for pattern, flags in _NON_WORD_PATTERNS for letter in "ſ\u212aıİ"),
        (r"^\w$", "iu", "ſ", True),
        (r"^\W$", "iu", "ſ", False),
        (r"^[\W]$", "iu", "\u212a", False),
        (r"^[\w]$", "iu", "ı", False),
        (r"^\w+$", "i", "aZ_9", True),
        (r"^[\wé]+$", "i", "aÉ", True),
        (r"^[\Wé]+$", "i", "É-", True),
        (r"^[\Wé]$", "i", "k", False),
        (r"\bve\b", "", "naïve", True),
        (r"na\Bïve", "", "naïve", False),
        (r"a\sb", "", "a\u00a0b", True),
        (r"[\b]", "", "\b", True),
        # Escapes without a meaning are their letters.
        (r"\AHELLO", "", "HELLO", False),
        (r"^\A$", "", "A", True),
        (r"\Z", "", "Z", True),
        (r"^\p{Lu}$", "", "p{Lu}", True),
        (r"^\k<a>$", "", "k<a>", True),
        (r"^\x4$", "", "x4", True),
        (r"\x41\u0042", "", "AB", True),
        (r"^\ud83d\ude00$", "", "😀", True),
        (r"^\c1$", "", "\\c1", True),
        # A number is that of a group, or of a character.
        (r"(a)\1", "", "aa", True),
        (r"(a)?\2", "", "\x02", True),
        (r"\1(a)?b", "", "b", True),
        (r"\07", "", "\x07", True),
        (r"^\8$", "", "8", True),
        # Flags of one group, as in ECMAScript 2025.
        (r"(?i:hello) you", "", "HELLO you", True),
        (r"(?i:hello) you", "", "HELLO YOU", False),
        (r"(?m:a$)", "", "a\nb", True),
        (r"(?-m:a$)", "m", "a\nb", False),
    ],
)
def test_a_pattern_means_what_it_means_in_javascript(
    pattern: str, flags: str, text: str, matches: bool
) -> None:
    python_pattern, python_flags = to_python(pattern, flags)
    combined = re.RegexFlag(0)
    for letter in python_flags:
        combined |= re.RegexFlag[letter.upper()]
    assert bool(re.search(python_pattern, text, combined)) is matches
    assert pattern_matches(python_pattern, text, flags=python_flags) is matches


@pytest.mark.parametrize(
    ("pattern", "wrong"),
    [
        ("(?i)hello", "invalid group: JavaScript has none that begins with '(?i'"),
        ("a(?i)", "invalid group"),
        ("(?P<a>x)", "invalid group"),
        ("(?#x)a", "invalid group"),
        ("(?>a)", "invalid group"),
        ("(a)(?(1)a|b)", "invalid group"),
        ("(?-:a)", "invalid group"),
        ("a++", "nothing to repeat: '+' follows '+'"),
        ("a{2}+", "nothing to repeat"),
        ("a???", "nothing to repeat"),
        (r"\b+", "nothing to repeat"),
        ("^*", "nothing to repeat"),
        ("[a", "is not closed"),
    ],
)
def test_a_pattern_that_javascript_refuses_is_an_error(pattern: str, wrong: str) -> None:
    with pytest.raises(BadPattern, match=re.escape(wrong)):
        to_python(pattern, "")


def test_translating_a_translated_pattern_changes_nothing() -> None:
    for flags in ("", "i"):
        python_pattern, _ = to_python(r"^[\w-]\d\W[^\d]+", flags)
        assert to_python(python_pattern, flags) == (python_pattern, flags)


def test_a_reference_to_a_variable_in_a_pattern_is_unchanged() -> None:
    assert to_python(r"^${{ WHO }}$", "")[0] == r"^${{ WHO }}\Z"


@pytest.mark.parametrize("flags", ["x", "iI", "g "])
def test_a_flag_that_javascript_does_not_have_is_refused(flags: str) -> None:
    with pytest.raises(ValueError, match="has the flag"):
        to_python("a", flags)


@given(st.text("abdw(?<>=!:)[]^$\\kcu{}1,.|*+", max_size=12), st.sampled_from(["", "u", "m", "y"]))
def test_any_text_is_translated_without_failing(pattern: str, flags: str) -> None:
    try:
        python_pattern, python_flags = to_python(pattern, flags)
    except BadPattern:
        return
    assert isinstance(python_pattern, str)
    assert set(python_flags) <= set("ims")


@pytest.mark.parametrize(
    ("pattern", "wrong"), [("a+", None), ("[[a]", None), ("(a", "missing )"), (r"\p{Lu}", "bad escape")]
)
def test_the_compile_error_of_a_pattern_says_why(pattern: str, wrong: str | None) -> None:
    error = get_compile_error(pattern)
    assert error is None if wrong is None else wrong in (error or "")

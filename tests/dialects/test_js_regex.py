"""JavaScript's regular expressions, which must match in Python what they match there."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.dialects.js_regex import to_python, wrong_with


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
    ],
)
def test_a_pattern_means_what_it_means_in_javascript(
    pattern: str, flags: str, text: str, matches: bool
) -> None:
    made, kept = to_python(pattern, flags)
    combined = re.RegexFlag(0)
    for letter in kept:
        combined |= re.RegexFlag[letter.upper()]
    assert bool(re.search(made, text, combined)) is matches


def test_a_reference_in_a_pattern_stays_as_written() -> None:
    assert to_python(r"^${{ WHO }}$", "")[0] == r"^${{ WHO }}\Z"


@pytest.mark.parametrize("flags", ["x", "iI", "g "])
def test_a_flag_that_javascript_does_not_have_is_refused(flags: str) -> None:
    with pytest.raises(ValueError, match="has the flag"):
        to_python("a", flags)


@given(st.text("ab(?<>=!:)[]^$\\kcu{}1,.|*+", max_size=12), st.sampled_from(["", "u", "m", "y"]))
def test_any_text_is_translated_without_failing(pattern: str, flags: str) -> None:
    made, kept = to_python(pattern, flags)
    assert isinstance(made, str)
    assert set(kept) <= set("ims")


@pytest.mark.parametrize(
    ("pattern", "wrong"), [("a+", None), ("[[a]", None), ("(a", "missing )"), (r"\p{Lu}", "bad escape")]
)
def test_a_pattern_that_python_does_not_read_is_told_why(pattern: str, wrong: str | None) -> None:
    found = wrong_with(pattern)
    assert found is None if wrong is None else wrong in (found or "")

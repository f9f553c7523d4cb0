from __future__ import annotations

import re
import time
import warnings

import pytest

from proctor.errors import CannotScore
from proctor.graders.safe_regex import SEARCH_TIMEOUT_S, compile_pattern, pattern_matches


@pytest.mark.parametrize(
    "pattern", ["a{9000000}", "(?:a{1000}){1000}", "(?:(?:[ab]{90}c){90}){90}", "a{2}" * 20_000]
)
def test_a_pattern_that_would_take_all_memory_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="Use smaller counts"):
        compile_pattern(pattern)


@pytest.mark.parametrize(
    "pattern",
    [r"\d{4}-\d{2}-\d{2}", "a{0,1000000}", r"[{1000000}]", r"\{99999999}", "(?:ab){100}" * 9, ")("[::-1]],
)
def test_a_pattern_of_usual_size_is_not(pattern: str) -> None:
    assert compile_pattern(pattern).pattern == pattern


@pytest.mark.parametrize(
    "pattern", ["*", "(", "(?P<a", r"\8", "(?V1)a", "(" * 5000 + ")" * 5000, r"\L<words>"]
)
def test_a_pattern_that_is_not_valid_is_a_value_error(pattern: str) -> None:
    with pytest.raises(ValueError, match="is not valid"):
        compile_pattern(pattern)


@pytest.mark.slow
def test_a_search_is_stopped_near_its_budget() -> None:
    began = time.process_time()
    with pytest.raises(CannotScore, match="rewrite it"):
        pattern_matches(r"(?:a|a|aa)+$", "a" * 60 + "b")
    assert time.process_time() - began < SEARCH_TIMEOUT_S + 1


def test_nested_sets_keep_the_meaning_they_have_in_python() -> None:
    assert pattern_matches(r"[a||b]", "|")
    assert pattern_matches(r"[[a]", "[")


@pytest.mark.parametrize(
    ("pattern", "text"),
    [("a{e}", "zzz"), ("x_{i}", "x_9"), (r"e\^{i}", "e^7"), ("(?:ab){e<=1}", "xb"), ("[[:alpha:]]", "b")],
)
def test_what_only_the_package_reads_specially_is_taken_literally(pattern: str, text: str) -> None:
    with warnings.catch_warnings(action="ignore", category=FutureWarning):
        assert pattern_matches(pattern, text) is bool(re.search(pattern, text)) is False


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("a{2}", "aa"),
        ("a{,2}b", "aab"),
        ("x_{i}", "x_{i}"),
        ("[]{]", "{"),
        (r"\N{DIGIT ONE}", "1"),
        (r"[^\]]", "a"),
    ],
)
def test_braces_and_sets_mean_what_they_mean_to_the_standard_library(pattern: str, text: str) -> None:
    with warnings.catch_warnings(action="ignore", category=FutureWarning):
        assert pattern_matches(pattern, text) is bool(re.search(pattern, text)) is True


@pytest.mark.parametrize("pattern", [r"\h", r"[\w--a]", r"\p{L}"])
def test_what_the_standard_library_refuses_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="not valid"):
        compile_pattern(pattern)

"""`regex-empty` and `regex-backtracking`."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.lint.regex_rules import BacktrackingRule
from proctor.lint.regex_trees import attack_texts, is_ambiguous, longest_run, spelled_texts
from proctor.model import Assertion
from support.linting import lint_codes, make_checked_case


@pytest.mark.parametrize(
    ("pattern", "is_empty"),
    [
        (r"\d*", True),
        (r"(?:granite)?", True),
        (r"^(?!.*slate)", True),
        (r"a|", True),
        (r"\d+", False),
        (r"^granite$", False),
    ],
)
def test_a_pattern_that_matches_nothing_at_all(pattern: str, is_empty: bool) -> None:
    codes = lint_codes(make_checked_case("Which?", ("regex", {"pattern": pattern})))
    assert ("regex-empty" in codes) is is_empty
    assert "vacuous-empty" not in codes  # one cause is reported once


def test_a_negated_pattern_may_match_an_empty_answer() -> None:
    unwanted = Assertion(grader="regex", params={"pattern": r"\d*"}, negated=True)
    assert "regex-empty" not in lint_codes(make_checked_case("Which?", unwanted))


SLOW = [
    r"^(a+)+$",
    r"(a*)*b",
    r"(?:\w+\s?)*!",
    r"(x+x+)+y",
    r"^(?:[a-z]+(?:-[a-z]+)*\s?)+$",
    r"(?=(a+)+$)b",
    r"(?:(?:\s*\w+)*\s*)*;",
]
QUICK = [
    r"(a+)+",
    r"(?:\w+,)+$",
    r"^(?:\d+,)*\d+$",
    r"(a++)+$",
    r"(?>a+)+$",
    r"^\s*\d+(\.\d+)?\s*$",
    r"(a+){2}$",
    r"\b\w+\b \w+",
    r'^"(?:[^"\\]|\\.)*"$',
    r"(?i)paris|lyon",
    r"[(+*]+[)+*]+$",
]


@pytest.mark.parametrize("pattern", SLOW)
def test_a_repeat_in_a_repeat_that_takes_the_same_letters_backtracks(pattern: str) -> None:
    assert "regex-backtracking" in lint_codes(make_checked_case("Which?", ("regex", {"pattern": pattern})))


@pytest.mark.parametrize("pattern", QUICK)
def test_a_pattern_with_one_way_through_does_not(pattern: str) -> None:
    assert "regex-backtracking" not in lint_codes(
        make_checked_case("Which?", ("regex", {"pattern": pattern}))
    )


@pytest.mark.parametrize("pattern", [r"^(a|aa)+$", r"(?:ab|a|b)*$", r"(?:a|b|ab)+c"])
def test_a_choice_in_a_repeat_is_tried_with_a_time_limit(pattern: str) -> None:
    assert not is_ambiguous(pattern)
    assert attack_texts(pattern)
    assert "regex-backtracking" in lint_codes(make_checked_case("Which?", ("regex", {"pattern": pattern})))


def test_a_full_match_can_fail_after_its_last_repeat() -> None:
    assert not is_ambiguous("(a+)+")
    assert is_ambiguous("(a+)+", full=True)


@pytest.mark.slow
def test_all_of_a_suites_slow_patterns_take_no_longer_than_their_budget() -> None:
    rule = BacktrackingRule()
    problems = [
        list(
            rule.check(
                make_checked_case("?", ("regex", {"pattern": f"^(?:{n}|{n}{n})+$"})),
                lambda _assertion, _text: None,
            )
        )
        for n in "abcdefghijklmnopqrstuvwxyzäöü"
    ]
    assert problems[0]
    assert not problems[-1]


@pytest.mark.parametrize(
    ("pattern", "texts"),
    [
        (r"granite", ("granite",)),
        (r"^\s*(?:4|four)\s*$", ("4", "four")),
        (r"\bfourth|fourteen\b", ("fourth", "fourteen")),
        (r"(?:dark|light) red", ("dark red", "light red")),
        (r"\d+", ()),
        (r"granite.", ()),
        (r"\s*", ()),
        (r"(", ()),
    ],
)
def test_what_a_pattern_spells_out(pattern: str, texts: tuple[str, ...]) -> None:
    assert spelled_texts(pattern) == texts


@pytest.mark.parametrize(
    ("pattern", "run"), [(r"red brick(s|work)?", "red brick"), (r"\d+ kg", " kg"), (r"\d", ""), ("(", "")]
)
def test_the_longest_text_that_every_match_has(pattern: str, run: str) -> None:
    assert longest_run(pattern) == run


PIECES = st.sampled_from([*r"ab.*+?|()[]^$\d{}2,-", r"\w", "(?:", "[^", "(?=", "++", r"\\"])


@given(st.lists(PIECES, max_size=14).map("".join))
def test_no_pattern_breaks_the_look_at_it(pattern: str) -> None:
    for look in (spelled_texts, longest_run, is_ambiguous, attack_texts):
        look(pattern)


def test_a_very_long_pattern_is_left_alone() -> None:
    long = make_checked_case("?", ("regex", {"pattern": "(a|b|ab)*" * 5000 + "c"}))
    assert list(BacktrackingRule().check(long, lambda _assertion, _text: None)) == []


def test_a_pattern_nested_very_deeply_is_left_alone() -> None:
    deep = "(" * 400 + "a" + ")" * 400 + "+"
    assert attack_texts(deep) == ()
    assert not is_ambiguous(deep)

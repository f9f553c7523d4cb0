"""Counts, names and lists as sentences have them."""

from __future__ import annotations

from typing import get_args, get_type_hints

import pytest

from proctor.model import Suite
from proctor.plurals import describe_repeats_rule, join_names, pluralize, trial_name


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 cases"), (1, "1 case"), (2, "2 cases"), (1200, "1,200 cases")]
)
def test_a_count_has_its_plural(count: int, text: str) -> None:
    assert pluralize(count, "case") == text


@pytest.mark.parametrize(("most", "text"), [(3, "a, b, c"), (2, "a, b and 1 more")])
def test_a_list_ends_with_how_many_more_there_are(most: int, text: str) -> None:
    assert join_names(("a", "b", "c"), most) == text


def test_a_trial_is_named_by_its_case_and_a_later_one_by_its_repeat_too() -> None:
    assert [trial_name("peru", repeat) for repeat in (0, 1)] == ["peru", "peru (repeat 1)"]


def test_every_rule_over_repeats_has_its_words() -> None:
    rules = set(get_args(get_type_hints(Suite)["repeats_rule"]))
    assert {rule for rule in rules if describe_repeats_rule(rule, 0.8) is None} == {"each"}
    assert describe_repeats_rule("mean", 0.8) != describe_repeats_rule("mean", None)

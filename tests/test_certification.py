"""What may stand on a certificate: what speaks against one, and what a number is called."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.certification import (
    MIN_CASES,
    Measured,
    NotCertified,
    Terms,
    conditions,
    hindrances,
    measured,
    word_of,
)
from proctor.errors import ExitCode
from proctor.model import Run, Selection, Settings, SplitRule, Suite, TargetSpec
from proctor.stats import wilson


def against(terms: Terms | None = None, **given: Any) -> list[str]:
    """What a badge says of what speaks against such a number."""
    usual: dict[str, Any] = {"part": "all", "cases": 40, "not_measured": 0, "hidden": 0}
    of = Measured(**usual | given)
    return [one.short for one in hindrances(of, terms or Terms())]


def made(suite: Suite | None = None, regrade_of: str | None = None, **settings: Any) -> Run:
    return Run(
        id="r",
        group="g",
        suite=suite or Suite(name="s", dialect="meridian"),
        target=TargetSpec(name="echo", kind="echo"),
        settings=Settings(**settings),
        started_at=datetime(2026, 3, 1, tzinfo=UTC),
        regrade_of=regrade_of,
    )


def test_nothing_speaks_against_enough_cases_that_were_all_measured_and_all_asked() -> None:
    assert against() == []
    assert against(part="holdout", cases=MIN_CASES) == []


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"cases": MIN_CASES - 1}, "19 cases"),
        ({"cases": 1}, "1 case"),
        ({"cases": 0}, "0 cases"),
        ({"not_measured": 1}, "1 error"),
        ({"part": "dev"}, "dev cases alone"),
        ({"part": "holdout", "hidden": 3}, "not derived again"),
        ({"selection": Selection(ids=("easy-*",))}, "picked cases"),
        ({"selection": Selection(limit=40)}, "picked cases"),
        ({"selection": Selection(exclude_tags=("hard",))}, "picked cases"),
    ],
)
def test_each_thing_that_speaks_against_it_is_told(told: dict[str, Any], said: str) -> None:
    assert against(**told) == [said]


def test_a_whole_split_is_no_picking() -> None:
    assert against(part="holdout", selection=Selection(split="holdout")) == []


def test_the_terms_can_be_others() -> None:
    assert against(Terms(min_cases=5, allow_errors=2), cases=5, not_measured=2) == []
    assert against(Terms(min_cases=50), cases=40) == ["40 cases"]


def test_all_of_it_is_told_at_once_and_what_was_not_measured_outranks_the_rest() -> None:
    few = hindrances(Measured(part="dev", cases=4, not_measured=0, hidden=0), Terms())
    both = hindrances(Measured(part="all", cases=4, not_measured=1, hidden=0), Terms())
    assert NotCertified(few).exit_code is ExitCode.FAILED
    assert NotCertified(both).exit_code is ExitCode.NOT_MEASURED
    assert all(one.sentence in str(NotCertified(both)) for one in both)


def test_the_minimum_keeps_the_interval_within_some_forty_points() -> None:
    widths = {}
    for cases in (10, MIN_CASES):
        bounds = [wilson(passed, cases) for passed in range(cases + 1)]
        widths[cases] = max(high - low for low, high in filter(None, bounds))
    assert widths[MIN_CASES] == pytest.approx(0.40, abs=0.005)
    assert widths[10] == pytest.approx(0.53, abs=0.005)


@pytest.mark.parametrize(
    ("split", "rule", "part"),
    [
        ("dev", SplitRule(), "dev"),
        ("dev", None, "all"),
        ("all", SplitRule(), "all"),
        ("all", None, "all"),
    ],
)
def test_dev_cases_are_called_dev_even_where_they_are_all_that_was_asked(
    split: Any, rule: SplitRule | None, part: str
) -> None:
    run = made(Suite(name="s", dialect="meridian", split_rule=rule), selection=Selection(split=split))
    assert measured(run, split="all", cases=3, not_measured=0, hidden=9).part == part
    assert measured(run, split="all", cases=3, not_measured=0, hidden=9).hidden == 0
    held_out = measured(run, split="holdout", cases=3, not_measured=0, hidden=9)
    assert (held_out.part, held_out.hidden) == ("holdout", 9)


def test_how_a_number_was_counted_is_told_where_that_is_not_the_usual_way() -> None:
    def shorts(run: Run) -> list[str]:
        return [one.short for one in conditions(run)]

    assert shorts(made()) == []
    assert shorts(made(threshold=0.0)) == ["threshold 0"]
    assert shorts(made(Suite(name="s", dialect="agentv", repeats_rule="any"))) == ["any repeat"]
    assert shorts(made(Suite(name="s", dialect="agentv", repeats_rule="mean"))) == [""]
    (graded,) = conditions(made(regrade_of="20260101-000000-aaaaaa"))
    assert "20260101-000000-aaaaaa" in graded.sentence


def test_verified_is_what_was_derived_again_and_signed_by_somebody_known() -> None:
    assert word_of("trusted", hidden=0, recounted=0, imported=None) == "verified"
    assert word_of("trusted", hidden=0, recounted=1, imported=None) == "recounted"
    assert word_of("unknown", hidden=0, recounted=0, imported=None) == "self-attested"
    assert word_of("unsigned", hidden=0, recounted=0, imported=None) == "self-attested"


@given(
    st.sampled_from(["trusted", "unknown", "unsigned"]),
    st.integers(0, 2),
    st.integers(0, 2),
    st.sampled_from([None, "trusted", "unknown", "unsigned"]),
)
def test_no_number_is_verified_that_something_speaks_against(
    standing: Any, hidden: int, recounted: int, imported: Any
) -> None:
    word = word_of(standing, hidden=hidden, recounted=recounted, imported=imported)
    clean = standing == "trusted" and not hidden and not recounted and imported in (None, "trusted")
    assert (word == "verified") == clean
    assert (word == "claimed") == bool(hidden)

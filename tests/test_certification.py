"""Certificates: the objections to one, its conditions, and the trust level of a number."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.certification import (
    MIN_CASES,
    CertificationTerms,
    HeadlineScope,
    NotCertified,
    find_conditions,
    find_objections,
    headline_scope,
    trust_level,
)
from proctor.errors import ExitCode
from proctor.holdout import holdout_positions
from proctor.model import Run, Selection, Settings, SplitRule, Suite
from proctor.stats import wilson
from support.builders import make_run


def list_objections(terms: CertificationTerms | None = None, **fields: Any) -> list[str]:
    """Lists the objections to a certificate of such a number, as a badge shows them."""
    defaults: dict[str, Any] = {"part": "all", "cases": 40, "not_measured": 0, "hidden_trials": 0}
    scope = HeadlineScope(**defaults | fields)
    return [objection.short for objection in find_objections(scope, terms or CertificationTerms())]


def make_configured_run(suite: Suite | None = None, regrade_of: str | None = None, **settings: Any) -> Run:
    suite = suite or Suite(name="s", dialect="meridian")
    return make_run(suite=suite, settings=Settings(**settings), regrade_of=regrade_of)


def test_enough_cases_that_were_all_measured_and_selected_have_no_objection() -> None:
    assert list_objections() == []
    assert list_objections(part="holdout", cases=MIN_CASES) == []


@pytest.mark.parametrize(
    ("fields", "objection"),
    [
        ({"cases": MIN_CASES - 1}, "19 cases"),
        ({"cases": 1}, "1 case"),
        ({"cases": 0}, "0 cases"),
        ({"not_measured": 1}, "1 error"),
        ({"part": "dev"}, "dev cases alone"),
        ({"part": "holdout", "hidden_trials": 3}, "not derived again"),
        ({"selection": Selection(ids=("easy-*",))}, "picked cases"),
        ({"selection": Selection(limit=40)}, "picked cases"),
        ({"selection": Selection(exclude_tags=("hard",))}, "picked cases"),
    ],
)
def test_each_objection_has_its_short_form(fields: dict[str, Any], objection: str) -> None:
    assert list_objections(**fields) == [objection]


def describe_too_few(
    part: Any, cases: int, whole: int, share: float | None, min_cases: int = MIN_CASES
) -> str:
    """Returns the message on too few cases of a suite."""
    scope = HeadlineScope(
        part=part, cases=cases, not_measured=0, hidden_trials=0, suite_cases=whole, share=share
    )
    return str(NotCertified(find_objections(scope, CertificationTerms(min_cases=min_cases))))


@pytest.mark.parametrize(
    ("cases", "whole", "share", "takes", "larger"),
    [
        (6, 30, 0.2, "With 20 % held out that is a suite of 100 cases.", "hold out 67 % of these 30"),
        (10, 100, 0.1, "With 10 % held out that is a suite of 200 cases.", "hold out 20 % of these 100"),
        (3, 21, 0.125, "With 12.5 % held out that is a suite of 160 cases.", "hold out 96 % of these 21"),
        (19, 95, 0.2, "With 20 % held out that is a suite of 100 cases.", "hold out 22 % of these 95"),
        (2, 10, 0.2, "With 20 % held out that is a suite of 100 cases.", ""),
        (4, 20, 0.2, "With 20 % held out that is a suite of 100 cases.", ""),
    ],
)
def test_a_small_holdout_is_reported_with_the_suite_that_it_needs_and_both_remedies(
    cases: int, whole: int, share: float, takes: str, larger: str
) -> None:
    text = describe_too_few("holdout", cases, whole, share)
    assert f"{cases} holdout cases are not enough; at least 20 are needed. {takes} Write more cases" in text
    assert ("hold out" in text) == bool(larger)
    assert larger in text
    assert "or lower the minimum (--min-cases)" in text


@given(st.integers(1, 60), st.integers(1, 300), st.integers(1, 99).map(lambda per_cent: per_cent / 100))
def test_the_proposed_suite_and_the_proposed_share_are_large_enough(
    least: int, whole: int, share: float
) -> None:
    methods: tuple[Any, ...] = ("rank", "shuffle")
    for method in methods:
        rule = SplitRule(ratio=share, method=method)
        held_out_count = len(holdout_positions([str(n) for n in range(whole)], [None] * whole, rule))
        if held_out_count >= least:
            continue
        text = describe_too_few("holdout", held_out_count, whole, share, least)
        takes = int(re.findall(r"a suite of ([\d,]+) case", text)[0].replace(",", ""))
        assert len(holdout_positions([str(n) for n in range(takes)], [None] * takes, rule)) >= least
        for larger in re.findall(r"--holdout ([\d.]+)", text):
            wider = SplitRule(ratio=float(larger), method=method)
            assert len(holdout_positions([str(n) for n in range(whole)], [None] * whole, wider)) >= least


def test_without_a_holdout_more_cases_or_a_lower_minimum_are_proposed() -> None:
    text = describe_too_few("all", 10, 10, None)
    assert (
        "10 cases are not enough; at least 20 are needed. "
        "Write more cases, or lower the minimum (--min-cases)." in text
    )


def test_selecting_a_whole_split_is_no_objection() -> None:
    assert list_objections(part="holdout", selection=Selection(split="holdout")) == []


def test_the_terms_can_be_others() -> None:
    assert list_objections(CertificationTerms(min_cases=5, allow_errors=2), cases=5, not_measured=2) == []
    assert list_objections(CertificationTerms(min_cases=50), cases=40) == ["40 cases"]


def test_all_objections_are_reported_and_unmeasured_trials_decide_the_exit_code() -> None:
    failures = find_objections(
        HeadlineScope(part="dev", cases=4, not_measured=0, hidden_trials=0), CertificationTerms()
    )
    unmeasured = find_objections(
        HeadlineScope(part="all", cases=4, not_measured=1, hidden_trials=0), CertificationTerms()
    )
    assert NotCertified(failures).exit_code is ExitCode.FAILED
    assert NotCertified(unmeasured).exit_code is ExitCode.NOT_MEASURED
    assert all(objection.sentence in str(NotCertified(unmeasured)) for objection in unmeasured)


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
    run = make_configured_run(
        Suite(name="s", dialect="meridian", split_rule=rule), selection=Selection(split=split)
    )
    assert headline_scope(run, split="all", cases=3, not_measured=0, hidden_trials=9).part == part
    assert headline_scope(run, split="all", cases=3, not_measured=0, hidden_trials=9).hidden_trials == 0
    held_out = headline_scope(run, split="holdout", cases=3, not_measured=0, hidden_trials=9)
    assert (held_out.part, held_out.hidden_trials) == ("holdout", 9)


def test_unusual_ways_of_counting_are_conditions() -> None:
    def shorts(run: Run) -> list[str]:
        return [condition.short for condition in find_conditions(run)]

    def split(rule: Any = "each") -> Suite:
        return Suite(name="s", dialect="meridian", split_rule=SplitRule(), repeats_rule=rule)

    assert shorts(make_configured_run(split())) == []
    assert shorts(make_configured_run(split(), threshold=0.0)) == ["threshold 0"]
    assert shorts(make_configured_run(split("any"))) == ["any repeat"]
    assert shorts(make_configured_run(split("mean"))) == [""]
    (graded,) = find_conditions(make_configured_run(split(), regrade_of="20260101-000000-aaaaaa"))
    assert "20260101-000000-aaaaaa" in graded.sentence


@pytest.mark.parametrize("off", [True, False])
def test_where_nothing_was_held_out_the_certificate_says_so(off: bool) -> None:
    (condition,) = find_conditions(make_configured_run(Suite(name="s", dialect="meridian", no_holdout=off)))
    assert condition.sentence.startswith("There is no holdout")
    assert condition.short == "no holdout"


def test_only_recomputed_numbers_with_a_trusted_signature_are_verified() -> None:
    assert trust_level("trusted", hidden_trials=0, recounted=0, imported=None) == "verified"
    assert trust_level("trusted", hidden_trials=0, recounted=1, imported=None) == "recounted"
    assert trust_level("unknown", hidden_trials=0, recounted=0, imported=None) == "self-attested"
    assert trust_level("unsigned", hidden_trials=0, recounted=0, imported=None) == "self-attested"


@given(
    st.sampled_from(["trusted", "unknown", "unsigned"]),
    st.integers(0, 2),
    st.integers(0, 2),
    st.sampled_from([None, "trusted", "unknown", "unsigned"]),
)
def test_only_a_number_that_nothing_speaks_against_is_verified(
    trust: Any, hidden_trials: int, recounted: int, imported: Any
) -> None:
    word = trust_level(trust, hidden_trials=hidden_trials, recounted=recounted, imported=imported)
    clean = trust == "trusted" and not hidden_trials and not recounted and imported in (None, "trusted")
    assert (word == "verified") == clean
    assert (word == "claimed") == bool(hidden_trials)

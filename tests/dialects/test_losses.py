"""What renderers share: what is lost is told and kept, and names of files."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.dialects.shared.losses import LossReport, is_type_name, note_suite_losses
from proctor.dialects.shared.output_files import unique_file_stem
from proctor.model import Assertion, Case, Message, SplitRule, Suite, SuiteDefaults

CASE = Case(
    id="a",
    input=(Message(role="user", content="Hi"),),
    assertions=(Assertion(grader="exact", params={"value": "x"}, weight=2.0, label="mine"),),
    metadata={"author": "Ida"},
    repeats=2,
)


@pytest.mark.parametrize("lossy", [False, True])
def test_a_feature_that_is_noted_names_the_case_and_the_field(lossy: bool) -> None:
    unsaid = LossReport(CASE, "some", lossy=lossy)
    assert (unsaid.problems, unsaid.is_refused) == ([], False)
    unsaid.note("assertions[0].weight", "it has no weights.")
    (problem,) = unsaid.problems
    assert (
        problem.message
        == "Case 'a': the format some cannot express `assertions[0].weight`: it has no weights."
    )
    assert (problem.code, problem.case, problem.field) == ("unsayable", "a", "assertions[0].weight")
    assert problem.level == ("warning" if lossy else "error")
    assert unsaid.is_refused is not lossy


def test_what_is_lost_is_kept_whole_beside_the_metadata_that_is_there() -> None:
    unsaid = LossReport(CASE, "some", lossy=True)
    unsaid.note("assertions[0].weight", "no.")
    unsaid.note("repeats", "no.")
    check = {"grader": "exact", "params": {"value": "x"}, "weight": 2.0, "label": "mine"}
    assert unsaid.build_metadata({"description": "D."}) == {
        "author": "Ida",
        "proctor": {"assertions": [check], "repeats": 2, "suite": {"description": "D."}},
    }


def test_where_nothing_may_be_lost_nothing_is_kept() -> None:
    unsaid = LossReport(CASE, "some", lossy=False)
    unsaid.note("repeats", "no.")
    assert unsaid.build_metadata({"description": "D."}) == {"author": "Ida"}


def test_fields_at_their_default_say_nothing() -> None:
    unsaid = LossReport(CASE, "some", lossy=False)
    unsaid.note_fields(("repeats", "criteria", "form", "notes", "metadata"))
    assert [problem.field for problem in unsaid.problems] == ["repeats", "metadata"]


@pytest.mark.parametrize(
    ("grader", "params", "label", "known"),
    [
        ("exact", {}, "exact", True),
        ("exact", {}, "exact_match", True),
        ("exact", {}, "equals", True),
        ("exact", {"value": "K2"}, "equals-K2", True),
        ("contains", {"value": "the K2", "ignore_case": True}, "icontains-the K2", True),
        ("contains_any", {"values": ["K2", "Everest"]}, "contains-any-2", True),
        ("starts_with", {"value": "K-2"}, "starts-with-K-2", True),
        ("llm_grader", {}, "llm-grader", True),
        ("contains", {"value": "K2"}, "not-contains", True),
        ("contains", {"value": "K2"}, "substring", True),
        ("exact", {"value": "K2"}, "Match", True),
        ("regex", {"pattern": "[a-z]+"}, "regex-[a-z]+", True),
        ("exact", {"value": "K2"}, "the capital", False),
        ("exact", {"value": "K2"}, "equals-K3", False),
        ("contains", {"value": "K2"}, "contains-the-peak", False),
        ("length", {}, "short enough", False),
    ],
)
def test_a_label_that_a_dialect_gives_by_itself_says_nothing(
    grader: str, params: dict[str, object], label: str, known: bool
) -> None:
    one = Assertion(grader=grader, params=params, label=label)
    assert is_type_name(one) is known
    unsaid = LossReport(CASE, "some", lossy=False)
    unsaid.note_labels([one])
    assert bool(unsaid.problems) is not known
    unsaid = LossReport(CASE, "some", lossy=False)
    unsaid.note_labels([one], renderable=(label,))
    assert unsaid.problems == []


@pytest.mark.parametrize(
    ("suite", "has_holdout", "level", "field"),
    [
        ({}, False, None, None),
        ({}, True, None, None),
        ({"split_rule": SplitRule()}, True, None, None),
        ({"split_rule": SplitRule()}, False, "warning", "split_rule"),
        ({"split_rule": SplitRule(ratio=0.3)}, False, "error", "split_rule"),
        ({"split_rule": SplitRule(ratio=0.3)}, True, None, None),
        ({"split_rule": SplitRule(seed=7)}, True, "error", "split_rule"),
        ({"split_rule": SplitRule(method="shuffle")}, True, "error", "split_rule"),
        ({"defaults": SuiteDefaults(reuse=True)}, False, None, None),
        ({"defaults": SuiteDefaults(cache=True)}, False, "error", "defaults"),
        ({"description": "D."}, False, "error", "description"),
    ],
)
def test_what_a_header_says_is_noted_and_what_a_dialect_always_does_is_a_warning(
    suite: dict[str, object], has_holdout: bool, level: str | None, field: str | None
) -> None:
    given_suite = Suite(name="s", dialect="x", **suite)  # type: ignore[arg-type]
    unsaid = LossReport(given_suite, "some", lossy=False)
    note_suite_losses(unsaid, given_suite, ("description", "notes"), has_holdout=has_holdout)
    assert [(problem.level, problem.field) for problem in unsaid.problems] == (
        [] if level is None else [(level, field)]
    )


def test_what_was_lost_before_is_still_there_when_more_is_lost() -> None:
    case = Case(id="a", input=CASE.input, metadata={"proctor": {"criteria": "Old."}}, repeats=2)
    unsaid = LossReport(case, "some", lossy=True)
    unsaid.note("repeats", "no.")
    assert unsaid.build_metadata()["proctor"] == {"repeats": 2, "earlier": {"criteria": "Old."}}


# --- names of files ----------------------------------------------------------------------------------------


@given(names=st.lists(st.text(st.characters(exclude_categories=["Cs"])), unique=True))
def test_each_name_is_a_file_of_its_own_that_any_system_can_have(names: list[str]) -> None:
    taken: set[str] = set()
    stems = [unique_file_stem(name, taken) for name in names]
    assert len({stem.lower() for stem in stems}) == len(names)
    for stem in stems:
        assert not stem.startswith("/")
        for part in stem.split("/"):
            assert 0 < len(part.encode()) <= 250
            assert part == part.strip(" .")
            assert not set(part) & set('<>:"\\|?*\0\n')


@pytest.mark.parametrize(
    ("name", "stem"),
    [
        ("factual-001", "factual-001"),
        ("a/b c", "a/b-c"),
        ("../etc/x", "etc/x"),
        ("tests/a[k=v]~p", "tests/a[k=v]~p"),
        ("NUL", "NUL-"),
        ("Übung", "Übung"),
    ],
)
def test_a_name_stays_what_it_is_as_far_as_it_can(name: str, stem: str) -> None:
    assert unique_file_stem(name, set()) == stem

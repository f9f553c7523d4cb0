"""What renderers share: reports of losses, and names of files."""

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
def test_a_loss_is_a_problem_that_names_the_case_and_the_field(lossy: bool) -> None:
    report = LossReport(CASE, "some", lossy=lossy)
    assert (report.problems, report.is_refused) == ([], False)
    report.note("assertions[0].weight", "it has no weights.")
    (problem,) = report.problems
    assert (
        problem.message
        == "Case 'a': the format some cannot express `assertions[0].weight`: it has no weights."
    )
    assert (problem.code, problem.case, problem.field) == ("unsayable", "a", "assertions[0].weight")
    assert problem.level == ("warning" if lossy else "error")
    assert report.is_refused is not lossy


def test_lost_fields_are_kept_whole_beside_the_other_metadata() -> None:
    report = LossReport(CASE, "some", lossy=True)
    report.note("assertions[0].weight", "no.")
    report.note("repeats", "no.")
    check = {"grader": "exact", "params": {"value": "x"}, "weight": 2.0, "label": "mine"}
    assert report.build_metadata({"description": "D."}) == {
        "author": "Ida",
        "proctor": {"assertions": [check], "repeats": 2, "suite": {"description": "D."}},
    }


def test_nothing_is_kept_if_losses_are_not_allowed() -> None:
    report = LossReport(CASE, "some", lossy=False)
    report.note("repeats", "no.")
    assert report.build_metadata({"description": "D."}) == {"author": "Ida"}


def test_fields_with_default_values_are_no_losses() -> None:
    report = LossReport(CASE, "some", lossy=False)
    report.note_fields(("repeats", "criteria", "form", "notes", "metadata"))
    assert [problem.field for problem in report.problems] == ["repeats", "metadata"]


@pytest.mark.parametrize(
    ("grader", "params", "label", "is_known"),
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
def test_a_label_that_a_dialect_gives_by_default_is_no_loss(
    grader: str, params: dict[str, object], label: str, is_known: bool
) -> None:
    assertion = Assertion(grader=grader, params=params, label=label)
    assert is_type_name(assertion) is is_known
    report = LossReport(CASE, "some", lossy=False)
    report.note_labels([assertion])
    assert bool(report.problems) is not is_known
    report = LossReport(CASE, "some", lossy=False)
    report.note_labels([assertion], renderable=(label,))
    assert report.problems == []


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
def test_losses_of_a_header_are_reported(
    suite: dict[str, object], has_holdout: bool, level: str | None, field: str | None
) -> None:
    new_suite = Suite(name="s", dialect="x", **suite)  # type: ignore[arg-type]
    report = LossReport(new_suite, "some", lossy=False)
    note_suite_losses(report, new_suite, ("description", "notes"), has_holdout=has_holdout)
    assert [(problem.level, problem.field) for problem in report.problems] == (
        [] if level is None else [(level, field)]
    )


def test_earlier_losses_are_kept_when_more_is_lost() -> None:
    case = Case(id="a", input=CASE.input, metadata={"proctor": {"criteria": "Old."}}, repeats=2)
    report = LossReport(case, "some", lossy=True)
    report.note("repeats", "no.")
    assert report.build_metadata()["proctor"] == {"repeats": 2, "earlier": {"criteria": "Old."}}


# --- names of files ----------------------------------------------------------------------------------------


@given(names=st.lists(st.text(st.characters(exclude_categories=["Cs"])), unique=True))
def test_each_name_gives_a_different_portable_file_name(names: list[str]) -> None:
    used_stems: set[str] = set()
    stems = [unique_file_stem(name, used_stems) for name in names]
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
def test_a_name_is_changed_as_little_as_possible(name: str, stem: str) -> None:
    assert unique_file_stem(name, set()) == stem

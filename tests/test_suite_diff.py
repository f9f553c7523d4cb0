"""What changed between two suites."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from proctor.model import (
    Assertion,
    Case,
    Message,
    PassRule,
    ResponseFormat,
    SplitRule,
    Suite,
    SuiteDefaults,
)
from proctor.suite_diff import CaseChange, CaseRename, Diff, FieldChange, diff_suites
from support.builders import make_case

SUITE = Suite(name="s", dialect="meridian")


def diff_cases(old: Sequence[Case], new: Sequence[Case]) -> Diff:
    return diff_suites(SUITE, old, SUITE, new)


def make_cases(ids: str) -> list[Case]:
    return [make_case(letter, f"What is {letter}?") for letter in ids]


@pytest.mark.parametrize(
    ("old", "new", "added_ids", "removed_ids", "moved_count", "same_count"),
    [
        ("abc", "abc", "", "", 0, 3),
        ("", "", "", "", 0, 0),
        ("abc", "abcd", "d", "", 0, 3),
        ("abc", "xabyc", "xy", "", 0, 3),
        ("abcd", "bd", "", "ac", 0, 2),
        ("abcd", "bx", "x", "acd", 0, 1),
        ("abcde", "eabcd", "", "", 1, 5),
        ("abcde", "bcdea", "", "", 1, 5),
        ("abcde", "edcba", "", "", 4, 5),
        ("abcdef", "xfabcd", "x", "e", 1, 5),
        ("", "ab", "ab", "", 0, 0),
        ("ab", "", "", "ab", 0, 0),
    ],
)
def test_cases_are_added_removed_and_moved(
    old: str, new: str, added_ids: str, removed_ids: str, moved_count: int, same_count: int
) -> None:
    diff = diff_cases(make_cases(old), make_cases(new))
    assert ("".join(diff.added), "".join(diff.removed)) == (added_ids, removed_ids)
    assert (diff.moved, diff.same, diff.renamed, diff.changed) == (moved_count, same_count, (), ())
    assert diff.is_empty == (old == new)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({"expected": "4"}, {"expected": "5"}, [FieldChange("expected", "4", "5")]),
        ({"expected": 1}, {"expected": 1.0}, [FieldChange("expected", 1, 1.0)]),
        ({"expected": 1}, {"expected": True}, [FieldChange("expected", 1, True)]),
        ({}, {"criteria": "Is short."}, [FieldChange("criteria", None, "Is short.")]),
        ({"category": "old"}, {}, [FieldChange("category", "old", None)]),
        ({"tags": ("a", "b")}, {"tags": ("a", "c")}, [FieldChange("tags", ["a", "b"], ["a", "c"])]),
        ({}, {"tags": ("a",)}, [FieldChange("tags", None, ["a"])]),
        ({"metadata": {"deep": {"x": 1, "y": 2}}}, {"metadata": {"deep": {"x": 1, "y": 3}}},
         [FieldChange("metadata.deep.y", 2, 3)]),
        ({"metadata": {"a b.c": 1}}, {"metadata": {"a b.c": 2}}, [FieldChange('metadata."a b.c"', 1, 2)]),
        ({"metadata": {"rows": [{"x": 1}, {"x": 2}]}}, {"metadata": {"rows": [{"x": 1}]}},
         [FieldChange("metadata.rows[1]", {"x": 2}, None)]),
        ({"form": ResponseFormat(json=True)}, {"form": ResponseFormat(json=True, special_tags=("_json",))},
         [FieldChange("form.special_tags", None, ["_json"])]),
        ({"repeats": 2, "pass_rule": PassRule(threshold=0.5)},
         {"repeats": 3, "pass_rule": PassRule(threshold=0.6)},
         [FieldChange("repeats", 2, 3), FieldChange("pass_rule.threshold", 0.5, 0.6)]),
    ],
)  # fmt: skip
def test_a_changed_case_lists_its_changed_fields(
    before: dict[str, Any], after: dict[str, Any], expected: list[FieldChange]
) -> None:
    same = make_case("other", "Who?")
    diff = diff_cases([same, make_case(**before)], [same, make_case(**after)])
    assert [(change.case, list(change.changes)) for change in diff.changed] == [("c", expected)]
    assert list(map(repr, diff.changed[0].changes)) == list(map(repr, expected))  # 1, 1.0 and True are equal
    assert (diff.same, diff.added, diff.removed, diff.renamed) == (1, (), (), ())


def test_paths_lead_into_messages_and_assertions() -> None:
    def make(question: str, value: str, *more: Assertion) -> Case:
        turns = (Message(role="system", content="Be brief."), Message(role="user", content=question))
        checks = (
            Assertion(grader="length", params={"most": 9}),
            Assertion(grader="exact", params={"value": value}),
        )
        return Case(id="c", input=turns, assertions=(*checks, *more))

    diff = diff_cases([make("How many?", "4")], [make("How much?", "5", Assertion(grader="refusal"))])
    assert diff.changed == (
        CaseChange(
            "c",
            (
                FieldChange("input[1].content", "How many?", "How much?"),
                FieldChange("assertions[1].params.value", "4", "5"),
                FieldChange("assertions[2]", None, {"grader": "refusal"}),
            ),
        ),
    )


def test_a_case_with_another_id_alone_is_renamed() -> None:
    old = [make_case("a", "Same?"), make_case("b", "Other?", expected="x"), make_case("gone", "Old?")]
    new = [make_case("b2", "Other?", expected="x"), make_case("a", "Same?"), make_case("come", "New?")]
    diff = diff_cases(old, new)
    assert diff.renamed == (CaseRename("b", "b2"),)
    assert (diff.added, diff.removed, diff.changed) == (("come",), ("gone",), ())
    assert (diff.same, diff.moved) == (1, 1)


def test_a_renamed_case_lists_its_other_changes() -> None:
    diff = diff_cases([make_case("a", tags=("x",))], [make_case("b", tags=("y",))])
    assert diff.renamed == (CaseRename("a", "b"),)
    assert diff.changed == (CaseChange("b", (FieldChange("tags", ["x"], ["y"]),)),)
    assert diff.same == 0


@pytest.mark.parametrize(
    ("old", "new", "more"),
    [
        ({"file": "soup.md"}, {"file": "stew.md"}, []),
        ({"file": "soup.md", "prompt": "cook"}, {"file": "stew.md", "prompt": "chef"}, []),
        ({"file": "soup.md", "prompt": "cook"}, {"file": "stew.md", "prompt": "boss"}, None),
        ({"file": "soup.md", "by": "Ada"}, {"file": "stew.md", "by": "Bo"}, ["metadata.by"]),
        ({"file": "soup.md"}, {"file": "other.md"}, None),
        ({"file": "soup.md"}, {"file": ""}, None),
        ({"file": ""}, {"file": "stew.md"}, None),
    ],
)
def test_a_case_that_is_named_after_a_file_is_not_changed_by_the_files_new_name(
    old: dict[str, str], new: dict[str, str], more: list[str] | None
) -> None:
    ids = ("soup[n=4]~cook", "stew[n=4]~chef") if new.get("prompt") else ("soup[n=4]", "stew[n=4]")
    diff = diff_cases([make_case(ids[0], metadata=old)], [make_case(ids[1], metadata=new)])
    assert diff.renamed == (CaseRename(*ids),)
    fields = [change.field for changed in diff.changed for change in changed.changes]
    assert fields == ([f"metadata.{name}" for name in new] if more is None else more)


@pytest.mark.parametrize("fields", [{"expected": "other"}, {"text": "Other?"}])
def test_a_case_with_another_question_or_expectation_is_a_new_case(fields: dict[str, Any]) -> None:
    diff = diff_cases([make_case("a", expected="x")], [make_case("b", **{"expected": "x"} | fields)])
    assert (diff.renamed, diff.added, diff.removed) == ((), ("b",), ("a",))


def test_equal_cases_are_renamed_one_by_one() -> None:
    diff = diff_cases([make_case("a"), make_case("b"), make_case("c")], [make_case("x"), make_case("y")])
    assert diff.renamed == (CaseRename("a", "x"), CaseRename("b", "y"))
    assert (diff.removed, diff.added) == (("c",), ())


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"version": "v2", "digest": "sha256:1", "content": "sha256:2", "case_count": 4, "folder": "x"}, []),
        ({"name": "t"}, [FieldChange("name", "s", "t")]),
        ({"declared_version": "2"}, [FieldChange("declared_version", None, "2")]),
        ({"pass_rule": PassRule(threshold=0.5)}, [FieldChange("pass_rule", None, {"threshold": 0.5})]),
        ({"split_rule": SplitRule(ratio=0.3)}, [FieldChange("split_rule", None, {"ratio": 0.3})]),
        (
            {"defaults": SuiteDefaults(targets=("echo",))},
            [FieldChange("defaults", None, {"targets": ["echo"]})],
        ),
    ],
)
def test_the_suites_own_fields_are_compared(fields: dict[str, Any], expected: list[FieldChange]) -> None:
    diff = diff_suites(SUITE, [], replace(SUITE, **fields), [])
    assert list(diff.header) == expected
    assert diff.is_empty == (not expected)


CASES = st.lists(
    st.builds(
        Case,
        id=st.sampled_from("abcdef"),
        input=st.sampled_from("?!").map(lambda text: (Message(role="user", content=text),)),
        expected=st.sampled_from([None, 1, "x", [1, {"a": None}]]),
        tags=st.sampled_from([(), ("t",), ("t", "u")]),
    ),
    unique_by=lambda case: case.id,
    max_size=6,
)


@given(CASES)
def test_a_suite_does_not_differ_from_itself(cases: list[Case]) -> None:
    assert diff_cases(cases, cases) == Diff(same=len(cases))


@given(CASES, CASES)
def test_every_case_is_listed_once_and_both_directions_agree(old: list[Case], new: list[Case]) -> None:
    forward, backward = diff_cases(old, new), diff_cases(new, old)
    assert (sorted(forward.added), sorted(forward.removed)) == (
        sorted(backward.removed),
        sorted(backward.added),
    )
    assert len(forward.renamed) == len(backward.renamed)
    assert (forward.moved, forward.same, len(forward.header)) == (backward.moved, backward.same, 0)
    renamed_ids = {change.new for change in forward.renamed}
    changed_ids = {change.case for change in forward.changed} - renamed_ids
    assert forward.same + len(changed_ids) + len(renamed_ids) + len(forward.added) == len(new)
    assert forward.same + len(changed_ids) + len(renamed_ids) + len(forward.removed) == len(old)

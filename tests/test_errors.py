"""The error tree: parents, exit codes and messages."""

from __future__ import annotations

import inspect
import re

import pytest

from proctor import errors
from proctor.errors import (
    AnswerTooLarge,
    BundleError,
    CannotScore,
    EndpointFailed,
    ExitCode,
    GraderBroke,
    NothingSelected,
    ProctorError,
    ReadOnlyStore,
    StoreError,
    SuiteError,
    TargetError,
    TargetTimeout,
    TimeLimitExceeded,
    UnknownName,
    UsageError,
    WorkspaceError,
    suggestion,
)
from proctor.model import Problem

TREE: list[tuple[type[ProctorError], type[Exception], ExitCode]] = [
    (ProctorError, Exception, ExitCode.USAGE),
    (UsageError, ProctorError, ExitCode.USAGE),
    (UnknownName, UsageError, ExitCode.USAGE),
    (SuiteError, ProctorError, ExitCode.USAGE),
    (StoreError, ProctorError, ExitCode.USAGE),
    (ReadOnlyStore, StoreError, ExitCode.USAGE),
    (BundleError, ProctorError, ExitCode.FAILED),
    (NothingSelected, ProctorError, ExitCode.NOTHING_SELECTED),
    (TargetError, ProctorError, ExitCode.NOT_MEASURED),
    (TargetTimeout, TargetError, ExitCode.NOT_MEASURED),
    (AnswerTooLarge, TargetError, ExitCode.NOT_MEASURED),
    (EndpointFailed, TargetError, ExitCode.NOT_MEASURED),
    (WorkspaceError, ProctorError, ExitCode.NOT_MEASURED),
    (CannotScore, ProctorError, ExitCode.NOT_MEASURED),
    (GraderBroke, ProctorError, ExitCode.NOT_MEASURED),
    (TimeLimitExceeded, ProctorError, ExitCode.NOT_MEASURED),
]


@pytest.mark.parametrize(("error", "parent", "code"), TREE)
def test_an_error_has_its_parent_and_its_exit_code(
    error: type[ProctorError], parent: type[Exception], code: ExitCode
) -> None:
    assert error.__bases__ == (parent,)
    assert error.exit_code is code


def test_every_error_is_in_the_tree_and_in_the_docstring_with_its_code() -> None:
    error_classes = {
        error_class
        for _, error_class in inspect.getmembers(errors, inspect.isclass)
        if issubclass(error_class, ProctorError)
    }
    assert error_classes == {error for error, _, _ in TREE}
    documented = re.findall(r"(\w+) +(\d)\b", errors.__doc__ or "")
    assert [(name, int(code)) for name, code in documented] == [
        (error.__name__, int(code)) for error, _, code in TREE
    ]


def test_exit_codes_are_those_that_scripts_know() -> None:
    assert {code.name: int(code) for code in ExitCode} == {
        "OK": 0,
        "FAILED": 1,
        "INTERRUPTED": 2,
        "NOT_MEASURED": 3,
        "USAGE": 4,
        "NOTHING_SELECTED": 5,
    }


@pytest.mark.parametrize(
    ("name", "names", "sentence"),
    [
        ("contain", ["contains", "exact"], "Did you mean 'contains'?"),
        (
            "contains",
            ["contains_them_all", "contains_any"],
            "Did you mean 'contains_any' or 'contains_them_all'?",
        ),
        ("zzz", ["contains", "exact"], "Expected one of: contains, exact."),
        ("zzz", [], "None are known."),
        ("", ["exact"], "Expected one of: exact."),
    ],
)
def test_a_suggestion_names_the_nearest_or_all(name: str, names: list[str], sentence: str) -> None:
    assert suggestion(name, names) == sentence


def test_an_unknown_name_is_quoted_and_the_known_names_are_sorted() -> None:
    error = UnknownName("grader", "q'x", iter(["exact", "contains"]))
    assert str(error) == """Unknown grader "q'x". Expected one of: contains, exact."""
    assert error.name == "q'x"


def test_a_suite_error_carries_every_problem_one_a_line() -> None:
    problems = [
        Problem(code="bad-json", message="Not JSON.", path="s.jsonl", line=3),
        Problem(level="warning", code="odd", message="Odd.", path="s.jsonl"),
    ]
    error = SuiteError(problems)
    assert error.problems == tuple(problems)
    assert str(error) == "s.jsonl:3: error: Not JSON.\ns.jsonl: warning: Odd."

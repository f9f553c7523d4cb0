"""Conversion: errors of a renderer are found by reading its files again; and writing of files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from proctor.codec import decode, encode
from proctor.dialects import DIALECTS, writable_names
from proctor.dialects.shared.losses import LossReport
from proctor.errors import UnknownName, UsageError
from proctor.model import (
    Assertion,
    Case,
    Message,
    PassRule,
    Problem,
    ResponseFormat,
    Suite,
    Workspace,
)
from proctor.protocols import CaseAtLine, Dialect, FileHead, RenderedFile, Renderer, SuiteSource
from proctor.services.suites.convert import MAIN_FILE, ConvertedSuite, convert_suite
from proctor.services.suites.write_files import write_suite_files

SUITE = Suite(name="tides", dialect="meridian")


def make_case(name: str = "a", **fields: Any) -> Case:
    defaults: dict[str, Any] = {
        "input": (Message(role="user", content="Hi"),),
        "assertions": (Assertion(grader="exact", params={"value": "x"}),),
    }
    return Case(id=name, **defaults | fields)


Change = Callable[[Case], Case | None]


class LossyDialect(Dialect):
    """A dialect whose renderer changes each case without an error."""

    renderer = "here:render"

    def __init__(self, change: Change, rule: PassRule | None = None) -> None:
        self.change = change
        self.rule = rule

    def recognises(self, head: FileHead) -> None:
        return None

    def read(self, source: SuiteSource) -> Iterator[Suite | CaseAtLine | Problem]:
        for line, data in enumerate(source.read_lines(), 1):
            if line == 1:
                row = json.loads(data)
                rule = PassRule(threshold=row["threshold"])
                yield Suite(name="x", dialect="careless", pass_rule=rule, repeats_rule=row["rule"])
            elif not data.startswith(b"{"):
                yield Problem(code="bad", message="It is broken.", path=source.path, line=line, case="a")
            else:
                yield CaseAtLine(decode(data, Case), line)

    def render(self, suite: Suite, cases: Iterable[Case], *, lossy: bool) -> Iterator[RenderedFile | Problem]:
        rule = suite.pass_rule if self.rule is None else self.rule
        yield RenderedFile("", encode({"threshold": rule.threshold, "rule": suite.repeats_rule}) + b"\n")
        for case in cases:
            changed = self.change(case)
            if changed is not None:
                yield RenderedFile("", encode(changed) + b"\n")


@pytest.fixture
def careless() -> Iterator[Callable[..., ConvertedSuite]]:
    """Converts cases by a renderer that makes a mistake."""

    def convert(change: Change, *cases: Case, suite: Suite = SUITE, **fields: Any) -> ConvertedSuite:
        dialect = LossyDialect(change, fields.get("rule"))
        DIALECTS.add("careless", dialect)
        return convert_suite(suite, cases, "careless", lossy=fields.get("lossy", False))

    yield convert
    for place in (DIALECTS._locations, DIALECTS._instances):
        place.pop("careless", None)


def render_by(renderer: Renderer) -> None:
    """Lets the careless dialect be written by another renderer."""
    dialect = LossyDialect(keep_case)
    dialect.render = renderer  # type: ignore[method-assign]
    DIALECTS.add("careless", dialect)


def keep_case(case: Case) -> Case:
    return case


# --- changes that are found --------------------------------------------------------------------------------


def test_a_suite_that_comes_back_as_it_was_has_no_problem(careless: Callable[..., ConvertedSuite]) -> None:
    suite = careless(keep_case, make_case("a"), make_case("b"))
    assert (suite.problems, suite.has_errors) == ([], False)
    assert (list(suite.files), suite.name_hint) == ([MAIN_FILE], "tides.jsonl")


@pytest.mark.parametrize(
    ("whole", "change", "field"),
    [
        ({}, {"input": (Message(role="user", content="Ho"),)}, "input[0].content"),
        ({}, {"input": (Message(role="user", content="Hi"),) * 2}, "input"),
        ({"expected": "x"}, {"expected": "y"}, "expected"),
        ({"expected": 1}, {"expected": 1.0}, "expected"),
        ({"criteria": "C."}, {"criteria": None}, "criteria"),
        (
            {},
            {"assertions": (Assertion(grader="exact", params={"value": "y"}),)},
            "assertions[0].params.value",
        ),
        (
            {},
            {"assertions": (Assertion(grader="exact", params={"value": "x"}, weight=2.0),)},
            "assertions[0].weight",
        ),
        ({"pass_rule": PassRule(threshold=0.5)}, {"pass_rule": None}, "pass_rule"),
        ({"target": "t"}, {"target": None}, "target"),
        ({"form": ResponseFormat(json=True)}, {"form": ResponseFormat()}, "form.json"),
        ({"workspace": Workspace(template="t")}, {"metadata": {"new": 1}}, "metadata.new"),
        ({"tags": ("x", "y")}, {"tags": ("x",)}, "tags"),
        ({"category": "c"}, {"category": None}, "category"),
        ({"repeats": 3}, {"repeats": None}, "repeats"),
        ({"only_targets": ("t",)}, {"only_targets": ()}, "only_targets"),
        ({"notes": {"n": 1}}, {"notes": {}}, "notes.n"),
        ({"metadata": {"m": {"deep": 1}}}, {"metadata": {"m": {"deep": 2}}}, "metadata.m.deep"),
        ({}, {"variables": ("HOME",)}, "variables"),
    ],
)
def test_what_changes_in_silence_is_an_error_that_names_the_case_and_the_field(
    careless: Callable[..., ConvertedSuite], whole: dict[str, Any], change: dict[str, Any], field: str
) -> None:
    suite = careless(lambda case: replace(case, **change), make_case("tide-7", **whole))
    (problem,) = suite.problems
    assert (problem.level, problem.code, problem.case, problem.field) == (
        "error",
        "unsayable",
        "tide-7",
        field,
    )
    assert problem.message.startswith("Case 'tide-7': format careless cannot express it: ")
    assert problem.path == "tides"
    assert suite.has_errors


@pytest.mark.parametrize(
    "change",
    [
        {"metadata": {"kept": 1, "more": 2}},
        {"assertions": (Assertion(grader="exact", params={"value": "x"}, label="other"),)},
        {"assertions": (Assertion(grader="exact", params={"value": "x"}, weight=float("1")),)},
    ],
)
def test_labels_more_metadata_and_another_way_to_write_a_number_change_nothing(
    careless: Callable[..., ConvertedSuite], change: dict[str, Any]
) -> None:
    assert careless(lambda case: replace(case, **change), make_case(metadata={"kept": 1})).problems == []


def test_a_case_that_disappears_is_named(careless: Callable[..., ConvertedSuite]) -> None:
    suite = careless(lambda case: None if case.id == "b" else case, make_case("a"), make_case("b"))
    assert [(problem.case, "lost" in problem.message) for problem in suite.problems] == [("b", True)]


def test_a_case_that_gets_another_id_is_named_under_both(careless: Callable[..., ConvertedSuite]) -> None:
    suite = careless(lambda case: replace(case, id="z"), make_case("a"))
    assert sorted(problem.case or "" for problem in suite.problems) == ["a", "z"]


def test_a_rule_of_the_suite_that_changes_is_named(careless: Callable[..., ConvertedSuite]) -> None:
    suite = careless(keep_case, make_case(), rule=PassRule(threshold=0.1))
    assert [(problem.case, problem.field) for problem in suite.problems] == [(None, "pass_rule")]


def test_what_was_told_as_lost_is_not_told_again(careless: Callable[..., ConvertedSuite]) -> None:
    converted = careless(keep_case, make_case())
    assert converted.problems == []

    def lossy(suite: Suite, cases: Iterable[Case], *, lossy: bool) -> Iterator[RenderedFile | Problem]:
        dialect = LossyDialect(lambda case: replace(case, criteria=None, tags=()))
        for case in cases:
            unsaid = LossReport(case, "careless", lossy=lossy)
            unsaid.note("criteria", "no.")
            yield from unsaid.problems
        yield from dialect.render(suite, cases, lossy=lossy)

    render_by(lossy)
    whole = convert_suite(SUITE, [make_case(criteria="C.")], "careless", lossy=True)
    assert [(problem.level, problem.field) for problem in whole.problems] == [("warning", "criteria")]
    silent = convert_suite(SUITE, [make_case(criteria="C.", tags=("t",))], "careless", lossy=True)
    assert [problem.field for problem in silent.problems if problem.level == "error"] == ["tags"]


def test_what_cannot_be_read_again_is_an_error(careless: Callable[..., ConvertedSuite]) -> None:
    def breaking(suite: Suite, cases: Iterable[Case], *, lossy: bool) -> Iterator[RenderedFile | Problem]:
        yield RenderedFile("", b'{"threshold": null, "rule": "each"}\n')
        yield RenderedFile("", b"broken\n")

    careless(keep_case)
    render_by(breaking)
    (problem,) = convert_suite(SUITE, [make_case()], "careless", lossy=False).problems
    assert (problem.case, problem.level) == ("a", "error")
    assert problem.message.endswith("the written file cannot be read: It is broken.")


def test_a_suite_of_no_cases_is_one_of_no_cases(careless: Callable[..., ConvertedSuite]) -> None:
    assert careless(keep_case).problems == []


# --- which dialects ----------------------------------------------------------------------------------------


def test_a_dialect_that_is_only_read_says_what_can_be_written() -> None:
    (only_read, *_) = sorted(set(DIALECTS.names()) - set(writable_names()))
    with pytest.raises(UsageError, match=rf"'{only_read}' but cannot write them.*meridian.*proctor"):
        convert_suite(SUITE, [make_case()], only_read, lossy=False)


def test_an_unknown_dialect_is_an_error_with_the_nearest() -> None:
    with pytest.raises(UnknownName, match=r"Unknown dialect 'meridan'. Did you mean 'meridian'\?"):
        convert_suite(SUITE, [make_case()], "meridan", lossy=False)


def test_where_a_suite_came_from_is_no_reason_to_refuse_it() -> None:
    suite = Suite(name="s", dialect="proctor", notes={"from": "pramana", "suite_hash": "sha256:1"})
    converted = convert_suite(suite, [make_case(expected="x")], "meridian", lossy=False)
    assert [problem for problem in converted.problems if problem.level == "error"] == []


# --- writing -----------------------------------------------------------------------------------------------


def make_suite(**files: str) -> ConvertedSuite:
    files_by_path = {
        name.replace("__", "/").replace("main", ""): data.encode() for name, data in files.items()
    }
    return ConvertedSuite(files=files_by_path, problems=[], stem="tides", ending=".jsonl")


def read_files(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.mark.parametrize(
    ("output", "files", "expected"),
    [
        ("x.jsonl", {"main": "m"}, {"x.jsonl": "m"}),
        ("new/deep/x.jsonl", {"main": "m"}, {"new/deep/x.jsonl": "m"}),
        ("new/", {"main": "m"}, {"new/tides.jsonl": "m"}),
        ("old", {"main": "m"}, {"old/tides.jsonl": "m"}),
        ("x.jsonl", {"main": "m", "a__b": "b"}, {"x.jsonl": "m", "a/b": "b"}),
        ("new", {"a": "1", "b__c": "2"}, {"new/a": "1", "new/b/c": "2"}),
        ("old", {"a": "1"}, {"old/a": "1"}),
    ],
)
def test_files_go_where_one_expects(
    folder: Path, output: str, files: dict[str, str], expected: dict[str, str]
) -> None:
    (folder / "old").mkdir()
    paths = write_suite_files(make_suite(**files), output)
    assert read_files(folder) == expected
    assert {path.as_posix() for path in paths} == expected.keys()


def test_a_file_that_is_there_stays_unless_forced(folder: Path) -> None:
    (folder / "b").write_text("mine")
    files = {"a": "1", "b": "2"}
    with pytest.raises(
        UsageError, match=r"These files already exist: b\. Nothing was written\. Add --force to replace"
    ):
        write_suite_files(make_suite(main="m", **files), "x.jsonl")
    assert read_files(folder) == {"b": "mine"}
    write_suite_files(make_suite(main="m", **files), "x.jsonl", force=True)
    assert read_files(folder) == {"x.jsonl": "m", **files}


def test_a_suite_that_is_a_folder_does_not_go_among_other_files(folder: Path) -> None:
    (folder / "notes").mkdir()
    (folder / "notes" / "mine.md").write_text("mine")
    with pytest.raises(UsageError, match="is not empty"):
        write_suite_files(make_suite(a="1"), "notes")
    assert read_files(folder) == {"notes/mine.md": "mine"}
    write_suite_files(make_suite(a="1"), "notes", force=True)
    assert read_files(folder) == {"notes/a": "1", "notes/mine.md": "mine"}


@pytest.mark.parametrize("path", ["../x", "/x", "a/../../x"])
def test_no_file_goes_outside(folder: Path, path: str) -> None:
    suite = ConvertedSuite(files={path: b"x"}, problems=[], stem="t")
    with pytest.raises(UsageError, match="would be outside"):
        write_suite_files(suite, "new")
    assert read_files(folder) == {}


@pytest.mark.parametrize("output", ["", " ", "/dev/null", "old"])
@pytest.mark.parametrize("force", [False, True])
def test_only_a_file_is_replaced(folder: Path, output: str, force: bool) -> None:
    (folder / "old" / "tides.jsonl").mkdir(parents=True)
    with pytest.raises(UsageError, match=r"is empty\. Is a variable|exists and is not a file"):
        write_suite_files(make_suite(main="m"), output, force=force)
    assert read_files(folder) == {}
    assert Path("/dev/null").is_char_device()


def test_a_file_may_have_the_longest_name_that_there_is(folder: Path) -> None:
    write_suite_files(make_suite(**{"a" * 255: "1"}), "new")
    assert read_files(folder) == {f"new/{'a' * 255}": "1"}


def test_what_cannot_be_written_leaves_nothing_behind(folder: Path) -> None:
    (folder / "file").write_text("mine")
    with pytest.raises(UsageError, match="cannot be written"):
        write_suite_files(make_suite(main="m"), "file/x.jsonl")
    assert read_files(folder) == {"file": "mine"}

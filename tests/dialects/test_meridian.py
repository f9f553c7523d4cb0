"""Dialect meridian beyond its goldens: any values, JSON Lines and CSV, and streaming."""

from __future__ import annotations

import csv
import json
from io import StringIO
from itertools import chain, repeat
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.dialects.meridian.expected import TYPES
from proctor.dialects.meridian.reader import DIALECT, SCORERS
from proctor.model import Case, Problem, SplitRule, Suite
from proctor.protocols import CaseAtLine, SuiteSource
from support.suite_files import list_errors, make_source, split_items

WORDS = ["", " ", "a", "7", "exact", "contains", "llm_judge", "json_schema", "numeric_match", "refusal"]
ANY = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.floats(-1e9, 1e9) | st.sampled_from(WORDS),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "value", "method", "weight", "params", "x"]), inner, max_size=4
        )
    ),
    max_leaves=6,
)
NAMES = (
    *("id", "input", "prompt", "expected", "answer", "scorer", "rubric", "tags", "scoring", "num_runs"),
    *("category", "metadata", "task", "needle", "trap", "description", "suite_name", "more"),
)
INNER = [
    "value",
    "required_words",
    "forbidden_words",
    "pattern",
    "schema",
    "required_keys",
    "min_items",
    "tolerance",
    "rel_tolerance",
    "max_words",
    "min_bullets",
    "min",
    "domain",
    "more",
]
TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30).filter(str.strip)


def line(row: object) -> bytes:
    return json.dumps(row).encode() + b"\n"


def read(data: bytes, path: str = "folder/mine.jsonl") -> list[Suite | CaseAtLine | Problem]:
    return list(DIALECT.read(make_source(data, path)))


def read_cases(data: bytes, path: str = "folder/mine.jsonl") -> list[Case]:
    return split_items(read(data, path))[1]


def read_problems(data: bytes) -> list[Problem]:
    return split_items(read(data))[2]


def check_case_or_error(data: bytes) -> None:
    _, cases, problems = split_items(read(data))
    assert len(cases) == (not list_errors(problems))
    assert all(case.assertions for case in cases)


@pytest.mark.slow
@given(
    st.dictionaries(st.sampled_from(NAMES), ANY, max_size=3),
    st.sampled_from(["exact", "llm_judge", "json_schema", "numeric_equal"]),
)
def test_any_value_in_any_field_is_a_case_that_is_checked_or_an_error(
    values: dict[str, Any], scorer: str
) -> None:
    whole = {"id": "a", "input": "Say hi.", "expected": "hi", "scorer": scorer, "rubric": "Is it polite?"}
    check_case_or_error(line(whole | values))


USUAL = st.sampled_from(["id", "input", "expected", "scorer", "tags", "prompt", "category", "trap", "lint"])
USUAL_VALUES = ANY | TEXT | st.lists(TEXT, max_size=2) | st.sampled_from(SCORERS)
EXPECTED = st.builds(
    lambda kind, fields: {"type": kind, **fields},
    st.sampled_from(TYPES),
    st.dictionaries(st.sampled_from(INNER), USUAL_VALUES, max_size=2),
)


@given(st.dictionaries(USUAL, USUAL_VALUES, max_size=3), st.none() | TEXT | EXPECTED)
def test_a_null_field_changes_nothing(values: dict[str, Any], expected: object) -> None:
    row = {"id": "a", "input": "Say hi.", "expected": expected, **values}
    row = {name: value for name, value in row.items() if value is not None}
    assert read(line(row)) == read(line({**row, "scoring": None}))


@pytest.mark.slow
@given(st.sampled_from(TYPES), st.dictionaries(st.sampled_from(INNER), ANY, max_size=2), st.none() | ANY)
def test_any_value_in_any_expected_object_is_a_case_that_is_checked_or_an_error(
    kind: str, values: dict[str, Any], scoring: object
) -> None:
    check_case_or_error(
        line({"id": "a", "prompt": "Say hi.", "expected": {"type": kind, **values}, "scoring": scoring})
    )


@pytest.mark.slow
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@given(
    table=st.lists(
        st.tuples(TEXT, TEXT, st.lists(st.text("abc é", min_size=1, max_size=5).filter(str.strip)))
    )
)
def test_cells_are_read_as_csv_wrote_them(delimiter: str, table: list[tuple[str, str, list[str]]]) -> None:
    buffer = StringIO()
    writer = csv.writer(buffer, delimiter=delimiter)
    writer.writerow(["input", "expected", "tags"])
    writer.writerows((prompt, expected, ",".join(tags)) for prompt, expected, tags in table)
    cases = read_cases(buffer.getvalue().encode(), "mine.csv")
    assert [(case.id, case.input[0].content, case.expected, case.tags) for case in cases] == [
        (f"test_{number}", prompt, expected, tuple(tag.strip() for tag in tags))
        for number, (prompt, expected, tags) in enumerate(table, 1)
    ]


def test_a_row_with_line_breaks_has_the_line_where_it_begins_and_ids_are_stripped() -> None:
    items = read(b'id,input,expected\n a ,"one\ntwo\nthree ",x\n\nb,four,y\n', "mine.csv")
    rows = [
        (item.line, item.case.id, item.case.input[0].content)
        for item in items
        if isinstance(item, CaseAtLine)
    ]
    assert rows == [(2, "a", "one\ntwo\nthree "), (6, "b", "four")]


@pytest.mark.parametrize(
    "data", [b'{"input": "Say hi.", "expected": "hi"}\n', b"input,expected\nSay hi.,hi\n"]
)
@pytest.mark.parametrize("path", ["mine.csv", "mine.jsonl", "mine.txt"])
def test_csv_is_detected_by_content_and_not_by_the_ending(data: bytes, path: str) -> None:
    (case,) = read_cases(data, path)
    assert (case.id, case.expected) == ("test_1", "hi")


def test_a_missing_rubric_or_answer_is_an_error_that_suggests_the_alternative() -> None:
    judged, bare = read_problems(
        line({"id": "essay_1", "input": "x", "scorer": "llm_judge"}) + line({"id": "x", "input": "x"})
    )
    assert judged.message.startswith("Test 'essay_1' uses llm_judge but missing 'rubric'. ")
    assert "`expected`" in judged.message
    assert bare.message.startswith(
        "Test 'x': no expected value - consider using scorer='llm_judge' with a rubric"
    )


@pytest.mark.parametrize(
    ("row", "suggested"),
    [
        ({"scorer": "contain"}, "contains"),
        ({"scorrer": "exact"}, "scorer"),
        ({"expected": {"type": "regexp"}}, "regex"),
    ],
)
def test_an_unknown_scorer_field_or_type_is_an_error_with_a_suggestion(
    row: dict[str, Any], suggested: str
) -> None:
    (problem,) = read_problems(line({"id": "a", "input": "x", "expected": "y"} | row))
    assert problem.level == "error"
    assert f"Did you mean '{suggested}'?" in problem.message


@pytest.mark.parametrize(("name", "value"), [("stop", "END"), ("temperature", 1)])
def test_a_parameter_of_a_case_is_an_error_that_names_the_right_field(name: str, value: object) -> None:
    (problem,) = read_problems(line({"id": "a", "input": "x", "expected": "y", name: value}))
    assert problem.level == "error"
    assert f"In the format proctor, `{name}` of a case is `form.params.{name}`." in problem.message


@pytest.mark.parametrize(
    ("value", "text"), [(4, "4"), (0, "0"), (2.50, "2.5"), (True, "true"), (False, "false")]
)
def test_a_number_or_boolean_as_expected_becomes_text_with_a_warning(value: object, text: str) -> None:
    _, (case,), (warning,) = split_items(read(line({"id": "a", "input": "x", "expected": value})))
    assert case.assertions[0].params == {"value": text}
    assert (warning.level, warning.case) == ("warning", "a")


@pytest.mark.parametrize(
    ("row", "grader", "params"),
    [
        (
            {"expected": {"type": "numeric", "value": 4, "tolerance": 0}},
            "number",
            {"value": 4.0, "tolerance": 0.0},
        ),
        ({"expected": {"type": "regex", "pattern": "x+", "value": "x+"}}, "regex", {"pattern": "x+"}),
        (
            {"expected": {"type": "exact", "value": "1_000"}, "scoring": "numeric_match"},
            "exact",
            {"value": "1_000"},
        ),
        ({"expected": "x", "scoring": {"weight": 0}}, "exact", {"value": "x"}),
    ],
)
def test_a_boundary_value_is_read(row: dict[str, Any], grader: str, params: dict[str, Any]) -> None:
    (case,) = read_cases(line({"id": "a", "input": "?", **row}))
    (assertion,) = case.assertions
    assert (assertion.grader, assertion.params) == (grader, params)


def test_spaces_around_an_answer_in_a_cell_are_kept_and_around_an_id_they_are_not() -> None:
    (case,) = read_cases(b"id,input,expected\n a , x , y \n", "mine.csv")
    assert (case.id, case.input[0].content, case.expected) == ("a", " x ", " y ")


@pytest.mark.parametrize(("row", "rule"), [({}, None), ({"num_runs": 1}, None), ({"num_runs": 2}, "mean")])
def test_a_case_with_several_runs_counts_by_their_mean(row: dict[str, int], rule: str | None) -> None:
    items = read(line({"id": "a", "input": "?", "expected": "x", **row}))
    assert [item.repeats_rule for item in items if isinstance(item, CaseAtLine)] == [rule]


@pytest.mark.parametrize("blank", [None, "", "  "])
@pytest.mark.parametrize(("name", "alias"), [("input", "prompt"), ("prompt", "input")])
@pytest.mark.parametrize(
    ("answer_name", "other_answer_name"), [("expected", "answer"), ("answer", "expected")]
)
def test_an_alias_is_used_if_the_other_name_is_blank(
    blank: object, name: str, alias: str, answer_name: str, other_answer_name: str
) -> None:
    (case,) = read_cases(line({name: "Say hi.", alias: blank, answer_name: "hi", other_answer_name: blank}))
    assert (case.input[0].content, case.expected) == ("Say hi.", "hi")


def test_a_test_with_a_description_stays_a_test() -> None:
    (case,) = read_cases(line({"id": "a", "prompt": "x", "expected": "y", "description": "About x."}))
    assert case.metadata == {"description": "About x."}


def test_a_column_or_a_field_with_another_name_is_a_variable() -> None:
    table = "id,Input,expected,city,Lang\na,Hi,Ho,Lima,es\nb,,Ho,Oslo\n"
    assert [(case.id, len(case.input), case.vars) for case in read_cases(table.encode())] == [
        ("a", 1, {"city": "Lima", "Lang": "es"}),
        ("b", 0, {"city": "Oslo", "Lang": ""}),
    ]
    row = {"id": "c", "expected": "Ho", "vars": {"place": {"city": "Bern"}, "n": 3}}
    (case,) = read_cases(line(row))
    assert (case.input, case.vars) == ((), row["vars"])


@pytest.mark.parametrize(
    ("column", "advice"),
    [
        (
            "expcted",
            (
                "Did you mean 'expected'? To use it as a variable for prompts, choose a name that is less "
                "similar."
            ),
        ),
        ("Tag", "Did you mean 'tags'?"),
        (
            "home town",
            "The name of a variable for prompts can contain letters, digits and `_`, such as `city`.",
        ),
        ("2nd", "The name of a variable for prompts"),
    ],
)
def test_a_misspelt_column_is_an_error(column: str, advice: str) -> None:
    _, _, (problem,) = split_items(read(f"id,input,expected,{column}\na,Hi,Ho,x\n".encode(), "s.csv"))
    assert problem.code == "unknown-field"
    assert advice in problem.message


@pytest.mark.parametrize("column", ["user", "product", "target", "language", "context", "idea"])
def test_usual_names_are_variables(column: str) -> None:
    (case,) = read_cases(f"input,expected,{column}\nHi,Ho,x\n".encode())
    assert case.vars == {column: "x"}


def test_a_generated_id_is_the_line_in_json_lines_and_the_row_in_csv() -> None:
    row = {"input": "x", "expected": "y"}
    assert [case.id for case in read_cases(b"\n" + line(row) + b"\n" + line(row))] == ["test_2", "test_4"]
    assert [case.id for case in read_cases(b"\ninput,expected\n\nx,y\n\nx,y\n")] == ["test_1", "test_2"]


def test_a_header_names_the_suite_and_every_suite_is_split() -> None:
    header = read(line({"suite_name": "greetings", "version": "3", "description": "Says hi."}))[0]
    assert header == Suite(
        name="greetings",
        dialect="meridian",
        declared_version="3",
        description="Says hi.",
        split_rule=SplitRule(),
    )
    assert read(b"")[0] == Suite(name="mine", dialect="meridian", split_rule=SplitRule())


@pytest.mark.parametrize(
    ("value", "rule"),
    [(0, None), (0.0, None), (False, None), (0.3, SplitRule(ratio=0.3)), (None, SplitRule())],
)
def test_the_holdout_of_a_header_sets_the_split_rule(value: object, rule: SplitRule | None) -> None:
    header = read(line({"suite_name": "s", "holdout": value}))[0]
    assert header == Suite(name="s", dialect="meridian", split_rule=rule, no_holdout=rule is None)


@pytest.mark.parametrize("value", [True, 1, -0.2, "20%", "0", [0.2]])
def test_a_holdout_that_is_not_a_share_is_an_error(value: object) -> None:
    problem = read(line({"suite_name": "s", "holdout": value}))[1]
    assert isinstance(problem, Problem)
    assert (problem.code, problem.field, problem.line) == ("bad-holdout", "holdout", 1)
    assert "such as 0.2, or 0 to hold out none" in problem.message


@pytest.mark.parametrize(
    ("first", "row"),
    [
        (b"input,expected\n", b"x,y\n"),
        (b'{"suite_name": "s"}\n', b'{"input": "x", "expected": "y"}\n'),
    ],
)
def test_cases_stream_before_the_file_ends(first: bytes, row: bytes) -> None:
    items = DIALECT.read(SuiteSource(path="x", read_lines=lambda: chain([first], repeat(row))))
    assert [type(next(items)).__name__ for _ in range(3)] == ["Suite", "CaseAtLine", "CaseAtLine"]


def test_a_carriage_return_inside_a_line_is_an_error_with_advice() -> None:
    table = make_source('input,expected\nWhat is\r2 + 2?,4\nHow many?,8\n"What\ris 3 + 3?",6\r\n', "s.csv")
    _, cases, (problem,) = split_items(DIALECT.read(table))
    assert [case.id for case in cases] == ["test_1", "test_2"]
    assert (problem.line, problem.code) == (2, "bad-csv")
    assert problem.message == (
        "The line has a carriage return (`\\r`) inside it. Save the file with LF or CRLF at the end of each "
        "line, or put the cell with the `\\r` in quotes."
    )

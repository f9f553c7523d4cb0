"""Fields of users' objects: read by a table or one by one, each problem with its path and line."""

from __future__ import annotations

from typing import Any

import pytest

from proctor.validation import FieldReader, FieldSpec, NumberLimit, ProblemLog
from proctor.yaml12 import load

SHARE = NumberLimit("from 0 to 1", minimum=0, maximum=1)
TABLE = (
    FieldSpec("name", FieldReader.required_text),
    FieldSpec("share", FieldReader.limited_number, SHARE, to="part"),
    FieldSpec("strict", FieldReader.boolean, False, default=False),
    FieldSpec("count", FieldReader.integer, 1),
    FieldSpec("extra", FieldReader.instance, dict),
)


def read(text: str) -> tuple[dict[str, Any], ProblemLog]:
    log = ProblemLog("s.yaml", 1)
    fields = FieldReader(load(text), log, "outer.")
    values = fields.values(TABLE)
    fields.finish([field.name for field in TABLE])
    return values, log


def test_a_table_gives_values_by_their_destinations_without_defaults_and_absent_ones() -> None:
    values, log = read("strict: false\nshare: 1\nextra: {a: 1}\n")
    assert (values, log.problems) == ({"part": 1.0, "extra": {"a": 1}}, [])
    assert type(values["part"]) is float
    assert read("strict: true\ncount: 2\nname: n\n")[0] == {"name": "n", "strict": True, "count": 2}


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("\nname: ' '", "missing-field", "`outer.name` is blank; it must be text."),
        ("\nshare: 2", "bad-number", "`outer.share` is 2; it must be from 0 to 1."),
        ("\nshare: x", "wrong-type", "`outer.share` is 'x', text; it must be a number."),
        ("\nstrict: 1", "wrong-type", "`outer.strict` is 1, a number; it must be true or false."),
        (
            "\ncount: 0",
            "wrong-type",
            "`outer.count` is 0, a number; it must be a whole number of at least 1.",
        ),
        ("\nextra: null", "wrong-type", "`outer.extra` is null; it must be an object."),
        ("\nshar: 1", "unknown-field", "Unknown field 'outer.shar'. Did you mean 'share'?"),
    ],
)
def test_a_wrong_value_is_reported_with_path_and_line_and_not_returned(
    text: str, code: str, message: str
) -> None:
    values, log = read(text)
    (problem,) = log.problems
    assert (problem.code, problem.message, problem.line) == (code, message, 2)
    assert not any(values.values())


def test_only_a_required_field_is_missed() -> None:
    log = ProblemLog("s.yaml", 1)
    table = [
        FieldSpec("a", FieldReader.required_text, required=True),
        FieldSpec("b", FieldReader.required_text),
    ]
    assert FieldReader({}, log).values(table) == {"a": ""}
    assert [problem.field for problem in log.problems] == ["a"]


def test_a_table_tells_every_problem_in_its_own_order() -> None:
    _, log = read("extra: []\ncount: 0\nshare: 2\nname: 1\n")
    assert [problem.line for problem in log.problems] == [4, 3, 2, 1]


def test_items_that_are_no_objects_are_reported_by_position() -> None:
    log = ProblemLog("s.yaml", 1)
    fields = FieldReader(load("rows:\n- {a: 1}\n- x\n- {a: 2}\n"), log)
    rows = fields.items("rows", fields.pop("rows"), "an object with `a`")
    assert [(row.path_to("a"), row.pop("a")) for row in rows] == [("rows[0].a", 1), ("rows[2].a", 2)]
    (problem,) = log.problems
    assert (problem.line, problem.message) == (3, "`rows[1]` is 'x', text; it must be an object with `a`.")


def test_the_problems_of_an_inner_file_are_added_and_exclude_the_row_if_one_is_an_error() -> None:
    outer, inner = ProblemLog("s.yaml", 1), ProblemLog("inner.yaml", 1)
    inner.warn("no-effect", "w")
    outer.extend(inner)
    assert (outer.problems, outer.has_errors) == (inner.problems, False)
    inner.error("bad-number", "e")
    outer.extend(inner)
    assert outer.has_errors
    outer.extend(ProblemLog("other.yaml", 1))
    assert outer.has_errors

"""Dialect proctor: every suite is written and read unchanged, and no mistake in a file is ignored."""

from __future__ import annotations

import json
import os
import string
from collections.abc import Iterator
from importlib.resources import files
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from proctor.codec import encode, judged_digest, sent_digest, suite_digest
from proctor.dialects import DIALECTS
from proctor.dialects.detection import detect
from proctor.dialects.proctor.dialect import DIALECT
from proctor.dialects.proctor.schema import suite_schema
from proctor.dialects.proctor.writer import render
from proctor.dialects.shared.head import read_head
from proctor.model import (
    Assertion,
    Attachment,
    Case,
    Hook,
    Hooks,
    Message,
    PassRule,
    Problem,
    Repository,
    ResponseFormat,
    SplitRule,
    Suite,
    SuiteDefaults,
    Tool,
    ToolCall,
    Workspace,
)
from proctor.protocols import RenderedFile
from support import media
from support.suite_files import find_in, make_source, split_items

HEADER = b'{"proctor": 1, "name": "s"}\n'
SCHEMA = files("proctor") / "schemas" / "suite.schema.json"
FULL_CASE = Case(
    id="all",
    input=(
        Message(role="system", content="Answer in one word."),
        Message(
            role="user",
            content="What is on the plan?",
            name="Ida",
            parts=(
                "What is on the plan?",
                Attachment(kind="image", path="plan.png", media_type="image/png", data=b"\x89PNG\x00\xff"),
                Attachment(kind="file", path="a/b.txt", text="one\ntwo"),
            ),
        ),
        Message(
            role="assistant",
            tool_calls=(
                ToolCall(name="look", arguments={"at": [1]}, id="c1", output={"x": 1}, duration_ms=2.5),
            ),
        ),
    ),
    expected={"city": ["Oslo", None]},
    criteria="Names the bridge.",
    assertions=(
        Assertion(
            grader="exact", params={"value": "x"}, weight=0.5, required=0.8, negated=True, label="mine"
        ),
        Assertion(grader="rubrics", params={"items": [{"text": "t", "weight": 2.0}]}, pass_at=0.8),
    ),
    tags=("a", " b "),
    category="plans",
    metadata={"n": 1, "f": 1.0, "deep": {"é": [True, None]}},
    repeats=3,
    pass_rule=PassRule(threshold=0.75),
    target="small",
    only_targets=("small", "large"),
    workspace=Workspace(
        template="tpl",
        isolation="per_test",
        repositories=(Repository(path="r", source="../r", local=True, ancestor=2, depth=3, sparse=("src",)),),
        hooks=Hooks(before_each=Hook(command=("make", "x"), timeout_s=1.5, cwd="c", reset="strict")),
    ),
    form=ResponseFormat(
        json=True,
        schema={"type": "object"},
        tools=(Tool(name="look", description="Looks.", parameters={"type": "object"}),),
        special_tags=("_json_mode",),
    ),
    variables=("WHO",),
    notes={"mode": "x"},
)
SUITE = Suite(
    name="every thing",
    dialect="agentv",
    declared_version="1.2",
    description="Says it all.",
    pass_rule=PassRule(threshold=0.5),
    split_rule=SplitRule(ratio=0.25, seed=7, method="shuffle"),
    repeats_rule="lower_bound",
    defaults=SuiteDefaults(targets=("small",), concurrency=2, budget_usd=1.5, cache=True, reuse=False),
    notes={"author": "Ida"},
)


def write(suite: Suite, *cases: Case) -> bytes:
    pieces = list(render(suite, cases, lossy=False))
    assert all(isinstance(piece, RenderedFile) and piece.path == "" for piece in pieces)
    return b"".join(piece.data for piece in pieces if isinstance(piece, RenderedFile))


def read(data: bytes, **files: bytes) -> tuple[Suite, list[Case], list[Problem]]:
    """The suite, its cases and its problems; files of the folder are named with `_` for a dot."""
    around = {name.replace("_", "."): content for name, content in files.items()}
    return split_items(DIALECT.read(make_source(data, find_within=find_in(around))))


def digest(suite: Suite, cases: list[Case]) -> str:
    return suite_digest(suite, [(case.id, sent_digest(case), judged_digest(case)) for case in cases])


def line(**fields: Any) -> bytes:
    row = {
        "id": "a",
        "input": [{"role": "user", "content": "Hi"}],
        "assertions": [{"grader": "is_json"}],
        **fields,
    }
    return json.dumps({name: value for name, value in row.items() if value is not ...}).encode() + b"\n"


def row_with_part(**fields: Any) -> dict[str, Any]:
    return {"input": [{"role": "user", "parts": [fields]}]}


def read_row_problems(row: bytes) -> list[tuple[str, str]]:
    _, cases, problems = read(HEADER + row)
    assert cases == []
    assert {problem.line for problem in problems} == {2}
    return [(problem.code, problem.field or "") for problem in problems]


# --- writing and reading -----------------------------------------------------------------------------------


def test_a_case_and_a_header_with_all_fields_are_read_unchanged() -> None:
    suite, cases, problems = read(write(SUITE, FULL_CASE))
    assert problems == []
    assert cases == [FULL_CASE]
    assert encode(cases[0]) == encode(FULL_CASE)
    for name in (
        "name",
        "declared_version",
        "description",
        "pass_rule",
        "split_rule",
        "repeats_rule",
        "defaults",
    ):
        assert getattr(suite, name) == getattr(SUITE, name)
    assert suite.notes == {"author": "Ida", "from": "agentv"}
    assert digest(suite, cases) == digest(SUITE, [FULL_CASE])


@pytest.mark.parametrize(("value", "rule"), [(b"0", None), (b"false", None), (b"0.3", SplitRule(ratio=0.3))])
def test_the_holdout_of_a_header_sets_the_split_rule(value: bytes, rule: SplitRule | None) -> None:
    suite, cases, _ = read(b'{"proctor": 1, "name": "s", "holdout": ' + value + b"}\n" + line())
    assert (suite.split_rule, suite.no_holdout) == (rule, rule is None)
    assert read(write(suite, *cases))[0] == suite


def test_writing_a_suite_that_was_read_gives_the_same_bytes() -> None:
    first = write(SUITE, FULL_CASE)
    suite, cases, _ = read(first)
    assert write(suite, *cases) == first


def test_the_hash_of_another_format_is_kept_in_the_notes() -> None:
    suite, _, _ = read(write(Suite(name="s", dialect="pramana", suite_hash="sha256:12"), FULL_CASE))
    assert (suite.suite_hash, suite.notes["suite_hash"]) == (None, "sha256:12")


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
WORDS = st.text(string.ascii_letters, min_size=1, max_size=6)
NUMBERS = st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
)
OBJECTS = st.dictionaries(TEXTS, VALUES, max_size=3)
SHARES = st.floats(0, 1) | st.none()
CASES = st.builds(
    Case,
    id=WORDS,
    input=st.lists(
        st.builds(
            Message,
            role=WORDS,
            content=WORDS,
            name=TEXTS | st.none(),
            parts=st.lists(
                TEXTS
                | st.builds(
                    Attachment,
                    kind=st.sampled_from(["file", "image", "audio", "video"]),
                    path=TEXTS | st.sampled_from(["a.png", "a.mp3", "a.mp4", "a.pdf"]),
                    data=st.binary() | st.sampled_from([media.PNG, media.PDF, media.WAV, media.MP4]),
                )
            ).map(tuple),
        ),
        min_size=1,
        max_size=3,
    ).map(tuple),
    expected=VALUES,
    assertions=st.lists(
        st.builds(
            Assertion,
            grader=WORDS,
            params=OBJECTS,
            weight=st.floats(0, 9),
            required=SHARES,
            pass_at=SHARES,
            negated=st.booleans(),
            label=TEXTS | st.none(),
        ),
        min_size=1,
        max_size=3,
    ).map(tuple),
    metadata=OBJECTS,
    repeats=st.integers(1, 9) | st.none(),
    form=st.builds(ResponseFormat, json=st.booleans(), schema=OBJECTS | st.none()) | st.none(),
)


@pytest.mark.slow
@given(case=CASES)
def test_any_case_is_read_with_the_same_digests(case: Case) -> None:
    _, (read_case,), problems = read(write(SUITE, case))
    assert problems == []
    assert encode(read_case) == encode(case)
    assert (sent_digest(read_case), judged_digest(read_case)) == (sent_digest(case), judged_digest(case))


# --- files that are referred to by path --------------------------------------------------------------------


def test_a_part_with_a_path_alone_is_read_from_the_suites_folder() -> None:
    row = line(**row_with_part(kind="file", path="r.pdf"))
    _, (case,), problems = read(HEADER + row, r_pdf=b"%PDF-1.7\xff")
    assert problems == []
    (part,) = case.input[0].parts
    assert part == Attachment(kind="file", path="r.pdf", media_type="application/pdf", data=b"%PDF-1.7\xff")
    _, (case,), _ = read(HEADER + line(**row_with_part(kind="file", path="n.md")), n_md=b"one\r\ntwo")
    assert case.input[0].parts == (Attachment(kind="file", path="n.md", text="one\ntwo"),)


def test_a_media_type_in_the_suite_takes_precedence() -> None:
    row = line(**row_with_part(kind="file", path="a.bin", media_type="audio/ogg"))
    _, (case,), _ = read(HEADER + row, a_bin=b"\xff")
    assert case.input[0].parts == (
        Attachment(kind="file", path="a.bin", media_type="audio/ogg", data=b"\xff"),
    )


@pytest.mark.parametrize("content", [{"text": "here"}, {"text": ""}, {"data": "/w=="}, {"data": ""}])
def test_a_part_with_its_content_is_never_read_from_a_file(content: dict[str, str]) -> None:
    _, (case,), problems = read(
        HEADER + line(**row_with_part(kind="file", path="n.md", **content)), n_md=b"there"
    )
    (part,) = case.input[0].parts
    assert problems == []
    assert isinstance(part, Attachment)
    assert b"there" not in (part.data, (part.text or "").encode())


def test_a_list_of_content_parts_and_parts_conflict() -> None:
    message = {"role": "user", "content": [{"type": "text", "text": "a"}], "parts": ["a"]}
    _, cases, problems = read(HEADER + line(input=[message]))
    assert (cases, [problem.code for problem in problems]) == ([], ["conflicting-fields"])


def test_a_prompt_of_a_suite_has_no_content_parts() -> None:
    prompt = {
        "name": "p",
        "messages": [{"role": "user", "content": [{"type": "text", "text": "{{ input }}"}]}],
    }
    header = json.dumps({"proctor": 1, "name": "s", "defaults": {"prompts": [prompt]}}).encode() + b"\n"
    _, _, (problem, *_) = read(header + line())
    assert (problem.code, problem.field) == ("wrong-type", "defaults.prompts[0].messages[0].content")


def test_every_missing_file_of_a_case_is_named() -> None:
    parts = [{"kind": "file", "path": "a.md"}, {"kind": "image", "path": "b.png"}]
    _, _, problems = read(HEADER + line(input=[{"role": "user", "parts": parts}]))
    assert [problem.field for problem in problems] == ["input[0].parts[0].path", "input[0].parts[1].path"]


def test_a_part_whose_file_is_not_in_the_folder_is_an_error_that_says_what_to_do() -> None:
    _, cases, (problem,) = read(HEADER + line(**row_with_part(kind="file", path="../n.md", text=None)))
    assert (cases, problem.code, problem.line) == ([], "missing-file", 2)
    assert problem.field == "input[0].parts[0].path"
    for word in ("'../n.md'", "the folder of the suite", "`text`", "`data`"):
        assert word in problem.message


# --- errors ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "code", "field", "message"),
    [
        ({"id": ...}, "missing-field", "id", "must be text"),
        ({"id": "  "}, "missing-field", "id", "is blank"),
        ({"id": 4}, "wrong-type", "id", "is 4, a number; it must be text."),
        ({"input": ...}, "missing-prompt", "input", "write the prompt. Or remove `input`"),
        ({"input": []}, "missing-prompt", "input", "write the prompt. Or remove `input`"),
        ({"input": [{"role": "user"}], "vars": {"city": "Lima"}}, "missing-prompt", "input", "remove `in"),
        ({"input": None}, "wrong-type", "input", "is null; it must be a list"),
        ({"input": [{"role": "user"}]}, "missing-prompt", "input", "write the prompt"),
        ({"input": [{"role": "user", "content": " \n"}]}, "missing-prompt", "input", "write the prompt"),
        ({"input": [{"content": "x"}]}, "missing-field", "input[0].role", "it must be text"),
        ({"input": [{"role": "user", "contents": "x"}]}, "unknown-field", "input[0].contents", "'content'"),
        (
            row_with_part(kind="film", path="x"),
            "unknown-value",
            "input[0].parts[0].kind",
            "Did you mean 'file'?",
        ),
        (
            row_with_part(kind="file", path="x", data="a b"),
            "wrong-type",
            "input[0].parts[0].data",
            "not base64",
        ),
        ({"assertions": ...}, "missing-field", "assertions", "must be a list"),
        ({"assertions": []}, "missing-field", "assertions", "is an empty list"),
        ({"assertions": [{}]}, "missing-field", "assertions[0].grader", "must be text"),
        (
            {"assertions": [{"grader": "x", "required": -1}]},
            "out-of-range",
            "assertions[0].required",
            "least 0",
        ),
        ({"assertions": [{"grader": "x", "weight": True}]}, "wrong-type", "assertions[0].weight", "a number"),
        ({"assertions": [{"grader": "x", "pass_at": 2}]}, "out-of-range", "assertions[0].pass_at", "most 1"),
        ({"assertions": [{"grader": "x", "param": {}}]}, "unknown-field", "assertions[0].param", "'params'"),
        ({"asserts": []}, "unknown-field", "asserts", "Did you mean 'assertions'?"),
        ({"tags": ["a", 1]}, "wrong-type", "tags[1]", "is 1, a number"),
        ({"tags": 1, "form": {"params": {"top_p": 0.5}}}, "wrong-type", "tags", "is 1, a number"),
        ({"repeats": 0}, "out-of-range", "repeats", "at least 1"),
        ({"repeats": 1.5}, "wrong-type", "repeats", "a whole number or null"),
        ({"metadata": None}, "wrong-type", "metadata", "is null; it must be an object"),
        ({"pass_rule": {"threshold": 1.5}}, "out-of-range", "pass_rule.threshold", "at most 1"),
        ({"workspace": {"isolation": "own"}}, "unknown-value", "workspace.isolation", "per_test, shared"),
        (
            {"workspace": {"repositories": [{"path": "r"}]}},
            "missing-field",
            "workspace.repositories[0].source",
            "text",
        ),
    ],
)
def test_a_wrong_field_is_an_error_with_its_path(
    fields: dict[str, Any], code: str, field: str, message: str
) -> None:
    row = line(**fields)
    assert read_row_problems(row) == [(code, field)]
    (problem,) = read(HEADER + row)[2]
    assert message in problem.message
    if fields.get("id", "a") == "a":
        assert problem.case == "a"
        assert problem.message.startswith("Case 'a': ")


def test_all_mistakes_in_a_line_are_reported_at_once() -> None:
    assert read_row_problems(line(id="", tag=[], repeats="2")) == [
        ("missing-field", "id"),
        ("unknown-field", "tag"),
        ("wrong-type", "repeats"),
    ]


@pytest.mark.parametrize(
    ("row", "code"),
    [
        (b"{", "bad-json"),
        (b'{"proctor": 1, "name": "t"}', "late-header"),
        (b'{"id": "a", "metadata": ' + b"[" * 100 + b"]" * 100 + b"}", "too-deep"),
    ],
)
def test_a_line_that_is_no_case_is_an_error_and_the_next_one_is_read(row: bytes, code: str) -> None:
    _, cases, problems = read(HEADER + row + b"\n" + line())
    assert [(problem.code, problem.line) for problem in problems] == [(code, 2)]
    assert [case.id for case in cases] == ["a"]


@pytest.mark.parametrize(
    ("header", "code", "field"),
    [
        (b"", "missing-header", None),
        (b'{"proctor": 2, "name": "s", "new": 1}', "newer-version", "proctor"),
        (b'{"proctor": 0, "name": "s"}', "unknown-value", "proctor"),
        (b'{"proctor": "1", "name": "s"}', "unknown-value", "proctor"),
        (b'{"proctor": 1}', "missing-field", "name"),
        (b'{"proctor": 1, "name": "s", "descripton": ""}', "unknown-field", "descripton"),
        (b'{"proctor": 1, "name": "s", "digest": ""}', "unknown-field", "digest"),
        (b'{"proctor": 1, "name": "s", "repeats_rule": "best"}', "unknown-value", "repeats_rule"),
        (b'{"proctor": 1, "name": "s", "split_rule": {"ratio": 1}}', "out-of-range", "split_rule.ratio"),
        (b'{"proctor": 1, "name": "s", "defaults": {"targets": "x"}}', "wrong-type", "defaults.targets"),
        (b'{"proctor": 1, "name": "s", "holdout": 1}', "out-of-range", "holdout"),
        (b'{"proctor": 1, "name": "s", "holdout": true}', "bad-holdout", "holdout"),
        (b'{"proctor": 1, "name": "s", "holdout": "0"}', "wrong-type", "holdout"),
        (b'{"proctor": 1, "name": "s", "holdout": 0.3, "split_rule": {}}', "conflicting-fields", "holdout"),
    ],
)
def test_a_header_that_is_wrong_is_an_error_and_the_cases_are_read(
    header: bytes, code: str, field: str | None
) -> None:
    suite, cases, problems = read(header + b"\n" + line())
    assert [(problem.code, problem.field) for problem in problems] == [(code, field)]
    assert (suite.name, [case.id for case in cases]) == ("s", ["a"])


def test_an_empty_file_has_no_header() -> None:
    suite, cases, problems = read(b"")
    assert (suite.name, cases, [problem.code for problem in problems]) == ("s", [], ["missing-header"])


# --- detection ---------------------------------------------------------------------------------------------


def detect_dialect(data: bytes, path: str = "s.jsonl") -> str:
    return detect(read_head(path, BytesIO(data)), {name: DIALECTS.get(name) for name in DIALECTS.names()})


@pytest.mark.parametrize(
    "row", [b'{"id": "a", "expected": "x", "criteria": "y", "ideal": "z", "tests": []}', line()]
)
def test_the_key_in_the_first_line_decides_the_dialect(row: bytes) -> None:
    assert detect_dialect(HEADER + row) == "proctor"


def test_the_key_in_another_line_is_ignored() -> None:
    assert detect_dialect(b'{"id": "a", "input": "x", "expected": "y"}\n' + HEADER) == "meridian"


# --- the schema --------------------------------------------------------------------------------------------


def test_the_schema_in_the_package_is_up_to_date() -> None:
    text = json.dumps(suite_schema(), indent=1, ensure_ascii=False) + "\n"
    if os.environ.get("PROCTOR_REWRITE_GOLDEN"):
        Path(str(SCHEMA)).write_text(text, encoding="utf-8")
    assert SCHEMA.read_text(encoding="utf-8") == text
    Draft202012Validator.check_schema(json.loads(text))


@pytest.mark.parametrize(
    "row",
    [
        line(id=" "),
        line(assertions=...),
        line(wat=1),
        line(repeats=0),
        line(form={"json": "yes"}),
        b'{"proctor": 1}',
        b'{"proctor": 2, "name": "s"}',
        b'{"proctor": 1, "name": "s", "wat": 1}',
    ],
)
def test_rows_that_the_dialect_refuses_are_invalid_by_the_schema(row: bytes) -> None:
    assert not Draft202012Validator(suite_schema()).is_valid(json.loads(row))
    data = row if b"proctor" in row else HEADER + row
    assert read(data)[2] != []


def test_a_header_may_name_its_schema_for_editors_and_stays_the_same_suite() -> None:
    header = b'{"$schema": "x.json", "proctor": 1, "name": "s"}\n'
    suite, cases, problems = read(header + line())
    assert problems == []
    assert digest(suite, cases) == digest(*read(HEADER + line())[:2])


GOLDENS = [*sorted(Path(__file__).parent.glob("proctor/*.jsonl"))]


@pytest.mark.parametrize("path", GOLDENS, ids=lambda path: path.name)
def test_every_line_of_a_golden_fits_the_schema(path: Path) -> None:
    validator = Draft202012Validator(suite_schema())
    rows = [json.loads(text) for text in path.read_text(encoding="utf-8").splitlines()]
    assert [error.message for row in rows for error in validator.iter_errors(row)] == []


WRONG_VALUES: list[Any] = [None, 0, -1, 2.5, "", "x", [], {}, True, ["x"], {"zz": 1}, [[]], [{}]]


def _list_places(node: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(node, dict | list):
        for key in node if isinstance(node, dict) else range(len(node)):
            yield (*place, key)
            yield from _list_places(node[key], (*place, key))


PLACES = list(_list_places(json.loads(encode(FULL_CASE))))
READER_ONLY = {"missing-prompt", "missing-file", "bad-pattern", "conflicting-fields"}
"""The codes of errors that depend on other fields or files, which the schema cannot express."""


@given(st.sampled_from(PLACES), st.sampled_from(WRONG_VALUES))
def test_the_schema_refuses_a_changed_case_if_and_only_if_the_reader_does(
    place: tuple[Any, ...], value: Any
) -> None:
    row = json.loads(encode(FULL_CASE))
    outer = row
    for key in place[:-1]:
        outer = outer[key]
    outer[place[-1]] = value
    problems = read(HEADER + json.dumps(row).encode() + b"\n")[2]
    errors = {problem.code for problem in problems if problem.level == "error"} - READER_ONLY
    if place[-1] != "data":  # base64 is no rule of a schema
        assert Draft202012Validator(suite_schema()).is_valid(row) == (not errors)


@pytest.mark.parametrize("value", WRONG_VALUES)
@pytest.mark.parametrize("place", range(2))
def test_the_schema_and_the_reader_agree_on_content(place: int, value: Any) -> None:
    row = json.loads(encode(FULL_CASE))
    row["input"][place]["content"] = value
    problems = read(HEADER + json.dumps(row).encode() + b"\n")[2]
    errors = {problem.code for problem in problems if problem.level == "error"} - READER_ONLY
    assert Draft202012Validator(suite_schema()).is_valid(row) == (not errors)

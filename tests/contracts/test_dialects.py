"""Properties that hold for every dialect and any input."""

from __future__ import annotations

import json
from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.codec import encode
from proctor.dialects import DIALECTS
from proctor.dialects.shared.head import read_head
from proctor.graders import GRADERS
from proctor.model import Problem, Suite
from proctor.protocols import CaseAtLine, SuiteSource

LINES = st.sampled_from(
    [
        b"",
        b"\r",
        b"{",
        b"[",
        b'{"id": "a", "input": "x"}',
        b'{"id": "a", "input": "x", "expected": 4}',
        b'{"suite_name": "s"}',
        b'{"proctor": 1, "name": "s"}',
        b'{"id": "a", "input": [{"role": "user", "content": "x"}], "assertions": [{"grader": "is_json"}]}',
        b'{"id": "a", "input": "\\ud800"}',
        b'{"input": "x", "target": ["y"], "files": {}}',
        b'{"input": [{"role": "user", "content": [{"type": "text"}]}], "target": "A", "choices": ["y"]}',
        b'{"input": "x", "expected_output": "y", "context": null}',
        b'{"question": "x", "answer": 0, "label": "y"}',
        b"input,expected",
        b"input,target,choices",
        b"input,expected_output",
        b"question,answer",
        b'x,"y',
        b'x"y,z',
        b"---",
        b"tests:",
        b"- id: a",
        b"  input: x",
        b"  assertions: [{type: contains, value: y}, {type: is_jsn}]",
        b"  execution: {target: 3}",
        b"workspace: {hooks: {before_all: {command: a b}}}",
        b"input: &m [*m]",
        b'{"id": "a", "input": "x", "criteria": "c", "assertions": [{"type": "regex", "value": "("}]}',
        json.dumps(
            {
                "id": "a",
                "category": "coding",
                "input": "x",
                "ideal": ["y", "z"],
                "assertion": {"type": "exact_match"},
                "metadata": {"difficulty": "easy", "tokens_est": 1},
            }
        ).encode(),
    ]
)
FILES = st.binary() | st.lists(LINES | st.binary(max_size=20), max_size=8).map(b"\n".join)
PATHS = st.sampled_from(["suite.jsonl", "a/b/suite.csv", "c:\\suite.jsonl", "s.eval.yaml", "-", ""])

every_dialect = pytest.mark.parametrize("name", DIALECTS.names())


def read(name: str, data: bytes, path: str) -> list[Suite | CaseAtLine | Problem]:
    return list(DIALECTS.get(name).read(SuiteSource(path=path, read_lines=lambda: BytesIO(data))))


@every_dialect
@given(data=FILES, path=PATHS)
def test_any_bytes_give_exactly_one_suite_and_always_the_same(name: str, data: bytes, path: str) -> None:
    items = read(name, data, path)
    (suite,) = [item for item in items if isinstance(item, Suite)]
    assert suite.dialect == name
    assert suite.name
    assert encode(items) == encode(read(name, data, path))


@every_dialect
@given(data=FILES, path=PATHS)
def test_every_problem_says_where_it_is_and_what_to_do_in_a_sentence(
    name: str, data: bytes, path: str
) -> None:
    for problem in read(name, data, path):
        if isinstance(problem, Problem):
            assert problem.path == path
            assert 1 <= (problem.line or 0) <= data.count(b"\n") + 1
            assert problem.code == problem.code.lower().replace(" ", "-")
            assert problem.message.endswith((".", "?"))


@every_dialect
@given(data=FILES)
def test_every_case_has_an_id_a_prompt_and_known_graders_and_cases_are_in_file_order(
    name: str, data: bytes
) -> None:
    located_cases = [item for item in read(name, data, "suite") if isinstance(item, CaseAtLine)]
    assert [item.line for item in located_cases] == sorted({item.line for item in located_cases})
    for item in located_cases:
        assert item.case.id
        assert any(message.content for message in item.case.input)
        assert item.case.assertions
        assert all(assertion.grader in GRADERS for assertion in item.case.assertions)


@every_dialect
@given(data=FILES, path=PATHS)
def test_recognising_gives_a_reason_or_none(name: str, data: bytes, path: str) -> None:
    reason = DIALECTS.get(name).recognises(read_head(path, BytesIO(data)))
    assert reason is None or reason.strip()

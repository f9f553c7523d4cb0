"""Invalid cases in every dialect: none is lost, and the valid ones are not changed by them."""

from __future__ import annotations

import json
from io import BytesIO
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from proctor.codec import judged_digest
from proctor.dialects import DIALECTS
from proctor.invalid_cases import PlaceholderFactory, setup_failure
from proctor.model import Case, Problem, Suite
from proctor.protocols import CaseAtLine, SourceFile, SuiteSource
from proctor.services.suites.load import LoadedSuite, load_source

every_dialect = pytest.mark.parametrize("name", DIALECTS.names())


class CaseCollector:
    """A writer that keeps the cases of one suite."""

    def __init__(self) -> None:
        self.cases: list[Case] = []

    def add(self, case: Case, _sent_digest: str) -> None:
        self.cases.append(case)

    def commit(self, suite: Suite) -> Suite:
        return suite

    def discard(self) -> None:
        self.cases.clear()


def load(name: str, source: SuiteSource, *, skip_invalid: bool = True) -> tuple[LoadedSuite, list[Case]]:
    collector = CaseCollector()
    return load_source(source, dialect=name, writer=collector, skip_invalid=skip_invalid), collector.cases


def lines(*rows: Any) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def pramana(case_id: str, **more: Any) -> dict[str, Any]:
    row = {"id": case_id, "category": "coding", "input": "x", "ideal": "y"}
    facts = {"difficulty": "easy", "tokens_est": 1}
    return row | {"assertion": {"type": "contains"}, "metadata": facts} | more


def proctor(case_id: str, **more: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": "x"}]
    return {"id": case_id, "input": messages, "assertions": [{"grader": "is_json"}]} | more


def prompt(case_id: str, **more: Any) -> dict[str, Any]:
    return {"id": case_id, "prompt": "x", "check": {"kind": "substring", "all": ["y"]}} | more


def promptfoo(*kinds: str) -> bytes:
    tests = [
        {"description": f"t{n}", "assert": [{"type": kind, "value": "x"}]} for n, kind in enumerate(kinds)
    ]
    return json.dumps({"prompts": ["p", "q"], "tests": tests}).encode()


def array(*rows: Any) -> bytes:
    return b"[\n" + b",\n".join(json.dumps(row).encode() for row in rows) + b"\n]\n"


def golden(case_id: str, **more: Any) -> dict[str, Any]:
    return {"id": case_id, "input": "x", "expected_output": "y", "context": []} | more


def fieldkit(*rows: dict[str, Any]) -> bytes:
    return json.dumps({"prompts": rows}).encode()


def skill(*rows: dict[str, Any]) -> bytes:
    evals = [{"expected_output": "y"} | row for row in rows]
    return json.dumps({"skill_name": "s", "evals": evals}).encode()


MARKDOWN = "# 👤\nx\n\n---\n\nIt says y.\n"


def yaml(more: str = "") -> bytes:
    rows = [
        f"- {{id: {case_id}, input: x, criteria: c{more if case_id == 'b' else ''}}}\n" for case_id in "abc"
    ]
    return ("tests:\n" + "".join(rows)).encode()


WRONG: dict[str, tuple[str, bytes, bytes, list[str]]] = {
    "agent_skills": (
        "evals.json",
        skill({"id": 1, "prompt": "x"}, {"id": 2, "expected_output": "y"}),
        skill({"id": 1, "prompt": "x"}, {"id": 2, "prompt": "x"}),
        ["2"],
    ),
    "agentv": ("s.eval.yaml", yaml(", inptu: x"), yaml(), ["b"]),
    "deepeval": (
        "s.json",
        array(golden("a"), golden("b", expected_output=1), golden("c")),
        array(golden("a"), golden("b"), golden("c")),
        ["b"],
    ),
    "fieldkit": (
        "s.json",
        fieldkit(prompt("a"), prompt("b", chek=1), prompt("c")),
        fieldkit(prompt("a"), prompt("b"), prompt("c")),
        ["b"],
    ),
    "fieldkit_qa": (
        "s.jsonl",
        lines(
            *({"id": case_id, "question": "q", "answer": "a" if case_id != "b" else " "} for case_id in "abc")
        ),
        lines(*({"id": case_id, "question": "q", "answer": "a"} for case_id in "abc")),
        ["b"],
    ),
    "inspect": (
        "s.json",
        array({"input": "x", "target": "y"}, {"input": "x", "target": "y", "sandbox": "docker"}),
        array({"input": "x", "target": "y"}, {"input": "x", "target": "y"}),
        ["sample-2"],
    ),
    "meridian": (
        "s.jsonl",
        lines({"id": "a", "input": "x", "expected": "y"}, {"id": "b", "input": "x", "expcted": "y"})
        + b'{"id"\n',
        lines({"id": "a", "input": "x", "expected": "y"}, {"id": "b", "input": "x", "expected": "y"}),
        ["b", "line-3"],
    ),
    "openai_evals": (
        "s.jsonl",
        lines({"input": "x", "ideal": "y"}, {"input": "x", "ideal": 1}, {"input": "x", "ideal": "y"}),
        lines({"input": "x", "ideal": "y"}, {"input": "x", "ideal": "1"}, {"input": "x", "ideal": "y"}),
        ["line-2"],
    ),
    "pramana": (
        "s.jsonl",
        lines(pramana("a"), pramana("b", category="x"), pramana("a")),
        lines(pramana("a"), pramana("b"), pramana("c")),
        ["b", "a-2"],
    ),
    "proctor": (
        "s.jsonl",
        lines({"proctor": 1, "name": "s"}, proctor("a"), proctor("b", inptu=1), proctor("c")),
        lines({"proctor": 1, "name": "s"}, proctor("a"), proctor("b"), proctor("c")),
        ["b"],
    ),
    "promptfoo": (
        "promptfooconfig.json",
        promptfoo("contains", "javascript"),
        promptfoo("contains", "equals"),
        ["t1"],
    ),
}
"""A file with wrong cases, the same one corrected, and the ids of the placeholders, by dialect."""


def source(path: str, data: bytes) -> SuiteSource:
    return SuiteSource(path=path, read_lines=lambda: BytesIO(data), options={"evals_class": "Match"})


def folder(**texts: str) -> SuiteSource:
    files = {f"{name.replace('__', '/')}.md": text.encode() for name, text in texts.items()}

    def find(path: str) -> SourceFile | None:
        return SourceFile(path=path, data=files[path]) if path in files else None

    return SuiteSource(
        path="tests",
        read_lines=list,
        find_file=find,
        is_folder=True,
        expand_glob=lambda glob: sorted(files) if glob == "**/*" else [],
    )


def sources(name: str) -> tuple[SuiteSource, SuiteSource, list[str]]:
    if name == "ai_tester":
        wrong = folder(a=MARKDOWN, b="# 👤\nx\n", c=MARKDOWN)
        return wrong, folder(a=MARKDOWN, b=MARKDOWN, c=MARKDOWN), ["b.md-line-1"]
    path, wrong_data, right_data, ids = WRONG[name]
    return source(path, wrong_data), source(path, right_data), ids


@every_dialect
def test_invalid_cases_become_placeholders_and_valid_cases_stay_the_same(name: str) -> None:
    wrong, right, ids = sources(name)
    suite, cases = load(name, wrong)
    corrected, valid_cases = load(name, right)
    assert not suite.errors
    assert [case.id for case in cases if case.problems] == ids
    assert [case.id for case in suite.index().placeholders] == ids
    assert not any(case.problems for case in valid_cases)
    assert suite.suite.digest != corrected.suite.digest
    by_id = {case.id: case for case in valid_cases}
    for case in cases:
        if case.problems:
            assert not case.input
            assert not case.assertions
        else:
            assert by_id.get(case.id, case) == case


@every_dialect
def test_skip_invalid_changes_no_suite_without_invalid_cases(name: str) -> None:
    _, right, _ = sources(name)
    suite, cases = load(name, right)
    assert (suite.suite, cases) == (load(name, right, skip_invalid=False)[0].suite, cases)
    assert suite.index().placeholders == ()


@every_dialect
@given(data_strategy=st.data())
def test_every_mistake_is_an_error_of_a_case_or_of_the_file(name: str, data_strategy: st.DataObject) -> None:
    path, wrong, right, _ = WRONG.get(name, ("a.md", MARKDOWN.encode(), b"{{_file:a.md}}", []))
    pieces = st.sampled_from([*wrong.splitlines(), *right.splitlines(), b"{", b"tagz: x"])
    data = b"\n".join(data_strategy.draw(st.lists(pieces | st.binary(max_size=20), max_size=8)))
    strict_suite, _ = load(name, source(path, data), skip_invalid=False)
    suite, cases = load(name, source(path, data))
    assert len({case.id for case in cases}) == len(cases)
    if suite.errors:  # nothing in it is a case
        assert suite.errors == strict_suite.errors
        assert cases == []
        return
    failures = [failure for failure in map(setup_failure, cases) if failure is not None]
    assert bool(failures) is bool(strict_suite.errors)
    assert len(cases) >= strict_suite.suite.case_count
    for failure in failures:
        assert failure.kind in ("invalid", "unsupported")
        assert failure.message.endswith((".", "?"))


# --- errors outside of cases -------------------------------------------------------------------------------


def kinds(cases: list[Case]) -> dict[str, str]:
    return {case.id: failure.kind for case in cases if (failure := setup_failure(case)) is not None}


def test_a_block_for_red_teams_is_one_error_and_the_tests_are_run() -> None:
    tests = [{"description": "a", "assert": [{"type": "contains", "value": "x"}]}]
    text = json.dumps({"prompts": ["p"], "redteam": {"plugins": ["pii"]}, "tests": tests}, indent=1)
    _, cases = load("promptfoo", source("promptfooconfig.json", text.encode()))
    assert [case.id for case in cases] == ["line-5", "a"]
    assert kinds(cases) == {"line-5": "unsupported"}


def test_an_unknown_field_above_the_tests_is_one_error_and_the_tests_are_run() -> None:
    _, cases = load("agentv", source("s.eval.yaml", b"tagz: [x]\n" + yaml()))
    assert kinds(cases) == {"line-1": "invalid"}
    assert [case.id for case in cases if not case.problems] == ["a", "b", "c"]


def test_a_wrong_value_above_the_tests_makes_every_test_an_error() -> None:
    """No verdict is right if the threshold is unknown."""
    _, cases = load("agentv", source("s.eval.yaml", b"execution: {threshold: 80}\n" + yaml()))
    assert kinds(cases) == dict.fromkeys("abc", "invalid")


def test_an_assertion_that_all_tests_share_makes_each_of_them_an_error() -> None:
    tests = [{"description": name, "vars": {"q": ["1", "2"]}} for name in "ab"]
    shared = {"assert": [{"type": "javascript", "value": "true"}]}
    text = json.dumps({"prompts": ["{{q}}"], "defaultTest": shared, "tests": tests})
    suite, cases = load("promptfoo", source("promptfooconfig.json", text.encode()))
    assert kinds(cases) == dict.fromkeys(["a", "a-2", "b", "b-2"], "unsupported")
    strict_suite, _ = load("promptfoo", source("promptfooconfig.json", text.encode()), skip_invalid=False)
    assert len(strict_suite.errors) == 1
    assert suite.suite.case_count == 4


@pytest.mark.parametrize("prompts", [["p", "exec:ask.sh"], ["file://ask.py", "p"], ["exec:a", "exec:b"]])
def test_a_prompt_that_cannot_be_read_makes_every_test_an_error(prompts: list[str]) -> None:
    tests = [{"description": name, "assert": [{"type": "is-json"}]} for name in "ab"]
    text = json.dumps({"prompts": prompts, "tests": tests})
    suite, cases = load("promptfoo", source("promptfooconfig.json", text.encode()))
    assert kinds(cases) == dict.fromkeys(["a", "b"], "unsupported")
    assert not suite.errors


@pytest.mark.parametrize("user", ["", "---\nsystemPrompts: [p]\n---\n"])
def test_a_wrong_prompt_makes_every_test_an_error(user: str) -> None:
    """It may be a judge's prompt, and a test that names it would be sent without it."""
    tests = folder(a=user + MARKDOWN, b=MARKDOWN, prompts__p="---\nid: p\ntagz: 1\n---\nBe brief.\n")
    _, cases = load("ai_tester", tests)
    assert kinds(cases) == dict.fromkeys(["a~p" if user else "a", "b"], "invalid")


def test_a_class_that_is_not_read_makes_every_row_an_error() -> None:
    """Without `skip_invalid` the file is refused: another class would give wrong verdicts."""
    registry = b"e.v0:\n  class: evals.elsuite.basic.other:Other\n  args: {samples_jsonl: s.jsonl}\n"
    registry_file = SourceFile(path="e.yaml", data=registry)
    data = lines({"input": "x", "ideal": "y"}, {"input": "x", "ideal": "z"})
    suite_source = replace(
        source("s.jsonl", data),
        expand_glob=lambda glob: ["e.yaml"] if glob == "*.yaml" else [],
        find_file=lambda _: registry_file,
    )
    _, cases = load("openai_evals", suite_source)
    assert kinds(cases) == dict.fromkeys(["line-1", "line-2"], "unsupported")


def test_a_case_that_is_both_wrong_and_unsupported_is_invalid() -> None:
    assertions = [{"type": "javascript", "value": "x"}, {"type": "contians", "value": "x"}]
    text = json.dumps({"prompts": ["p"], "tests": [{"description": "a", "assert": assertions}]})
    _, cases = load("promptfoo", source("promptfooconfig.json", text.encode()))
    assert kinds(cases) == {"a": "invalid"}


def test_cases_on_one_line_are_as_many_placeholders() -> None:
    _, cases = load("fieldkit", source("s.json", fieldkit(prompt("a"), {"id": 1}, {"id": 2}, prompt("d"))))
    assert [case.id for case in cases] == ["a", "line-1", "line-1-2", "d"]


def test_an_id_by_line_is_never_that_of_a_case() -> None:
    _, cases = load(
        "meridian", source("s.jsonl", b'{"id"\n' + lines({"id": "line-1", "input": "x", "expected": "y"}))
    )
    assert [(case.id, bool(case.problems)) for case in cases] == [("line-1-2", True), ("line-1", False)]


def test_errors_of_a_dialect_of_another_package_are_put_together_by_their_case() -> None:
    """It gives no rows."""
    problems = [
        Problem(code="wrong-type", message="It is wrong.", path="s.x", line=line, case=case_id)
        for line, case_id in [(1, "a"), (2, "a"), (3, "b")]
    ]
    items: list[Suite | CaseAtLine | Problem] = [Suite(name="s", dialect="x"), *problems]
    placeholders = PlaceholderFactory(source("s.x", b""), items)
    cases = [item for item in placeholders.replace_bad_rows(items) if isinstance(item, Case)]
    assert [(case.id, len(case.problems)) for case in cases] == [("a", 2), ("b", 1)]


# --- digests -----------------------------------------------------------------------------------------------


def test_the_digest_of_a_case_does_not_depend_on_its_path_or_line() -> None:
    wrong = lines({"id": "b", "input": "x", "expcted": "y"})
    _, (case,) = load("meridian", source("s.jsonl", wrong))
    _, (moved_case,) = load("meridian", source("/home/me/t.jsonl", b"\n" + wrong))
    assert (case.problems[0].path, moved_case.problems[0].path) == ("s.jsonl", "t.jsonl")
    assert (case.problems[0].line, moved_case.problems[0].line) == (1, 2)
    assert judged_digest(case) == judged_digest(moved_case)


def test_another_mistake_is_another_suite() -> None:
    digests = {
        load("meridian", source("s.jsonl", lines({"id": "b", "input": "x", word: "y"})))[0].suite.digest
        for word in ("expcted", "expectde")
    }
    assert len(digests) == 2


def test_a_file_that_cannot_be_read_gives_no_placeholders() -> None:
    suite, cases = load("agentv", source("s.yaml", b"tests: ["))
    assert suite.errors
    assert cases == []

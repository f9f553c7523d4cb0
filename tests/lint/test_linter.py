"""The linter as a whole: its codes and their pages, how to silence them, and its memory."""

from __future__ import annotations

import json
import random
import re
import tracemalloc
from pathlib import Path
from time import sleep
from typing import Any

import pytest

from proctor.errors import UsageError
from proctor.graders import GRADERS
from proctor.lint import linter as linter_module
from proctor.lint.linter import CODES, SLOW_BUDGET_S, SLOW_S, Linter, check_codes
from proctor.model import Assertion, Case, GraderResult, Message, PassRule, Suite
from proctor.protocols import BaseGrader, CaseAtLine, GradingInput
from proctor.services.suites.load import load_suite
from support.linting import lint_cases

PAGES = [
    page
    for page in sorted((Path(__file__).parents[2] / "docs/reference/lint").glob("*.md"))
    if page.stem != "index"
]
SUITE = Suite(name="s", dialect="meridian")


def case(case_id: str = "a", lint: Any = None, question: str = "Is 4 + 5 = 9?", expected: str = "9") -> Case:
    return Case(
        id=case_id,
        input=(Message(role="user", content=question),),
        expected=expected,
        assertions=(Assertion(grader="exact", params={"value": expected}),),
        metadata={} if lint is None else {"lint": lint},
    )


# --- codes and pages ---------------------------------------------------------------------------------------


def test_every_code_has_a_page_and_every_page_a_code() -> None:
    assert {page.stem for page in PAGES} == set(CODES)


@pytest.mark.parametrize("code", CODES)
def test_a_page_begins_with_its_code_and_says_how_to_silence_it(code: str) -> None:
    text = (PAGES[0].parent / f"{code}.md").read_text(encoding="utf-8")
    assert text.startswith(f"# {code}\n")
    assert f"--ignore {code}" in text
    assert text.count("\n") <= 80
    assert re.search(r"^## (Why|Example|Silence)", text, re.MULTILINE)


def test_the_table_has_every_code_with_a_link_and_what_it_says() -> None:
    table = (PAGES[0].parent / "index.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| \[`([a-z-]+)`\]\(\1\.md\) \| (.+?) \|$", table, re.MULTILINE))
    assert rows == CODES


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_of_a_page_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#\s]+)", page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


EXAMPLE = re.compile(r"^```jsonl (before|after)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


# `contaminated` and `canary` need two files, and only `run` and `compare` report `too-few-cases`.
@pytest.mark.parametrize("code", sorted(CODES.keys() - {"contaminated", "canary", "too-few-cases"}))
def test_the_example_of_a_page_shows_the_finding_and_how_it_goes(code: str, tmp_path: Path) -> None:
    text = (PAGES[0].parent / f"{code}.md").read_text(encoding="utf-8")
    examples = dict(EXAMPLE.findall(text))
    codes = {}
    for name, body in examples.items():
        file = tmp_path / f"{name}.jsonl"
        file.write_text(body, encoding="utf-8")
        linter = Linter(str(file), GRADERS.get)
        result = load_suite(file, inspect=linter.add)
        assert result.errors == []
        codes[name] = {problem.code for problem in linter.finish(result.suite)}
    assert code in codes["before"]
    assert code not in codes.get("after", set())


# --- what silences -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lint", "codes"),
    [
        (None, ["leak"]),
        ("ignore", []),
        (["ignore"], []),
        (["leak"], []),
        ("leak", []),
        ("tokens-est, leak", []),
        ("tokens-est; leak", []),
        (["tokens-est"], ["leak"]),
        ([], ["leak"]),
        (["leek"], ["unknown-lint", "leak"]),
        (["leak", 7], ["unknown-lint"]),
        (True, ["unknown-lint", "leak"]),
        (["leek", "unknown-lint"], ["leak"]),
    ],
)
def test_a_case_silences_rules(lint: Any, codes: list[str]) -> None:
    assert [problem.code for problem in lint_cases(case(lint=lint))] == codes


def test_an_unknown_code_is_told_with_the_nearest_one() -> None:
    problem = lint_cases(case(lint=["leek"]))[0]
    assert "Test 'a': `lint` has the unknown code 'leek'" in problem.message
    assert "'leak'" in problem.message


def test_the_caller_silences_a_rule_for_all() -> None:
    assert lint_cases(case(), ignored=("leak",)) == []


def test_a_code_to_ignore_must_be_one() -> None:
    check_codes(list(CODES))
    with pytest.raises(UsageError, match="'leak'"):
        check_codes(["leek"])


# --- what is found -----------------------------------------------------------------------------------------


def test_problems_come_in_the_order_of_their_lines_as_warnings_in_sentences() -> None:
    cases = [
        case("a"),
        case("B", question="Who is it?", expected='{"a": 1}'),
        case("b", question="Who is it?"),
    ]
    problems = lint_cases(*cases, ignored=())
    assert [problem.line for problem in problems] == sorted(problem.line or 0 for problem in problems)
    assert len(problems) >= 4
    for problem in problems:
        assert problem.level == "warning"
        assert problem.path == "s.jsonl"
        assert problem.code in CODES
        assert problem.message.endswith(".")
        assert problem.case is None or repr(problem.case) in problem.message


def test_a_case_of_which_nothing_is_doubtful_is_told_nothing() -> None:
    assert lint_cases(case(question="What do four and five make?")) == []


def test_strange_cases_break_no_rule() -> None:
    strange = [
        Case(id="", input=()),
        Case(id="\ud800", input=(Message(role="user", content="\ud800 \x00"),), expected={"a": [None, {}]}),
        Case(id="m", input=(Message(role="tool"),), expected=3.5, metadata={"lint": {"a": 1}, "canary": 7}),
    ]
    lint_cases(*strange)


def test_a_case_with_a_wrong_assertion_is_an_error_and_not_looked_at(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    rows = [
        {"id": "a", "input": "Is 4 + 5 = 9?", "expected": "9(", "scorer": "regex"},
        {"id": "b", "input": "Is 4 + 5 = 9?", "expected": "9"},
    ]
    file.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    cases: list[CaseAtLine] = []
    result = load_suite(file, inspect=cases.append)
    assert [case_at_line.case.id for case_at_line in cases] == ["b"]
    assert [problem.case for problem in result.errors] == ["a"]
    assert result.suite.digest == load_suite(file).suite.digest


# --- what it takes -----------------------------------------------------------------------------------------


def make_cases(count: int) -> list[Case]:
    dice = random.Random(11)
    words = ["".join(dice.choices("abcdefghijklm", k=7)) for _ in range(800)]
    checks = (
        lambda n: Assertion(grader="exact", params={"value": f"{n} kg"}),
        lambda n: Assertion(grader="contains", params={"value": f"ship {n}", "ignore_case": True}),
        lambda n: Assertion(grader="regex", params={"pattern": rf"(?:\d+,)*{n}$"}),
        lambda n: Assertion(grader="length", params={"max_words": 40}),
    )
    return [
        Case(
            id=f"case_{n}",
            input=(Message(role="user", content=f"{' '.join(dice.choices(words, k=30))}?"),),
            assertions=(checks[n % 4](n),),
        )
        for n in range(count)
    ]


@pytest.mark.slow
def test_many_cases_are_linted_in_little_memory() -> None:
    cases = make_cases(500)
    tracemalloc.start()
    problems = lint_cases(*cases)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert {problem.code for problem in problems} == {"vacuous-empty"}
    assert peak < 6 * 2**20  # ten thousand may take 80 MiB


@pytest.mark.slow
def test_slow_grading_uses_up_patience_and_then_nothing_is_graded() -> None:
    schema = {"type": "string", "pattern": "^(a|a|aa)*$"}
    slow = Case(
        id="slow",
        input=(Message(role="user", content=json.dumps("a" * 60 + "!")),),
        assertions=(Assertion(grader="json_schema", params={"schema": schema}),),
    )
    wall = Case(
        id="wall",
        input=(Message(role="user", content="Describe the wall."),),
        assertions=(Assertion(grader="length", params={"max_words": 9}),),
    )
    linter = Linter("s", GRADERS.get)
    linter.add(CaseAtLine(wall, 1))
    linter.add(CaseAtLine(slow, 2))
    assert 0 < linter.remaining_s < SLOW_BUDGET_S
    linter.remaining_s = 0
    linter.add(CaseAtLine(wall, 3))
    assert [problem.line for problem in linter.finish(SUITE) if problem.code == "vacuous-empty"] == [1]


class Waits(BaseGrader, frozen=True, kw_only=True):
    """Passes every answer, and keeps this process waiting as a busy machine does."""

    def grade(self, graded: GradingInput) -> GraderResult:
        sleep(2 * SLOW_S)
        return GraderResult(value=1.0, passed=True)


@pytest.mark.slow
def test_time_that_a_busy_machine_gives_to_others_uses_up_no_patience() -> None:
    linter = Linter("s", {"waits": Waits}.__getitem__, ("too-few-cases",))
    message = Message(role="user", content="Describe the wall.")
    linter.add(CaseAtLine(Case(id="a", input=(message,), assertions=(Assertion(grader="waits"),)), 1))
    assert linter.remaining_s == SLOW_BUDGET_S


def test_the_suites_pass_rule_is_known_at_the_end_only() -> None:
    linter = Linter("s", GRADERS.get)
    half = Case(
        id="a",
        input=(Message(role="user", content="Describe the wall."),),
        assertions=(
            Assertion(grader="contains", params={"value": "granite"}),
            Assertion(grader="length", params={"max_words": 9}),
        ),
    )
    linter.add(CaseAtLine(half, 1))
    (problem,) = linter.finish(Suite(name="s", dialect="agentv", pass_rule=PassRule(threshold=0.5)))
    assert problem.code == "vacuous-empty"


class SlowLinter(linter_module.Linter):
    """Grades every answer as a run does."""

    def _build_text_grader(self, assertion: Assertion) -> None:
        return None


def test_graders_of_text_alone_give_the_result_that_a_run_would_have() -> None:
    choose = random.Random(25).choice
    linters = Linter("s", GRADERS.get), SlowLinter("s", GRADERS.get)
    for _ in range(300):
        assertions = tuple(
            Assertion(
                grader=choose(("exact", "contains")),
                params={"value": choose("ab")},
                weight=choose((0.0, 0.5, 1.0, 3.0)),
                required=choose((None, None, 0.5, 1.0)),
                pass_at=choose((None, None, 0.0, 0.5)),
                negated=choose((False, True)),
            )
            for _ in range(choose((1, 2, 3)))
        )
        text, results = choose(("", "a", "b", "ab")), []
        for linter in linters:
            linter._text_checks = linter_module._UNKNOWN_CHECKS
            probed = linter._grade_text(Case(id="a", input=(), assertions=assertions), text)
            results.append((probed, [linter._passes(assertion, text) for assertion in assertions]))
        assert results[0] == results[1]

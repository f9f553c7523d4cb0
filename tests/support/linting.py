"""Cases with checks in few words, and the linter over them."""

from __future__ import annotations

from itertools import count
from typing import Any

from proctor.graders import GRADERS
from proctor.lint.linter import Linter
from proctor.model import Assertion, Case, Message, PassRule, Problem, Suite
from proctor.protocols import CaseAtLine

_NUMBERS = count()


def make_checked_case(prompt: str | list[tuple[str, str]], *checks: Any, **fields: Any) -> Case:
    """A case that asks a text or turns; each check is (grader, parameters) or an assertion."""
    turns = [("user", prompt)] if isinstance(prompt, str) else prompt
    assertions = [
        check if isinstance(check, Assertion) else Assertion(grader=check[0], params=check[1])
        for check in checks
    ]
    values: dict[str, Any] = {"id": f"case-{next(_NUMBERS)}", "assertions": tuple(assertions)}
    messages = tuple(Message(role=role, content=content) for role, content in turns)
    return Case(input=messages, **values | fields)


def lint_cases(*cases: Case, rule: PassRule | None = None, ignored: tuple[str, ...] = ()) -> list[Problem]:
    """What the linter says of cases that stand on lines 1, 2, …, but not of how few they are."""
    linter = Linter("s.jsonl", GRADERS.get, ignored)
    for line, case in enumerate(cases, 1):
        linter.add(CaseAtLine(case, line))
    return linter.finish(Suite(name="s", dialect="meridian", pass_rule=rule or PassRule()))


def lint_codes(*cases: Case, **options: Any) -> list[str]:
    """The codes alone."""
    return [problem.code for problem in lint_cases(*cases, **options)]

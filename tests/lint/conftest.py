"""Cases in few words, and the linter over them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from proctor.graders import GRADERS
from proctor.lint.linter import Linter
from proctor.model import Assertion, Case, Message, PassRule, Problem, Suite
from proctor.protocols import CaseAtLine


def ask(asked: str | list[tuple[str, str]]) -> tuple[Message, ...]:
    turns = [("user", asked)] if isinstance(asked, str) else asked
    return tuple(Message(role=role, content=content) for role, content in turns)


@pytest.fixture
def case() -> Callable[..., Case]:
    """A case that asks a text or turns; each check is (grader, parameters) or an assertion."""
    count = iter(range(10_000))

    def make(asked: str | list[tuple[str, str]], *checks: Any, **fields: Any) -> Case:
        assertions = [
            check if isinstance(check, Assertion) else Assertion(grader=check[0], params=check[1])
            for check in checks
        ]
        fields.setdefault("id", f"case-{next(count)}")
        return Case(input=ask(asked), assertions=tuple(assertions), **fields)

    return make


@pytest.fixture
def lint() -> Callable[..., list[Problem]]:
    """What the linter says of cases that stand on lines 1, 2, …, but not of how few they are."""

    def run(*cases: Case, rule: PassRule | None = None, ignored: tuple[str, ...] = ()) -> list[Problem]:
        linter = Linter("s.jsonl", GRADERS.get, ignored)
        for line, each in enumerate(cases, 1):
            linter.add(CaseAtLine(each, line))
        return linter.finish(Suite(name="s", dialect="meridian", pass_rule=rule or PassRule()))

    return run


@pytest.fixture
def codes(lint: Callable[..., list[Problem]]) -> Callable[..., list[str]]:
    """The codes alone."""

    def run(*cases: Case, **options: Any) -> list[str]:
        return [problem.code for problem in lint(*cases, **options)]

    return run

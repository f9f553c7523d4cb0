"""Suites of the dialect agentv in a few lines of YAML."""

from __future__ import annotations

from typing import Any

from proctor.dialects.agentv.dialect import DIALECT
from proctor.model import Case, Problem, Suite
from proctor.protocols import SuiteSource
from support.suite_files import find_in, make_source, split_items


def make_agentv(text: str, path: str = "suites/s.yaml", environ: Any = None, **files: str) -> SuiteSource:
    """A suite and the files around it, in whose names `__` stands for `/` and `_` for a dot."""
    around = {name.replace("__", "/").replace("_", "."): data.encode() for name, data in files.items()}
    return make_source(text, path, read_sibling=around.get, find_file=find_in(around), environ=environ or {})


def read_agentv(
    text: str, path: str = "suites/s.yaml", environ: Any = None, **files: str
) -> tuple[Suite, dict[str, Case], list[Problem]]:
    """The header, the cases by id, and the problems."""
    suite, cases, problems = split_items(DIALECT.read(make_agentv(text, path, environ, **files)))
    return suite, {case.id: case for case in cases}, problems


def read_test(text: str, above: str = "", **files: str) -> Case:
    """The only case of a suite with one test, which has no error."""
    _, cases, problems = read_agentv(
        f"{above}\ntests:\n  - id: a\n    input: i\n{indent_test(text)}", **files
    )
    assert [str(problem) for problem in problems if problem.level == "error"] == []
    return cases["a"]


def indent_test(text: str) -> str:
    """Lines as deep as the fields of a test."""
    return "".join(f"    {line}\n" for line in text.splitlines())


def list_codes(text: str, **files: str) -> list[tuple[str, int | None]]:
    """The code and the line of each problem."""
    return [(problem.code, problem.line) for problem in read_agentv(text, **files)[2]]

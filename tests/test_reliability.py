"""docs/explanation/reliability.md against the tests that it names."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ROWS = re.findall(
    r"^\| (.+) \| (.+) \|$", (ROOT / "docs/explanation/reliability.md").read_text("utf-8"), re.MULTILINE
)
PROMISES = [(promise, tests) for promise, tests in ROWS if promise != "promise"]
TEST = re.compile(r"`([\w/]+\.py)::(\w+)`")


@pytest.mark.parametrize(("promise", "tests"), PROMISES)
def test_every_promise_names_tests_that_are_there(promise: str, tests: str) -> None:
    names = TEST.findall(tests)
    assert names, f"no test holds {promise!r}"
    for file, name in names:
        tree = ast.parse((ROOT / "tests" / file).read_text("utf-8"))
        functions = {
            node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        }
        assert name in functions, f"tests/{file} has no {name}"

"""The names of `proctor.eval`: which there are, where they are, and what importing them costs."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import proctor.eval as toolbox
from support.waiting import PATIENCE_S

HEAVY = {
    "aiohttp",
    "asyncio",
    "click",
    "http.client",
    "jsonschema",
    "regex",
    "rich",
    "sqlite3",
    "vl_convert",
    "yaml",
}
EVERY_NAME = f"""
import json, sys
import proctor.eval
for name in {toolbox.__all__!r}:
    getattr(proctor.eval, name)
print(json.dumps(sorted(sys.modules)))
"""


def test_the_names_are_the_same_for_people_type_checkers_and_python() -> None:
    tree = ast.parse(Path(str(toolbox.__file__)).read_text(encoding="utf-8"))
    blocks = [node for node in tree.body if isinstance(node, ast.If)]
    imports = [node for block in blocks for node in block.body if isinstance(node, ast.ImportFrom)]
    announced = {name.name: node.module for node in imports for name in node.names}
    assert announced == {name: f"proctor.eval.{module}" for name, module in toolbox._MODULE_BY_NAME.items()}
    assert set(toolbox.__all__) == set(announced)
    assert set(dir(toolbox)) == {*toolbox.__all__, "graded", "vertical"}


@pytest.mark.parametrize("name", toolbox.__all__)
def test_a_name_is_what_its_module_has_and_says_what_it_is(name: str) -> None:
    value = getattr(toolbox, name)
    assert value is getattr(import_module(f"proctor.eval.{toolbox._MODULE_BY_NAME[name]}"), name)
    if callable(value):
        assert value.__doc__
        assert not value.__doc__.startswith(f"{name}(")


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"module 'proctor\.eval' has no attribute 'Benches'"):
        _ = toolbox.Benches


@pytest.mark.slow
def test_all_names_together_load_nothing_heavy() -> None:
    process = subprocess.run(
        [sys.executable, "-I", "-c", EVERY_NAME],
        capture_output=True,
        encoding="utf-8",
        timeout=PATIENCE_S,
        check=True,
    )
    assert HEAVY & set(json.loads(process.stdout)) == set()

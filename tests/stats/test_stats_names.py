"""The names of `proctor.stats`: which there are, where they are, and what importing them costs."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from proctor import stats

EVERY_NAME = f"""
import sys
from proctor.stats import {", ".join(stats.__all__)}
print(*sys.modules)
"""


def run_code(code: str) -> set[str]:
    process = subprocess.run(
        [sys.executable, "-I", "-c", code], capture_output=True, encoding="utf-8", check=True
    )
    return set(process.stdout.split())


def test_the_names_are_the_same_for_people_type_checkers_and_python() -> None:
    tree = ast.parse(Path(str(stats.__file__)).read_text(encoding="utf-8"))
    blocks = [node for node in tree.body if isinstance(node, ast.If)]
    imports = [node for block in blocks for node in block.body if isinstance(node, ast.ImportFrom)]
    announced = {name.name: node.module for node in imports for name in node.names}
    assert announced == {name: f"proctor.stats.{module}" for name, module in stats._HOMES.items()}
    assert set(stats.__all__) == set(announced) == set(dir(stats))


@pytest.mark.parametrize("name", stats.__all__)
def test_a_name_is_what_its_module_has(name: str) -> None:
    value = getattr(stats, name)
    assert value is getattr(import_module(f"proctor.stats.{stats._HOMES[name]}"), name)


def test_a_module_does_not_stand_for_its_function_after_another_name_of_it() -> None:
    code = (
        "from proctor.stats import pass_hat_k; from proctor.stats import pass_at_k; print(pass_at_k(2, 1, 1))"
    )
    assert run_code(code) == {"0.5"}


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"module 'proctor\.stats' has no attribute 'wald'"):
        _ = stats.wald


def test_statistics_need_the_standard_library_alone() -> None:
    modules = run_code(EVERY_NAME)
    foreign = {name.partition(".")[0] for name in modules} - sys.stdlib_module_names
    assert foreign - {"__main__", "_distutils_hack", "__mp_main__"} == {"proctor"}


def test_importing_the_package_loads_none_of_its_files() -> None:
    modules = run_code("import sys, proctor.stats; print(*sys.modules)")
    assert {name for name in modules if name.startswith("proctor")} == {"proctor", "proctor.stats"}

"""The diagram of a request's path in docs/ARCHITECTURE.md agrees with the imports."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import proctor

SOURCE = Path(proctor.__file__).parent
PAGE = SOURCE.parents[1] / "docs" / "ARCHITECTURE.md"
SECTION = PAGE.read_text(encoding="utf-8").partition("## The straight line\n")[2].partition("\n## ")[0]
DIAGRAM_FILES = re.findall(r"^([\w/]+\.py) ", SECTION.split("```")[1], re.MULTILINE)
LOOK_UPS = (
    "services/runs/config.py",
    "services/runs/execution/trial_variables.py",
    "services/runs/execution/variable_values.py",
    "services/runs/planning/judge_choice.py",
    "services/runs/planning/planned_run.py",
    "services/runs/planning/target_names.py",
    "services/runs/request.py",
)


def imported_files(path: str) -> Iterator[str]:
    """The files of Proctor that a file imports anywhere in it, as paths like those of the diagram."""
    for node in ast.walk(ast.parse((SOURCE / path).read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] == "proctor":
            modules = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        else:
            continue
        for module in modules:
            yield module.removeprefix("proctor.").replace(".", "/") + ".py"


@pytest.mark.parametrize("path", DIAGRAM_FILES)
def test_a_drawn_file_imports_only_files_below_it(path: str) -> None:
    above = DIAGRAM_FILES[: DIAGRAM_FILES.index(path)]
    assert [file for file in imported_files(path) if file in above] == []


@pytest.mark.parametrize("path", LOOK_UPS)
def test_a_look_up_imports_no_drawn_file(path: str) -> None:
    assert [file for file in imported_files(path) if file in DIAGRAM_FILES] == []
    assert Path(path).stem in SECTION


def test_each_drawn_file_but_the_first_is_imported_by_one_above_it_or_is_an_engine() -> None:
    importable = {"engines/asyncio_engine.py", "engines/batch_engine.py", "engines/ray/engine.py"}
    for path in DIAGRAM_FILES:
        assert path == DIAGRAM_FILES[0] or path in importable
        importable.update(imported_files(path))


def test_all_planning_is_drawn() -> None:
    files = {path.relative_to(SOURCE).as_posix() for path in (SOURCE / "services/runs/planning").glob("*.py")}
    assert files - {"services/runs/planning/__init__.py"} <= {*DIAGRAM_FILES, *LOOK_UPS}
    assert len(DIAGRAM_FILES) == len(set(DIAGRAM_FILES)) > 20


def test_none_of_the_four_ways_of_planning_calls_another() -> None:
    planners = {f"services/runs/planning/{name}.py" for name in ("regrade", "retry", "resume", "fresh")}
    assert planners <= set(DIAGRAM_FILES)
    calls = {path: planners.intersection(imported_files(path)) for path in planners}
    assert not any(calls.values()), calls

"""No module of the package imports another that imports it back, not even late or for types only.

Every import of every file counts, inside functions and under TYPE_CHECKING too. Names in the tables of a
registry are text and do not count.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

from support.sources import PACKAGE, list_nodes, parse_folder


def module_name(path: Path, root: Path) -> str:
    parts = path.relative_to(root.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_modules(path: Path, name: str, nodes: list[ast.AST], modules: Collection[str]) -> Iterator[str]:
    """The modules of the package that a file names in its imports, wherever those are written."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom):
            package = node.module or ""
            if node.level:
                parents = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
                parents = parents[: len(parents) - node.level + 1]
                package = ".".join([*parents, *([node.module] if node.module else [])])
            for alias in node.names:
                member = f"{package}.{alias.name}"
                if member in modules:
                    yield member
                elif package in modules:
                    yield package


@cache
def read_imports(root: Path) -> dict[str, set[str]]:
    """The modules of a package, each with those that it imports."""
    modules = {path: module_name(path, root) for path in parse_folder(root)}
    imports: dict[Path, list[ast.AST]] = {path: [] for path in modules}
    for path, node in list_nodes(root):
        if isinstance(node, ast.Import | ast.ImportFrom):
            imports[path].append(node)
    names = set(modules.values())
    return {
        name: set(imported_modules(path, name, imports[path], names)) - {name}
        for path, name in modules.items()
    }


def find_circles(imports: Mapping[str, set[str]]) -> list[frozenset[str]]:
    """The strongly connected components of more than one module (Tarjan), sorted."""
    numbers: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    circles: list[frozenset[str]] = []

    def visit(name: str) -> None:
        numbers[name] = lowest[name] = len(numbers)
        stack.append(name)
        for target in sorted(imports[name]):
            if target not in numbers:
                visit(target)
                lowest[name] = min(lowest[name], lowest[target])
            elif target in stack:
                lowest[name] = min(lowest[name], numbers[target])
        if lowest[name] == numbers[name]:
            start = stack.index(name)
            members = frozenset(stack[start:])
            del stack[start:]
            if len(members) > 1:
                circles.append(members)

    for name in sorted(imports):
        if name not in numbers:
            visit(name)
    return sorted(circles, key=sorted)


def describe(circle: frozenset[str]) -> str:
    """A circle as text: each module with those of the circle that it imports."""
    imports = read_imports(PACKAGE)
    return "\n".join(f"  {name} → {', '.join(sorted(imports[name] & circle))}" for name in sorted(circle))


@pytest.mark.slow
def test_no_module_imports_one_that_imports_it_back() -> None:
    circles = find_circles(read_imports(PACKAGE))
    assert not circles, "\n\n".join(map(describe, circles))


@pytest.mark.parametrize(
    "late",
    [
        "def f():\n    from package import b\n",
        "def f():\n    from package.b import g\n",
        "def f():\n    import package.b\n",
        "def f():\n    from . import b\n",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .b import g\n",
    ],
)
def test_late_imports_count(tmp_path: Path, late: str) -> None:
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("TABLE = {'a': 'package.a:f'}\n", encoding="utf-8")
    (package / "a.py").write_text(late, encoding="utf-8")
    (package / "b.py").write_text("from package.a import f\ng = f\n", encoding="utf-8")
    assert find_circles(read_imports(package)) == [frozenset(("package.a", "package.b"))]


def test_importing_a_package_counts_for_its_face(tmp_path: Path) -> None:
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("from package.a import f\n", encoding="utf-8")
    (package / "a.py").write_text("def f():\n    from package import f\n", encoding="utf-8")
    assert find_circles(read_imports(package)) == [frozenset(("package", "package.a"))]

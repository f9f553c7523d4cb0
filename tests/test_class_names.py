"""One class per name: no two modules of the package define classes of the same name."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.sources import PACKAGE, list_nodes


def read_classes(root: Path) -> Iterator[tuple[str, str]]:
    """The name of each class, those inside functions and classes too, and its place as `file:line`."""
    for path, node in list_nodes(root):
        if isinstance(node, ast.ClassDef):
            yield node.name, f"{path.relative_to(root).as_posix()}:{node.lineno}"


def find_duplicates(root: Path) -> list[str]:
    """A line for each name that several classes have, with their places."""
    places: dict[str, list[str]] = {}
    for name, place in read_classes(root):
        places.setdefault(name, []).append(place)
    return [f"{name}: {' and '.join(where)}" for name, where in sorted(places.items()) if len(where) > 1]


@pytest.mark.slow
def test_every_class_has_a_name_of_its_own() -> None:
    duplicates = find_duplicates(PACKAGE)
    assert not duplicates, f"{len(duplicates)} names stand for several classes:\n" + "\n".join(duplicates)


def test_a_second_class_of_a_name_is_named_with_both_places(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("class Draft: ...\n", encoding="utf-8")
    (tmp_path / "b.py").write_text("def f():\n    class Draft: ...\n\n\nclass Other: ...\n", encoding="utf-8")
    assert find_duplicates(tmp_path) == ["Draft: a.py:1 and b.py:2"]

"""Python files as syntax trees, each parsed once in a process."""

from __future__ import annotations

import ast
import gc
from functools import cache
from pathlib import Path

import proctor

PACKAGE = Path(proctor.__file__).parent


@cache
def parse_folder(root: Path) -> dict[Path, ast.Module]:
    """The trees of all Python files below a folder, sorted by their paths."""
    gc.disable()  # which would look at all trees again with each file
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(root.rglob("*.py"))}
    gc.freeze()
    gc.enable()
    return trees


@cache
def list_nodes(root: Path) -> list[tuple[Path, ast.AST]]:
    """Every node of those trees, with its file."""
    return [(path, node) for path, tree in parse_folder(root).items() for node in ast.walk(tree)]

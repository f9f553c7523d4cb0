"""Recognises Python files whose functions grade by `@proctor.grader`, without running them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ast

_MAX_BYTES = 1_000_000
_MENTION = re.compile(rb"^@[\w.]*grader\b", re.MULTILINE)


def is_grader_file(path: Path) -> bool:
    """Returns whether a file has a `@proctor.grader` function at its top level and is no program by itself.

    A file that asks for its `__name__`, or that names `stdin`, is a program by itself.
    """
    try:
        source = path.read_bytes()
    except OSError:
        return False
    if len(source) > _MAX_BYTES or b"proctor" not in source or _MENTION.search(source) is None:
        return False
    import ast

    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    names = _find_decorator_names(tree)
    has_grader = any(
        isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and any(_get_dotted_name(decorator) in names for decorator in node.decorator_list)
        for node in tree.body
    )
    return has_grader and not any(map(_is_program_mark, ast.walk(tree)))


def _find_decorator_names(tree: ast.Module) -> set[str]:
    """Returns the names that `proctor.grader` has in a file, by its imports."""
    import ast

    names: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.Import):
            names |= {
                f"{alias.asname or 'proctor'}.grader" for alias in node.names if alias.name == "proctor"
            }
        elif isinstance(node, ast.ImportFrom) and node.module == "proctor":
            names |= {alias.asname or "grader" for alias in node.names if alias.name == "grader"}
    return names


def _get_dotted_name(node: ast.expr) -> str:
    """Returns the name of a decorator, also of one that is called."""
    import ast

    return ast.unparse(node.func if isinstance(node, ast.Call) else node)


def _is_program_mark(node: ast.AST) -> bool:
    import ast

    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    imported = isinstance(node, ast.ImportFrom) and any(alias.name == "stdin" for alias in node.names)
    return imported or name in ("__name__", "stdin")

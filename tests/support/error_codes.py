"""Finds the codes of errors and warnings in the source: the literals that are given as codes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import proctor

SOURCE = Path(proctor.__file__).parent
_CODE = re.compile(r"[a-z]+(-[a-z0-9]+)*")
_PLACES = {
    **dict.fromkeys(("error", "warn", "_note_error", "_make_problem"), 0),
    **dict.fromkeys(("BadTemplate", "_UnsupportedJson", "Finding"), 0),
    "_make_issue": 1,
    "limited_number": 2,
}
"""The calls that take a code, each with the position of the argument."""
_RECORDS = ("Problem", "StoreProblem", "IssueRecord")
"""The calls that take it as the argument `code`."""


@cache
def _trees() -> tuple[ast.Module, ...]:
    files = sorted(SOURCE.rglob("*.py"))
    return tuple(ast.parse(file.read_text(encoding="utf-8")) for file in files)


@cache
def _constants() -> dict[str, str]:
    """The texts of all modules that have a name."""
    names: dict[str, str] = {}
    for node in (node for tree in _trees() for node in tree.body):
        targets = (
            node.targets
            if isinstance(node, ast.Assign)
            else [node.target]
            if isinstance(node, ast.AnnAssign)
            else []
        )
        value = getattr(node, "value", None)
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            names |= {target.id: value.value for target in targets if isinstance(target, ast.Name)}
    return names


def _texts(node: ast.expr | None) -> Iterator[str]:
    """The texts that an expression may be: a literal, a named one, or either of two."""
    if isinstance(node, ast.IfExp):
        yield from (*_texts(node.body), *_texts(node.orelse))
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.Name) and node.id in _constants():
        yield _constants()[node.id]


def _calls() -> Iterator[tuple[str, ast.Call]]:
    for node in (node for tree in _trees() for node in ast.walk(tree)):
        if isinstance(node, ast.Call):
            yield getattr(node.func, "attr", getattr(node.func, "id", "")), node


def _keyword(call: ast.Call, name: str) -> ast.expr | None:
    return next((keyword.value for keyword in call.keywords if keyword.arg == name), None)


def problem_codes() -> set[str]:
    """The codes of problems with suites, stores and requests."""
    codes: set[str] = set()
    for name, call in _calls():
        place = _PLACES.get(name)
        if place is not None and len(call.args) > place:
            codes |= set(_texts(call.args[place]))
        if name in _RECORDS:
            codes |= set(_texts(_keyword(call, "code")))
    for node in (node for tree in _trees() for node in ast.walk(tree)):
        if isinstance(node, ast.Assign) and "code" in {getattr(target, "id", "") for target in node.targets}:
            codes |= set(_texts(node.value))
    return {code for code in codes if _CODE.fullmatch(code)}


def failure_kinds() -> set[str]:
    """The kinds of failures of trials."""
    names = ("TargetError", "Failure", "EndpointFailed", "__init__")
    return {kind for name, call in _calls() if name in names for kind in _texts(_keyword(call, "kind"))}

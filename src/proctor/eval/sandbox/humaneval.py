"""Builds programs from answers to HumanEval-style problems, and checks the problems."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from textwrap import dedent, indent
from typing import Any

from proctor.errors import UsageError

_FENCE = re.compile(r"^[ ]{0,3}(```+|~~~+)[^\n`]*\n(.*?)(?:^[ ]{0,3}\1[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
_INDENT = "    "
_STATEMENT = re.compile(r"\s|(?:return|if|for|while|with|try|import|from|yield|raise|assert)\b")
"""How the first line of the rest of a function begins, and one of prose does not."""


@dataclass(frozen=True, slots=True)
class CodeProblem:
    """A problem in the shape of HumanEval (Chen et al. 2021, arXiv 2107.03374)."""

    task_id: str
    prompt: str
    """The beginning of the program, up to the function's docstring; may be empty or prose."""
    test: str
    """Python that defines `check(candidate)`, or that asserts by itself."""
    entry_point: str
    """The function's name."""


def parse_problem(row: Mapping[str, Any]) -> CodeProblem:
    """Parses a row with the keys `task_id` and `prompt`, which may be missing, `test`, `entry_point`.

    Raises:
        UsageError: a key is missing or not of its type.
    """
    name = str(row.get("task_id", "without task_id"))
    for key in ("test", "entry_point"):
        if key not in row:
            raise UsageError(f"The problem {name!r} has no {key!r}. Add it, or grade with another function.")
    for key in ("prompt", "test", "entry_point"):
        if not isinstance(row.get(key, ""), str):
            kind = type(row[key]).__name__
            raise UsageError(f"The problem {name!r} has a {key!r} of type {kind}. Write it as a text.")
    if not row["entry_point"].isidentifier():
        raise UsageError(f"The problem {name!r} has the entry_point {row['entry_point']!r}; name a function.")
    return CodeProblem(name, row.get("prompt", ""), row["test"], row["entry_point"])


def build_programs(text: str, problem: CodeProblem) -> list[str]:
    """Returns the programs that an answer can mean, the likeliest first; the first that is Python is used.

    An answer is a whole function or the rest of one that the prompt begins, either of them bare or in a
    Markdown fence with prose around it. Of several fences the last one that defines the function counts, else
    code that stands before them all (perhaps in a fence that the prompt began), else the first one. What
    stands before a `</think>` does not count. A rest that goes on behind the function is also tried without
    what follows it, and one whose indentation was lost is indented.
    """
    code = _extract_code(text.rpartition("</think>")[2], problem.entry_point).replace("\r\n", "\n")
    prompt = problem.prompt if not problem.prompt or problem.prompt.endswith("\n") else problem.prompt + "\n"
    if _defines(code, problem.entry_point):
        functions = (dedent(code), _strip_prose(dedent(code), problem.entry_point))
        # The prompt's imports and helpers count too; its own function is defined again.
        heads = (f"{prompt}{_INDENT}pass\n\n", f"{prompt}\n", "")
        return list(dict.fromkeys(head + function for function in functions for head in heads))
    return list(dict.fromkeys(prompt + body for body in _body_variants(code)))


def _extract_code(text: str, name: str) -> str:
    fences = list(_FENCE.finditer(text))
    before = text[: fences[0].start()] if fences else text
    defining = [fence[2] for fence in fences if _defines(fence[2], name)]
    if defining:
        return defining[-1]
    first_line = next((line for line in before.splitlines() if line.strip()), "")
    return before if not fences or _defines(before, name) or _STATEMENT.match(first_line) else fences[0][2]


def _defines(code: str, name: str) -> bool:
    head = rf"^(?:[ \t]*(?:async[ \t]+)?def[ \t]+{re.escape(name)}[ \t]*\(|{re.escape(name)}[ \t]*=[^=])"
    return re.search(head, code, re.MULTILINE) is not None


def _strip_prose(code: str, name: str) -> str:
    """Returns the code from the first line that begins a statement to the end of the function."""
    start = re.search(r"^(?:def|class|import|from|async|@)\b", code, re.MULTILINE)
    statements = code[start.start() :] if start else code
    head = re.search(rf"^(?:async[ \t]+)?def[ \t]+{re.escape(name)}\b", statements, re.MULTILINE)
    return statements[: head.start()] + _cut_after_body(statements[head.start() :]) if head else statements


def _body_variants(code: str) -> Iterator[str]:
    for body in (code, _cut_after_body(code)):
        variants = (body, _INDENT + body.lstrip("\n").lstrip(" "), indent(dedent(body), _INDENT))
        # A body that is not indented may be Python as it is, but then it would stand after the function.
        yield from variants if body.lstrip("\n")[:1].isspace() else reversed(variants)


def _cut_after_body(code: str) -> str:
    """Returns the code up to the next line that is not indented, not counting the first line."""
    first, newline, body = code.partition("\n")
    end = re.search(r"^[^\s]", body, re.MULTILINE)
    return first + newline + (body[: end.start()] if end else body)

"""Formats problems of suites as lines; many warnings of one kind are counted instead of listed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from proctor.model import Problem
from proctor.safe_text import one_line

_MAX_WARNINGS = 5
"""At most this many warnings of one code are listed; errors are always listed."""


def problem_lines(problems: Iterable[Problem]) -> list[str]:
    """Returns `FILE:LINE: error: message` for each; after five warnings of one code, the number of others."""
    lines: list[str] = []
    warning_counts: Counter[tuple[str, str]] = Counter()
    for problem in problems:
        key = (problem.path, problem.code)
        if problem.level == "warning":
            warning_counts[key] += 1
        if problem.level == "error" or warning_counts[key] <= _MAX_WARNINGS:
            lines.append(one_line(str(problem)))
    for (path, code), count in warning_counts.items():
        if count > _MAX_WARNINGS:
            more = count - _MAX_WARNINGS
            lines.append(f"{one_line(path)}: warning: {more} more with the code {code}.")
    return lines

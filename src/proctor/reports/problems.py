"""Problems to the lines that a person reads: one a line, and many of one kind counted rather than listed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from proctor.model import Problem
from proctor.safe_text import one_line

_MAX_WARNINGS = 5
"""At most this many warnings of one code are listed; errors always are."""


def lines_of(problems: Iterable[Problem]) -> list[str]:
    """`FILE:LINE: error: message` for each; beyond five warnings of one code, one line with their number."""
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

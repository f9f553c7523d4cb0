"""Compares two answers word by word, in bounded time. Pure.

Source: E. W. Myers, "An O(ND) difference algorithm and its variations", Algorithmica 1 (1986), 251-266, whose
time grows with the size of the difference. After a fixed number of steps, lines are compared instead of
words, and after that many again the answers only as wholes. `difflib` has no such bound: its time grows with
the cube of the difference.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct

Granularity = Literal["word", "line", "whole"]
"""What was compared: words, lines if too much differs, or only the answers as wholes."""
Block = tuple[int, int, int]
"""Equal parts of both: the start in the first, the start in the second, the number of parts."""

_MAX_STEPS = 1_000_000
"""Takes less than a second."""
_WIDE = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
"""Scripts without spaces between words, in which each character counts as a word."""
_WORD = re.compile(rf"\{{\{{[^{{}}\n]+\}}\}}|[{_WIDE}]|(?:(?![{_WIDE}])\w)+|[^\w\s]|\s+")
"""A variable of a prompt such as `{{ city }}`, a word, a mark or blanks."""


class DiffSpan(Struct, frozen=True):
    """A part of an answer."""

    text: str
    changed: bool
    """Whether the other answer lacks it here."""


class WordDiff(Struct, frozen=True, kw_only=True):
    """Two answers, each split into consecutive parts."""

    before: tuple[DiffSpan, ...]
    after: tuple[DiffSpan, ...]
    by: Granularity = "word"

    @property
    def is_same(self) -> bool:
        """Whether the answers are identical."""
        return not any(piece.changed for piece in (*self.before, *self.after))

    @property
    def counts(self) -> tuple[int, int]:
        """The number of parts that only the first has, and that only the second has."""
        before_count, after_count = (
            sum(piece.changed for piece in pieces) for pieces in (self.before, self.after)
        )
        return before_count, after_count


def diff_words(before: str, after: str, steps: int = _MAX_STEPS) -> WordDiff:
    """Returns the differences between two answers.

    Args:
        before: the old answer.
        after: the new answer.
        steps: the number of steps after which the comparison becomes coarser.
    """
    if before == after:
        return WordDiff(before=_single_span(before, changed=False), after=_single_span(after, changed=False))
    by: Granularity
    for by, old_parts, new_parts in (
        ("word", _WORD.findall(before), _WORD.findall(after)),
        ("line", before.splitlines(keepends=True), after.splitlines(keepends=True)),
    ):
        blocks = common_blocks(old_parts, new_parts, steps)
        if blocks is not None:
            blocks = list(_meaningful_blocks(blocks, old_parts, new_parts)) if by == "word" else blocks
            return WordDiff(
                before=tuple(_spans(old_parts, [(start, length) for start, _, length in blocks])),
                after=tuple(_spans(new_parts, [(start, length) for _, start, length in blocks])),
                by=by,
            )
    return WordDiff(
        before=_single_span(before, changed=True), after=_single_span(after, changed=True), by="whole"
    )


def diff_lines(before: str, after: str, context: int = 3, steps: int = _MAX_STEPS) -> list[str]:
    """Returns lines that begin with `-`, `+` or a blank, as `diff -u` writes them without line numbers.

    Args:
        before: the old text.
        after: the new text.
        context: how many equal lines are shown around a change; `…` stands for the others.
        steps: the number of steps after which all lines count as changed.
    """
    old_lines, new_lines = before.splitlines(), after.splitlines()
    blocks = [] if before == after else common_blocks(old_lines, new_lines, steps) or []
    lines: list[str] = []
    at = other_at = 0
    for start, other_start, length in (*blocks, (len(old_lines), len(new_lines), 0)):
        lines += [f"-{line}" for line in old_lines[at:start]]
        lines += [f"+{line}" for line in new_lines[other_at:other_start]]
        equal = [f" {line}" for line in old_lines[start : start + length]]
        head = context if lines else 0
        tail = context if start + length < len(old_lines) or other_start + length < len(new_lines) else 0
        if len(equal) > head + tail:
            equal = [*equal[:head], "…", *(equal[-tail:] if tail else [])]
        lines += equal
        at, other_at = start + length, other_start + length
    return lines


def common_blocks(old_parts: Sequence[str], new_parts: Sequence[str], steps: int) -> list[Block] | None:
    """Returns the longest common subsequence in blocks; None if that takes more than `steps`."""
    count, other_count = len(old_parts), len(new_parts)
    middle = count + other_count + 1
    furthest = array("l", [0]) * (2 * middle + 1)
    trace: list[array[int]] = []
    for distance in range(count + other_count + 1):
        steps -= distance + 1
        if steps < 0:
            return None
        trace.append(furthest[middle - distance - 1 : middle + distance + 2])
        for diagonal in range(-distance, distance + 1, 2):
            place = middle + diagonal
            down = diagonal == -distance or (
                diagonal != distance and furthest[place - 1] < furthest[place + 1]
            )
            at = furthest[place + 1] if down else furthest[place - 1] + 1
            start = at
            while at < count and at - diagonal < other_count and old_parts[at] == new_parts[at - diagonal]:
                at += 1
            steps -= at - start
            furthest[place] = at
            if at >= count and at - diagonal >= other_count:
                return _trace_blocks(trace, count, other_count)
    raise AssertionError("two rows differ in no more parts than they have")


def _trace_blocks(trace: Sequence[array[int]], at: int, other_at: int) -> list[Block]:
    """Returns the blocks of the shortest path, traced back from its end."""
    blocks: list[Block] = []
    for distance in range(len(trace) - 1, 0, -1):
        furthest, diagonal = trace[distance], at - other_at
        place = diagonal + distance + 1
        down = diagonal == -distance or (diagonal != distance and furthest[place - 1] < furthest[place + 1])
        start = furthest[place + 1] if down else furthest[place - 1] + 1
        if at > start:
            blocks.append((start, start - diagonal, at - start))
        at, other_at = (start, start - diagonal - 1) if down else (start - 1, start - diagonal)
    return [(0, 0, at)] * bool(at) + blocks[::-1]


def _meaningful_blocks(
    blocks: Sequence[Block], old_parts: Sequence[str], new_parts: Sequence[str]
) -> Iterator[Block]:
    """Yields the blocks without those between two changes that have no word, such as a lone comma."""
    for start, other_start, length in blocks:
        at_edge = not (start or other_start) or (
            start + length == len(old_parts) and other_start + length == len(new_parts)
        )
        if at_edge or any(
            part[0].isalnum() or part[:2] == "{{" for part in old_parts[start : start + length]
        ):
            yield start, other_start, length


def _spans(parts: Sequence[str], common_parts: Sequence[tuple[int, int]]) -> Iterator[DiffSpan]:
    at = 0
    for start, length in (*common_parts, (len(parts), 0)):
        if start > at:
            yield DiffSpan("".join(parts[at:start]), True)
        if length:
            yield DiffSpan("".join(parts[start : start + length]), False)
        at = start + length


def _single_span(text: str, *, changed: bool) -> tuple[DiffSpan, ...]:
    return (DiffSpan(text, changed),) if text else ()

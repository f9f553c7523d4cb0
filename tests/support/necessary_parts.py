"""A regular expression to the texts of which everything that it matches has one.

In these a space is the edge of a word, or what stands between two words. Whatever is not understood may be
anything, so a text that is given here is in every match for sure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from re import _constants as c
from re import _parser
from typing import Any

Node = tuple[str, list[Any]]
"""("texts", of which one is there), ("any", nodes of which one holds), or ("all", nodes that all hold)."""
Items = Sequence[tuple[Any, Any]]

_MOST = 400
_EDGES = (c.AT_BEGINNING, c.AT_BEGINNING_STRING, c.AT_BOUNDARY, c.AT_END, c.AT_END_STRING)
_REPEATS = (c.MAX_REPEAT, c.MIN_REPEAT, c.POSSESSIVE_REPEAT)
_GAPS = (c.CATEGORY_SPACE, c.CATEGORY_NOT_WORD)


def contains_part(pattern: str, parts: Sequence[str]) -> bool:
    """Whether everything that a pattern matches has one of these parts, for sure."""
    return _holds(_node(list(_parser.parse(pattern))), lambda text: any(part in text for part in parts))


def _holds(node: Node, is_seen: Callable[[str], bool]) -> bool:
    kind, items = node
    if kind == "texts":
        return all(map(is_seen, items))
    results = [_holds(item, is_seen) for item in items]
    return any(results) if kind == "all" else all(results)


def _node(items: Items, *, edge: bool = False) -> Node:
    """What all matches of a sequence have; `edge` where a word can only begin at its start."""
    nodes: list[Node] = []
    run = [" " * edge]
    for at, (kind, value) in enumerate(items):
        if kind is c.ASSERT:
            nodes.append(_node(value[1]))
        elif kind is c.ASSERT_NOT:
            run = _edged(run, value)
        else:
            after_edge = all(text.endswith(" ") for text in run)
            nodes += _inner(kind, value, after_edge)
            longer = _joined(run, _texts(kind, value))
            if longer is None:
                run = [_squeezed(text + " ") for text in run] if _begins(items[at:]) else run
                nodes.append(("texts", run))
                longer = [" " * _ends([(kind, value)], after_edge)]
            run = longer
    return "all", [*nodes, ("texts", run)]


def _inner(kind: Any, value: Any, edge: bool) -> list[Node]:
    if kind is c.BRANCH:
        return [("any", [_node(branch, edge=edge) for branch in value[1]])]
    if kind is c.SUBPATTERN or (kind in _REPEATS and value[0] > 0):
        return [_node(value[-1] if kind is c.SUBPATTERN else value[2], edge=edge)]
    return []


def _texts(kind: Any, value: Any) -> list[str] | None:
    """Everything that an item matches, or None where that is too much or not known."""
    if kind is c.LITERAL:
        return [_character(value)]
    if kind is c.AT:
        return [" "] if value in _EDGES else None
    if kind is c.BRANCH:
        branches = [_all_texts(branch) for branch in value[1]]
        return None if None in branches else [text for branch in branches for text in branch or ()]
    if kind is c.SUBPATTERN:
        return _all_texts(value[-1])
    if kind is c.IN and all(a is c.LITERAL or (a is c.CATEGORY and b in _GAPS) for a, b in value):
        return list({" " if a is c.CATEGORY else _character(b) for a, b in value})
    if kind in _REPEATS:
        once = _all_texts(value[2])
        if once is not None and (value[1] == 1 or set(once) == {" "}):
            return once if value[0] else ["", *once]
    return None


def _all_texts(items: Items) -> list[str] | None:
    run: list[str] | None = [""]
    for kind, value in items:
        if run is None:
            return None
        if kind is c.ASSERT_NOT:
            run = _edged(run, value)
        elif kind is not c.ASSERT:
            run = _joined(run, _texts(kind, value))
    return run


def _joined(run: list[str], texts: list[str] | None) -> list[str] | None:
    if texts is None or len(run) * len(texts) > _MOST:
        return None
    return list({_squeezed(before + after) for before, after in product(run, texts)})


def _edged(run: list[str], value: tuple[int, Items]) -> list[str]:
    r"""After `(?<!\wab)` in texts that end with `ab`, a word begins there."""
    direction, (first, *others) = value[0], list(value[1])
    word = "".join(chr(letter) if kind is c.LITERAL else "\0" for kind, letter in others)
    is_edge = direction < 0 and first == (c.IN, [(c.CATEGORY, c.CATEGORY_WORD)])
    if is_edge and all(text.endswith(word) for text in run):
        return [_squeezed(f"{text[: len(text) - len(word)]} {word}") for text in run]
    return run


def _begins(items: Items) -> bool | None:
    """Whether a word must end where a sequence begins; None where the sequence may be empty."""
    for kind, value in items:
        texts = _texts(kind, value)
        if kind is c.SUBPATTERN:
            begins = _begins(value[-1])
        elif kind in _REPEATS:
            begins = _begins(value[2])
            begins = None if begins and not value[0] else begins
        elif kind in (c.ASSERT, c.ASSERT_NOT):
            begins = None
        else:
            begins = texts is not None and all(text.startswith(" ") for text in texts)
        if begins is not None:
            return begins
    return None


def _ends(items: Items, edge: bool) -> bool:
    """Whether a word can only begin at the end of a sequence, if that is so (`edge`) at its start."""
    for kind, value in items:
        if kind is c.SUBPATTERN:
            edge = _ends(value[-1], edge)
        elif kind is c.BRANCH:
            edge = all(_ends(branch, edge) for branch in value[1])
        elif kind in _REPEATS:
            once = _ends(value[2], edge)
            edge = once and _ends(value[2], once) and (edge or value[0] > 0)
        elif kind not in (c.ASSERT, c.ASSERT_NOT):
            texts = _texts(kind, value)
            edge = texts is not None and all(text.endswith(" ") for text in texts)
    return edge


def _character(code: int) -> str:
    """A character; a space for what is no part of a word, but for signs that parts of words have."""
    letter = chr(code)
    return letter if letter.isalnum() or letter in "'/_" else " "


def _squeezed(text: str) -> str:
    while "  " in text:
        text = text.replace("  ", " ")
    return text

r"""Patterns as trees: spelled-out texts, letters that a regular expression matches, and ambiguities.

The tree is that of the standard library's parser. Only ASCII letters and one letter beyond ASCII are
considered, which is enough to see whether two parts of a pattern can match the same ones.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import lru_cache
from importlib import import_module
from itertools import combinations
from typing import Any, Final

_PARSER: Final[Any] = import_module("re._parser")  # the standard library's parser has no public name
_GREEDY: Final = (_PARSER.MAX_REPEAT, _PARSER.MIN_REPEAT)
_REPEATS: Final = (*_GREEDY, _PARSER.POSSESSIVE_REPEAT)
_LOOKAROUNDS: Final = (_PARSER.ASSERT, _PARSER.ASSERT_NOT)
_ENDS: Final = (_PARSER.AT_END, _PARSER.AT_END_STRING, _PARSER.AT_END_LINE)
_ALL: Final = frozenset((*map(chr, range(128)), "é"))
_DIGITS: Final = frozenset(filter(str.isdigit, _ALL))
_SPACES: Final = frozenset(filter(str.isspace, _ALL))
_WORDS: Final = frozenset(letter for letter in _ALL if letter.isalnum() or letter == "_")
_CATEGORIES: Final = {
    "CATEGORY_DIGIT": _DIGITS,
    "CATEGORY_SPACE": _SPACES,
    "CATEGORY_WORD": _WORDS,
    "CATEGORY_NOT_DIGIT": _ALL - _DIGITS,
    "CATEGORY_NOT_SPACE": _ALL - _SPACES,
    "CATEGORY_NOT_WORD": _ALL - _WORDS,
}
_UNBOUNDED: Final = 32
"""A repeat with at least this maximum counts as unbounded."""

RegexItems = list[Any]
"""A sequence of items, each a kind and its argument."""


@lru_cache(maxsize=256)
def parse_regex(pattern: str, flags: str = "") -> tuple[Any, ...]:
    """Returns the items of a pattern; empty if it is invalid, which is reported where the suite is read."""
    number = 0
    for letter in flags:
        number |= _PARSER.FLAGS.get(letter, 0)
    try:
        with warnings.catch_warnings(action="ignore"):
            return tuple(_PARSER.parse(pattern, number))
    except (_PARSER.error, ValueError, OverflowError, RecursionError):
        return ()


def _parts(kind: Any, argument: Any) -> list[RegexItems]:
    """Returns the sequences of which an item matches one: those of a choice, of a group or of a repeat."""
    if kind is _PARSER.BRANCH:
        return [list(branch) for branch in argument[1]]
    if kind in _REPEATS:
        return [list(argument[2])]
    if kind is _PARSER.SUBPATTERN:
        return [list(argument[3])]
    return [list(argument)] if kind is _PARSER.ATOMIC_GROUP else []


# --- spelled-out texts -------------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def spelled_texts(pattern: str, flags: str = "") -> tuple[str, ...]:
    r"""Returns the texts that a pattern spells out if it consists of nothing else; otherwise none.

    Anchors, optional white space and groups around it do not count: `^\s*(?:4|four)\s*$` spells out `4` and
    `four`.
    """
    try:
        texts = _literal_texts(list(parse_regex(pattern, flags))) or ()
    except RecursionError:
        return ()
    return texts if all(text.strip() for text in texts) else ()


def _literal_texts(items: RegexItems) -> tuple[str, ...] | None:
    texts = [""]
    for kind, argument in items:
        more: tuple[str, ...] | None = ("",)
        if kind is _PARSER.LITERAL:
            more = (chr(argument),)
        elif kind in (_PARSER.SUBPATTERN, _PARSER.BRANCH):
            choices = [_literal_texts(part) for part in _parts(kind, argument)]
            more = None if None in choices else tuple(text for texts in choices for text in texts or ())
        elif kind is not _PARSER.AT and not _is_space(kind, argument):
            more = None
        if more is None or len(texts) * len(more) > 20:
            return None
        texts = [text + literal for text in texts for literal in more]
    return tuple(texts)


def _is_space(kind: Any, argument: Any) -> bool:
    """Returns whether an item is optional white space."""
    return kind in _REPEATS and argument[0] == 0 and _letters(argument[2]) <= _SPACES


@lru_cache(maxsize=256)
def longest_run(pattern: str, flags: str = "") -> str:
    """Returns the longest text that every match contains, as far as that is easy to see."""
    try:
        return max(_runs(list(parse_regex(pattern, flags))), key=len, default="")
    except RecursionError:
        return ""


def _runs(items: RegexItems) -> list[str]:
    runs = [""]
    for kind, argument in items:
        if kind is _PARSER.LITERAL:
            runs[-1] += chr(argument)
        elif kind is _PARSER.SUBPATTERN:
            runs += [*_runs(list(argument[3])), ""]
        elif kind is not _PARSER.AT:
            runs.append("")
    return runs


# --- ambiguity ---------------------------------------------------------------------------------------------


def is_ambiguous(pattern: str, flags: str = "", *, full: bool = False) -> bool:
    r"""Returns whether an unbounded repeat inside another can match the same letters, and fail afterwards.

    `(a+)+$` and `(?:\w+\s?)*!` are ambiguous; `(?:\w+,)+$` is not, since the comma separates the repeats, and
    neither is `(a+)+`, after which nothing can fail.
    """
    try:
        return any(
            _is_ambiguous(body) for body in _repeated_bodies(list(parse_regex(pattern, flags)), fails=full)
        )
    except RecursionError:  # nested so deeply that nobody can read it either
        return False


def _repeated_bodies(items: RegexItems, *, fails: bool) -> Iterator[RegexItems]:
    """Yields the bodies of unbounded repeats after which something can fail."""
    after = fails
    for kind, argument in reversed(items):
        endless = kind in _GREEDY and argument[1] >= _UNBOUNDED
        if endless and after:
            yield list(argument[2])
        for inside in _inner_items(kind, argument):
            # A repeated body is also followed by itself.
            yield from _repeated_bodies(
                inside, fails=after or (endless and any(_can_fail(*item) for item in inside))
            )
        after = after or _can_fail(kind, argument)


def _can_fail(kind: Any, argument: Any) -> bool:
    return (
        argument in _ENDS if kind is _PARSER.AT else kind in _LOOKAROUNDS or not _may_be_empty(kind, argument)
    )


def _is_ambiguous(body: RegexItems) -> bool:
    """Returns whether the repeated body can match a run of letters in one pass as well as in several."""
    flat = list(_flatten(body))
    if len(flat) == 1 and flat[0][0] is _PARSER.BRANCH:
        return any(_is_ambiguous(list(branch)) for branch in flat[0][1][1])
    for place, (kind, argument) in enumerate(flat):
        if kind not in _GREEDY or argument[1] < _UNBOUNDED:
            continue
        own_letters = _letters(argument[2])
        others = [item for other, item in enumerate(flat) if other != place]
        if own_letters and all(_may_be_empty(*item) or own_letters & _letters([item]) for item in others):
            return True
    return False


def _flatten(items: RegexItems) -> Iterator[Any]:
    """Yields the items, with groups replaced by what is in them."""
    for kind, argument in items:
        if kind is _PARSER.SUBPATTERN:
            yield from _flatten(list(argument[3]))
        else:
            yield kind, argument


def _inner_items(kind: Any, argument: Any) -> list[RegexItems]:
    """Returns the sequences inside an item, without those that the search never backtracks into."""
    if kind in _LOOKAROUNDS:
        return [list(argument[1])]
    return [] if kind in (_PARSER.POSSESSIVE_REPEAT, _PARSER.ATOMIC_GROUP) else _parts(kind, argument)


def _may_be_empty(kind: Any, argument: Any) -> bool:
    if kind is _PARSER.AT or kind in _LOOKAROUNDS or (kind in _REPEATS and argument[0] == 0):
        return True
    return any(all(_may_be_empty(*item) for item in part) for part in _parts(kind, argument))


# --- texts that are slow to search -------------------------------------------------------------------------


def attack_texts(pattern: str, flags: str = "") -> tuple[str, ...]:
    """Returns texts that a pattern matches in many ways until near their end; none for most patterns.

    They attack a choice inside a repeat whose alternatives may begin with the same letter, and three repeats
    in a row that can match the same letters.
    """
    try:
        texts = [
            ahead + before + pump * times + "\x00!"
            for before, pump, times, behind in _suspicious_places(list(parse_regex(pattern, flags)), "", "")
            for ahead in dict.fromkeys(("", behind))
        ]
    except RecursionError:
        return ()
    return tuple(dict.fromkeys(texts))[:12]


def _suspicious_places(items: RegexItems, before: str, behind: str) -> Iterator[tuple[str, str, int, str]]:
    """Yields a text before a suspicious place, one to repeat, how often, and what must follow."""
    row: list[frozenset[str]] = []
    for place, (kind, argument) in enumerate(items):
        pumps: list[tuple[str, int]] = []
        if kind in _GREEDY and argument[1] >= _UNBOUNDED:
            pumps += [(pump, 40) for pump in _choices(list(argument[2]))]
            row.append(_letters(argument[2]))
            common = frozenset.intersection(*row[-3:]) if len(row) >= 3 else frozenset()
            if common:
                pumps.append(("a" if "a" in common else min(common), 2500))
        elif not _may_be_empty(kind, argument):
            row.clear()
        insides = _inner_items(kind, argument)
        if pumps or insides:
            later = _sample(items[place + 1 :]) + behind
            yield from ((before, pump, times, later) for pump, times in pumps)
            for inside in insides:
                yield from _suspicious_places(inside, before, later)
        before += _sample([(kind, argument)])


def _choices(body: RegexItems) -> Iterator[str]:
    """Yields texts through a repeated part with a branch whose alternatives may match the same letter."""
    flat = list(_flatten(body))
    for place, (kind, argument) in enumerate(flat):
        if kind is not _PARSER.BRANCH:
            continue
        ways = [list(branch) for branch in argument[1]]
        letter_sets = [_letters(way) for way in ways]
        if any(not way for way in ways) or any(
            first & second for first, second in combinations(letter_sets, 2)
        ):
            before, behind = _sample(flat[:place]), _sample(flat[place + 1 :])
            yield from dict.fromkeys(text for way in ways if (text := before + _sample(way) + behind))


def _sample(items: RegexItems) -> str:
    """Returns a short text that matches the items, as far as that is easy to see."""
    return "".join(_item_sample(kind, argument) for kind, argument in items)


def _item_sample(kind: Any, argument: Any) -> str:
    parts = _parts(kind, argument)
    if parts:
        return _sample(parts[0]) * (min(int(argument[0]), _UNBOUNDED) if kind in _REPEATS else 1)
    if kind is _PARSER.LITERAL:
        return chr(argument)
    letters = _letters([(kind, argument)])
    return next((letter for letter in "a1 .-" if letter in letters), min(letters, default=""))


# --- letters -----------------------------------------------------------------------------------------------


def _letters(items: Any) -> frozenset[str]:
    """Returns the letters of the small alphabet that any of the items can match."""
    letters: frozenset[str] = frozenset()
    for kind, argument in items:
        parts = _parts(kind, argument)
        letters = letters.union(*map(_letters, parts)) if parts else letters | _item_letters(kind, argument)
    return letters


def _item_letters(kind: Any, argument: Any) -> frozenset[str]:
    """Returns the letters that one item matches; none for a place or a reference to a group."""
    if kind is _PARSER.LITERAL:
        return frozenset(chr(argument) if argument < 128 else "é")
    if kind is _PARSER.NOT_LITERAL:
        return _ALL - {chr(argument)}
    if kind is _PARSER.ANY:
        return _ALL - {"\n"}
    if kind is _PARSER.RANGE:
        non_ascii = frozenset("é") if argument[1] > 127 else frozenset()
        return frozenset(map(chr, range(argument[0], min(argument[1], 127) + 1))) | non_ascii
    if kind is _PARSER.CATEGORY:
        return _CATEGORIES.get(str(argument), frozenset())
    if kind is not _PARSER.IN:
        return frozenset()
    negated = bool(argument) and argument[0][0] is _PARSER.NEGATE
    letters = frozenset[str]().union(*(_item_letters(*item) for item in argument[negated:]))
    return _ALL - letters if negated else letters

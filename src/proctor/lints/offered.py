"""Where an expected answer stands in a prompt, and whether it is given away there or has to be there.

It has to be there where it is one of several things to choose from, an operand, something that the target
is told to say, or part of a text to work on. All of this is a heuristic over English wording, which
`docs/lint/leak.md` lists. Pure; knows prompts and answers as text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from itertools import islice
from typing import Final

_SHORT: Final = 8
"""Below so many characters an answer must stand as a word of its own."""
_AROUND: Final = 300
"""So many characters on each side of a place are looked at."""
_MOST: Final = 100
"""So many places of one answer are looked at."""
_SPACELESS: Final = (
    *((0x0E00, 0x0EFF), (0x1000, 0x109F), (0x1780, 0x17FF), (0x3040, 0x30FF)),
    *((0x3400, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x3FFFF)),
)
"""Scripts without spaces between words."""
_LABELS: Final = frozenset(
    (
        *("yes", "no", "true", "false", "maybe", "none", "both", "neither", "unknown", "unsure", "n/a"),
        *("right", "wrong", "correct", "incorrect", "valid", "invalid", "positive", "negative", "neutral"),
    )
)
"""Words that judge something; that one stands in a prompt gives nothing away."""

_QUOTES: Final = r"[\"'`“”‘’«»()\[\]*_]{0,3}"
_GIVEN: Final = re.compile(
    r"(?:\b(?:answer|solution|result|hint|key|(?:correct|right|expected)\s\w{1,12})\s?(?:is|was|are|:|=|→|->)"
    rf"|=|\bit(?:'s| is))[\s:]{{0,3}}{_QUOTES}$"
)
_TOLD: Final = re.compile(
    r"\b(?:(?:first|last|final|only) (?:word|line|letter|sentence|name)s? (?:is|are|be|being)"
    r"|says?|reply|respond|answer|write|output|print|return|repeat|echo|type|include|mention|use)\s"
    r"(?:(?:only|just|exactly|simply|back|with|using|the|a|an|single|one|word|words|phrase|text|string|token"
    rf"|sentence|letter|number|following|literal|please|and|in|as):?\s){{0,8}}{_QUOTES}$"
)
_OR_AFTER: Final = re.compile(rf"{_QUOTES}\s?(?:,?\s?\bor\b|[/|])")
_OR_LATER: Final = re.compile(rf"{_QUOTES}(?:,\s?[^,.?!;:\n]{{1,40}}){{1,10}}?,?\sor\s")
_OR_BEFORE: Final = re.compile(rf"(?:\bor\s|[/|]\s?)(?:(?:a|an|the)\s)?{_QUOTES}$")
_OPTION: Final = re.compile(rf"(?:^|[\s(\[])(?:[a-h]|[1-9])[).:\]]\s?{_QUOTES}$")
_LISTED_AFTER: Final = re.compile(rf"{_QUOTES}\s?(?:[,;]|\band\b)")
_LISTED_BEFORE: Final = re.compile(rf"(?:[,;:]|\band|[-•])\s?{_QUOTES}$")
_CHOOSING: Final = re.compile(
    r"\b(?:classif|categor|label|choose|select\b|pick\b|multiple[- ]choice|options?\b|choices?\b|one of\b"
    r"|which (?:\w{1,20} )?(?:of|is|are|has|does|was|comes)\b)"
)
_WORKING: Final = re.compile(
    r"\b(?:extract|quote|copy|underline|highlight|summari[sz]e|paraphrase|rewrite|rephrase|proofread|sort|rank"
    r"|arrange|alphabeti[sz]e|reorder|correct the|fix the|according to|based on"
    r"|(?:as|to|into) (?:an? )?json\b"
    r"|(?:in|from|of|to) (?:the|this|these|those) (?:(?:following|above|below|given|next) )?"
    r"(?:text|passage|paragraph|article|document|email|e-mail|message|letter|sentence|list|table|context"
    r"|conversation|dialogue|transcript|review|report|log|code|json|note|story|ticket|invoice|words?|numbers?)"
    r"|(?:following|above|below|given) (?:text|passage|paragraph|article|document|email|e-mail|message|letter"
    r"|sentence|list|table|context|conversation|dialogue|transcript|review|report|log|code|json|note|story)"
    r"|(?:context|passage|text|document|article|transcript|input|sentence|review|email|ticket):)"
)
_OPERATOR_AFTER: Final = re.compile(
    r"\s?(?:[-+*/×÷^%−·]|\*\*|mod\b|plus\b|minus\b|times\b|divided\b)\s?[\d(a-z]"
)
_OPERATOR_BEFORE: Final = re.compile(
    r"[\d)a-z%]\s?(?:[-+*/×÷^−·]|\*\*|\bmod|\bplus|\bminus|\btimes|\bdivided by)\s?$"
)
_NUMBER: Final = re.compile(r"[-+−]?\d[\d,]*(?:\.\d+)?")


def folded(text: str) -> str:
    """A text without regard to case, its white space as single spaces."""
    return " ".join(text.casefold().split())


class Asked:
    """One message of a case, in which answers are looked for."""

    __slots__ = ("_choosing", "_labels", "_text", "_whole", "_working")

    def __init__(self, text: str, whole: str, *, labels: AbstractSet[str] = frozenset()) -> None:
        """Nothing was looked for yet.

        Args:
            text: the message.
            whole: all messages of the case, folded, for what the target is told to do.
            labels: folded texts that give nothing away when they are all that a message says.
        """
        self._text = folded(text)
        self._whole = whole
        self._labels = labels
        self._choosing: bool | None = None
        self._working: bool | None = None

    def gives(self, answer: str) -> bool:
        """Whether the message gives the answer away."""
        sought = folded(answer)
        if sought not in self._text or (sought == self._text and sought in self._labels):
            return False
        places = islice(_places(sought, self._text), _MOST)
        return any(self._given(sought, at) for at in places)

    def _given(self, sought: str, at: int) -> bool:
        before = self._text[max(0, at - _AROUND) : at]
        if _GIVEN.search(before):
            return True
        if sought in _LABELS or (len(sought) == 1 and sought.isalpha()) or _TOLD.search(before):
            return False
        after = self._text[at + len(sought) : at + len(sought) + _AROUND]
        if _NUMBER.fullmatch(sought) and (_OPERATOR_AFTER.match(after) or _OPERATOR_BEFORE.search(before)):
            return False
        if _OR_AFTER.match(after) or _OR_BEFORE.search(before) or _OR_LATER.match(after):
            return False
        listed = _LISTED_AFTER.match(after) or _LISTED_BEFORE.search(before) or _OPTION.search(before)
        if listed and self._asks_to_choose():
            return False
        return not self._gives_a_text()

    def _asks_to_choose(self) -> bool:
        if self._choosing is None:
            self._choosing = _CHOOSING.search(self._whole) is not None
        return self._choosing

    def _gives_a_text(self) -> bool:
        if self._working is None:
            self._working = _WORKING.search(self._whole) is not None
        return self._working


def _places(sought: str, text: str) -> Iterator[int]:
    """Where the text has what is sought, a short one as a word or number of its own."""
    short = len(sought) < _SHORT
    at = text.find(sought)
    while at >= 0:
        end = at + len(sought)
        if not short or not (_joined(text, at - 1, sought[0], -1) or _joined(text, end, sought[-1], 1)):
            yield at
        at = text.find(sought, at + 1)


def _joined(text: str, at: int, edge: str, step: int) -> bool:
    """Whether the letter at a place makes one word, or one number, with the edge of a text beside it."""
    if not 0 <= at < len(text) or not _joins(edge):
        return False
    letter = text[at]
    if _joins(letter):
        return True
    further = at + step
    return edge.isdigit() and letter in ".," and 0 <= further < len(text) and text[further].isdigit()


def _joins(letter: str) -> bool:
    if not (letter.isalnum() or letter == "_"):
        return False
    code = ord(letter)
    return code < 0x0E00 or not any(first <= code <= last for first, last in _SPACELESS)

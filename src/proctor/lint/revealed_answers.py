"""Finds an expected answer in a prompt, and decides whether it is revealed there or has to be there.

It has to be there if it is one of several choices, a number to calculate with, something that the target is
told to say, or part of a text to work on. docs/reference/lint/leak.md describes this heuristic.
Pure; knows prompts and answers only as text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from functools import cached_property
from itertools import islice
from typing import Final

from proctor.lint import leak_vocabulary

LONG: Final = 400
"""A message with more characters is a text to work on; only announced answers are revealed in it."""

_SHORT_LENGTH: Final = 8
"""A shorter answer, in characters, must occur as a word of its own."""
_CONTEXT_LENGTH: Final = 300
"""This many characters on each side of a place are examined."""
_MAX_PLACES: Final = 100
"""At most this many places of one answer are examined."""
_MAX_TRIES: Final = 10_000
"""The search stops after this many places, even if all of them are inside words."""
_MAX_ITEM_WORDS: Final = 3
_SPACELESS: Final = (
    *((0x0E00, 0x0EFF), (0x1000, 0x109F), (0x1780, 0x17FF), (0x3040, 0x30FF)),
    *((0x3400, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x3FFFF)),
)
"""Scripts without spaces between words."""
_SPACE: Final = re.compile(r"\s+")
_WRAPPED: Final = re.compile(r"(?<=[^\n]{50})\n(?!\n)")
"""A line break inside a paragraph, after a line that is long enough to be wrapped."""
_CUE: Final = re.compile(r"(?:[^\s:：]{1,30}\s?[:：]|=>|->|→)$")


def fold_text(text: str) -> str:
    """Returns a text in lower case, with its white space as single spaces."""
    return " ".join(text.casefold().split())


class PromptText:
    """One message of a case, which is searched for answers."""

    def __init__(
        self,
        text: str,
        whole: str,
        *,
        labels: AbstractSet[str] = frozenset(),
        earlier: bool = False,
        flat: str | None = None,
    ) -> None:
        """Prepares a message for searches.

        Args:
            text: the message.
            whole: all messages of the case, folded, to find the instructions to the target.
            labels: folded texts that reveal nothing if a message consists of one of them.
            earlier: whether the message is in an earlier turn of a conversation, whose facts are known.
            flat: the folded message, if it is known.
        """
        self._raw = text
        self._flat = fold_text(text) if flat is None else flat
        self._whole = whole
        self._labels = labels
        self._earlier = earlier

    def reveals(self, answer: str) -> bool:
        """Returns whether the message reveals the answer."""
        expected = fold_text(answer)
        if expected not in self._flat:
            return False
        if expected == self._flat and (self._earlier or expected in self._labels):
            return expected not in self._labels
        places = islice(_places(expected, self._flat), _MAX_PLACES)
        return any(self._is_revealed(expected, at) for at in places)

    def announces(self, answer: str) -> bool:
        """Returns whether the message says that this is the answer, as in `hint: blue`."""
        expected = fold_text(answer)
        places = islice(_places(expected, self._flat), _MAX_PLACES)
        return any(_is_announced(expected, *self._context(expected, at)) for at in places)

    def _context(self, expected: str, at: int) -> tuple[str, str]:
        end = at + len(expected)
        return self.lines[max(0, at - _CONTEXT_LENGTH) : at], self.lines[end : end + _CONTEXT_LENGTH]

    def _is_revealed(self, expected: str, at: int) -> bool:
        before, after = self._context(expected, at)
        if self._cue and before.rstrip().endswith(self._cue) and after.strip():
            return _question(before, self._cue) == _question(self.lines, self._cue)
        if _is_announced(expected, before, after):
            return True
        if self._earlier or len(self.lines) > LONG or _is_instructed(expected, before):
            return False
        if leak_vocabulary.NUMBER.fullmatch(expected) and (
            leak_vocabulary.NUMBER_AFTER.match(after)
            or leak_vocabulary.NUMBER_BEFORE.search(before)
            or self._calculates
        ):
            return False
        return not self._is_choice(expected, before, after) and not self._is_source_text(expected, at)

    # --- the message ---------------------------------------------------------------------------------------

    @cached_property
    def lines(self) -> str:
        """The folded text with its line breaks; every offset is the same as in the flat text."""
        if len(self._flat) > 4 * LONG:
            return self._flat
        text = self._raw.casefold().strip()
        lines = _SPACE.sub(lambda match: "\n" * min(match[0].count("\n"), 2) or " ", text)
        return _WRAPPED.sub(" ", lines).replace("\n\n", "\n")

    @cached_property
    def _cue(self) -> str:
        """The end of the message for the target to continue, such as `answer:`, which also ends examples."""
        cue = _CUE.search(self.lines[-40:])
        return cue[0] if cue else ""

    @cached_property
    def _calculates(self) -> bool:
        """Whether the message has three or more numbers."""
        return len(list(islice(leak_vocabulary.NUMBER.finditer(self.lines), 3))) == 3

    @cached_property
    def _asks_to_choose(self) -> bool:
        return leak_vocabulary.CHOOSING.search(self._whole) is not None

    @cached_property
    def _has_source_text(self) -> bool:
        """Whether the message has a text to work on, by its instructions or its number of statements."""
        if leak_vocabulary.WORKING.search(self._whole) or leak_vocabulary.WRITING.match(self.lines):
            return True
        ends = [match.end() for match in leak_vocabulary.SENTENCE.finditer(self.lines)]
        pieces = [self.lines[start:end].strip() for start, end in zip([0, *ends], [*ends, None], strict=True)]
        return sum(1 for piece in pieces if piece and not leak_vocabulary.ASKS.search(piece)) > 1

    # --- one place -----------------------------------------------------------------------------------------

    def _is_choice(self, expected: str, before: str, after: str) -> bool:
        if (
            leak_vocabulary.OR_AFTER.match(after)
            or leak_vocabulary.OR_BEFORE.search(before)
            or leak_vocabulary.OR_LATER.match(after)
        ):
            return True
        marker = leak_vocabulary.OPTION.search(before) or leak_vocabulary.MARKER.search(
            f"{before[-1:]}{expected}{after[:2]}"
        )
        if marker and len(list(islice(leak_vocabulary.MARKER.finditer(self.lines), 2))) == 2:
            return True
        in_list = leak_vocabulary.LIST_AFTER.match(after) or leak_vocabulary.LIST_BEFORE.search(before)
        return bool(in_list) and (self._asks_to_choose or _is_item(before, after))

    def _is_source_text(self, expected: str, at: int) -> bool:
        end = at + len(expected)
        inside = _enclosing_quotation(self.lines, at, end)
        start = max(
            (match.end() for match in leak_vocabulary.SENTENCE.finditer(self.lines, 0, at)), default=0
        )
        stop = leak_vocabulary.SENTENCE.search(self.lines, end - 1)
        asks = (
            leak_vocabulary.ASKS.search(self.lines[start : stop.end() if stop else None].rstrip()) is not None
        )
        if inside is not None and (not asks or inside.strip(" .,!?;:") != expected.strip(" .,!?;:")):
            return True
        if asks:
            return False
        line = self.lines[start:end] + self.lines[end:].split("\n", 1)[0]
        colon = max((match.end() for match in leak_vocabulary.COLON.finditer(line, 0, at - start)), default=0)
        behind = line[colon:].strip(" .,!?;:\"'`“”„«»「」()")
        return (colon > 0 and behind != expected) or self._has_source_text


def _question(text: str, cue: str) -> str:
    """Returns the text before the last cue: the question of the example, or the actual one."""
    question = text.rstrip().removesuffix(cue).rstrip()
    return max(question.rpartition(sign)[2] for sign in ("\n", ": ")) if question else ""


def _is_announced(expected: str, before: str, after: str) -> bool:
    if leak_vocabulary.ANNOUNCEMENT.search(before) or leak_vocabulary.HINT.search(before):
        return True
    if leak_vocabulary.BEHIND_QUESTION.search(before) and leak_vocabulary.ALONE.match(after):
        return True
    is_number = leak_vocabulary.NUMBER.fullmatch(expected) and leak_vocabulary.NUMBER_VERB.search(before)
    return is_number is not None and leak_vocabulary.SENTENCE_END.match(after) is not None


def _is_instructed(expected: str, before: str) -> bool:
    if expected in leak_vocabulary.LABELS or (len(expected) == 1 and expected.isalpha()):
        return True
    return leak_vocabulary.INSTRUCTION.search(before) is not None


def _is_item(before: str, after: str) -> bool:
    """Returns whether a place is in a list of three short items, or in brackets with two."""
    first, last = leak_vocabulary.CLAUSE_ENDS.split(before)[-1], leak_vocabulary.CLAUSE_ENDS.split(after)[0]
    bracket = before.removesuffix(first)[-1:]
    items = leak_vocabulary.ITEM_ENDS.split(f"{first}_{last}")
    if bracket and bracket in "([{（" and len(items) > 1:
        return True
    return len(items) > 2 and all(len(item.split()) <= _MAX_ITEM_WORDS for item in items[1:-1])


def _enclosing_quotation(text: str, at: int, end: int) -> str | None:
    """Returns the text in the quotation marks, fence or tag around a place; None if there is none."""
    for mark in ("```", '"', "`"):
        if text.count(mark, 0, at) % 2 and mark in text[end:]:
            return text[text.rfind(mark, 0, at) + len(mark) : text.find(mark, end)]
    for opening, closing in leak_vocabulary.PAIRS:
        begin, stop = text.rfind(opening, 0, at), text.find(closing, end)
        if begin >= 0 and stop >= 0 and text.find(closing, begin + 1) == stop:
            return text[begin + 1 : stop]
    single = re.search(r"(?<!\w)'(?!\s)(?:[^']|(?<=\w)'(?=\w))*$", text[:at])
    stop_at = re.compile(r"'(?!\w)").search(text, end)
    if single and stop_at:
        return text[single.start() + 1 : stop_at.start()]
    tag = leak_vocabulary.TAG.search(text[:at])
    return text[tag.start() :] if tag and f"</{tag[1]}>" in text[end:] else None


def _places(expected: str, text: str) -> Iterator[int]:
    """Yields the places of an answer in a text; a short answer must be a word or number of its own."""
    short = len(expected) < _SHORT_LENGTH
    at = -1
    for _ in range(_MAX_TRIES):
        at = text.find(expected, at + 1)
        if at < 0:
            return
        end = at + len(expected)
        if not short or not (
            _is_joined(text, at - 1, expected[0], -1) or _is_joined(text, end, expected[-1], 1)
        ):
            yield at


def _is_joined(text: str, at: int, edge: str, step: int) -> bool:
    """Returns whether the letter beside a text forms one word or number with the text's edge."""
    if not 0 <= at < len(text) or not _is_word_letter(edge):
        return False
    letter = text[at]
    if _is_word_letter(letter):
        return True
    further = at + step
    return edge.isdigit() and letter in ".," and 0 <= further < len(text) and text[further].isdigit()


def _is_word_letter(letter: str) -> bool:
    if not (letter.isalnum() or letter == "_"):
        return False
    code = ord(letter)
    return code < 0x0E00 or not any(first <= code <= last for first, last in _SPACELESS)

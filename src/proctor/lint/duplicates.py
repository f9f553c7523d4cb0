"""The rule `near-duplicate`: two cases with the same or nearly the same question.

Two questions are nearly the same if they have the same words in the same order, apart from case, punctuation
and small words, or if they share at least 0.8 of their pairs of neighbouring words and are judged alike.
Different numbers always make different questions. Words that more than a few cases share are a template and
do not count.

Pairs are found without comparing all: equal texts by a hash, others by their smallest rare word pairs. For
each case at most `MAX_HASHES` hashes of word pairs are kept, the smallest ones, which are a fair sample of
any text. Source: A. Broder, "On the resemblance and containment of documents" (1997).
"""

from __future__ import annotations

import re
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final
from zlib import crc32

from proctor.codec import encode
from proctor.lint.findings import CaseLocation, Finding, quote_text
from proctor.model import Case
from proctor.prompts.templates import format_values

MAX_HASHES: Final = 96
"""At most this many hashes of word pairs are kept for each case."""
MIN_SHARED_PAIRS: Final = 0.8
"""From this share of word pairs on, two questions are nearly the same."""
MIN_PAIRS: Final = 12
"""With fewer word pairs, a single different word makes a different question."""
MAX_NAMED: Final = 3
"""At most this many other cases are named for a case."""

_MAX_OWNERS: Final = 4
"""A word pair that more cases have is part of a template."""
_MAX_INDEXED: Final = 4
_BUCKETS: Final = 1 << 21
_WORD: Final = re.compile(r"\w+")
_IS_CONTRACTION: Final = re.compile(r"['’]s\b")
_SMALL_WORDS: Final = frozenset(("a", "an", "the", "please", "kindly", "just"))


class DuplicateRule:
    """Compares the questions of a stream of cases by hashes."""

    def __init__(self) -> None:
        self._spots: list[CaseLocation] = []
        self._texts: dict[int, int] = {}
        self._plain: dict[int, int] = {}
        self._exact_firsts = array("I")
        self._plain_firsts = array("I")
        self._contexts: list[tuple[int, bytes]] = []
        self._pairs: list[array[int]] = []
        self._counts = bytearray(_BUCKETS)

    def add(self, case: Case, spot: CaseLocation, judged: bytes) -> None:
        """Adds the next case.

        Args:
            case: the case.
            spot: its location.
            judged: the digest of how its answers are judged.
        """
        position = len(self._spots)
        self._spots.append(spot)
        texts = [f"{message.role}: {message.content}" for message in case.input]
        text = "\n".join([*texts, format_values(case.vars)] if case.vars else texts)
        words = _split_words(text)
        main_words = words
        if not _SMALL_WORDS.isdisjoint(words):
            main_words = [word for word in words if word not in _SMALL_WORDS]
        numbers = " ".join([word for word in words if not word.isalpha()])
        around = _context_bytes(case)
        stripped = text.strip()
        exact = hash((stripped, around))
        plain = hash((" ".join(main_words) or stripped, around))
        self._exact_firsts.append(self._texts.setdefault(exact, position))
        self._plain_firsts.append(self._plain.setdefault(plain, position))
        self._contexts.append((hash((numbers, around)), judged))
        pairs = _sketch(words)
        self._pairs.append(pairs)
        counts = self._counts
        for pair in pairs:
            try:
                counts[pair % _BUCKETS] += 1
            except ValueError:  # it is 255 already, which is part of a template
                continue

    def finish(self) -> Iterator[tuple[Finding, CaseLocation, CaseLocation]]:
        """Yields each pair once: the finding, the later case and the earlier one."""
        reported_pairs: set[tuple[int, int]] = set()
        for position, first in enumerate(self._plain_firsts):
            same = self._exact_firsts[position]
            earlier = same if same != position else first
            if earlier != position and not self._are_versions(earlier, position):
                reported_pairs.add((earlier, position))
                yield self._make_finding(position, earlier, same=earlier == same)
        for position, earlier in self._near_pairs():
            if (earlier, position) not in reported_pairs:
                yield self._make_finding(position, earlier, same=False)

    def _are_versions(self, earlier: int, later: int) -> bool:
        """Returns whether two cases are versions of one test: they have the same location."""
        first, second = self._spots[earlier], self._spots[later]
        return (first.path, first.line) == (second.path, second.line)

    def _make_finding(
        self, position: int, earlier: int, *, same: bool
    ) -> tuple[Finding, CaseLocation, CaseLocation]:
        spot, other = self._spots[position], self._spots[earlier]
        message = (
            f"Test {quote_text(spot.case)} has "
            f"{'the same question as' if same else 'nearly the same question as'} test "
            f"{quote_text(other.case)} at {other.relative_to(spot)}, so one question counts twice. Remove "
            f"one of them, or make them really different."
        )
        return Finding("near-duplicate", message, "input"), spot, other

    def _near_pairs(self) -> Iterator[tuple[int, int]]:
        """Yields pairs that share most of their rare word pairs: later and earlier."""
        index: defaultdict[int, list[int]] = defaultdict(list)
        for position, pairs in enumerate(self._pairs):
            if self._plain_firsts[position] != position:
                continue
            candidates: dict[int, None] = {}
            rare = [pair for pair in pairs if 1 < self._counts[pair % _BUCKETS] <= _MAX_OWNERS]
            for pair in rare[:_MAX_INDEXED]:
                candidates.update(dict.fromkeys(index[pair]))
                index[pair].append(position)
            near = 0
            for earlier in candidates:
                if near < MAX_NAMED and self._are_alike(position, earlier):
                    near += 1
                    yield position, earlier

    def _are_alike(self, position: int, earlier: int) -> bool:
        if self._contexts[position] != self._contexts[earlier] or self._are_versions(earlier, position):
            return False
        rare_pairs, earlier_pairs = self._rare_pairs(position), self._rare_pairs(earlier)
        if min(len(rare_pairs), len(earlier_pairs)) < MIN_PAIRS:
            return False
        # Only the smallest hashes of long texts are kept: compare the range that both have.
        highest = min(self._pairs[position][-1], self._pairs[earlier][-1])
        if min(len(self._pairs[position]), len(self._pairs[earlier])) < MAX_HASHES:
            highest = 1 << 32
        known_pairs = {pair for pair in rare_pairs | earlier_pairs if pair <= highest}
        return len(rare_pairs & earlier_pairs & known_pairs) >= MIN_SHARED_PAIRS * len(known_pairs)

    def _rare_pairs(self, position: int) -> set[int]:
        return {pair for pair in self._pairs[position] if self._counts[pair % _BUCKETS] <= _MAX_OWNERS}


def _sketch(words: Iterable[str]) -> array[int]:
    """Returns the smallest hashes of all pairs of neighbouring words, ascending."""
    hashes = list(map(_word_hash, words))
    pairs = {(first * 0x9E3779B1 ^ second * 0x85EBCA77) & 0xFFFFFFFF for first, second in pairwise(hashes)}
    return array("I", sorted(pairs)[:MAX_HASHES])


@lru_cache(maxsize=1 << 15)
def _word_hash(word: str) -> int:
    return crc32(word.encode("utf-8", "replace"))


def _split_words(text: str) -> list[str]:
    folded = text.casefold()
    if "'s" in folded or "’s" in folded:
        folded = _IS_CONTRACTION.sub(" is", folded)
    return _WORD.findall(folded)


def _context_bytes(case: Case) -> bytes:
    """Returns the parts of a prompt besides texts, which make another question of the same words."""
    attached = [part for message in case.input for part in message.parts if not isinstance(part, str)]
    if not (attached or case.workspace or case.form or case.target or case.prefix or case.suffix) and (
        case.prompts is None
    ):
        return b""
    parts: list[Any] = [case.workspace, case.form, case.target, attached]
    if case.prefix or case.suffix or case.prompts is not None:
        parts += [case.prefix, case.suffix, case.prompts]
    return encode(parts) if any(parts) else b""

"""Grades the length of an answer: words, sentences, characters and list items.

Counts words and sentences as in languages that put spaces between words. The end of a sentence is found by a
heuristic that knows the usual English abbreviations.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from proctor.model import Evidence, GraderResult
from proctor.protocols import BaseGrader, GradingInput

_BULLET = re.compile(r"^[ \t]*+(?:•|(?:[-*+]|\d{1,9}[.)])(?=[ \t]))[ \t]*+\S", re.MULTILINE)
# The lookbehind lets a run of marks be tried once only, so that a long one cannot take quadratic time.
_END = re.compile(r"(?<![.!?…])([.!?…]++)([\"'”’)\]*_»]*+)(?=\s|$)|[。！？]++[」』”）]*+")
_BLOCK_BREAK = re.compile(r"\n[ \t]*+\n|\n(?=[ \t]*+(?:[-*+•#]|\d{1,9}[.)])[ \t])")
_ALWAYS_FOLLOWED = """
    dr mr mrs ms mx prof st mt gen sgt capt lt gov sen rep rev hon e.g i.e vs cf viz approx fig figs nos vol
    pp ca eq ch jan feb apr jun jul aug sep sept oct nov dec"""
_TITLES = frozenset(_ALWAYS_FOLLOWED.split())
_MAY_BE_LAST = """
    etc inc ltd co corp jr sr bros al a.m p.m am pm u.s u.k u.n e.u d.c ph.d b.sc m.sc b.a m.a"""
_MAY_END_SENTENCE = frozenset(_MAY_BE_LAST.split())


class Length(BaseGrader, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Passes when the answer keeps every given limit; limits are inclusive.

    Words are what white space separates. Characters are Unicode code points without white space at both
    ends. Bullets are lines that begin with `-`, `*`, `•`, `+`, `1.` or `1)`. Sentences end with a full stop,
    question or exclamation mark before white space, or with a blank line or list item; abbreviations,
    initials and decimal points end none.
    """

    min_words: int | None = None
    max_words: int | None = None
    min_sentences: int | None = None
    max_sentences: int | None = None
    min_characters: int | None = None
    max_characters: int | None = None
    min_bullets: int | None = None
    max_bullets: int | None = None

    def __post_init__(self) -> None:
        limits = self._get_limits()
        if not limits:
            raise ValueError("No limit is set; set at least one, such as `max_words`.")
        for unit, least, most in limits:
            for name, limit in (("min", least), ("max", most)):
                if limit is not None and limit < 0:
                    raise ValueError(f"`{name}_{unit}` is {limit}; it must be 0 or more.")
            if least is not None and most is not None and least > most:
                raise ValueError(
                    f"`min_{unit}` is {least} and `max_{unit}` is {most}; no answer can satisfy both."
                )

    def grade(self, grading_input: GradingInput) -> GraderResult:
        """Scores the share of the limits that the answer keeps, with one entry per limit."""
        entries: list[Evidence] = []
        for unit, least, most in self._get_limits():
            count = _COUNTERS[unit](grading_input.output.text)
            evidence = f"{count} {unit}"
            if least is not None:
                entries.append(
                    Evidence(text=f"at least {least} {unit}", passed=count >= least, evidence=evidence)
                )
            if most is not None:
                entries.append(
                    Evidence(text=f"at most {most} {unit}", passed=count <= most, evidence=evidence)
                )
        broken = [f"{entry.evidence}, expected {entry.text}" for entry in entries if not entry.passed]
        return GraderResult(
            value=1.0 - len(broken) / len(entries),
            passed=not broken,
            reason=f"The answer has {'; '.join(broken)}." if broken else "The answer meets every limit.",
            entries=tuple(entries),
        )

    def _get_limits(self) -> list[tuple[str, int | None, int | None]]:
        limits = (
            ("words", self.min_words, self.max_words),
            ("sentences", self.min_sentences, self.max_sentences),
            ("characters", self.min_characters, self.max_characters),
            ("bullets", self.min_bullets, self.max_bullets),
        )
        return [limit for limit in limits if limit[1] is not None or limit[2] is not None]


def count_sentences(text: str) -> int:
    """Counts sentences; parts without a letter or digit do not count."""
    count = 0
    for block in _BLOCK_BREAK.split(text):
        start = 0
        for mark in _END.finditer(block):
            if _ends_sentence(block, start, mark):
                count += _has_alphanumeric(block[start : mark.start()])
                start = mark.end()
        count += _has_alphanumeric(block[start:])
    return count


def _has_alphanumeric(piece: str) -> bool:
    return any(char.isalnum() for char in piece)


def _ends_sentence(block: str, start: int, mark: re.Match[str]) -> bool:
    """Whether a punctuation mark ends the sentence that began at `start`."""
    following = block[mark.end() : mark.end() + 40].lstrip(" \t\n\r\"'“‘([*_")[:1]
    if not following or mark[1] is None:
        return True
    if following.islower() and (mark[2] or mark[1] not in (".", "!", "?")):
        return False
    if mark[1] != ".":
        return True
    # The last words are enough; a slice of fixed length keeps long sentences linear.
    before = block[max(start, mark.start() - 60) : mark.start()].split()
    word = before[-1].lstrip("\"'“‘([*_") if before else ""
    folded = word.casefold()
    if folded in _TITLES or (len(before) == 1 and word.isdigit()):
        return False
    if folded in _MAY_END_SENTENCE:
        return following.isupper()
    if len(word) == 1 and word.isupper() and word != "I":
        # An initial follows another name or begins the sentence; "The answer is B." does neither.
        return len(before) > 1 and not before[-2][:1].isupper()
    return True


_COUNTERS: dict[str, Callable[[str], int]] = {
    "words": lambda text: len(text.split()),
    "sentences": count_sentences,
    "characters": lambda text: len(text.strip()),
    "bullets": lambda text: len(_BULLET.findall(text)),
}

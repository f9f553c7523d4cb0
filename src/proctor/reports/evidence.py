"""Splits an answer at the evidence found in it, so that a report can mark it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
from typing import Literal

from msgspec import Struct

from proctor.model import Evidence, Score, Verdict

_MAX_ANSWER_LENGTH = 100_000
"""Only this many characters of an answer are searched for evidence."""
_MAX_PHRASE_LENGTH = 1_000
_MAX_MATCHES = 50
"""At most this many occurrences of one text are marked."""
_MAX_MARKS = 500
_QUOTATION = re.compile(r"\"([^\"\n]{3,300})\"|“([^”\n]{3,300})”|(?<!\w)'([^'\n]{3,300})'(?!\w)")
_NAMED_TEXT = re.compile(r"\b(?:contains|has|matches) ('(?:[^'\n]{1,300})'|\"(?:[^\"\n]{1,300})\")")
"""Matches reasons that quote the answer, of graders that give no entries."""


class EvidenceSpan(Struct, frozen=True):
    """A part of an answer that is evidence for the same scores throughout, or for none."""

    text: str
    outcome: str = ""
    """`pass`, `fail`, or `noted` for neutral evidence; empty if it is no evidence."""
    labels: tuple[str, ...] = ()
    """The labels of the scores and entries that it is evidence for."""

    @property
    def title(self) -> str:
        """The labels as the text of a tooltip."""
        return "; ".join(self.labels)


class _EvidenceMatch(Struct, frozen=True):
    start: int
    end: int
    outcome: str
    label: str


def mark_evidence(
    answer: str, scores: Sequence[Score], on: Literal["answer", "reasoning"] = "answer"
) -> tuple[EvidenceSpan, ...]:
    """Splits an answer into consecutive parts; parts that are evidence have an outcome.

    Evidence that is not in the answer word for word marks nothing. Where evidence for several scores
    overlaps, the part has the labels of all of them, and is a `fail` if any of them is.

    Args:
        answer: the answer, or the reasoning that came with it.
        scores: its scores; only those on the same text count.
        on: which of both it is.
    """
    within = answer[:_MAX_ANSWER_LENGTH]
    own_scores = [score for score in scores if score.on == on]
    places = [place for score in own_scores for place in _find_score_evidence(within, score)][:_MAX_MARKS]
    cuts = sorted({0, len(answer), *(end for place in places for end in (place.start, place.end))})
    parts: list[EvidenceSpan] = []
    for start, end in pairwise(cuts):
        over = [place for place in places if place.start <= start and end <= place.end]
        outcomes = {place.outcome for place in over}
        outcome = next((outcome for outcome in ("fail", "pass", "noted") if outcome in outcomes), "")
        labels = tuple(dict.fromkeys(place.label for place in over))
        piece = EvidenceSpan(answer[start:end], outcome, labels)
        last = parts[-1] if parts else None
        if last is not None and (last.outcome, last.labels) == (outcome, labels):
            parts[-1] = EvidenceSpan(last.text + piece.text, outcome, labels)
        else:
            parts.append(piece)
    return tuple(parts)


def first_span_index(
    parts: Sequence[EvidenceSpan], score: Score, entry: Evidence | None = None
) -> int | None:
    """Returns the index of the first part that is evidence for a score or its entry, or None."""
    label = evidence_label(score, entry)
    return next((number for number, piece in enumerate(parts) if label in piece.labels), None)


def evidence_label(score: Score, entry: Evidence | None = None) -> str:
    """Returns the label of a score or of one of its entries."""
    return score.name if entry is None else f"{score.name}: {entry.text}"


def _find_score_evidence(answer: str, score: Score) -> Iterator[_EvidenceMatch]:
    """Yields where an answer contains the evidence for a score."""
    for entry in score.entries:
        outcome = {True: "pass", False: "fail", None: "noted"}[entry.passed]
        for start, end in islice(_find_entry_evidence(answer, entry), _MAX_MATCHES):
            yield _EvidenceMatch(start, end, outcome, evidence_label(score, entry))
    if score.entries or score.outcome not in (Verdict.PASS, Verdict.FAIL):
        return
    match = _NAMED_TEXT.search(score.reason)
    if match is not None:
        for start, end in islice(_find_text(answer, match[1][1:-1]), _MAX_MATCHES):
            yield _EvidenceMatch(start, end, score.outcome.value, evidence_label(score))


def _find_entry_evidence(answer: str, entry: Evidence) -> Iterator[tuple[int, int]]:
    """Yields the spans of one entry: its text within its evidence, else the evidence or its quotations."""
    evidence = (entry.evidence or "").strip().strip("…").strip()
    if not evidence:
        if entry.passed:
            yield from _find_text(answer, entry.text)
        return
    around = list(islice(_find_text(answer, evidence, whole=False), _MAX_MATCHES))
    for start, end in around:
        inside = list(_find_text(answer[start:end], entry.text, whole=False))
        yield from [(start + from_, start + to) for from_, to in inside] or [(start, end)]
    if not around:
        for quotation in islice(_QUOTATION.finditer(evidence), 10):
            yield from _find_text(answer, next(filter(None, quotation.groups())), whole=False)


def _find_text(answer: str, phrase: str, *, whole: bool = True) -> Iterator[tuple[int, int]]:
    """Yields the spans of a text, ignoring case and white space; with `whole` only at word boundaries."""
    words = phrase[:_MAX_PHRASE_LENGTH].split()
    if not words:
        return
    pattern = r"\s+".join(map(re.escape, words))
    if whole:
        pattern = (r"(?<!\w)" if words[0][0].isalnum() else "") + pattern
        pattern += r"(?!\w)" if words[-1][-1].isalnum() else ""
    for place in re.finditer(pattern, answer, re.IGNORECASE):
        yield place.span()

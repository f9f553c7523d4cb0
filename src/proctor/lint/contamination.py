"""Cases that occur in other text: the rules `contaminated` and `canary` of `validate --against`.

A question is searched for by its runs of eight words, of which a fair sample is kept for each case. Runs that
more than a few cases share are a template and do not count. The other text is streamed in pieces, so that its
length does not matter. Pure: it gets pieces of text and opens nothing.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from proctor.lint.findings import CaseLocation, Finding, quote_text
from proctor.model import Case
from proctor.prompts.templates import format_values

RUN_LENGTH: Final = 8
"""The number of consecutive words that are compared."""
MIN_SHARE: Final = 0.5
"""From this share of its runs on, a question counts as found."""
MAX_RUNS: Final = 48
"""At most this many runs of a case are kept."""
MIN_WORDS: Final = 3
"""Shorter questions are not searched for: they occur in many texts by chance."""

_MAX_OWNERS: Final = 4
_ANSWER_WINDOW: Final = 120
"""The answer is searched for within this many words after the question."""
_SPACELESS: Final = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
_WORD: Final = re.compile(rf"[{_SPACELESS}]|[^\W_{_SPACELESS}]+")
_GUID: Final = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", re.IGNORECASE)
_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|[nrtbf]|([\"\\/]))")
_MIN_CANARY_LENGTH: Final = 8


class _IndexedQuestion(Struct, frozen=True):
    spot: CaseLocation
    answer: str
    """Normalized; empty if it is too short to count."""
    length: int
    """The number of words in each of its runs."""
    runs: tuple[int, ...]
    """The hashes of its runs."""


class QuestionIndex:
    """The questions and canaries of a suite, ready for searches."""

    def __init__(self) -> None:
        self.questions: list[_IndexedQuestion] = []
        self.owners: defaultdict[int, list[int]] = defaultdict(list)
        """The places of the questions with each run."""
        self.canaries: dict[str, list[CaseLocation]] = {}

    def add(self, case: Case, spot: CaseLocation) -> None:
        """Adds the next case."""
        for canary in _canaries(case):
            self.canaries.setdefault(canary, []).append(spot)
        turns = [
            message for message in case.input if message.role not in ("system", "developer", "assistant")
        ]
        texts = [message.content for message in turns or case.input]
        words = split_words("\n".join(texts) if texts else format_values(case.vars))
        if len(words) < MIN_WORDS:
            return
        length = min(RUN_LENGTH, len(words))
        hashes = tuple(sorted(set(_runs(words, length)))[:MAX_RUNS])
        answer = split_words(case.expected) if isinstance(case.expected, str) else []
        for run in hashes:
            owners = self.owners[run]
            if len(owners) <= _MAX_OWNERS:
                owners.append(len(self.questions))
        self.questions.append(_IndexedQuestion(spot, " ".join(answer), length, hashes))

    def close(self) -> None:
        """Removes templates; call it after the last case and before any search."""
        for template in [run for run, owners in self.owners.items() if len(owners) > _MAX_OWNERS]:
            del self.owners[template]
        self.questions = [
            replace(question, runs=tuple(run for run in question.runs if run in self.owners))
            for question in self.questions
        ]


class _Match:
    """The part of one question that was found in a text."""

    __slots__ = ("has_answer", "line", "runs")

    def __init__(self, line: int) -> None:
        self.line = line
        self.runs: set[int] = set()
        self.has_answer = False


class _TextPiece:
    """A piece of a text, its words, and the line on which it begins."""

    __slots__ = ("_line", "_starts", "text", "words")

    def __init__(self, text: str, words: list[str], line: int) -> None:
        self.text = text
        self.words = words
        self._line = line
        self._starts: list[int] | None = None

    def get_line(self, at: int) -> int:
        """Returns the line of a word."""
        if self._starts is None:
            self._starts = [match.start() for match in _WORD.finditer(self.text)]
        return self._line + self.text.count("\n", 0, self._starts[at])


class TextSearch:
    """Searches one text for the cases of a suite, piece by piece."""

    def __init__(self, cases: QuestionIndex, path: str) -> None:
        """Starts a search; `path` names the text in messages."""
        self._cases = cases
        self._path = path
        self._line = 1
        self._tail = ""
        self._matches: dict[int, _Match] = {}
        self._canaries: dict[str, int] = {}
        self._guids = {canary for canary in cases.canaries if _GUID.fullmatch(canary)}
        self._others = sorted(cases.canaries.keys() - self._guids)
        self._lengths = sorted({question.length for question in cases.questions})

    def read(self, piece: str) -> None:
        """Searches the next piece of the text, which ends between two words."""
        text = self._tail + piece
        self._search(text)
        tail = text.rsplit(None, RUN_LENGTH + _ANSWER_WINDOW)
        keep = len(text) - len(tail[0]) if len(tail) > RUN_LENGTH else len(text)
        split_at = len(text) - min(keep, 20_000)
        self._tail = text[split_at:]
        self._line += text.count("\n", 0, split_at)

    def _search(self, text: str) -> None:
        plain = unescape(text).casefold()
        self._search_canaries(plain)
        piece = _TextPiece(plain, _WORD.findall(plain), self._line)
        for length in self._lengths:
            runs = _runs(piece.words, length)
            hits = self._cases.owners.keys() & set(runs)
            for at, run in enumerate(runs) if hits else ():
                for place in self._cases.owners[run] if run in hits else ():
                    if self._cases.questions[place].length == length:
                        self._add_match(place, run, piece, at)

    def _add_match(self, place: int, run: int, piece: _TextPiece, at: int) -> None:
        match = self._matches.get(place)
        if match is None:
            match = self._matches[place] = _Match(piece.get_line(at))
        match.runs.add(run)
        question = self._cases.questions[place]
        if question.answer and not match.has_answer:
            behind = piece.words[at + question.length : at + question.length + _ANSWER_WINDOW]
            match.has_answer = f" {question.answer} " in f" {' '.join(behind)} "

    def _search_canaries(self, plain: str) -> None:
        if self._guids:
            for match in _GUID.finditer(plain):
                if match[0] in self._guids:
                    self._canaries.setdefault(match[0], self._line + plain.count("\n", 0, match.start()))
        for canary in self._others:
            at = plain.find(canary)
            if at >= 0:
                self._canaries.setdefault(canary, self._line + plain.count("\n", 0, at))

    def finish(self) -> Iterator[tuple[Finding, CaseLocation]]:
        """Yields the findings in the whole text, each with its case."""
        for place in sorted(self._matches):
            match, question = self._matches[place], self._cases.questions[place]
            spot = question.spot
            share = len(match.runs) / len(question.runs)
            if share >= MIN_SHARE:
                with_answer = ", followed by its expected answer" if match.has_answer else ""
                message = (
                    f"Test {quote_text(spot.case)} stands in {self._path}, line {match.line}: {share:.0%} "
                    f"of the words of its question appear there{with_answer}. A model that has read that "
                    f"text knows the case. Remove the question from that text, or write another case."
                )
                yield Finding("contaminated", message, "input"), spot
        for canary, line in self._canaries.items():
            spots = self._cases.canaries[canary]
            more = f" and {len(spots) - 1} more" if len(spots) > 1 else ""
            message = (
                f"The canary {quote_text(canary)} of test {quote_text(spots[0].case)}{more} stands in "
                f"{self._path}, line {line}: the suite was copied there. Keep that text out of the prompts "
                f"and training data of what you test."
            )
            yield Finding("canary", message, "metadata.canary"), spots[0]


def split_words(text: str) -> list[str]:
    """Splits a text into folded words without punctuation; letters of scripts without spaces are words."""
    return _WORD.findall(text.casefold())


def unescape(text: str) -> str:
    r"""Returns a text with JSON escapes decoded: `\u00e9` as é, `\n` as a space, which keeps line numbers."""
    return _ESCAPE.sub(_unescape_match, text) if "\\" in text else text


def _unescape_match(match: re.Match[str]) -> str:
    if match[1] is not None:
        return chr(int(match[1], 16))
    return match[2] or " "


def _runs(words: list[str], length: int) -> list[int]:
    """Returns a hash for each run of `length` words, in order."""
    return list(map(hash, zip(*(words[start:] for start in range(length)), strict=False)))


def _canaries(case: Case) -> Iterator[str]:
    """Yields the folded canaries of a case: from its metadata, and GUIDs in a text that mentions canaries."""
    metadata_canary: Any = case.metadata.get("canary")
    if isinstance(metadata_canary, str) and len(metadata_canary.strip()) >= _MIN_CANARY_LENGTH:
        guid = _GUID.search(metadata_canary)
        yield (guid[0] if guid else metadata_canary.strip()).casefold()
    for text in (*(message.content for message in case.input), format_values(case.vars)):
        if "canary" in text.casefold():
            for match in _GUID.finditer(text):
                yield match[0].casefold()

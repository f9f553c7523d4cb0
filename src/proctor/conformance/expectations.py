"""Decides whether replies are right: to one question, and to all questions of a check together. Pure.

Each rule returns the reason why something is wrong, or None. The right answers to the questions of one check
exclude one another, so that no text is right for all of them, and a text with every candidate is right for
none.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Sequence
from math import fsum
from typing import Any

from msgspec import Struct

from proctor.model import Message

_THOUSANDS = ",'’\u00a0\u2009\u202f"
_NUMBER = re.compile(
    rf"(?:(?<!\w)[-−])?(?:[0-9]{{1,3}}(?:[{_THOUSANDS}][0-9]{{3}})+(?![0-9])|[0-9]+)(?:\.[0-9]+)?"
)
_DIGITS_ONLY = str.maketrans("−", "-", _THOUSANDS)
_LANGUAGE = re.compile(r"\A[a-z]+", re.IGNORECASE)
_MAX_QUOTE = 80
_MAX_DIGITS = 20
"""A number with more digits than this is never right."""
MAX_LETTERS_PER_TOKEN = 8
"""The maximum length of one token in a list of numbers, for endpoints that report no count."""


class Reply(Struct, frozen=True, kw_only=True):
    """The reply to one question: a text, or why there is none."""

    text: str | None = None
    """The answer without the reasoning before it; None if there was no answer."""
    error: str = ""
    """Why there is no answer, in a sentence."""
    is_refused: bool = False
    """Whether the endpoint refused the question, as with HTTP 400."""
    is_refusal: bool = False
    """Whether it is worded as a refusal."""
    latency_ms: float = 0.0
    output_tokens: int | None = None
    """The count reported by the endpoint."""
    is_truncated: bool = False
    """Whether the endpoint reports that the answer ended at the limit."""
    refused_params: tuple[str, ...] = ()
    """Parameters that were not applied."""
    cost_usd: float | None = None
    model: str | None = None
    """The model as the endpoint reported it."""


class ExpectedAnswer(Struct, frozen=True, kw_only=True):
    """The expected answer to one question; this base class accepts any text that is not blank."""

    @property
    def description(self) -> str:
        """What is expected, for reports."""
        return "any answer"

    def find_problem(self, reply: Reply) -> str | None:
        """Returns why the reply is wrong; None if it is right."""
        return None if (reply.text or "").strip() else "the answer is blank"


class ExpectedNumber(ExpectedAnswer, frozen=True, kw_only=True):
    """A number that must be the last one in the answer, optionally without a certain word."""

    right: int
    excluded_word: str = ""

    @property
    def description(self) -> str:
        """What is expected, for reports."""
        return str(self.right)

    def find_problem(self, reply: Reply) -> str | None:
        """Returns why the reply is wrong; None if it is right."""
        text = reply.text or ""
        if self.excluded_word and _fold(self.excluded_word) in _fold(text):
            return f"the answer says {self.excluded_word!r} where {self.right} is right"
        numbers = _NUMBER.findall(text)
        if not numbers:
            return f"{quote_start(text)} has no number; {self.right} is right"
        last = numbers[-1].translate(_DIGITS_ONLY)
        if len(last) <= _MAX_DIGITS and float(last) == self.right:
            return None
        return f"the last number is {quote_start(last)}; {self.right} is right"


class ExpectedWords(ExpectedAnswer, frozen=True, kw_only=True):
    """All of the right texts, and none of the wrong ones."""

    right: tuple[str, ...]
    wrong: tuple[str, ...]

    @property
    def description(self) -> str:
        """What is expected, for reports."""
        return " ".join(self.right)

    def find_problem(self, reply: Reply) -> str | None:
        """Returns why the reply is wrong; None if it is right."""
        text = _fold(reply.text or "")
        missing = [text_part for text_part in self.right if _fold(text_part) not in text]
        if missing:
            return f"{quote_start(reply.text or '')} lacks {missing[0]!r}"
        excluded = [text_part for text_part in self.wrong if _fold(text_part) in text]
        return f"the answer also has {excluded[0]!r}, which is wrong" if excluded else None


class ExpectedJson(ExpectedAnswer, frozen=True, kw_only=True):
    """A JSON object with exactly these members, optionally in a Markdown fence, and nothing else."""

    members: dict[str, str | int]

    @property
    def description(self) -> str:
        """What is expected, for reports."""
        return json.dumps(self.members, ensure_ascii=False)

    def find_problem(self, reply: Reply) -> str | None:
        """Returns why the reply is wrong; None if it is right."""
        text = (reply.text or "").strip().strip("\ufeff")
        is_fenced = text[:1] == text[-1:] == "`"
        try:
            value_read: Any = json.loads(_LANGUAGE.sub("", text.strip("`")) if is_fenced else text)
        except (ValueError, RecursionError):
            return f"{quote_start(text)} is not JSON"
        if value_read == self.members and all(type(value) is not bool for value in value_read.values()):
            return None
        return f"{quote_start(text)} is not {self.description}"


class ExpectedRefusal(ExpectedAnswer, frozen=True, kw_only=True):
    """An answer that declines."""

    @property
    def description(self) -> str:
        """What is expected, for reports."""
        return "a refusal"

    def find_problem(self, reply: Reply) -> str | None:
        """Returns why the reply is wrong; None if it is right."""
        return (
            None
            if reply.is_refusal or reply.is_refused
            else f"{quote_start(reply.text or '')} does not refuse"
        )


class ExpectedHelp(ExpectedAnswer, frozen=True, kw_only=True):
    """An answer that contains a word and does not decline."""

    right: str

    @property
    def description(self) -> str:
        """What is expected, for reports."""
        return f"help, with the word {self.right}"

    def find_problem(self, reply: Reply) -> str | None:
        """Returns why the reply is wrong; None if it is right."""
        if reply.is_refusal:
            return "a harmless question was refused"
        return ExpectedWords(right=(self.right,), wrong=()).find_problem(reply)


class Question(Struct, frozen=True, kw_only=True):
    """One question to a target, and the expected answer."""

    messages: tuple[Message, ...]
    expected: ExpectedAnswer = ExpectedAnswer()
    json_answer: bool = False
    temperature: float | None = None
    max_tokens: int | None = None
    """Replaces the limit that all questions have."""
    may_be_refused: bool = False
    """Whether a refusal by the endpoint counts as an answer."""


# --- the questions of a check together ---------------------------------------------------------------------


def find_missing_answer(questions: Sequence[Question], replies: Sequence[Reply]) -> str | None:
    """Returns why one of the questions has no answer; None if all have one."""
    for question, reply in zip(questions, replies, strict=True):
        if reply.text is None and not (question.may_be_refused and reply.is_refused):
            return reply.error or "there is no answer"
    return None


def check_each_answer(questions: Sequence[Question], replies: Sequence[Reply]) -> str | None:
    """Checks that every question was answered correctly."""
    pairs = zip(questions, replies, strict=True)
    return next(filter(None, (question.expected.find_problem(reply) for question, reply in pairs)), None)


def check_temperature(questions: Sequence[Question], replies: Sequence[Reply]) -> str | None:
    """Checks that a temperature of 0 was applied, as far as the endpoint reports it."""
    if any("temperature" in reply.refused_params for reply in replies):
        return "the endpoint does not support a temperature, so it was not applied"
    return check_each_answer(questions, replies)


def check_identical(questions: Sequence[Question], replies: Sequence[Reply]) -> str | None:
    """Checks that the same question got the same answer each time, except for white space."""
    texts = [" ".join((reply.text or "").split()) for reply in replies]
    other = next((text for text in texts if text != texts[0]), None)
    if other is not None:
        return f"{quote_start(texts[0])} became {quote_start(other)}"
    return check_each_answer(questions, replies)


def check_latency(questions: Sequence[Question], replies: Sequence[Reply], *, longest_s: float) -> str | None:
    """Checks that the mean latency is within the limit."""
    mean_s = fsum(reply.latency_ms for reply in replies) / len(replies) / 1000
    if mean_s > longest_s:
        return f"{mean_s:.1f} s on average, but at most {longest_s:g} s are allowed"
    return check_each_answer(questions, replies)


def check_token_limit(questions: Sequence[Question], replies: Sequence[Reply]) -> str | None:
    """Checks that no answer exceeds the token limit of its question."""
    for question, reply in zip(questions, replies, strict=True):
        limit, text = question.max_tokens or 0, reply.text or ""
        if "max_tokens" in reply.refused_params:
            return "the endpoint does not support a limit, so it was not applied"
        if reply.output_tokens is not None and reply.output_tokens > limit:
            return f"the answer has {reply.output_tokens} tokens, but at most {limit} are allowed"
        if reply.output_tokens is None and len(text) > MAX_LETTERS_PER_TOKEN * limit:
            return f"the answer has {len(text)} letters, too many for {limit} tokens"
        if not text.strip() and not reply.is_truncated:
            return "the answer is blank"
    return None


def check_recovery(questions: Sequence[Question], replies: Sequence[Reply]) -> str | None:
    """Checks that the question after an empty prompt was answered correctly."""
    return questions[1].expected.find_problem(replies[1])


def quote_start(text: str) -> str:
    """Returns the beginning of a text, in quotes and on one line."""
    flat = " ".join(text.split())
    return repr(flat if len(flat) <= _MAX_QUOTE else flat[: _MAX_QUOTE - 1] + "…")


def _fold(text: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFKC", text).casefold())

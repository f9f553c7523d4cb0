"""Answers that admit that they do not know."""

from __future__ import annotations

import pytest

from proctor.graders.hedge_words import ALL_HEDGE_PHRASES as PHRASES
from proctor.graders.hedges import Hedges
from proctor.model import Case, Mark, Message, Output
from proctor.ports import Graded

CASE = Case(id="c", input=(Message(role="user", content="What did I eat?"),))


def mark(answer: str, **params: tuple[str, ...]) -> Mark:
    return Hedges(**params).grade(Graded(case=CASE, output=Output(text=answer)))


@pytest.mark.parametrize(
    "answer",
    [
        "I don't know what you ate.",
        "I don’t know.",
        "I DO NOT\n  KNOW that.",
        "You didn't mention it.",
        "That is not stated in the file.",
        "I can't access your kitchen.",
        "It cannot be determined from this.",
        "I'm not sure, but perhaps soup.",
        "The date is unknown, so I cannot say.",
    ],
)
def test_an_answer_that_admits_doubt_passes(answer: str) -> None:
    assert mark(answer).passed


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "You ate soup.",
        "The radio is tunable to all stations.",
        "I can't help with that.",
        "Nobody knows better than I do: soup.",
    ],
)
def test_any_other_fails(answer: str) -> None:
    found = mark(answer)
    assert (found.passed, found.value) == (False, 0.0)


def test_the_reason_quotes_the_phrase() -> None:
    assert mark("Well, I have no idea.").reason == "The answer admits doubt: 'have no idea'."


def test_phrases_of_ones_own_stand_instead_of_the_graders() -> None:
    assert mark("Without  Prejudice, soup.", phrases=("without prejudice",)).passed
    assert not mark("I don't know.", phrases=("without prejudice",)).passed


@pytest.mark.parametrize("phrases", [(), ("ok", " ")])
def test_phrases_that_say_nothing_are_refused(phrases: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="phrases"):
        Hedges(phrases=phrases)


@pytest.mark.parametrize("phrase", PHRASES)
def test_each_phrase_finds_itself(phrase: str) -> None:
    assert phrase == " ".join(phrase.lower().split())
    assert mark(f"Sorry: {phrase.upper()}!").passed


def test_no_phrase_is_there_twice() -> None:
    assert len(set(PHRASES)) == len(PHRASES)

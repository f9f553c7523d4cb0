"""`is_refusal` and its catalogues, and how often they are right on sentences that were labelled by hand."""

from __future__ import annotations

import pickle
import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Iterator
from operator import add
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.eval import HEDGE_PHRASES, REFUSAL_PATTERNS, is_refusal
from proctor.eval.refusals import ALL_HEDGE_PHRASES
from proctor.graders.lexicons.hedging import find_hedge

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs" / "reference/toolbox/refusals.md"


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import refusal_figures  # type: ignore[import-not-found,unused-ignore]

    yield refusal_figures
    del sys.modules["refusal_figures"]


# --- what counts -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        " \n\t",
        "I do not know",
        "i  don’t\nknow",
        "The context does not contain the answer.",
        "Not specified.",
        "Revenue was $3B; the margin is not disclosed.",
        "I cannot answer that question.",
        "Sorry, I can't help.",
        "There is no information on that in the memo.",
        "It could not be determined. In short: this cannot be determined.",
        "unknown",
        "**Can't do that, sorry.**",
        "- Unable to help with this.",
        "Dabei  kann  ich  dir\u00a0nicht  helfen.",
        "Dazu äussern möchte ich mich nicht.",
        "DAZU MÖCHTE ICH MICH NICHT ÄUSSERN.",
        unicodedata.normalize("NFD", "Das weiß ich nicht, das gehört nicht zum Kontext."),
        "The report never\r\nmentions the margin.",
    ],
)
def test_what_declines_or_does_not_know_is_a_refusal(text: str | None) -> None:
    assert is_refusal(text)


@pytest.mark.parametrize(
    "text",
    [
        "42",
        "I am able to answer: 42.",
        "The casino information desk is on the left.",
        "Nuclear power grew.",
        "It was unclear at first, but the answer is 12.",
        "The figures are not directly comparable, but the first is 5.",
        "If the year is not specified, 2020 is meant.",
        "If the year is not\nspecified, 2020 is meant.",
        "- Si la date n'est pas précisée, c'est celle du jour.",
        "The search returns None when the key is not found in the table.",
        "I'm not sure,\nbut it is probably 12.",
        "Some of the letters were never answered, which hurt her.",
        "The clerk muttered ‘I don’t know’ and pointed to the stairs.",
        "东京",
    ],
)
def test_an_answer_is_none(text: str) -> None:
    assert not is_refusal(text)


def test_what_is_no_text_is_an_error() -> None:
    with pytest.raises(TypeError, match="must be a text or None, not 7"):
        is_refusal(7)  # type: ignore[arg-type]


@pytest.mark.slow
@given(st.text())
def test_a_refusal_in_a_paragraph_of_its_own_is_seen_after_any_text(text: str) -> None:
    assert is_refusal(f"{text}\n\nI DO NOT KNOW.")


# --- the catalogues ----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_patterns_are_compiled_and_work_on_texts_as_they_are_written() -> None:
    assert isinstance(REFUSAL_PATTERNS, tuple)
    assert all(isinstance(pattern, re.Pattern) for pattern in REFUSAL_PATTERNS)
    for text in (
        "I DON’T KNOW.",
        "Not Specified",
        "Ich weiß es nicht.",
        "Je ne sais pas",
        "No lo sé",
        "Non lo so",
    ):
        assert any(pattern.search(text) for pattern in REFUSAL_PATTERNS), text
    assert not any(pattern.search("The sky is blue.") for pattern in REFUSAL_PATTERNS)


@pytest.mark.slow
def test_the_patterns_are_a_tuple_in_every_use() -> None:
    copy = tuple(REFUSAL_PATTERNS)
    assert len(REFUSAL_PATTERNS) == len(copy) > 100
    assert copy == REFUSAL_PATTERNS
    assert hash(REFUSAL_PATTERNS) == hash(copy)
    assert REFUSAL_PATTERNS[-1] is copy[-1]
    assert REFUSAL_PATTERNS[1:3] == copy[1:3]
    assert copy[0] in REFUSAL_PATTERNS
    assert REFUSAL_PATTERNS.index(copy[2]) == 2
    assert REFUSAL_PATTERNS.count(copy[0]) == copy.count(copy[0])
    assert (*REFUSAL_PATTERNS, copy[0]) == add(REFUSAL_PATTERNS, copy[:1]) == (*copy, copy[0])
    assert (copy[0], *REFUSAL_PATTERNS) == add(copy[:1], REFUSAL_PATTERNS) == (copy[0], *copy)
    assert list(reversed(REFUSAL_PATTERNS)) == list(reversed(copy))
    assert repr(REFUSAL_PATTERNS) == repr(copy)
    assert pickle.loads(pickle.dumps(REFUSAL_PATTERNS)) == copy


@pytest.mark.slow
def test_the_function_and_the_patterns_agree_where_nothing_is_left_aside(tool: Any) -> None:
    rows = tool.rows_of("development")
    plain = ("decline", "polite-decline", "not-known", "not-in-context", "answer")
    differ = [
        row["text"]
        for row in rows
        if row["kind"] in plain
        and is_refusal(row["text"]) != any(pattern.search(row["text"]) for pattern in REFUSAL_PATTERNS)
    ]
    assert differ == []


def test_there_are_33_hedges_of_small_letters() -> None:
    assert isinstance(HEDGE_PHRASES, tuple)
    assert len(set(HEDGE_PHRASES)) == 33
    assert all(phrase == phrase.lower().strip() for phrase in HEDGE_PHRASES)
    assert ALL_HEDGE_PHRASES[:33] == HEDGE_PHRASES


@pytest.mark.parametrize(
    ("text", "phrase"),
    [
        ("I really don’t know.", "do not know"),
        ("You didn't  mention it", "do not mention"),
        ("I'm unable to determine that.", "cannot determine"),
        ("I wasn’t able to open it.", "unable to"),
        ("There is no way of knowing.", "no way to know"),
        ("I was not able to find it.", "cannot find"),
        ("It has not been disclosed.", "not disclosed"),
        ("We have insufficient information.", "not enough information"),
        ("Das WEISS ich nicht", "weiß ich nicht"),
    ],
)
def test_a_phrase_stands_for_its_other_spellings(text: str, phrase: str) -> None:
    assert find_hedge(text) == phrase


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The lease is silent on pets.", "silent on"),
        ("Beats me!", "beats me"),
        ("If memory serves, it was 1932.", "if memory serves"),
        ("Das entzieht sich meiner Kenntnis.", "entzieht sich meiner kenntnis"),
    ],
)
def test_words_of_not_knowing_count_where_no_phrase_was_chosen(text: str, words: str) -> None:
    assert words in (find_hedge(text) or "")


@pytest.mark.parametrize(
    "text", ["He said “I don’t know”, and left.", "He didn't know.", "Use 80 if it is not specified."]
)
def test_what_is_quoted_or_a_condition_or_of_somebody_else_is_no_hedge(text: str) -> None:
    assert find_hedge(text) is None
    assert find_hedge(f"{text} I do not know.")


def test_a_phrase_of_inability_with_its_verb_stands_for_cannot() -> None:
    assert find_hedge("I can't open it.", ("not able to open",)) == "not able to open"
    assert find_hedge("I can't close it.", ("not able to open", "unable to")) is None


def test_chosen_phrases_are_found_anywhere_and_nothing_else_is() -> None:
    assert find_hedge("He said “I don’t know”, and left.", ("do not know",)) == "do not know"
    assert find_hedge("Beats me.", HEDGE_PHRASES[:5]) is None


def test_phrases_beside_the_catalogue_take_nothing_from_it() -> None:
    more = (*HEDGE_PHRASES, "so they say")
    assert find_hedge("Beats me.", more) == "beats me"
    assert find_hedge("Four, so they say.", more) == "so they say"
    assert find_hedge("He said “I don’t know”, and left.", more) is None


# --- the labelled sentences --------------------------------------------------------------------------------


def test_the_sentences_are_as_many_as_the_page_says(tool: Any) -> None:
    rows = [row for part in tool.parts() for row in tool.rows_of(part)]
    languages = Counter(row["language"] for row in rows)
    assert languages.pop("en") >= 130
    assert len(languages) == 5
    assert min(languages.values()) >= 75
    assert len({row["text"] for row in rows}) == len(rows) >= 550
    assert f"{len(rows)} sentences" in PAGE.read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_page_has_the_figures_of_now(tool: Any) -> None:
    for part in tool.parts():
        assert "\n".join(tool.table(part)) in PAGE.read_text(encoding="utf-8"), (
            f"run: python tools/refusal_figures.py {part}, and put its table into {PAGE.name}"
        )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "precision", "recall"),
    [("`is_refusal`", 0.95, 0.95), ("grader `refusal`", 0.95, 0.95), ("grader `hedges`", 0.88, 0.95)],
)
def test_the_catalogues_are_right_at_least_so_often_on_what_they_were_made_with(
    tool: Any, name: str, precision: float, recall: float
) -> None:
    figures = tool.figures(name, tool.rows_of("development"))
    assert figures.precision >= precision
    assert figures.recall >= recall


@pytest.mark.parametrize("language", ["en", "de", "fr", "es", "it", "zh"])
def test_no_language_is_far_behind(tool: Any, language: str) -> None:
    rows = [row for row in tool.rows_of("development") if row["language"] == language]
    figures = tool.figures("`is_refusal`", rows)
    assert figures.precision >= 0.9
    assert figures.recall >= 0.9

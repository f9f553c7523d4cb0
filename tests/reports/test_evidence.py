"""Answers cut where their evidence stands."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from proctor.model import Evidence, Score, Verdict
from proctor.reports.evidence import first_span_index, mark_evidence


def scored(*entries: Evidence, **fields: Any) -> Score:
    given: dict[str, Any] = {"grader": "g", "name": "g", "value": 1.0, "outcome": Verdict.PASS}
    return Score(entries=entries, **given | fields)


def marked(answer: str, *scores: Score) -> list[tuple[str, str]]:
    return [(piece.text, piece.outcome) for piece in mark_evidence(answer, scores) if piece.outcome]


def found(text: str, evidence: str | None = None, *, passed: bool | None = True) -> Evidence:
    return Evidence(text=text, passed=passed, evidence=evidence)


def test_an_answer_without_evidence_is_one_piece_and_an_empty_one_is_none() -> None:
    assert [piece.text for piece in mark_evidence("Paris.", [])] == ["Paris."]
    assert marked("Paris.", scored(found("Rome", "not called"))) == []
    assert mark_evidence("", [scored(found("x"))]) == ()


def test_what_was_sought_is_marked_inside_the_evidence_around_it() -> None:
    answer = "In France lies Paris, and Paris is large; in Texas lies Paris too."
    around = "…and Paris is large; in Texas…"
    assert marked(answer, scored(found("paris", around))) == [("Paris", "pass")]
    assert mark_evidence(answer, [scored(found("paris", around))])[0].text == "In France lies Paris, and "


def test_evidence_without_the_words_of_its_entry_is_marked_whole() -> None:
    score = scored(found("names the capital", "Paris is\n large"))
    assert marked("I think Paris  is large.", score) == [("Paris  is large", "pass")]


def test_quotations_in_evidence_are_marked_where_they_stand() -> None:
    score = scored(found("is polite", 'It says "thank you" at the end.', passed=None))
    assert marked("Well, Thank you!", score) == [("Thank you", "noted")]


def test_a_word_is_marked_everywhere_but_not_inside_a_longer_one() -> None:
    assert marked("cat, category, CAT", scored(found("cat"))) == [("cat", "pass"), ("CAT", "pass")]
    assert marked("50% and C++", scored(found("50%"), found("C++"))) == [("50%", "pass"), ("C++", "pass")]


def test_what_was_sought_and_not_met_is_not_marked_without_evidence() -> None:
    assert marked("a category", scored(found("category", passed=False))) == []


def test_a_reason_that_names_what_is_there_marks_it_where_there_are_no_entries() -> None:
    bad = scored(reason="The answer contains 'never'.", outcome=Verdict.FAIL, value=0.0)
    assert marked("You never know.", bad) == [("never", "fail")]
    missing = scored(reason="The answer contains none of 'a', 'b': 'You never know.'.")
    assert marked("You never know.", missing) == []


def test_where_evidence_overlaps_a_failed_one_is_seen_and_all_are_told() -> None:
    good = scored(found("order number 7"), name="good")
    bad = scored(found("number 7 is", "number 7 is", passed=False), name="bad")
    cut = mark_evidence("The order number 7 is lost.", [good, bad])
    assert [(piece.text, piece.outcome) for piece in cut] == [
        ("The ", ""),
        ("order ", "pass"),
        ("number 7", "fail"),
        (" is", "fail"),
        (" lost.", ""),
    ]
    assert cut[2].title == "good: order number 7; bad: number 7 is"
    assert [first_span_index(cut, score, score.entries[0]) for score in (good, bad)] == [1, 2]
    assert first_span_index(cut, good) is None


def test_many_places_are_marked_up_to_a_limit() -> None:
    assert len(marked("no " * 1000, scored(found("no")))) == 50


@given(
    st.text("ab \n", max_size=30),
    st.lists(st.tuples(st.text("ab ", max_size=3), st.text("ab… ", max_size=4))),
)
def test_the_pieces_make_up_the_answer(answer: str, texts: list[tuple[str, str]]) -> None:
    cut = mark_evidence(answer, [scored(*(found(text, evidence) for text, evidence in texts))])
    assert "".join(piece.text for piece in cut) == answer
    assert all(piece.text for piece in cut)

"""Answers cut where their evidence stands."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from proctor.model import Evidence, Score, Verdict
from proctor.reports.evidence import first_span_index, mark_evidence


def make_score(*entries: Evidence, **fields: Any) -> Score:
    defaults: dict[str, Any] = {"grader": "g", "name": "g", "value": 1.0, "outcome": Verdict.PASS}
    return Score(entries=entries, **defaults | fields)


def list_marked(answer: str, *scores: Score) -> list[tuple[str, str]]:
    return [(piece.text, piece.outcome) for piece in mark_evidence(answer, scores) if piece.outcome]


def make_entry(text: str, evidence: str | None = None, *, passed: bool | None = True) -> Evidence:
    return Evidence(text=text, passed=passed, evidence=evidence)


def test_an_answer_without_evidence_is_one_piece_and_an_empty_one_is_none() -> None:
    assert [piece.text for piece in mark_evidence("Paris.", [])] == ["Paris."]
    assert list_marked("Paris.", make_score(make_entry("Rome", "not called"))) == []
    assert mark_evidence("", [make_score(make_entry("x"))]) == ()


def test_what_was_sought_is_marked_inside_the_evidence_around_it() -> None:
    answer = "In France lies Paris, and Paris is large; in Texas lies Paris too."
    around = "…and Paris is large; in Texas…"
    assert list_marked(answer, make_score(make_entry("paris", around))) == [("Paris", "pass")]
    assert (
        mark_evidence(answer, [make_score(make_entry("paris", around))])[0].text
        == "In France lies Paris, and "
    )


def test_evidence_without_the_words_of_its_entry_is_marked_whole() -> None:
    score = make_score(make_entry("names the capital", "Paris is\n large"))
    assert list_marked("I think Paris  is large.", score) == [("Paris  is large", "pass")]


def test_quotations_in_evidence_are_marked_where_they_stand() -> None:
    score = make_score(make_entry("is polite", 'It says "thank you" at the end.', passed=None))
    assert list_marked("Well, Thank you!", score) == [("Thank you", "noted")]


def test_a_word_is_marked_everywhere_but_not_inside_a_longer_one() -> None:
    assert list_marked("cat, category, CAT", make_score(make_entry("cat"))) == [
        ("cat", "pass"),
        ("CAT", "pass"),
    ]
    assert list_marked("50% and C++", make_score(make_entry("50%"), make_entry("C++"))) == [
        ("50%", "pass"),
        ("C++", "pass"),
    ]


def test_what_was_sought_and_not_met_is_not_marked_without_evidence() -> None:
    assert list_marked("a category", make_score(make_entry("category", passed=False))) == []


def test_a_reason_that_names_what_is_there_marks_it_where_there_are_no_entries() -> None:
    bad = make_score(reason="The answer contains 'never'.", outcome=Verdict.FAIL, value=0.0)
    assert list_marked("You never know.", bad) == [("never", "fail")]
    missing = make_score(reason="The answer contains none of 'a', 'b': 'You never know.'.")
    assert list_marked("You never know.", missing) == []


def test_where_evidence_overlaps_the_failed_entry_wins_and_the_title_names_all() -> None:
    good = make_score(make_entry("order number 7"), name="good")
    bad = make_score(make_entry("number 7 is", "number 7 is", passed=False), name="bad")
    pieces = mark_evidence("The order number 7 is lost.", [good, bad])
    assert [(piece.text, piece.outcome) for piece in pieces] == [
        ("The ", ""),
        ("order ", "pass"),
        ("number 7", "fail"),
        (" is", "fail"),
        (" lost.", ""),
    ]
    assert pieces[2].title == "good: order number 7; bad: number 7 is"
    assert [first_span_index(pieces, score, score.entries[0]) for score in (good, bad)] == [1, 2]
    assert first_span_index(pieces, good) is None


def test_many_places_are_marked_up_to_a_limit() -> None:
    assert len(list_marked("no " * 1000, make_score(make_entry("no")))) == 50


@given(
    st.text("ab \n", max_size=30),
    st.lists(st.tuples(st.text("ab ", max_size=3), st.text("ab… ", max_size=4))),
)
def test_the_pieces_make_up_the_answer(answer: str, texts: list[tuple[str, str]]) -> None:
    pieces = mark_evidence(answer, [make_score(*(make_entry(text, evidence) for text, evidence in texts))])
    assert "".join(piece.text for piece in pieces) == answer
    assert all(piece.text for piece in pieces)

"""A person's review of a run: the order, the way through it, and what labels come to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from proctor.model import (
    Assertion,
    Case,
    Judgment,
    Label,
    LabelDraw,
    Run,
    Verdict,
)
from proctor.protocols import StoredLabel
from proctor.services.judges.review import (
    Review,
    ReviewableAnswer,
    ReviewAnswers,
    ReviewCache,
    describe_judging,
    load_review_answers,
    measure_doubt,
)
from proctor.stores import open_store
from support.builders import NOON, make_case, make_run, make_score, make_trial
from support.stores import save_cases

NUMBERS = count(1)


def answers(number: int = 40, **fields: Any) -> list[ReviewableAnswer]:
    given: dict[str, Any] = {"repeat": 0, "tags": (), "held_out": False, "said": True, "judged": True}
    given |= fields
    return [ReviewableAnswer(position=place, case_id=f"c{place}", **given) for place in range(number)]


def said(one: ReviewableAnswer, passed: bool, by: str = "ana", drawn: LabelDraw | None = None) -> StoredLabel:
    label = Label(run="r1", case_id=one.case_id, repeat=one.repeat, passed=passed, by=by, drawn=drawn)
    return StoredLabel(number=next(NUMBERS), label=label, held_out=one.held_out, at=NOON)


def review(
    there: Sequence[ReviewableAnswer],
    labels: Sequence[StoredLabel] = (),
    by: str = "ana",
    revealed: bool = False,
) -> Review:
    return Review(make_run(id="r1"), ReviewAnswers(there), labels, by=by, revealed=revealed)


def order(there: Sequence[ReviewableAnswer], by: str = "ana") -> list[int]:
    return [one.position for one in ReviewAnswers(there).order("r1", by)]


def test_the_order_is_fixed_for_a_person_and_another_for_the_next() -> None:
    ana = order(answers())
    assert ana == order(answers()[::-1])
    assert ana != sorted(ana)
    assert sorted(ana) == list(range(40))
    assert ana != order(answers(), "bo")


def test_the_order_does_not_tell_the_verdict() -> None:
    assert order(answers(said=False)) == order(answers(said=True))


def test_every_answer_comes_once_and_then_none() -> None:
    there, labels = answers(6), list[StoredLabel]()
    seen = []
    while (one := review(there, labels).next(None, "unlabelled", "")) is not None:
        seen.append(one.position)
        labels.append(said(one, passed=True))
    assert sorted(seen) == list(range(6))
    assert seen == order(there)


def test_what_is_skipped_comes_again_at_the_end() -> None:
    there = answers(3)
    made = review(there)
    first, second, third = (there[position] for position in order(there))
    assert made.next(None, "unlabelled", "") is first
    assert made.next(first, "unlabelled", "") is second
    assert review(there, [said(second, passed=True)]).next(None, "unlabelled", "") == third
    both = review(there, [said(second, passed=True), said(third, passed=True)])
    assert both.next(None, "unlabelled", "") == first


def test_filters_leave_out_what_is_not_wanted() -> None:
    there = [*answers(2), *(replace(one, tags=("bus",)) for one in answers(4)[2:])]
    made = review(there, [said(there[2], passed=False)])
    assert {made.next(one, "all", "bus") for one in there} == {there[2], there[3]}
    assert made.next(None, "unlabelled", "bus") == there[3]
    assert made.next(there[0], "disagreements", "") == there[2]
    assert made.next(None, "all", "train") is None
    assert made.tags == ["bus"]


def test_only_verdicts_of_judges_are_held_against_labels_where_a_judge_was_asked() -> None:
    judged, unjudged = answers(1)[0], replace(answers(2)[1], judged=False)
    labels = [said(judged, passed=False), said(unjudged, passed=False)]
    made = review([judged, unjudged], labels)
    assert made.who == "the judge"
    assert made.disagreements == [judged]
    graded = review([unjudged], labels)
    assert graded.who == "the graders"
    assert graded.disagreements == [unjudged]


@pytest.mark.parametrize(("verdict", "differs"), [(True, False), (False, True), (None, False)])
def test_no_verdict_is_no_disagreement(verdict: bool | None, differs: bool) -> None:
    there = answers(1, said=verdict)
    assert review(there, [said(there[0], passed=True)]).differs(there[0]) is differs


def test_held_out_answers_are_left_out_until_they_are_revealed() -> None:
    there = [*answers(2), *(replace(one, held_out=True) for one in answers(5)[2:])]
    labels = [said(one, passed=True) for one in there]
    sealed, revealed = review(there, labels), review(there, labels, revealed=True)
    assert (sealed.total, sealed.sealed, sealed.labelled) == (2, 3, 2)
    assert sealed.at(3, 0) is None
    assert (revealed.total, revealed.sealed, revealed.labelled) == (5, 0, 5)


def test_labels_are_counted_by_person_and_of_anybody_while_nobody_says_who_they_are() -> None:
    there = answers(5)
    labels = [said(there[0], passed=True), said(there[0], passed=False, by="bo"), said(there[1], True, "bo")]
    assert [review(there, labels, by=by).labelled for by in ("ana", "bo", "zoë", "")] == [1, 2, 0, 2]
    assert [kept.label.by for kept in review(there, labels).labels_of_others(there[0])] == ["bo"]


# --- draws -------------------------------------------------------------------------------------------------


def test_a_draw_for_doubt_takes_the_most_doubtful_four_times_as_often() -> None:
    there = [replace(one, doubt=float(one.position < 50)) for one in answers(200)]
    made = ReviewAnswers(there)
    assert made.relative_chance(there[0]) == pytest.approx(4 * made.relative_chance(there[60]))
    assert sum(map(made.relative_chance, there)) == pytest.approx(200)
    first = [one.doubt for by in "abcdefghij" for one in made.order("r1", by, "doubt")[:20]]
    assert 0.4 < sum(first) / 200 < 0.7  # 4 * 50 of 4 * 50 + 150
    even = [one.doubt for by in "abcdefghij" for one in made.order("r1", by)[:20]]
    assert 0.15 < sum(even) / 200 < 0.35


def test_each_split_has_chances_of_its_own() -> None:
    there = [
        replace(one, doubt=float(one.position < 10), held_out=one.position % 2 == 0) for one in answers()
    ]
    made = ReviewAnswers(there)
    for held_out in (False, True):
        chances = [made.relative_chance(one) for one in there if one.held_out is held_out]
        assert sum(chances) == pytest.approx(len(chances))


def test_two_draws_of_a_person_have_nothing_to_do_with_each_other() -> None:
    made = ReviewAnswers(answers(200))
    both = {*made.order("r1", "ana")[:50]} & {*made.order("r1", "ana", "doubt")[:50]}
    assert 4 <= len(both) <= 22


def test_a_draw_for_doubt_goes_on_where_it_was_and_not_where_another_was() -> None:
    there = answers(30)
    order = ReviewAnswers(there).order("r1", "ana", "doubt")
    late = order[20]
    made = review(there, [said(late, True, drawn="random")])
    assert made.next(None, "doubt", "") is order[0]
    assert made.next(late, "doubt", "") is order[0]
    assert made.next(order[0], "doubt", "") is order[1]  # it was skipped
    made = review(there, [said(late, True, drawn="random"), said(order[1], True, drawn="doubt")])
    assert made.next(None, "doubt", "") is order[2]


@pytest.mark.parametrize(
    ("show", "tag", "expected"),
    [
        ("unlabelled", "", "random"),
        ("doubt", "", "doubt"),
        ("unlabelled", "bus", None),
        ("doubt", "bus", None),
        ("all", "", None),
        ("disagreements", "", None),
    ],
)
def test_an_answer_is_drawn_where_the_order_alone_chooses_it(
    show: Any, tag: str, expected: LabelDraw | None
) -> None:
    there = answers(3)
    assert review(there).draw(there[0], show, tag) == expected


@pytest.mark.parametrize("drawn", [None, "random", "doubt"])
def test_a_second_label_of_an_answer_keeps_its_draw(drawn: LabelDraw | None) -> None:
    there = answers(3)
    made = review(there, [said(there[0], True, drawn=drawn)])
    for show in ("unlabelled", "doubt", "all", "disagreements"):
        assert made.draw(there[0], show, "") == drawn


@pytest.mark.parametrize(
    ("value", "votes", "doubt"),
    [
        (1.0, [True], 0.0),
        (0.0, [False], 0.0),
        (0.5, [True], 1.0),
        (0.75, [True], 0.75),
        (1.0, [True, True, False], 2 / 3),
        (1.0, [True, None], 0.5),
        (None, [None], 1.0),
    ],
)
def test_a_judge_doubts_what_it_is_divided_on_or_puts_in_the_middle(
    value: float | None, votes: list[bool | None], doubt: float
) -> None:
    judgments = tuple(Judgment(judge="j", prompt_digest="sha256:1", passed=vote) for vote in votes)
    trial = make_trial("4", replace(make_score(1.0, judgments=judgments), value=value), make_score(0.5))
    assert measure_doubt(trial) == pytest.approx(doubt)
    assert measure_doubt(make_trial("4", make_score(0.5))) == 0


def test_agreement_is_told_from_ten_labelled_answers_on_and_by_the_majority_of_people() -> None:
    there = answers(12)
    labels = [said(one, passed=one.position > 2) for one in there]
    assert review(there, labels[:9]).agreement() is None
    labels += [said(there[0], True, "bo"), said(there[0], True, "cy"), said(there[1], True, "bo")]
    found = review(there, labels).agreement()
    assert found is not None
    assert (found.agreed, found.count) == (10, 11)  # people are divided on one
    assert found.for_doubt == 0
    labels += [said(one, passed=True, by="dee", drawn="doubt") for one in there[5:8]]
    doubted = review(there, labels).agreement()
    assert doubted is not None
    assert doubted.for_doubt == 3


# --- from a store ------------------------------------------------------------------------------------------


@pytest.fixture
def kept_run(tmp_path: Path) -> Iterator[tuple[Any, Run]]:
    """A run in a store: one judged answer, one by graders alone, one without an answer, one that waits."""
    store = open_store(str(tmp_path / "s.db"))
    run = make_run(id="r1", suite=save_cases(store, [make_case(f"c{n}", tags=("t",)) for n in range(4)]))
    store.add_run(run)
    judgment = Judgment(judge="j", prompt_digest="sha256:1")
    judged = make_trial(
        "4", make_score(1.0, judgments=(judgment,)), make_score(0.0), case_id="c0", split="holdout"
    )
    store.save_trial("r1", judged, Verdict.FAIL)
    store.save_trial("r1", make_trial("5", make_score(0.0), case_id="c1", position=1), Verdict.FAIL)
    store.save_trial("r1", make_trial(None, case_id="c2", position=2), Verdict.ERROR)
    store.save_output("r1", make_trial("6", case_id="c3", position=3))
    store.flush()
    yield store, run
    store.close()


def test_answers_that_are_finished_can_be_labelled_and_the_judges_word_counts(
    kept_run: tuple[Any, Run],
) -> None:
    there = load_review_answers(*kept_run)
    assert len(there) == 2
    first, second = there.at(0, 0), there.at(1, 0)
    assert first is not None
    assert second is not None
    assert (first.case_id, first.said, first.judged) == ("c0", True, True)
    assert (first.held_out, first.tags) == (True, ("t",))
    assert (second.case_id, second.said, second.judged, second.held_out) == ("c1", False, False, False)


def test_answers_are_read_anew_when_there_are_more(kept_run: tuple[Any, Run]) -> None:
    store, run = kept_run
    remembered = ReviewCache()
    assert remembered.get(store, run) is remembered.get(store, run)
    store.save_trial("r1", make_trial("6", make_score(1.0), case_id="c3", position=3), Verdict.PASS)
    store.flush()
    assert len(remembered.get(store, run)) == 3


def test_the_exam_sheet_says_how_an_answer_is_judged() -> None:
    rubric = Assertion(grader="rubric", params={"rubric": "Be\nright.", "empty": ""})
    never = Assertion(grader="contains", params={"words": ["a"]}, negated=True, label="no a")
    case = Case(id="c", input=(), criteria="Is right", expected=["x"], assertions=(rubric, never))
    sheet = dict(describe_judging(case))
    assert sheet["Criteria"] == "Is right"
    assert sheet["Expected"] == '[\n  "x"\n]'
    assert sheet["Checked by rubric"] == "rubric:\nBe\nright."
    assert sheet["Checked by no a"].startswith("This must not be true:\nwords:")

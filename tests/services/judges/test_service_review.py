"""A person's review of a run: the order of answers, navigation, and counts of labels."""

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


def make_answers(number: int = 40, **fields: Any) -> list[ReviewableAnswer]:
    defaults: dict[str, Any] = {"repeat": 0, "tags": (), "held_out": False, "said": True, "judged": True}
    defaults |= fields
    return [ReviewableAnswer(position=place, case_id=f"c{place}", **defaults) for place in range(number)]


def make_label(
    answer: ReviewableAnswer, passed: bool, by: str = "ana", draw: LabelDraw | None = None
) -> StoredLabel:
    label = Label(run="r1", case_id=answer.case_id, repeat=answer.repeat, passed=passed, by=by, drawn=draw)
    return StoredLabel(number=next(NUMBERS), label=label, held_out=answer.held_out, at=NOON)


def make_review(
    answers: Sequence[ReviewableAnswer],
    labels: Sequence[StoredLabel] = (),
    by: str = "ana",
    revealed: bool = False,
) -> Review:
    return Review(make_run(id="r1"), ReviewAnswers(answers), labels, by=by, revealed=revealed)


def list_positions(answers: Sequence[ReviewableAnswer], by: str = "ana") -> list[int]:
    return [answer.position for answer in ReviewAnswers(answers).order("r1", by)]


def test_the_order_is_fixed_for_a_person_and_another_for_the_next() -> None:
    ana = list_positions(make_answers())
    assert ana == list_positions(make_answers()[::-1])
    assert ana != sorted(ana)
    assert sorted(ana) == list(range(40))
    assert ana != list_positions(make_answers(), "bo")


def test_the_order_does_not_tell_the_verdict() -> None:
    assert list_positions(make_answers(said=False)) == list_positions(make_answers(said=True))


def test_every_answer_comes_once_and_then_none() -> None:
    answers, labels = make_answers(6), list[StoredLabel]()
    positions = []
    while (answer := make_review(answers, labels).next(None, "unlabelled", "")) is not None:
        positions.append(answer.position)
        labels.append(make_label(answer, passed=True))
    assert sorted(positions) == list(range(6))
    assert positions == list_positions(answers)


def test_what_is_skipped_comes_again_at_the_end() -> None:
    answers = make_answers(3)
    review = make_review(answers)
    first, second, third = (answers[position] for position in list_positions(answers))
    assert review.next(None, "unlabelled", "") is first
    assert review.next(first, "unlabelled", "") is second
    assert make_review(answers, [make_label(second, passed=True)]).next(None, "unlabelled", "") == third
    skipped_review = make_review(answers, [make_label(second, passed=True), make_label(third, passed=True)])
    assert skipped_review.next(None, "unlabelled", "") == first


def test_filters_leave_out_what_is_not_wanted() -> None:
    answers = [*make_answers(2), *(replace(answer, tags=("bus",)) for answer in make_answers(4)[2:])]
    review = make_review(answers, [make_label(answers[2], passed=False)])
    assert {review.next(answer, "all", "bus") for answer in answers} == {answers[2], answers[3]}
    assert review.next(None, "unlabelled", "bus") == answers[3]
    assert review.next(answers[0], "disagreements", "") == answers[2]
    assert review.next(None, "all", "train") is None
    assert review.tags == ["bus"]


def test_only_verdicts_of_judges_are_held_against_labels_where_a_judge_was_asked() -> None:
    judged, unjudged = make_answers(1)[0], replace(make_answers(2)[1], judged=False)
    labels = [make_label(judged, passed=False), make_label(unjudged, passed=False)]
    review = make_review([judged, unjudged], labels)
    assert review.who == "the judge"
    assert review.disagreements == [judged]
    graded = make_review([unjudged], labels)
    assert graded.who == "the graders"
    assert graded.disagreements == [unjudged]


@pytest.mark.parametrize(("verdict", "differs"), [(True, False), (False, True), (None, False)])
def test_no_verdict_is_no_disagreement(verdict: bool | None, differs: bool) -> None:
    answers = make_answers(1, said=verdict)
    assert make_review(answers, [make_label(answers[0], passed=True)]).differs(answers[0]) is differs


def test_held_out_answers_are_left_out_until_they_are_revealed() -> None:
    answers = [*make_answers(2), *(replace(answer, held_out=True) for answer in make_answers(5)[2:])]
    labels = [make_label(answer, passed=True) for answer in answers]
    sealed_review, revealed_review = make_review(answers, labels), make_review(answers, labels, revealed=True)
    assert (sealed_review.total, sealed_review.sealed, sealed_review.labelled) == (2, 3, 2)
    assert sealed_review.at(3, 0) is None
    assert (revealed_review.total, revealed_review.sealed, revealed_review.labelled) == (5, 0, 5)


def test_labels_are_counted_by_person_and_of_anybody_while_nobody_says_who_they_are() -> None:
    answers = make_answers(5)
    labels = [
        make_label(answers[0], passed=True),
        make_label(answers[0], passed=False, by="bo"),
        make_label(answers[1], True, "bo"),
    ]
    assert [make_review(answers, labels, by=by).labelled for by in ("ana", "bo", "zoë", "")] == [1, 2, 0, 2]
    assert [label.label.by for label in make_review(answers, labels).labels_of_others(answers[0])] == ["bo"]


# --- draws -------------------------------------------------------------------------------------------------


def test_a_draw_for_doubt_takes_the_most_doubtful_four_times_as_often() -> None:
    answers = [replace(answer, doubt=float(answer.position < 50)) for answer in make_answers(200)]
    review = ReviewAnswers(answers)
    assert review.relative_chance(answers[0]) == pytest.approx(4 * review.relative_chance(answers[60]))
    assert sum(map(review.relative_chance, answers)) == pytest.approx(200)
    first = [answer.doubt for by in "abcdefghij" for answer in review.order("r1", by, "doubt")[:20]]
    assert 0.4 < sum(first) / 200 < 0.7  # 4 * 50 of 4 * 50 + 150
    even = [answer.doubt for by in "abcdefghij" for answer in review.order("r1", by)[:20]]
    assert 0.15 < sum(even) / 200 < 0.35


def test_each_split_has_chances_of_its_own() -> None:
    answers = [
        replace(answer, doubt=float(answer.position < 10), held_out=answer.position % 2 == 0)
        for answer in make_answers()
    ]
    review = ReviewAnswers(answers)
    for held_out in (False, True):
        chances = [review.relative_chance(answer) for answer in answers if answer.held_out is held_out]
        assert sum(chances) == pytest.approx(len(chances))


def test_two_draws_of_a_person_have_nothing_to_do_with_each_other() -> None:
    review = ReviewAnswers(make_answers(200))
    common = {*review.order("r1", "ana")[:50]} & {*review.order("r1", "ana", "doubt")[:50]}
    assert 4 <= len(common) <= 22


def test_a_draw_for_doubt_goes_on_where_it_was_and_not_where_another_was() -> None:
    answers = make_answers(30)
    sequence = ReviewAnswers(answers).order("r1", "ana", "doubt")
    late = sequence[20]
    review = make_review(answers, [make_label(late, True, draw="random")])
    assert review.next(None, "doubt", "") is sequence[0]
    assert review.next(late, "doubt", "") is sequence[0]
    assert review.next(sequence[0], "doubt", "") is sequence[1]  # it was skipped
    review = make_review(
        answers, [make_label(late, True, draw="random"), make_label(sequence[1], True, draw="doubt")]
    )
    assert review.next(None, "doubt", "") is sequence[2]


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
    answers = make_answers(3)
    assert make_review(answers).draw(answers[0], show, tag) == expected


@pytest.mark.parametrize("draw", [None, "random", "doubt"])
def test_a_second_label_of_an_answer_keeps_its_draw(draw: LabelDraw | None) -> None:
    answers = make_answers(3)
    review = make_review(answers, [make_label(answers[0], True, draw=draw)])
    for show in ("unlabelled", "doubt", "all", "disagreements"):
        assert review.draw(answers[0], show, "") == draw


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
    answers = make_answers(12)
    labels = [make_label(answer, passed=answer.position > 2) for answer in answers]
    assert make_review(answers, labels[:9]).agreement() is None
    labels += [
        make_label(answers[0], True, "bo"),
        make_label(answers[0], True, "cy"),
        make_label(answers[1], True, "bo"),
    ]
    agreement = make_review(answers, labels).agreement()
    assert agreement is not None
    assert (agreement.agreed, agreement.count) == (10, 11)  # people are divided on one
    assert agreement.for_doubt == 0
    labels += [make_label(answer, passed=True, by="dee", draw="doubt") for answer in answers[5:8]]
    doubted = make_review(answers, labels).agreement()
    assert doubted is not None
    assert doubted.for_doubt == 3


# --- from a store ------------------------------------------------------------------------------------------


@pytest.fixture
def stored_run(tmp_path: Path) -> Iterator[tuple[Any, Run]]:
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
    stored_run: tuple[Any, Run],
) -> None:
    answers = load_review_answers(*stored_run)
    assert len(answers) == 2
    first, second = answers.at(0, 0), answers.at(1, 0)
    assert first is not None
    assert second is not None
    assert (first.case_id, first.said, first.judged) == ("c0", True, True)
    assert (first.held_out, first.tags) == (True, ("t",))
    assert (second.case_id, second.said, second.judged, second.held_out) == ("c1", False, False, False)


def test_answers_are_read_anew_when_there_are_more(stored_run: tuple[Any, Run]) -> None:
    store, run = stored_run
    cache = ReviewCache()
    assert cache.get(store, run) is cache.get(store, run)
    store.save_trial("r1", make_trial("6", make_score(1.0), case_id="c3", position=3), Verdict.PASS)
    store.flush()
    assert len(cache.get(store, run)) == 3


def test_the_exam_sheet_says_how_an_answer_is_judged() -> None:
    rubric = Assertion(grader="rubric", params={"rubric": "Be\nright.", "empty": ""})
    never = Assertion(grader="contains", params={"words": ["a"]}, negated=True, label="no a")
    case = Case(id="c", input=(), criteria="Is right", expected=["x"], assertions=(rubric, never))
    sheet = dict(describe_judging(case))
    assert sheet["Criteria"] == "Is right"
    assert sheet["Expected"] == '[\n  "x"\n]'
    assert sheet["Checked by rubric"] == "rubric:\nBe\nright."
    assert sheet["Checked by no a"].startswith("This must not be true:\nwords:")

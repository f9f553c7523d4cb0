"""Agreement of a judge with the labels of people, as counts and as measures with their intervals."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from proctor.calibration import (
    AnswerVerdicts,
    DrawnLabel,
    agreement,
    base_rate,
    changed_p_value,
    changed_share,
    consistency,
    corrected_pass_rate,
    drawing_chances,
    find_biases,
    human_agreement,
    lengthen,
    majority,
    make_calibration,
    measure_shift,
    net_p_value,
    net_shift,
    people_pass_rate,
    sensitivity,
    specificity,
)
from proctor.model import Calibration, LabelDraw, VerdictShift

AT = datetime(2026, 11, 22, tzinfo=UTC)
VERDICT = st.sampled_from((True, False, None))


def calibrate(*answers: AnswerVerdicts) -> Calibration:
    return make_calibration(
        answers, judge="sha256:1", name="j", at=AT, labels="sha256:2", prompts=("b", "a", "b")
    )


def calibrate_counts(passed: int, true_passes: int, failed: int, true_fails: int) -> Calibration:
    """Calibrates on `passed` and `failed` answers of people; the judge agrees on the `true` ones of each."""
    return calibrate(
        *[
            AnswerVerdicts(human_verdicts=(True,), judge_verdicts=(place < true_passes,))
            for place in range(passed)
        ],
        *[
            AnswerVerdicts(human_verdicts=(False,), judge_verdicts=(place >= true_fails,))
            for place in range(failed)
        ],
    )


# --- how far they agree ------------------------------------------------------------------------------------


def test_a_known_table_gives_its_known_kappa() -> None:
    calibration = calibrate_counts(25, 20, 25, 15)
    assert (calibration.count, calibration.agreed, calibration.passed, calibration.true_passes) == (
        50,
        35,
        25,
        20,
    )
    assert calibration.kappa == pytest.approx(0.4)
    assert calibration.kappa_ci95 is not None
    # As statsmodels has it of a table with half an answer more in each cell.
    assert calibration.kappa_ci95 == pytest.approx((0.1384, 0.6308), abs=1e-4)
    assert agreement(calibration) == (35, 50)
    assert agreement(calibration).ci95 == pytest.approx((0.5625, 0.8090), abs=1e-4)
    assert sensitivity(calibration) == (20, 25)
    assert specificity(calibration) == (15, 25)
    assert base_rate(calibration) == (25, 50)
    assert calibration.prompts == ("a", "b")


def test_unreadable_verdicts_are_unscored_and_no_disagreement() -> None:
    calibration = calibrate(
        AnswerVerdicts(human_verdicts=(True,), judge_verdicts=(True,)),
        AnswerVerdicts(human_verdicts=(True,), judge_verdicts=(None, False)),
        AnswerVerdicts(human_verdicts=(False,), judge_verdicts=(None,)),
    )
    assert (calibration.count, calibration.unscored, agreement(calibration)) == (1, 2, (1, 1))
    assert calibration.kappa is None  # both say the same of everything


def test_answers_without_judge_verdicts_are_not_counted() -> None:
    calibration = calibrate(
        AnswerVerdicts(human_verdicts=(True,)),
        AnswerVerdicts(human_verdicts=(False,), judge_verdicts=(False,)),
    )
    assert (calibration.count, calibration.unscored) == (1, 0)


def test_divided_people_give_no_label_and_limit_the_agreement() -> None:
    calibration = calibrate(
        AnswerVerdicts(human_verdicts=(True, False), judge_verdicts=(True,)),
        AnswerVerdicts(human_verdicts=(True, True, False), judge_verdicts=(False,)),
        AnswerVerdicts(human_verdicts=(False, False), judge_verdicts=(False,)),
        AnswerVerdicts(human_verdicts=(True,), judge_verdicts=(True,)),
    )
    assert (calibration.count, calibration.passed, calibration.agreed) == (3, 2, 2)
    assert human_agreement(calibration) == (1, 3)
    assert calibration.people_alpha == pytest.approx(1 - (2 / 1 + 4 / 2) / (2 * 3 * 4 / 6))


@given(st.lists(st.booleans()))
def test_the_majority_is_the_more_frequent_verdict(verdicts: list[bool]) -> None:
    label = majority(verdicts)
    passes, fails = verdicts.count(True), verdicts.count(False)
    assert label is (True if passes > fails else False if fails > passes else None)
    assert label == majority(verdicts[::-1])


def test_a_judge_is_as_steady_as_its_verdicts_that_can_be_read() -> None:
    calibration = calibrate(
        AnswerVerdicts(human_verdicts=(True,), judge_verdicts=(True, True, True)),
        AnswerVerdicts(human_verdicts=(True,), judge_verdicts=(True, None, False)),
        AnswerVerdicts(human_verdicts=(True,), judge_verdicts=(None, True, None)),
        AnswerVerdicts(human_verdicts=(True,), judge_verdicts=(False, False, None)),
    )
    assert (calibration.repeats, consistency(calibration)) == (3, (2, 3))


ANSWERS = st.builds(
    lambda people, usual, reordered, padded: AnswerVerdicts(
        human_verdicts=people, judge_verdicts=usual, reversed_verdict=reordered, lengthened_verdict=padded
    ),
    people=st.lists(st.booleans(), min_size=1, max_size=3).map(tuple),
    usual=st.lists(VERDICT, max_size=3).map(tuple),
    reordered=VERDICT,
    padded=VERDICT,
)


@pytest.mark.slow
@given(st.lists(ANSWERS, max_size=30), st.randoms())
def test_every_count_is_within_its_total_and_the_order_of_answers_does_not_count(
    answers: list[AnswerVerdicts], order: random.Random
) -> None:
    calibration = calibrate(*answers)
    for share in (agreement, sensitivity, specificity, base_rate, consistency, human_agreement):
        hits, of = share(calibration)
        assert 0 <= hits <= of
    labelled = sum(bool(answer.judge_verdicts) and answer.label is not None for answer in answers)
    assert calibration.count + calibration.unscored == labelled
    shuffled = list(answers)
    order.shuffle(shuffled)
    assert calibrate(*shuffled) == calibration


# --- what sways it -----------------------------------------------------------------------------------------


def make_answer(usual: str, other: str) -> AnswerVerdicts:
    """Makes an answer from verdicts as letters: p, f, and - for none."""
    verdicts = {"p": True, "f": False, "-": None}
    return AnswerVerdicts(
        human_verdicts=(True,),
        judge_verdicts=tuple(verdicts[letter] for letter in usual),
        reversed_verdict=verdicts[other],
    )


def measure_order_shift(*pairs: tuple[str, str]) -> VerdictShift | None:
    return measure_shift([make_answer(*pair) for pair in pairs], lambda answer: answer.reversed_verdict)


def test_changes_are_counted_both_ways_and_apart_from_those_between_repeats() -> None:
    shift = measure_order_shift(
        ("pp", "p"), ("ff", "p"), ("ff", "p"), ("pp", "f"), ("pf", "p"), ("fp", "p"), ("-p", "p")
    )
    assert shift == VerdictShift(both=2, to_pass=3, to_fail=1, neither=0, moved=3, restless=1)
    assert changed_share(shift) == (4, 6)
    assert net_shift(shift).value == pytest.approx(2 / 6)


def test_answers_without_both_verdicts_give_no_shift() -> None:
    assert measure_order_shift(("p", "-"), ("-", "f")) is None
    assert find_biases(shifts()) == {}


def shifts(**measures: VerdictShift | None) -> Calibration:
    """Makes a calibration that has only these shifts."""
    return Calibration(judge="", name="", at=AT, labels="", count=0, agreed=0, **measures)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        ([("ff", "p")] * 7 + [("pp", "p")] * 20, "pass"),
        ([("pp", "f")] * 7 + [("pp", "p")] * 20, "fail"),
        ([("pp", "f")] * 4 + [("ff", "p")] * 4 + [("pp", "p")] * 20, "change"),
        ([("ff", "p")] * 6 + [("pp", "p")] * 20, None),  # both tests give 0.031, so Holm 0.0625
        ([("f", "p")] * 6 + [("p", "p")] * 20, "pass"),  # asked once, only the sign test is there
        ([("pf", "f")] * 4 + [("fp", "p")] * 4 + [("pp", "p")] * 20, None),  # it wavers by itself
        ([("pf", "p")] * 8, None),  # and here it does less so in the other order
        ([("pp", "p")] * 50, None),
    ],
)
def test_a_bias_is_what_chance_does_not_explain(pairs: list[tuple[str, str]], expected: str | None) -> None:
    tests = find_biases(shifts(position=measure_order_shift(*pairs)))
    assert tests["position"].bias == expected


def test_each_further_bias_that_is_tested_takes_more_changes_to_show() -> None:
    seven, eight = VerdictShift(both=20, to_pass=7, moved=7), VerdictShift(both=20, to_pass=8, moved=8)
    few = VerdictShift(both=20, to_pass=2, to_fail=2, moved=4)
    assert find_biases(shifts(length=seven, position=few))["length"] == ("pass", 2 / 64, 2 / 64)
    biases = find_biases(shifts(length=seven, position=seven))
    assert biases["length"] == biases["position"] == (None, 4 / 64, 4 / 64)
    assert find_biases(shifts(length=eight, position=eight))["length"] == ("pass", 4 / 128, 4 / 128)


def test_a_part_of_the_answers_is_tested_only_where_all_of_them_show_a_bias() -> None:
    part = VerdictShift(both=5, to_pass=7, moved=7)
    even = VerdictShift(both=20, to_pass=8, to_fail=8)
    assert find_biases(shifts(length=even, length_failed=part))["length_failed"].bias is None
    assert find_biases(shifts(length=part, length_failed=part))["length_failed"].bias == "pass"


@pytest.mark.parametrize("steadiness", [0.6, 0.9])
def test_at_most_five_in_a_hundred_unbiased_judges_get_a_flag(steadiness: float) -> None:
    """The judge varies between replies, and no more so when the prompt changes."""
    rng, flagged, samples = random.Random(3), 0, 400
    for _ in range(samples):
        answers = []
        for place in range(60):
            replies = [(place % 3 > 0) == (rng.random() < steadiness) for _ in range(4)]
            answers.append(
                AnswerVerdicts(
                    human_verdicts=(place % 3 > 0,),
                    judge_verdicts=tuple(replies[:2]),
                    reversed_verdict=replies[2],
                    lengthened_verdict=replies[3],
                )
            )
        measures = {
            "position": measure_shift(answers, lambda answer: answer.reversed_verdict),
            "length": measure_shift(answers, lambda answer: answer.lengthened_verdict),
            "length_failed": measure_shift(
                [answer for answer in answers if not answer.label], lambda answer: answer.lengthened_verdict
            ),
        }
        flagged += any(test.bias is not None for test in find_biases(shifts(**measures)).values())
    assert flagged / samples <= 0.05


@given(*[st.integers(0, 30)] * 4)
def test_the_net_change_lies_in_its_interval_and_turns_with_the_sides(a: int, b: int, c: int, d: int) -> None:
    shift = VerdictShift(both=a + 1, to_pass=b, to_fail=c, neither=d)
    value, low, high = net_shift(shift)
    assert -1 <= low <= value <= high <= 1
    mirrored = net_shift(VerdictShift(both=a + 1, to_pass=c, to_fail=b, neither=d))
    assert (mirrored.value, mirrored.low, mirrored.high) == pytest.approx((-value, -high, -low), abs=1e-9)
    assert net_p_value(shift) == net_p_value(VerdictShift(both=1, to_pass=c, to_fail=b))
    assert 0 < changed_p_value(shift) <= 1


@given(st.text(max_size=2000))
def test_a_padded_answer_begins_with_the_answer_and_is_three_times_as_long(answer: str) -> None:
    longer = lengthen(answer)
    assert longer.startswith(f"{answer}\n\n")
    assert len(longer) >= max(3 * len(answer), 400)
    assert lengthen(answer) == longer


# --- the corrected pass rate -------------------------------------------------------------------------------


def test_a_published_prevalence_is_found_again() -> None:
    """23 of 150 cows test positive; sensitivity 96 %, specificity 89 %: 5.1 % have the disease (epiR)."""
    rate = corrected_pass_rate(23, 150, calibrate_counts(100, 96, 100, 89))
    assert rate is not None
    assert rate.value == pytest.approx(0.0510, abs=5e-5)


@given(st.integers(0, 200), st.integers(1, 200), *[st.integers(0, 40)] * 4)
def test_a_corrected_rate_lies_in_its_interval_and_within_0_and_1(
    passed: int, more: int, a: int, b: int, c: int, d: int
) -> None:
    rate = corrected_pass_rate(passed, passed + more, calibrate_counts(a + b, a, c + d, c))
    if rate is not None:
        assert 0 <= rate.low <= rate.value <= rate.high <= 1


@given(st.integers(0, 100), st.integers(20, 60), st.integers(20, 60))
def test_the_correction_recovers_the_true_rate(rate: int, good: int, bad: int) -> None:
    calibration = calibrate_counts(60, good + 0, 60, bad)
    s, t = good / 60, bad / 60
    apparent = rate / 100 * s + (1 - rate / 100) * (1 - t)
    undone = corrected_pass_rate(round(apparent * 10**9), 10**9, calibration)
    if undone is not None:
        assert undone.value == pytest.approx(rate / 100, abs=1e-6)


@pytest.mark.parametrize(
    ("calibration", "passed", "total"),
    [
        (calibrate_counts(0, 0, 20, 20), 5, 10),  # nothing is known of what people pass
        (calibrate_counts(20, 20, 0, 0), 5, 10),
        (calibrate_counts(20, 10, 20, 10), 5, 10),  # a coin
        (calibrate_counts(3, 3, 3, 3), 5, 10),  # too few to tell it from one
        (calibrate_counts(20, 20, 20, 20), 0, 0),
    ],
)
def test_nothing_is_corrected_by_a_judge_that_is_not_known_to_be_better_than_chance(
    calibration: Calibration, passed: int, total: int
) -> None:
    assert corrected_pass_rate(passed, total, calibration) is None


# --- the pass rate that people would give ------------------------------------------------------------------


def draw_labels(number: int, draw: LabelDraw, *, doubt: float = 1.0, passed: bool = True) -> list[DrawnLabel]:
    return [
        DrawnLabel(
            group=f"{draw} {doubt} {passed} {place}",
            passed=passed,
            judge_passed=True,
            drawn=draw,
            doubt=doubt,
        )
        for place in range(number)
    ]


def test_labels_drawn_at_random_have_one_chance() -> None:
    assert drawing_chances(draw_labels(10, "random", doubt=3), 40) == [0.25] * 10
    assert drawing_chances(draw_labels(40, "random"), 40) == [1.0] * 40


def test_the_chance_of_a_draw_for_doubt_is_in_proportion_to_the_doubt() -> None:
    chances = drawing_chances(draw_labels(10, "doubt", doubt=2.5) + draw_labels(10, "doubt", doubt=0.5), 200)
    assert chances == pytest.approx([0.25] * 10 + [0.05] * 10)


def test_no_chance_is_above_one_and_all_answers_are_certain() -> None:
    # Of 40 answers 30 are drawn: the ten that are doubted are certain, the others have 20 places of 30.
    labels = draw_labels(10, "doubt", doubt=2.2) + draw_labels(20, "doubt", doubt=0.6)
    assert drawing_chances(labels, 40) == pytest.approx([1.0] * 10 + [20 / 30] * 20)
    every = draw_labels(10, "doubt", doubt=2.2) + draw_labels(30, "doubt", doubt=0.6)
    assert drawing_chances(every, 40) == [1.0] * 40


def test_an_answer_may_have_been_drawn_either_way() -> None:
    labels = draw_labels(20, "random") + draw_labels(8, "doubt", doubt=2)
    chances = drawing_chances(labels, 100)
    # A fifth at random; of the 80 others, whose doubt adds up to 80, eight for doubt.
    assert chances == pytest.approx([0.2 + 0.8 * 0.1] * 20 + [0.2 + 0.8 * 0.2] * 8)


def test_doubted_answers_that_people_fail_count_by_their_chance() -> None:
    """Judges pass all of 200 answers, and doubt 40 of them, half of which people fail."""
    labels = [
        *draw_labels(10, "doubt", doubt=2.5, passed=False),
        *draw_labels(10, "doubt", doubt=2.5),
        *draw_labels(16, "doubt", doubt=0.625),
    ]
    rate = people_pass_rate(labels, judge_rate=1.0, judgments=200, cases=200)
    assert rate is not None
    assert rate.value == pytest.approx(1 - (10 / 2.5) / (20 / 2.5 + 16 / 0.625))
    assert (rate.labels, rate.for_doubt, rate.judgments) == (36, 36, 200)
    even = [
        DrawnLabel(group=label.group, passed=label.passed, judge_passed=True, drawn="random")
        for label in labels
    ]
    unweighted = people_pass_rate(even, judge_rate=1.0, judgments=200, cases=200)
    assert unweighted is not None
    assert unweighted.value == pytest.approx(26 / 36)
    assert unweighted.for_doubt == 0


def test_repeats_of_a_case_count_as_one_case() -> None:
    labels = draw_labels(20, "random") + draw_labels(10, "random", passed=False)
    repeated_labels = [replace(label, repeats=4) for label in draw_labels(20, "random")] + draw_labels(
        10, "random", passed=False
    )
    rate = people_pass_rate(labels, judge_rate=1.0, judgments=100, cases=100)
    repeated_rate = people_pass_rate(repeated_labels, judge_rate=1.0, judgments=100, cases=100)
    assert rate is not None
    assert repeated_rate is not None
    assert (rate.value, repeated_rate.value) == pytest.approx((20 / 30, 5 / 15))


def test_few_labels_give_no_rate() -> None:
    assert people_pass_rate(draw_labels(9, "random"), judge_rate=1.0, judgments=100, cases=100) is None
    assert people_pass_rate(draw_labels(10, "random"), judge_rate=1.0, judgments=100, cases=100) is not None


def test_the_interval_of_the_corrected_rate_covers_the_true_rate_in_about_95_of_100_runs() -> None:
    rng = random.Random(7)

    def hits(count: int, share: float) -> int:
        return sum(rng.random() < share for _ in range(count))

    inside: list[bool] = []
    for _ in range(400):
        calibration = make_quick_calibration(
            passed=50, true_passes=hits(50, 0.9), failed=50, true_fails=hits(50, 0.8)
        )
        rate = corrected_pass_rate(hits(100, 0.6 * 0.9 + 0.4 * 0.2), 100, calibration)
        assert rate is not None
        inside.append(rate.low <= 0.6 <= rate.high)
    assert 0.92 <= sum(inside) / 400 <= 0.99


def make_quick_calibration(**counts: Any) -> Calibration:
    """Makes a calibration of these counts without kappa, which is slow to compute."""
    true_passes, true_fails = counts["true_passes"], counts.pop("true_fails")
    count, agreed = counts["passed"] + counts.pop("failed"), true_passes + true_fails
    return Calibration(judge="", name="", at=AT, labels="", count=count, agreed=agreed, **counts)

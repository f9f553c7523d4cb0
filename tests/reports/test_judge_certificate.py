"""What is known of a judge: in sentences, as data, and in the reports of runs that it judged."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from proctor.calibration import PeoplePassRate
from proctor.model import Calibration, Judgment, Score, Settings, Suite, VerdictShift
from proctor.reports.certificates.judge_certificate import (
    RunJudge,
    calibration_row,
    describe_agreement,
    document_for,
    get_run_judges,
    judge_lines,
)
from proctor.reports.document import render_terminal
from proctor.reports.runs.people_rate import people_rate_sentence
from proctor.reports.runs.records import PeoplePassRateRecord
from proctor.reports.runs.serialize import RunReport, judge_notes, run_record
from support.builders import make_case, make_report, make_score, make_trial

CALIBRATION = Calibration(
    judge="sha256:" + "1" * 64,
    name="j-1",
    at=datetime(2026, 11, 22, tzinfo=UTC),
    labels="sha256:" + "2" * 64,
    count=100,
    agreed=85,
    passed=50,
    true_passes=45,
    kappa=0.7,
    kappa_ci95=(0.56, 0.84),
    prompts=("sha256:p",),
    repeats=3,
    repeated=100,
    steady=97,
    position=VerdictShift(both=50, to_pass=2, to_fail=1, neither=47, moved=3, restless=2),
    length=VerdictShift(both=52, to_pass=12, to_fail=1, neither=35, moved=13, restless=1),
)
MARKUP = "<script>alert(1)</script> & [x](javascript:y) `z` | \x1b[31m"


def render_certificate(calibration: Calibration) -> str:
    return "\n".join(render_terminal(document_for(calibration)))


def test_the_sentence_has_both_sides_with_their_intervals() -> None:
    assert describe_agreement(CALIBRATION) == (
        "agrees with people on 85 of 100 answers (85.0%, 77–91%), kappa 0.70 (0.56 to 0.84); "
        "it passes 20.0% (11–33%) of what people fail"
    )


def test_the_sentence_of_a_judge_that_saw_one_side_only_says_so() -> None:
    calibration = replace(
        CALIBRATION, count=45, agreed=45, passed=45, true_passes=45, kappa=None, kappa_ci95=None
    )
    assert describe_agreement(calibration).endswith("kappa undefined; it saw no answer that people fail")


def test_biases_have_counts_an_interval_and_a_test() -> None:
    assert (
        "Length: when answers are padded with empty words, 13 of 100 answers (13.0%, 8–21%) "
        "change, 12 to pass, 1 to fail: net +11.0pp (+4.0pp to +17.8pp), sign test p = 0.003 "
        "(0.004 adjusted). "
        "The judge is biased: more answers pass."
    ) in render_certificate(CALIBRATION)
    assert "3 of 100 answers (3.0%, 1–8%) change" in render_certificate(CALIBRATION)
    assert "This shows no bias." in render_certificate(CALIBRATION)
    assert "Called 3 times, it changes its verdict on 3 of 100 answers" in render_certificate(CALIBRATION)
    alone = replace(CALIBRATION, repeats=1, repeated=0, steady=0, position=VerdictShift(both=9, to_fail=1))
    assert "It is not known how many verdicts change when the judge is called again." in render_certificate(
        alone
    )
    assert "Order: not measured." in render_certificate(replace(CALIBRATION, position=None))


def test_few_labels_and_chance_agreement_are_noted() -> None:
    assert "Note" not in render_certificate(CALIBRATION)
    few = render_certificate(replace(CALIBRATION, count=60, agreed=50))
    assert "Note: there are few labels: people pass 50 answers and fail 10." in few
    coin = render_certificate(replace(CALIBRATION, agreed=50, true_passes=25))
    assert "not shown to be better than a coin" in coin


def test_data_has_every_share_with_its_count_and_interval() -> None:
    data = calibration_row(CALIBRATION)
    assert data["sensitivity"] == {"count": 45, "of": 50, "rate": 0.9, "ci95": (0.786, 0.957)}
    assert data["specificity"]["count"] == 40
    assert (data["position"]["bias"], data["length"]["bias"]) == (None, "pass")
    assert data["length"]["net"]["rate"] == pytest.approx(0.11)
    assert data["people"]["of"] == 0


# --- beside a run ------------------------------------------------------------------------------------------


def list_judges(report: RunReport) -> list[RunJudge]:
    return get_run_judges(report.run, report.tally, report.calibrations)


@pytest.fixture
def make_judged_run() -> Callable[..., RunReport]:
    """Makes a run in which `passed` of 40 answers pass, each by a judgment."""

    def make(passed: int, *more: Score, judges: tuple[str, ...] = ("j-1",), **fields: Any) -> RunReport:
        pairs = []
        for place in range(40):
            judgments = tuple(Judgment(judge=name, prompt_digest="sha256:p", passed=True) for name in judges)
            mark = make_score(float(place < passed), grader="llm_judge", judgments=judgments)
            pairs.append(
                (make_trial("x", mark, *more, case_id=f"c{place}", position=place), make_case(f"c{place}"))
            )
        return make_report(*pairs, **fields)

    return make


def test_a_judge_that_nobody_measured_is_named_with_the_way_to_measure_it(make_judged_run: Any) -> None:
    (line,) = judge_lines(list_judges(make_judged_run(20)))
    assert line == (
        "It has not been measured whether the judge 'j-1' agrees with people. To measure it: "
        "proctor certify --judge j-1 --labels FILE, or, once you have labelled answers of this run, "
        "proctor certify RUN --judge j-1"
    )
    (line,) = judge_lines(list_judges(make_judged_run(20, judges=("a b", "c", "d"))))
    assert line == (
        "It has not been measured whether the judges 'a b', 'c' and 'd' agree with people. To measure it: "
        "proctor certify --judge 'a b' --labels FILE, or, once you have labelled answers of this run, "
        "proctor certify RUN --judge 'a b'"
    )


def test_a_measured_judge_has_its_sentence_and_the_corrected_rate(make_judged_run: Any) -> None:
    (line,) = judge_lines(list_judges(replace(make_judged_run(22), calibrations=(CALIBRATION,))))
    assert line == (
        f"The judge 'j-1' {describe_agreement(CALIBRATION)} (measured 2026-11-22). "
        "Corrected for that, people would pass 50.0% (25–73%)."
    )


def test_the_corrected_rate_of_related_cases_is_less_certain(make_judged_run: Any) -> None:
    report = replace(make_judged_run(22), calibrations=(CALIBRATION,))
    (independent,) = list_judges(report)
    report.tally.all.clusters = {"a": (22.0, 22), "b": (0.0, 18)}
    (clustered,) = list_judges(report)
    assert independent.corrected_pass_rate is not None
    assert clustered.corrected_pass_rate is not None
    assert clustered.corrected_pass_rate.value == pytest.approx(independent.corrected_pass_rate.value)
    assert clustered.corrected_pass_rate.low < independent.corrected_pass_rate.low
    assert clustered.corrected_pass_rate.high > independent.corrected_pass_rate.high


@pytest.mark.parametrize(
    ("more", "fields"),
    [
        ((Score(grader="exact", name="exact", value=1.0, outcome="pass"),), {}),  # type: ignore[arg-type]
        ((), {"judges": ("j-1", "j-2")}),
        ((), {"settings": Settings(judge_repeats=3)}),
        ((), {"suite": Suite(name="s", dialect="agentv", repeats_rule="any")}),
    ],
)
def test_no_rate_is_corrected_that_one_judgment_did_not_decide(
    make_judged_run: Any, more: tuple[Score, ...], fields: dict[str, Any]
) -> None:
    report = replace(make_judged_run(22, *more, **fields), calibrations=(CALIBRATION,))
    rates = [judge.corrected_pass_rate for judge in list_judges(report)]
    assert rates == [None] * len(report.tally.judge_stats.prompts)


def test_a_score_that_does_not_count_changes_nothing(make_judged_run: Any) -> None:
    report = replace(make_judged_run(22, make_score(1.0, weight=0.0)), calibrations=(CALIBRATION,))
    assert list_judges(report)[0].corrected_pass_rate is not None


def test_labels_of_the_runs_own_answers_stand_in_for_the_corrected_rate(make_judged_run: Any) -> None:
    rate = PeoplePassRate(value=0.71, ci95=(0.62, 0.8), labels=40, for_doubt=0, judgments=200)
    report = replace(make_judged_run(22), calibrations=(CALIBRATION,), people_rate=rate)
    assert judge_notes(report) == [
        f"The judge 'j-1' {describe_agreement(CALIBRATION)} (measured 2026-11-22).",
        "People would pass 71.0% (62–80%), from 40 labels and 200 judgments.",
    ]
    summary = run_record(report).judge
    assert summary.people_pass_rate == PeoplePassRateRecord(
        rate=0.71, ci95=(0.62, 0.8), labels=40, for_doubt=0, judgments=200, not_drawn=0, held_out=0
    )
    assert summary.calibrations[0]["corrected_pass_rate"] is not None
    assert run_record(make_judged_run(22)).judge.people_pass_rate is UNSET


def test_a_judge_without_calibration_gets_no_note_where_the_run_has_labels(make_judged_run: Any) -> None:
    rate = PeoplePassRate(value=0.71, ci95=(0.62, 0.8), labels=40, for_doubt=0, judgments=200)
    assert judge_notes(replace(make_judged_run(22), people_rate=rate)) == [people_rate_sentence(rate)]


def test_no_rate_is_corrected_by_answers_that_were_drawn_for_doubt(make_judged_run: Any) -> None:
    doubted = replace(CALIBRATION, for_doubt=12)
    assert "Note: 12 of the answers were chosen because judges doubt them." in render_certificate(doubted)
    assert calibration_row(doubted)["for_doubt"] == 12
    assert list_judges(replace(make_judged_run(22), calibrations=(doubted,)))[0].corrected_pass_rate is None


def test_the_rate_of_people_names_what_it_leaves_out_or_weights() -> None:
    rate = PeoplePassRate(
        value=0.71, ci95=(0.62, 0.8), labels=40, for_doubt=12, judgments=200, not_drawn=3, held_out=50
    )
    assert people_rate_sentence(rate) == (
        "People would pass 71.0% (62–80%), from 40 labels and 200 judgments of answers outside the holdout "
        "(50 are in it). 12 of the labels are on answers that judges doubted, and are weighted for that. "
        "Left out, because it is not known how they were chosen: 3 labelled answers."
    )


def test_other_judge_prompts_are_named_and_no_rate_is_corrected(make_judged_run: Any) -> None:
    calibration = replace(CALIBRATION, prompts=("sha256:q",))
    (line,) = judge_lines(list_judges(replace(make_judged_run(22), calibrations=(calibration,))))
    assert line.endswith(
        "(measured 2026-11-22). It was measured with other judge prompts than this run uses."
    )

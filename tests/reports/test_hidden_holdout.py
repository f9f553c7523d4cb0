"""No form of report tells of a sealed answer, and all of them still count it."""

from __future__ import annotations

import csv
import io
import json
import xml.etree.ElementTree as ET

import pytest
from msgspec.structs import replace

from proctor.model import (
    Assertion,
    Case,
    Evidence,
    Failure,
    Judgment,
    Message,
    Output,
    PassRule,
    Score,
    SplitRule,
    Suite,
    ToolCall,
    Usage,
    Verdict,
)
from proctor.reports import REPORTS
from proctor.reports.document import render_terminal
from proctor.reports.runs import console, trial_text
from proctor.reports.runs.json import render_trials
from proctor.reports.runs.serialize import RunReport, TrialResult, run_record, seal, trial_record
from support.builders import make_report, make_score, make_trial
from support.records import plain, render_report

SECRET = "kestrel"
"""Stands in everything that tells of question or answer."""
IDS = ("c-passed", "c-failed", "c-gated", "c-unscored", "c-broken")


def _case(case_id: str) -> Case:
    return Case(
        id=case_id,
        input=(Message(role="user", content=f"ask {SECRET}"),),
        expected=SECRET,
        criteria=SECRET,
        assertions=(Assertion(grader="exact", params={"expected": SECRET}),),
        tags=("t",),
        category="c",
        metadata={"note": SECRET},
    )


def _score(value: float | None) -> Score:
    outcome = Verdict.UNSCORED if value is None else Verdict.PASS if value == 1 else Verdict.FAIL
    judgment = Judgment(judge="j", prompt_digest="sha256:0", feedback=SECRET, raw=SECRET, value=value)
    return Score(
        grader="rubric",
        name=f"contains-{SECRET}",
        value=value,
        outcome=outcome,
        weight=2.0,
        required=0.4,
        reason=SECRET,
        entries=(Evidence(text=SECRET, passed=False, evidence=SECRET),),
        judgments=(judgment,),
        details={SECRET: SECRET},
    )


def _output() -> Output:
    call = ToolCall(name=SECRET, arguments={"a": SECRET}, output=SECRET)
    usage = Usage(input_tokens=77_701, output_tokens=77_702)
    return Output(
        text=SECRET,
        tool_calls=(call,),
        usage=usage,
        latency_ms=77_703.0,
        cost_usd=77_704.0,
        file_changes=SECRET,
        finish_reason=SECRET,
        model="m",
        target=SECRET,
    )


@pytest.fixture(scope="module")
def whole() -> RunReport:
    """Trials of all four verdicts that are held out, one with two answers, and one dev case."""
    failure = Failure(stage="target", kind="http", message=SECRET)
    made = [
        make_trial(None, _score(1.0), case_id="c-passed", output=_output(), failure=None),
        make_trial(None, _score(0.5), case_id="c-failed", output=_output(), failure=None),
        make_trial(None, _score(0.0), case_id="c-gated", output=_output(), failure=None),
        make_trial(None, _score(None), case_id="c-unscored", output=_output(), failure=None),
        make_trial(None, case_id="c-broken", failure=failure),
    ]
    held = [
        (replace(one, split="holdout", position=place), _case(one.case_id)) for place, one in enumerate(made)
    ]
    open_case = Case(id="open", input=(Message(role="user", content="plain"),), tags=("t",))
    dev = make_trial("shown", _score(1.0), case_id="open", split="dev", position=5)
    score = replace(dev.scores[0], name="kind", reason="", entries=(), judgments=(), details={})
    dev = replace(dev, scores=(score,))
    suite = Suite(name="s", dialect="meridian", split_rule=SplitRule())
    return make_report(*held, (dev, open_case), suite=suite)


@pytest.fixture(scope="module")
def shut(whole: RunReport) -> RunReport:
    """The same, as it is shown to whoever has not asked for what is sealed."""
    return replace(whole, rows=lambda: map(seal, whole.rows()))


def displayed(run: RunReport) -> dict[str, str]:
    """Everything that shows trials, by what shows it."""
    forms = {ending: render_report(ending, [run]) for ending in REPORTS.names()}
    forms["console"] = "\n".join(render_terminal(console.document_for(run)))
    forms["sheet"] = "\n".join(
        line for row in run.rows() for line in trial_text.render_text(row, PassRule(threshold=0.9))
    )
    forms["trials"] = render_trials(run.run, run.rows())
    return forms


FORMS = [*REPORTS.names(), "console", "sheet", "trials"]
WITHOUT_TOTALS = frozenset({".csv", ".jsonl", ".xml", "sheet", "trials"})
"""What shows no numbers of the whole run, which count hidden trials too."""
WITHOUT_ANSWERS: frozenset[str] = frozenset()
"""What shows no answers at all."""


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_nothing_of_a_sealed_answer_is_shown_and_its_case_and_verdict_are(
    form: str, shut: RunReport, whole: RunReport
) -> None:
    text = displayed(shut)[form]
    assert SECRET not in text
    if form in WITHOUT_TOTALS:
        assert "7770" not in text
    assert all(name in text for name in IDS[1:])
    assert "hidden" in text
    assert (SECRET in displayed(whole)[form]) == (form not in WITHOUT_ANSWERS)


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_what_is_not_held_out_is_shown_as_ever(form: str, shut: RunReport, whole: RunReport) -> None:
    (row,) = (row for row in shut.rows() if row.trial.split == "dev")
    assert row == next(row for row in whole.rows() if row.trial.split == "dev")
    only = replace(shut, rows=lambda: iter([row]))
    assert displayed(only)[form] == displayed(replace(whole, rows=lambda: iter([row])))[form]


def test_the_numbers_of_a_run_are_the_same_sealed_and_not(shut: RunReport, whole: RunReport) -> None:
    assert plain(run_record(shut)) == plain(run_record(whole))
    assert plain(run_record(shut))["splits"]["holdout"]["passed"] == 1


def test_a_sealed_row_keeps_id_verdict_score_and_split_and_has_null_for_the_rest(
    shut: RunReport, whole: RunReport
) -> None:
    stays = (
        "run",
        "case_id",
        "target",
        "repeat",
        "verdict",
        "score",
        "split",
        "tags",
        "category",
    )
    for row, before in zip(shut.rows(), whole.rows(), strict=True):
        closed, opened = plain(trial_record(shut.run, row)), plain(trial_record(whole.run, before))
        assert list(closed) == list(opened)
        assert closed["sealed"] is (closed["split"] == "holdout")
        assert [closed[name] for name in stays] == [opened[name] for name in stays]
        if not closed["sealed"]:
            continue
        for name in ("output", "latency_ms", "usage", "cost_usd"):
            assert closed[name] is None
        for score, shown in zip(closed["scores"], opened["scores"], strict=True):
            assert {name for name in score if score[name] is None} >= {
                "reason",
                "entries",
                "judgments",
                "details",
            }
            for name in ("grader", "value", "outcome", "weight", "required"):
                assert score[name] == shown[name]
            assert score["name"] == "rubric"  # a label can say what was expected
        assert closed["failed_gates"] == ["rubric"] * len(opened["failed_gates"])


def test_a_sealed_failure_says_of_which_kind_it_is(shut: RunReport) -> None:
    (row,) = (row for row in shut.rows() if row.trial.case_id == "c-broken")
    assert row.reason == "http: hidden; use --reveal to show it"
    assert plain(trial_record(shut.run, row))["failure"] == {
        "stage": "target",
        "kind": "http",
        "message": "hidden; use --reveal to show it",
    }


def test_the_console_names_what_is_sealed(shut: RunReport) -> None:
    listed = [line for line in render_terminal(console.document_for(shut)) if "--reveal" in line]
    assert listed == [
        "FAIL      c-failed  hidden; use --reveal to show it",
        "FAIL      c-gated  hidden; use --reveal to show it",
        "UNSCORED  c-unscored  hidden; use --reveal to show it",
        "ERROR     c-broken  http: hidden; use --reveal to show it",
    ]


@pytest.mark.parametrize(
    ("case_id", "shown"),
    [
        ("c-passed", ["PASS c-passed", "  score:     1.00"]),
        ("c-gated", ["FAIL c-gated", "  score:     0.00"]),
        ("c-broken", ["ERROR c-broken"]),
    ],
)
def test_a_sealed_case_is_its_verdict_and_score_and_how_to_see_more(
    shut: RunReport, case_id: str, shown: list[str]
) -> None:
    (row,) = (row for row in shut.rows() if row.trial.case_id == case_id)
    *lines, how, empty = trial_text.render_text(row, PassRule())
    assert lines == shown
    assert how.startswith("  hidden: ")
    assert "--reveal" in how
    assert empty == ""


def test_a_row_of_csv_is_marked_and_has_empty_cells(shut: RunReport) -> None:
    rows = list(csv.DictReader(io.StringIO(render_report(".csv", [shut]), newline="")))
    marks = {row["case_id"]: row["sealed"] for row in rows}
    assert marks == {**dict.fromkeys(IDS, "true"), "open": "false"}
    for name in ("question", "output", "latency_ms", "input_tokens", "output_tokens", "cost_usd"):
        assert {row[name] for row in rows if row["sealed"] == "true"} == {""}


def test_junit_counts_what_is_sealed_and_says_so(shut: RunReport) -> None:
    (suite,) = ET.fromstring(render_report(".xml", [shut])).iter("testsuite")
    tests = {test.attrib["name"]: test for test in suite.iter("testcase")}
    assert (suite.attrib["tests"], suite.attrib["failures"], suite.attrib["errors"]) == ("6", "2", "2")
    assert tests["c-passed"].findtext("system-out") == "hidden; use --reveal to show it"
    assert "time" not in tests["c-passed"].attrib
    assert [child.attrib["message"] for child in tests["c-gated"] if child.tag == "failure"] == [
        "hidden; use --reveal to show it"
    ]


@pytest.mark.slow
def test_a_case_with_several_answers_is_sealed_as_one() -> None:
    case = replace(_case("a"), repeats=3)
    pairs = [
        (
            make_trial(SECRET, make_score(value, reason=SECRET), case_id="a", repeat=repeat, split="holdout"),
            case,
        )
        for repeat, value in enumerate((1.0, 0.0, 0.0))
    ]
    suite = Suite(name="s", dialect="d", split_rule=SplitRule(), repeats_rule="mean")
    made = make_report(*pairs, suite=suite)
    text = displayed(replace(made, rows=lambda: map(seal, made.rows())))
    assert "FAIL      a  1 of 3 trials passed; hidden; use --reveal to show it" in text["console"]
    assert not any(SECRET in shown for shown in text.values())


def test_sealing_twice_is_sealing_once(whole: RunReport) -> None:
    rows: list[TrialResult] = [seal(row) for row in whole.rows()]
    assert [seal(row) for row in rows] == rows


def test_a_sealed_line_of_jsonl_is_json(shut: RunReport) -> None:
    rows = [json.loads(line) for line in render_report(".jsonl", [shut]).splitlines()]
    assert [row["sealed"] for row in rows] == [True] * 5 + [False]

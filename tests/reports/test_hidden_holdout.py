"""No form of report shows anything of a sealed answer, and all of them count it."""

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
"""A word in every field that could reveal the question or the answer."""
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
def revealed_run() -> RunReport:
    """Trials of all four verdicts that are held out, one with two answers, and one dev case."""
    failure = Failure(stage="target", kind="http", message=SECRET)
    trials = [
        make_trial(None, _score(1.0), case_id="c-passed", output=_output(), failure=None),
        make_trial(None, _score(0.5), case_id="c-failed", output=_output(), failure=None),
        make_trial(None, _score(0.0), case_id="c-gated", output=_output(), failure=None),
        make_trial(None, _score(None), case_id="c-unscored", output=_output(), failure=None),
        make_trial(None, case_id="c-broken", failure=failure),
    ]
    pairs = [
        (replace(trial, split="holdout", position=place), _case(trial.case_id))
        for place, trial in enumerate(trials)
    ]
    open_case = Case(id="open", input=(Message(role="user", content="plain"),), tags=("t",))
    dev = make_trial("shown", _score(1.0), case_id="open", split="dev", position=5)
    score = replace(dev.scores[0], name="kind", reason="", entries=(), judgments=(), details={})
    dev = replace(dev, scores=(score,))
    suite = Suite(name="s", dialect="meridian", split_rule=SplitRule())
    return make_report(*pairs, (dev, open_case), suite=suite)


@pytest.fixture(scope="module")
def sealed_run(revealed_run: RunReport) -> RunReport:
    """The same run, as it is shown without `--reveal`."""
    return replace(revealed_run, rows=lambda: map(seal, revealed_run.rows()))


def render_all_forms(run: RunReport) -> dict[str, str]:
    """Renders a run in every form that shows trials."""
    forms = {ending: render_report(ending, [run]) for ending in REPORTS.names()}
    forms["console"] = "\n".join(render_terminal(console.document_for(run)))
    forms["sheet"] = "\n".join(
        line for row in run.rows() for line in trial_text.render_text(row, PassRule(threshold=0.9))
    )
    forms["trials"] = render_trials(run.run, run.rows())
    return forms


FORMS = [*REPORTS.names(), "console", "sheet", "trials"]
WITHOUT_TOTALS = frozenset({".csv", ".jsonl", ".xml", "sheet", "trials"})
"""The forms without numbers of the whole run, which count hidden trials too."""
WITHOUT_ANSWERS: frozenset[str] = frozenset()
"""The forms that show no answers at all."""


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_nothing_of_a_sealed_answer_is_shown_and_its_case_and_verdict_are(
    form: str, sealed_run: RunReport, revealed_run: RunReport
) -> None:
    text = render_all_forms(sealed_run)[form]
    assert SECRET not in text
    if form in WITHOUT_TOTALS:
        assert "7770" not in text
    assert all(name in text for name in IDS[1:])
    assert "hidden" in text
    assert (SECRET in render_all_forms(revealed_run)[form]) == (form not in WITHOUT_ANSWERS)


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_a_dev_trial_is_shown_as_before(form: str, sealed_run: RunReport, revealed_run: RunReport) -> None:
    (row,) = (row for row in sealed_run.rows() if row.trial.split == "dev")
    assert row == next(row for row in revealed_run.rows() if row.trial.split == "dev")
    only = replace(sealed_run, rows=lambda: iter([row]))
    assert (
        render_all_forms(only)[form]
        == render_all_forms(replace(revealed_run, rows=lambda: iter([row])))[form]
    )


def test_the_numbers_of_a_run_are_the_same_sealed_and_not(
    sealed_run: RunReport, revealed_run: RunReport
) -> None:
    assert plain(run_record(sealed_run)) == plain(run_record(revealed_run))
    assert plain(run_record(sealed_run))["splits"]["holdout"]["passed"] == 1


def test_a_sealed_row_keeps_id_verdict_score_and_split_and_has_null_for_the_rest(
    sealed_run: RunReport, revealed_run: RunReport
) -> None:
    visible_fields = (
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
    for row, full_row in zip(sealed_run.rows(), revealed_run.rows(), strict=True):
        sealed_record, full_record = (
            plain(trial_record(sealed_run.run, row)),
            plain(trial_record(revealed_run.run, full_row)),
        )
        assert list(sealed_record) == list(full_record)
        assert sealed_record["sealed"] is (sealed_record["split"] == "holdout")
        assert [sealed_record[name] for name in visible_fields] == [
            full_record[name] for name in visible_fields
        ]
        if not sealed_record["sealed"]:
            continue
        for name in ("output", "latency_ms", "usage", "cost_usd"):
            assert sealed_record[name] is None
        for score, full_score in zip(sealed_record["scores"], full_record["scores"], strict=True):
            assert {name for name in score if score[name] is None} >= {
                "reason",
                "entries",
                "judgments",
                "details",
            }
            for name in ("grader", "value", "outcome", "weight", "required"):
                assert score[name] == full_score[name]
            assert score["name"] == "rubric"  # a label can say what was expected
        assert sealed_record["failed_gates"] == ["rubric"] * len(full_record["failed_gates"])


def test_a_sealed_failure_says_of_which_kind_it_is(sealed_run: RunReport) -> None:
    (row,) = (row for row in sealed_run.rows() if row.trial.case_id == "c-broken")
    assert row.reason == "http: hidden; use --reveal to show it"
    assert plain(trial_record(sealed_run.run, row))["failure"] == {
        "stage": "target",
        "kind": "http",
        "message": "hidden; use --reveal to show it",
    }


def test_the_console_names_what_is_sealed(sealed_run: RunReport) -> None:
    hidden_lines = [line for line in render_terminal(console.document_for(sealed_run)) if "--reveal" in line]
    assert hidden_lines == [
        "FAIL      c-failed  hidden; use --reveal to show it",
        "FAIL      c-gated  hidden; use --reveal to show it",
        "UNSCORED  c-unscored  hidden; use --reveal to show it",
        "ERROR     c-broken  http: hidden; use --reveal to show it",
    ]


@pytest.mark.parametrize(
    ("case_id", "expected"),
    [
        ("c-passed", ["PASS c-passed", "  score:     1.00"]),
        ("c-gated", ["FAIL c-gated", "  score:     0.00"]),
        ("c-broken", ["ERROR c-broken"]),
    ],
)
def test_a_sealed_case_is_its_verdict_and_score_and_how_to_see_more(
    sealed_run: RunReport, case_id: str, expected: list[str]
) -> None:
    (row,) = (row for row in sealed_run.rows() if row.trial.case_id == case_id)
    *lines, notice, empty = trial_text.render_text(row, PassRule())
    assert lines == expected
    assert notice.startswith("  hidden: ")
    assert "--reveal" in notice
    assert empty == ""


def test_a_row_of_csv_is_marked_and_has_empty_cells(sealed_run: RunReport) -> None:
    rows = list(csv.DictReader(io.StringIO(render_report(".csv", [sealed_run]), newline="")))
    marks = {row["case_id"]: row["sealed"] for row in rows}
    assert marks == {**dict.fromkeys(IDS, "true"), "open": "false"}
    for name in ("question", "output", "latency_ms", "input_tokens", "output_tokens", "cost_usd"):
        assert {row[name] for row in rows if row["sealed"] == "true"} == {""}


def test_junit_counts_what_is_sealed_and_says_so(sealed_run: RunReport) -> None:
    (suite,) = ET.fromstring(render_report(".xml", [sealed_run])).iter("testsuite")
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
    report = make_report(*pairs, suite=suite)
    text = render_all_forms(replace(report, rows=lambda: map(seal, report.rows())))
    assert "FAIL      a  1 of 3 trials passed; hidden; use --reveal to show it" in text["console"]
    assert not any(SECRET in output for output in text.values())


def test_sealing_twice_is_sealing_once(revealed_run: RunReport) -> None:
    rows: list[TrialResult] = [seal(row) for row in revealed_run.rows()]
    assert [seal(row) for row in rows] == rows


def test_a_sealed_line_of_jsonl_is_json(sealed_run: RunReport) -> None:
    rows = [json.loads(line) for line in render_report(".jsonl", [sealed_run]).splitlines()]
    assert [row["sealed"] for row in rows] == [True] * 5 + [False]

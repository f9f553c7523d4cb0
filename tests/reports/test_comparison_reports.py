"""Comparisons as text, Markdown, JSON and a picture: what they say, and what they never claim."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.comparison.compare import compare_runs
from proctor.comparison.gate import GateRule
from proctor.comparison.outcome_table import CaseOutcomes, TrialOutcome
from proctor.comparison.outcomes import RunOutcomes
from proctor.comparison.ranking import rank_runs
from proctor.model import Message, PromptTemplate, Run, Selection, Settings, Suite, TargetSpec, Trial, Verdict
from proctor.reports.comparison import json as comparison_json
from proctor.reports.comparison.chart import draw_chart
from proctor.reports.comparison.report import ComparisonReport, document_for
from proctor.reports.document import render_markdown, render_terminal
from support.builders import make_trial
from support.golden import assert_golden

RunFactory = Callable[..., Any]
GOLDEN = Path(__file__).parent / "golden"
VERDICTS = {"+": Verdict.PASS, "-": Verdict.FAIL, "!": Verdict.ERROR, "?": Verdict.UNSCORED}
CATEGORIES = ("letters | <b>", "numbers")


@pytest.fixture(scope="module")
def make_run() -> Callable[..., RunOutcomes]:
    """Makes a run with a case for each word of signs (`+-!?`, one for each repeat)."""
    trial: Trial = make_trial("")

    def make(name: str, signs: Sequence[str], **fields: Any) -> RunOutcomes:
        target, numbers = fields.pop("target", name), fields.pop("numbers", lambda _place: {})
        cases = tuple(
            CaseOutcomes(
                id=f"case {place}",
                key=f"case {place}",
                category=CATEGORIES[place % 2],
                tags=("t",),
                split="holdout" if place % 5 == 0 else "dev",
                trials=tuple(
                    TrialOutcome(repeat=repeat, verdict=VERDICTS[sign], **numbers(place))
                    for repeat, sign in enumerate(word)
                ),
            )
            for place, word in enumerate(signs)
        )
        defaults: dict[str, Any] = {
            "id": f"run-{name}",
            "group": "g",
            "suite": Suite(name="desk", dialect="d", version="v2", digest="sha256:" + "1" * 64),
            "target": TargetSpec(name=target, kind="echo"),
            "started_at": trial.started_at,
            "status": "finished",
            "planned": len(signs),
        }
        return RunOutcomes(run=Run(**defaults | fields), cases=cases, trials=sum(map(len, signs)))

    return make


def compare_two(baseline: RunOutcomes, candidate: RunOutcomes, **fields: Any) -> ComparisonReport:
    return ComparisonReport(comparisons=(compare_runs(baseline, candidate),), **fields)


def compare_several(*runs: RunOutcomes, **fields: Any) -> ComparisonReport:
    ranking = rank_runs(runs)
    return ComparisonReport(comparisons=ranking.comparisons, ranking=ranking, **fields)


def make_prompt(name: str) -> PromptTemplate:
    return PromptTemplate(name=name, messages=(Message(role="system", content=name),))


def render_text(report: ComparisonReport, flips: int = 10) -> str:
    return "".join(f"{line}\n" for line in render_terminal(document_for(report, flips)))


@pytest.fixture(scope="module")
def pair_report(make_run: RunFactory) -> ComparisonReport:
    """Forty cases, of which twelve were fixed, two broken and three not measured; one run has one more."""

    def numbers(latency: float) -> Callable[[int], dict[str, Any]]:
        random = Random(int(latency))
        return lambda place: {
            "score": round(random.random(), 2),
            "latency_ms": latency + place,
            "cost_usd": latency / 1e6,
        }

    before = "-" * 12 + "+" * 25 + "-" * 3
    after = "+" * 12 + "-" * 2 + "+" * 21 + "!?" + "-" * 2 + "?"
    return compare_two(
        make_run("before", before, tags=("baseline", "x"), numbers=numbers(800)),
        make_run("after", after + "+", numbers=numbers(950)),
        rule=GateRule(max_regression=0.02, allow_errors=3, partial=True),
        looks=7,
        judges=("The judge 'j' agrees with people.",),
    )


@pytest.fixture(scope="module")
def four_run_report(make_run: RunFactory) -> ComparisonReport:
    return compare_several(
        make_run("low", "+" * 12 + "-" * 28),
        make_run("high", "+" * 38 + "-" * 2),
        make_run("near", "+" * 36 + "-" * 4),
        make_run("cut", "+" * 20, status="interrupted", planned=40),
        rule=GateRule(partial=True),
        looks=4,
    )


# --- golden files ------------------------------------------------------------------------------------------


def test_reports_of_two_runs_match_their_golden_files(pair_report: ComparisonReport) -> None:
    assert_golden(GOLDEN / "compared.txt", render_text(pair_report))
    assert_golden(GOLDEN / "compared.md", "".join(render_markdown(document_for(pair_report))))
    assert_golden(GOLDEN / "compared.json", comparison_json.render(pair_report))


def test_reports_of_several_runs_match_their_golden_files(four_run_report: ComparisonReport) -> None:
    assert_golden(GOLDEN / "ranked.txt", render_text(four_run_report))
    assert_golden(GOLDEN / "ranked.md", "".join(render_markdown(document_for(four_run_report))))
    assert_golden(GOLDEN / "ranked.json", comparison_json.render(four_run_report))


# --- the verdict -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        ("-" * 40, "+" * 40, "The candidate is better by 100.0 pp ("),
        ("+" * 40, "-" * 40, "The candidate is worse by 100.0 pp ("),
        ("+" * 40, "+" * 40, "No clear difference on 40 cases: +0.0 pp ("),
        ("-" * 9 + "+" * 11, "+" * 9 + "--" + "+" * 9, "The candidate is perhaps better, by 35.0 pp ("),
        ("+" * 9 + "--" + "+" * 9, "-" * 9 + "+" * 11, "The candidate is perhaps worse, by 35.0 pp ("),
        (
            "+++",
            "---",
            "The candidate is perhaps worse, by 100.0 pp (20.6 to 100.0), but the test is not significant",
        ),
        ("+", "-", "No clear difference on 1 case: -100.0 pp ("),
        ("-" * 5 + "+" * 35, "+" * 40, "The candidate is better by 12.5 pp ("),
        (
            "+" * 40,
            "+" * 20 + "!" * 20,
            "No clear difference on 20 cases: +0.0 pp (-16.1 to 16.1), p = 1.00: 0 cases fixed",
        ),
        (
            "-" * 8 + "+" * 32,
            "+" * 30 + "!" * 10,
            "Of the 30 cases that both runs measured the candidate is better by 26.7 pp (",
        ),
        ("!!", "++", "Nothing was measured: 2 pairs matched"),
        ("", "++", "Nothing matched: the runs have no trial in common."),
    ],
)
def test_the_verdict_is_one_plain_sentence(
    make_run: RunFactory, before: str, after: str, sentence: str
) -> None:
    output = render_text(compare_two(make_run("a", before, target="t"), make_run("b", after, target="t")))
    assert any(line.startswith(sentence) for line in output.splitlines()), output


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        ("-" * 40, "+" * 40, '{What} "y" (candidate) is better than "x" by 100.0 pp ('),
        ("+" * 40, "-" * 40, '{What} "y" (candidate) is worse than "x" by 100.0 pp ('),
        ("+" * 40, "+" * 40, 'No clear difference between {what}s "x" and "y" (candidate) on 40 cases: +0.0'),
        ("+++", "---", '{What} "y" (candidate) is perhaps worse than "x", by 100.0 pp ('),
        (
            "-" * 8 + "+" * 32,
            "+" * 30 + "!" * 10,
            'Of the 30 cases that both runs measured {what} "y" (candidate) is better than "x" by 26.7 pp (',
        ),
    ],
)
def test_the_verdict_names_prompts_or_targets_if_the_runs_differ_in_nothing_else(
    make_run: RunFactory, before: str, after: str, sentence: str
) -> None:
    x, y = make_prompt("x"), make_prompt("y")
    pairs = {
        "prompt": (make_run("a", before, target="t", prompt=x), make_run("b", after, target="t", prompt=y)),
        "target": (make_run("a", before, target="x", prompt=x), make_run("b", after, target="y", prompt=x)),
    }
    for what, runs in pairs.items():
        assert render_text(compare_two(*runs)).startswith(sentence.format(what=what, What=what.capitalize()))
    both_differ = compare_two(
        make_run("a", before, target="x", prompt=x), make_run("b", after, target="y", prompt=y)
    )
    one_prompt = compare_two(make_run("a", before, target="t"), make_run("b", after, target="t", prompt=y))
    for report in (both_differ, one_prompt):
        assert "(candidate)" not in render_text(report)


def test_the_first_case_that_flipped_has_commands_to_see_both_answers(make_run: RunFactory) -> None:
    output = render_text(compare_two(make_run("a", "-+"), make_run("b", "++")))
    commands = "proctor runs show run-a --case 'case 0'; proctor runs show run-b --case 'case 0'"
    assert f"To see both answers of a case: {commands}\n" in output
    assert "both answers" not in render_text(compare_two(make_run("a", "++"), make_run("b", "++")))


def test_without_a_clear_difference_the_smallest_detectable_one_is_named(make_run: RunFactory) -> None:
    output = render_text(compare_two(make_run("a", "+" * 40), make_run("b", "+" * 40)))
    assert (
        "p = 1.00: 0 cases fixed, 0 broken. A true difference of 21.2 pp or more would be found at least "
        "80 % of the time with these 40 cases." in output
    )
    few = render_text(compare_two(make_run("a", "+++"), make_run("b", "---")))
    assert "With these 3 cases, no true difference, however large, would be found 80 % of the time." in few


def test_repeats_are_counted_as_trials(make_run: RunFactory) -> None:
    output = render_text(compare_two(make_run("a", ["---"] * 20), make_run("b", ["+++"] * 20)))
    assert "p < 0.001: 60 trials fixed, 0 broken." in output
    assert "FIXED     case 0 (repeat 1)" in output


def test_a_tiny_difference_of_costs_has_digits(make_run: RunFactory) -> None:
    cheap, dear = ({"score": 1.0, "latency_ms": 1.0, "cost_usd": usd} for usd in (0.0005, 0.000521))
    report = compare_two(
        make_run("a", "+" * 9, numbers=lambda _: cheap), make_run("b", "+" * 9, numbers=lambda _: dear)
    )
    assert "mean difference +$0.000021 (95 % interval +$0.000021 to +$0.000021)" in render_text(report)


@given(st.text("+-!?", max_size=30), st.text("+-!?", max_size=30))
def test_a_run_is_called_better_or_worse_only_if_its_interval_excludes_zero(
    make_run: RunFactory, before: str, after: str
) -> None:
    report = compare_two(make_run("a", before), make_run("b", after))
    ci95 = report.comparisons[0].whole.ci95
    sentence = json.loads(comparison_json.render(report))["comparisons"][0]["verdict"]
    claimed = re.search(r"is (perhaps )?(better|worse)", sentence)
    if ci95 is None or ci95[0] <= 0 <= ci95[1]:
        assert claimed is None
    else:
        assert claimed is not None
        assert claimed[2] == ("better" if ci95[0] > 0 else "worse")


# --- what follows the verdict ------------------------------------------------------------------------------


def test_flips_above_the_limit_are_counted(pair_report: ComparisonReport) -> None:
    output = render_text(pair_report, flips=1)
    assert (output.count("BROKEN  "), output.count("FIXED  ")) == (1, 1)
    assert "…and 11 more fixed: --flips 12\n" in output
    assert "…and 1 more broken: --flips 2\n" in output
    assert "FIXED  " not in render_text(pair_report, flips=0)


def test_the_selection_of_a_run_is_given_as_the_reason_for_missing_cases(make_run: RunFactory) -> None:
    settings = Settings(selection=Selection(split="dev", tags=("easy",), limit=2))
    output = render_text(compare_two(make_run("a", "++++"), make_run("b", "++", settings=settings)))
    assert (
        "Only in the baseline: 2 cases, as the other run selected --split dev --tag easy --limit 2: case 2"
        in output
    )


def test_an_unfinished_run_is_reported(make_run: RunFactory) -> None:
    output = render_text(
        compare_two(
            make_run("a", "++"), make_run("b", "++", status="interrupted", planned=9), rule=GateRule()
        )
    )
    assert "The candidate is not finished: 7 of 9 trials are missing." in output
    assert "The gate is not decided: the candidate is not finished: 7 of 9 trials are missing." in output


@pytest.mark.parametrize(
    ("before", "after", "rule", "sentence"),
    [
        (
            "+" * 40,
            "-" * 40,
            GateRule(),
            "The gate failed: a regression is shown, because the 95 % interval is -1",
        ),
        (
            "+" * 40,
            "+" * 40,
            GateRule(),
            "The gate passed: a regression is not shown, because the 95 % interval is -8.8 to",
        ),
        (
            "+" * 40,
            "+" * 40,
            GateRule(strict=True),
            "The gate failed: a regression is not ruled out, because the",
        ),
        (
            "-" * 40,
            "+" * 40,
            GateRule(strict=True),
            "The gate passed: a regression is ruled out, because the",
        ),
        ("+" * 40, "-" * 40, GateRule(max_regression=0.02), "a regression of more than 2.0 pp is shown"),
        ("+!", "++", GateRule(), "1 of 2 pairs is not measured, and --allow-errors allows 0."),
        ("!!", "++", GateRule(allow_errors=5), "2 of 2 pairs are not measured, and there are no others."),
        (
            "+" * 40,
            "+" * 20 + "!" * 20,
            GateRule(allow_errors=20),
            "interval would be -64.8 to -32.8pp if all had gone against the candidate, and -8.8 to +8.8pp",
        ),
        ("", "++", GateRule(), "The gate is not decided: nothing matched."),
        (
            "+" * 5,
            "++",
            GateRule(),
            "The gate is not decided: 3 cases are only in the baseline, and --partial is not given.",
        ),
        ("+" * 5, "++", GateRule(partial=True), "The gate passed: a regression is not shown"),
    ],
)
def test_the_gate_says_what_decided_it(
    make_run: RunFactory, before: str, after: str, rule: GateRule, sentence: str
) -> None:
    assert (
        sentence
        in render_text(compare_two(make_run("a", before), make_run("b", after), rule=rule)).splitlines()[-1]
    )


def test_each_candidate_is_gated_against_the_first_run_and_the_worst_result_counts(
    four_run_report: ComparisonReport,
) -> None:
    gate = json.loads(comparison_json.render(four_run_report))["gate"]
    assert [(row["candidate"], row["exit_code"]) for row in gate["candidates"]] == [
        ("run-high", 0),
        ("run-near", 0),
        ("run-cut", 3),
    ]
    assert four_run_report.exit_code == 3


def test_a_long_name_of_a_part_loses_its_middle(
    make_run: RunFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[__name__], "CATEGORIES", ("short", "n" * 90))
    (row,) = (
        line
        for line in render_text(compare_two(make_run("a", "++"), make_run("b", "-+"))).splitlines()
        if "nnn" in line
    )
    assert row.startswith(f"  {'n' * 20}…{'n' * 19}        1        0")


@pytest.fixture(scope="module")
def outage_report(make_run: RunFactory) -> ComparisonReport:
    """A run without errors, one with as many as answers, one without any answer, and one that is worse."""
    return compare_several(
        make_run("full", "+" * 40),
        make_run("half", "+" * 20 + "!" * 20),
        make_run("none", "!" * 40),
        make_run("low", "-" * 40),
    )


def test_a_rank_that_errors_could_change_is_printed_as_a_range(outage_report: ComparisonReport) -> None:
    lines = render_text(outage_report).splitlines()
    assert [line.split()[0] for line in lines[1:5]] == ["1", "1–3", "3–4", "–"]
    assert "Run run-none has no rank: none of its trials was measured." in lines


def test_reports_of_several_runs_with_errors_match_their_golden_files(
    outage_report: ComparisonReport,
) -> None:
    assert_golden(GOLDEN / "outage.txt", render_text(outage_report))
    assert_golden(GOLDEN / "outage.json", comparison_json.render(outage_report))


# --- the picture -------------------------------------------------------------------------------------------


def test_the_picture_has_a_dot_on_a_band_for_all_and_each_part(pair_report: ComparisonReport) -> None:
    values = draw_chart(pair_report).spec["data"]["values"]
    assert [row["label"] for row in values] == [
        "all (n = 37, 3 not measured)",
        "dev (n = 30, 2 not measured)",
        "holdout (n = 7, 1 not measured)",
        "letters | <b> (n = 19, 1 not measured)",
        "numbers (n = 18, 2 not measured)",
    ]
    assert all(row["low"] < row["value"] < row["high"] for row in values)
    assert values[0]["value"] == pytest.approx(100 * 10 / 37)
    assert {"x": {"datum": 0}} in [layer["encoding"] for layer in draw_chart(pair_report).spec["layer"]]


def test_the_picture_of_several_runs_has_a_row_for_each_candidate(four_run_report: ComparisonReport) -> None:
    labels = [row["label"] for row in draw_chart(four_run_report).spec["data"]["values"]]
    assert labels == ["high (n = 40)", "near (n = 40)", "cut (n = 20)"]


def test_the_picture_of_a_grid_names_the_prompts(make_run: RunFactory) -> None:
    terse, steps = make_prompt("terse"), make_prompt("steps")
    chart = draw_chart(
        compare_several(
            make_run("a", "+-", target="small", prompt=terse),
            make_run("b", "++", target="small", prompt=steps),
            make_run("c", "--", target="large", prompt=steps),
        )
    )
    assert chart.spec["title"] == "Against small · terse"
    assert [row["label"] for row in chart.spec["data"]["values"]] == [
        "small · steps (n = 2)",
        "large · steps (n = 2)",
    ]


def test_the_picture_of_two_prompts_names_them_in_its_title(make_run: RunFactory) -> None:
    terse, steps = make_prompt("terse"), make_prompt("steps")
    report = compare_two(
        make_run("a", "+-", target="small", prompt=terse), make_run("b", "++", target="small", prompt=steps)
    )
    assert draw_chart(report).spec["title"] == "small · steps against small · terse"


def test_the_picture_tells_runs_of_the_same_target_apart_by_id(make_run: RunFactory) -> None:
    chart = draw_chart(
        compare_several(
            make_run("a", "+-", target="t"), make_run("b", "++", target="t"), make_run("c", "--", target="t")
        )
    )
    assert chart.spec["title"] == "Against t · run-a"
    assert [row["label"] for row in chart.spec["data"]["values"]] == [
        "t · run-b (n = 2)",
        "t · run-c (n = 2)",
    ]


def test_a_part_that_is_named_as_a_split_is_told_apart(
    make_run: RunFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[__name__], "CATEGORIES", ("all", "all"))
    labels = [
        row["label"]
        for row in draw_chart(compare_two(make_run("a", "++"), make_run("b", "-+"))).spec["data"]["values"]
    ]
    assert labels == ["all (n = 2)", "dev (n = 1)", "holdout (n = 1)", "category all (n = 2)"]

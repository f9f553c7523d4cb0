"""What a comparison of prompts says: the grid, its sentences, the prompts' texts, and JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proctor.comparison.compare import compare_runs
from proctor.comparison.factors import compare_grid
from proctor.comparison.ranking import rank_runs
from proctor.model import Message, PromptTemplate, TargetSpec
from proctor.reports.comparison import json as comparison_json
from proctor.reports.comparison.grid import grid_of_reports
from proctor.reports.comparison.grid_json import cells_record
from proctor.reports.comparison.report import ComparisonReport, document_for
from proctor.reports.document import render_markdown, render_terminal
from support.builders import make_case, make_report, make_score, make_trial
from support.outcomes import make_outcomes

SIGNS = {
    ("terse", "small"): "+" * 10 + "-" * 30,
    ("terse", "large"): "+" * 20 + "-" * 20,
    ("steps", "small"): "+" * 24 + "-" * 16,
    ("steps", "large"): "+" * 36 + "-" * 4,
}


def make_prompt(name: str, *texts: str) -> PromptTemplate:
    roles = ("system", "user")
    messages = [
        Message(role=role, content=text) for role, text in zip(roles, texts or ("x", name), strict=False)
    ]
    return PromptTemplate(name=name, messages=tuple(messages))


def group(signs: dict[tuple[str, str], str], *, by_prompt: bool = False, **fields: Any) -> ComparisonReport:
    runs = [
        make_outcomes(
            f"{prompt}-{target}",
            text,
            prompt=make_prompt(prompt),
            target=TargetSpec(name=target, kind="echo", model=target),
            **fields,
        )
        for (prompt, target), text in signs.items()
    ]
    ranking, grid = rank_runs(runs), compare_grid(runs, by_prompt=by_prompt)
    return ComparisonReport(comparisons=ranking.comparisons, ranking=ranking, grid=grid)


def in_terminal(report: ComparisonReport) -> str:
    return "\n".join(render_terminal(document_for(report)))


def test_a_group_begins_with_its_grid_and_three_sentences() -> None:
    lines = in_terminal(group(SIGNS)).splitlines()
    assert lines[:8] == [
        "prompt  small         large",
        "terse   25.0% 14–40%  50.0% 35–65%",
        "        n 40          n 40",
        "steps   60.0% 45–74%  90.0% 77–96%",
        "        n 40          n 40",
        "",
        'Prompt "steps" is better than "terse" over 2 targets by 37.5 pp (25.9 to 47.3), p < 0.001.',
        'Target "large" is better than "small" over 2 prompts by 27.5 pp (17.0 to 36.8), p < 0.001.',
    ]
    sentence = "The difference between the prompts is not shown to depend on the target (p = "
    assert lines[8].startswith(sentence)
    assert lines[8].endswith(", 40 cases measured in all 4 runs).")


def test_a_prompt_that_is_better_on_one_target_alone_is_told() -> None:
    text = in_terminal(group(SIGNS | {("steps", "small"): "-" * 40}))
    assert "The difference between the prompts depends on the target (p < 0.001, 40 cases" in text
    assert "choose a prompt for each target" in text


def test_a_prompt_that_is_better_on_every_target_by_unlike_differences_is_named() -> None:
    small = {("terse", "small"): "-" * 40, ("steps", "small"): "-" * 30 + "+" * 10}
    large = {("terse", "large"): "-" * 40, ("steps", "large"): "+" * 40}
    text = in_terminal(group(small | large))
    assert 'all 4 runs): "steps" is ahead on every target, by 25.0 to 100.0 pp.' in text


def test_parts_are_prompts_by_target_and_if_asked_for_targets_by_prompt() -> None:
    text = in_terminal(group(SIGNS))
    assert "Prompts for each target" in text
    assert "Targets for each prompt" not in text
    assert "  large against small" in in_terminal(group(SIGNS, by_prompt=True))


def test_of_three_prompts_the_first_is_named_or_that_none_is_shown() -> None:
    three = SIGNS | {("long", "small"): "-" * 40, ("long", "large"): "-" * 40}
    assert 'Prompt "steps" is first over 2 targets' in in_terminal(group(three))
    assert "shown to be better than 2 of 2 other prompts" in in_terminal(group(three))
    alike = dict.fromkeys(three, "+-" * 20)
    assert "No prompt is shown to be better than another over 2 targets." in in_terminal(group(alike))


def test_errors_and_missing_runs_are_told() -> None:
    signs = {key: text for key, text in SIGNS.items() if key != ("steps", "large")}
    signs |= {("terse", "other"): "!" + "+" * 39, ("steps", "other"): "+" * 40}
    text = in_terminal(group(signs))
    for sentence in (
        "Not run: steps on large.",
        'The prompts are compared over the targets that were run with every prompt: "small", "other".',
        'The targets are compared over the prompts that were run with every target: "terse".',
        "not measured 1: ",
        "1 case with an ERROR or UNSCORED trial in some run is not in that test.",
    ):
        assert sentence in text


def test_errors_that_could_decide_are_told() -> None:
    signs = SIGNS | {("steps", "small"): "!" * 40, ("steps", "large"): "+" * 36 + "-" * 4}
    assert "could change that" in in_terminal(group(signs))


def test_json_has_the_grid_and_what_it_shows() -> None:
    grid = json.loads(comparison_json.render(group(SIGNS)))["grid"]
    assert [level["name"] for level in grid["prompts"]] == ["terse", "steps"]
    assert [(cell["prompt"], cell["target"], cell["passed"]) for cell in grid["cells"]] == [
        ("terse", "small", 10),
        ("terse", "large", 20),
        ("steps", "small", 24),
        ("steps", "large", 36),
    ]
    (difference,) = grid["prompt"]["differences"]
    assert difference["difference"] == pytest.approx(0.375)
    assert (difference["cases"], difference["clusters"], difference["shows"]) == (80, 40, "better")
    assert grid["target"]["verdict"].startswith('Target "large" is better')
    assert (grid["interaction"]["cases"], grid["interaction"]["contrasts"]) == (40, 1)
    assert len(grid["by_target"]) == 2
    assert grid["by_prompt"] == []


def test_the_runs_of_a_command_are_a_grid_too() -> None:
    reports = [
        make_report(
            (make_trial("yes", make_score(value)), make_case()),
            id=f"{prompt}-{target}",
            prompt=make_prompt(prompt),
            target=TargetSpec(name=target, kind="echo", model=target),
        )
        for (prompt, target), value in zip(SIGNS, (0, 1, 1, 1), strict=True)
    ]
    grid = grid_of_reports(reports)
    assert grid is not None
    cells = cells_record(grid).cells
    assert [(cell.run, cell.pass_rate) for cell in cells][:2] == [("terse-small", 0.0), ("terse-large", 1.0)]
    assert grid_of_reports(reports[:2]) is None


# --- texts of prompts --------------------------------------------------------------------------------------


def pair(before: PromptTemplate | None, after: PromptTemplate | None) -> ComparisonReport:
    runs = [make_outcomes(name, "+-", prompt=prompt) for name, prompt in (("a", before), ("b", after))]
    return ComparisonReport(comparisons=(compare_runs(*runs),))


def test_lines_of_two_prompts_that_differ_stand_beside_the_result() -> None:
    report = pair(make_prompt("a", "Be brief.", "{{ input }}"), make_prompt("b", "Be kind.", "{{ input }}"))
    text = in_terminal(report)
    assert 'Prompts "a" and "b" differ:\n\n--- a\n+++ b\n [system]\n-Be brief.\n+Be kind.\n' in text
    assert "```diff\n--- a\n+++ b\n" in "".join(render_markdown(document_for(report)))
    record = json.loads(comparison_json.render(report))
    assert [run["prompt"]["name"] for run in record["runs"]] == ["a", "b"]
    diff = record["comparisons"][0]["prompt_diff"]
    assert diff["same_text"] is False
    assert diff["lines"][:3] == [" [system]", "-Be brief.", "+Be kind."]


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        (make_prompt("a", "x"), make_prompt("b", "x"), 'Prompts "a" and "b" have the same text.'),
        (None, make_prompt("b"), 'Only the candidate has a prompt, "b"; the baseline sends cases unchanged.'),
        (make_prompt("a"), None, 'Only the baseline has a prompt, "a"; the candidate sends cases unchanged.'),
    ],
)
def test_prompts_without_a_difference_or_a_partner_are_told(
    before: PromptTemplate | None, after: PromptTemplate | None, sentence: str
) -> None:
    assert sentence in in_terminal(pair(before, after))


def test_equal_prompts_are_not_mentioned() -> None:
    assert "rompt" not in in_terminal(pair(make_prompt("a"), make_prompt("a")))
    assert "rompt" not in in_terminal(pair(None, None))
    assert json.loads(comparison_json.render(pair(None, None)))["comparisons"][0]["prompt_diff"] is None

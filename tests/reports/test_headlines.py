"""The first lines of the pages that compare: names, numbers, and no more than is shown."""

from __future__ import annotations

from typing import Any

import pytest

from proctor.comparison.compare import compare_runs
from proctor.comparison.ranking import rank_runs
from proctor.model import Message, PromptTemplate, TargetSpec
from proctor.reports.comparison.headlines import pair_headline, ranking_headline
from support.outcomes import make_outcomes


def fields(target: str, prompt: str = "") -> dict[str, Any]:
    template = PromptTemplate(name=prompt, messages=(Message(role="user", content="{{input}}"),))
    return {
        "target": TargetSpec(name=target, kind="echo"),
        "prompt": template if prompt else None,
    }


def compare_signs(first: str, second: str, names: tuple[str, str] = ("a", "b")) -> str:
    runs = (make_outcomes(f"r{at}", signs, **fields(names[at])) for at, signs in enumerate((first, second)))
    return pair_headline(compare_runs(*runs))


def test_the_better_run_is_named_with_its_lead() -> None:
    line = compare_signs("-" * 30 + "+" * 10, "+" * 38 + "--")
    assert line.startswith("b is better than a by 70.0 pp (")
    assert line.endswith("30 cases fixed, 2 broken")
    assert ", p " in line


def test_the_worse_run_is_called_worse() -> None:
    assert compare_signs("+" * 40, "-" * 30 + "+" * 10).startswith("b is worse than a by 75.0 pp (")


def test_a_difference_that_may_be_chance_is_no_lead() -> None:
    line = compare_signs("++--" * 5, "+-+-" * 5)
    assert line.startswith("No clear difference on 20 cases: +0.0 pp (")
    assert line.endswith("5 cases fixed, 5 broken")


def test_runs_of_one_name_are_baseline_and_candidate() -> None:
    line = compare_signs("-" * 40, "+" * 40, ("same", "same"))
    assert line.startswith("The candidate is better than the baseline by 100.0 pp")


def test_prompts_are_part_of_the_names_and_long_names_are_cut() -> None:
    terse = make_outcomes("r1", "-" * 40, **fields("gpt", "terse"))
    steps = make_outcomes("r2", "+" * 40, **fields("gpt", "steps" * 40))
    line = pair_headline(compare_runs(terse, steps))
    assert line.startswith("gpt · stepssteps")
    assert " is better than gpt · terse by 100.0 pp" in line
    assert len(line) < 160


def test_nothing_in_common_is_told() -> None:
    runs = make_outcomes("r1", {"x": "+"}), make_outcomes("r2", {"y": "+"})
    assert pair_headline(compare_runs(*runs)).startswith("Nothing matched")


def test_what_was_not_measured_is_told_where_it_could_change_the_result() -> None:
    line = compare_signs("-" * 20 + "+" * 20, "+" * 20 + "!" * 20)
    assert "20 pairs without a measurement could make it" in line


@pytest.mark.parametrize(
    ("signs", "beginning"),
    [
        (
            ("++++", "+++-", "+++-"),
            "None of the 3 runs is shown to be better than another: 100.0%, 75.0%, 75.0%",
        ),
        (("+" * 40, "-" * 40, "-" * 40), "t0 is first (100.0%, "),
        (("+" * 40, "+" * 40, "-" * 40), "2 of 3 runs share rank 1 with 100.0%, 100.0%: no run"),
        (("!!", "!!", "!!"), "None of the 3 runs has a rank: nothing was measured"),
        (
            ("++++", "+++-", "++-+", "+-++", "-+++"),
            "None of the 5 runs is shown to be better than another: 75.0% to 100.0% passed",
        ),
    ],
)
def test_a_ranking_has_its_rates(signs: tuple[str, ...], beginning: str) -> None:
    runs = [make_outcomes(f"r{at}", sign, **fields(f"t{at}")) for at, sign in enumerate(signs)]
    assert ranking_headline(rank_runs(runs)).startswith(beginning)


def test_the_first_of_a_ranking_is_said_to_be_better_than_those_it_beats() -> None:
    runs = [make_outcomes(f"r{at}", sign * 40, **fields(f"t{at}")) for at, sign in enumerate("+--")]
    assert ranking_headline(rank_runs(runs)).endswith("shown to be better than 2 of the 2 other runs")

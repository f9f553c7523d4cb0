"""What is kept of a run, and why two may not be comparable."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from proctor.comparison.compare import compare_runs
from proctor.comparison.outcomes import OutcomeCollector, RunOutcomes
from proctor.model import Case, Params, PassRule, Settings, Suite, TargetSpec, Trial, Verdict
from support.builders import make_case, make_score, make_trial
from support.outcomes import make_outcomes

CollectOutcomes = Callable[..., Any]


@pytest.fixture
def collect_outcomes() -> Callable[..., RunOutcomes]:
    """Collects the outcomes of a run from cases with a score for each of their trials."""

    def collect(
        cases: dict[str, list[float | None]], *, by_digest: bool = False, **fields: Any
    ) -> RunOutcomes:
        collector = OutcomeCollector(make_outcomes("a", "", **fields).run, by_digest=by_digest)
        for position, (name, values) in enumerate(cases.items()):
            case: Case = make_case(name, text=f"{name}?", repeats=3)
            for repeat, value in enumerate(values):
                trial: Trial = make_trial(
                    "x",
                    make_score(value),
                    case_id=name,
                    position=position,
                    repeat=repeat,
                    sent=f"sha256:{name}",
                )
                verdict = make_score(value).outcome
                collector.add(trial, verdict, case)
        return collector.finish()

    return collect


def test_each_trial_counts_for_itself_without_a_rule_over_repeats(collect_outcomes: CollectOutcomes) -> None:
    facts = collect_outcomes({"x": [1.0, 0.5], "y": [None]})
    assert [[fact.verdict for fact in case.trials] for case in facts.cases] == [
        [Verdict.PASS, Verdict.FAIL],
        [Verdict.UNSCORED],
    ]
    assert (facts.trials, facts.cases[0].trials[1].score) == (3, 0.5)


def test_under_a_rule_over_repeats_a_case_counts_once_when_its_trials_are_in(
    collect_outcomes: CollectOutcomes,
) -> None:
    suite = Suite(name="s", dialect="d", repeats_rule="mean", pass_rule=PassRule(threshold=0.6))
    facts = collect_outcomes({"x": [1.0, 0.5, 0.5], "y": [0.0, 1.0, 0.5], "z": [1.0]}, suite=suite, planned=9)
    assert [(case.id, [fact.verdict for fact in case.trials]) for case in facts.cases] == [
        ("x", [Verdict.PASS]),
        ("y", [Verdict.FAIL]),
    ]
    assert facts.cases[0].trials[0].score == pytest.approx(2 / 3)
    assert (facts.trials, facts.missing, facts.is_finished) == (7, 2, False)


def test_by_digest_a_key_is_what_is_sent_and_how_it_is_judged(collect_outcomes: CollectOutcomes) -> None:
    (plain,) = collect_outcomes({"x": [1.0]}).cases
    (keyed,) = collect_outcomes({"x": [1.0]}, by_digest=True).cases
    assert plain.key == "x"
    assert keyed.key.startswith("sha256:x sha256:")


# --- warnings ----------------------------------------------------------------------------------------------

JUDGE_PROMPTS = {"prompts": {"j": frozenset({"sha256:p"})}}


def get_warnings(first: dict[str, Any], second: dict[str, Any]) -> str:
    return " ".join(
        compare_runs(
            make_outcomes("a", {"x": "+"}, **first), make_outcomes("b", {"x": "+"}, **second)
        ).warnings
    )


def test_runs_that_were_made_alike_raise_no_doubts() -> None:
    assert get_warnings({}, {"target": TargetSpec(name="other", kind="scripted")}) == ""


def test_runs_that_were_graded_differently_are_told() -> None:
    warnings = get_warnings({}, {"settings": Settings(threshold=0.5)})
    assert "passed by its checks in the first and at a score of 0.5 in the second" in warnings


def test_other_judges_are_told_where_judges_spoke() -> None:
    judges = {"judges": (TargetSpec(name="j", kind="echo"),)}
    assert get_warnings({}, judges) == ""
    assert "nobody judged the first and j the second" in get_warnings({}, judges | JUDGE_PROMPTS)
    thrice = judges | {"settings": Settings(judge_repeats=3)}
    assert "j (3 times)" in get_warnings(judges | JUDGE_PROMPTS, thrice)


def test_a_run_beside_itself_and_one_name_for_two_targets_are_told() -> None:
    assert "with itself" in get_warnings({}, {"id": "a"})
    assert "have the same target name, 'echo', and different targets" in get_warnings(
        {}, {"target": TargetSpec(name="echo", kind="mock")}
    )


def test_what_differs_between_two_targets_of_one_name_is_told() -> None:
    def spec(**fields: Any) -> dict[str, Any]:
        return {"target": TargetSpec(**{"name": "gpt", "kind": "openai", "model": "gpt", **fields})}

    thinking = Params(temperature=1, reasoning_effort="high")
    assert "targets: temperature 0 → 1, reasoning_effort unset → high." in get_warnings(
        spec(), spec(params=thinking)
    )
    assert "targets: kind openai → azure, model gpt → gpt-5, endpoint unset → http://a/v1." in get_warnings(
        spec(), spec(kind="azure", model="gpt-5", endpoint="http://a/v1")
    )
    secret = spec(params=Params(headers={"X-Team": "s3cret"}), options={"folder": "/b", "region": "s3cret"})
    warnings = get_warnings(spec(options={"folder": "/a"}), secret)
    assert "targets: headers.X-Team (value not shown), option region." in warnings
    assert "fallbacks unset → b" in get_warnings(spec(), spec(fallbacks=(TargetSpec(name="b", kind="mock"),)))


def test_cases_that_count_once_over_more_answers_are_told() -> None:
    suite = {"suite": Suite(name="s", dialect="d", repeats_rule="any")}
    thrice = suite | {"settings": Settings(repeats=3)}
    assert "counts once over any number of answers in the first and 3" in get_warnings(suite, thrice)
    assert get_warnings({}, {"settings": Settings(repeats=3)}) == ""

"""What is a pair of two runs, what has no partner, and which split a pair is in."""

from __future__ import annotations

import pytest

from proctor.comparison.compare import compare_runs
from proctor.model import Verdict
from support.outcomes import make_outcomes

VERDICTS = {"!": Verdict.ERROR, "?": Verdict.UNSCORED}


def test_trials_are_paired_by_case_and_repeat() -> None:
    comparison = compare_runs(
        make_outcomes("a", {"x": "+-+", "y": "-"}), make_outcomes("b", {"y": "+", "x": "--+"})
    )
    assert (comparison.whole.cases, comparison.whole.pairs) == (2, 4)
    assert [(flip.case, flip.repeat) for flip in comparison.fixed] == [("y", 0)]
    assert [(flip.case, flip.repeat) for flip in comparison.broken] == [("x", 0)]


def test_what_has_no_partner_is_told_and_in_no_number() -> None:
    comparison = compare_runs(
        make_outcomes("a", {"x": "++", "gone": "-"}),
        make_outcomes("b", {"x": "+", "new": "--", "newer": "+"}),
    )
    assert (comparison.whole.pairs, comparison.whole.value) == (1, 0.0)
    assert comparison.unpaired.only_baseline == ("gone",)
    assert comparison.unpaired.only_candidate == ("new", "newer")
    assert (comparison.unpaired.trials_only_baseline, comparison.unpaired.trials_only_candidate) == (1, 0)


@pytest.mark.parametrize("sign", ["!", "?"])
def test_a_pair_of_which_a_side_has_no_verdict_is_named_and_in_no_number(sign: str) -> None:
    comparison = compare_runs(
        make_outcomes("a", {"x": sign, "y": "+", "z": "+"}),
        make_outcomes("b", {"x": "+", "y": "-", "z": sign}),
    )
    assert comparison.whole.pairs == 1
    assert comparison.pairs == 3
    assert [(pair.case, pair.baseline, pair.candidate) for pair in comparison.not_measured] == [
        ("x", VERDICTS[sign], Verdict.PASS),
        ("z", Verdict.PASS, VERDICTS[sign]),
    ]
    assert [flip.case for flip in comparison.broken] == ["y"]


def test_by_digest_cases_are_found_under_another_id_and_changed_ones_are_not() -> None:
    baseline = make_outcomes(
        "a", {"old": "+", "kept": "+", "edited": "+"}, keys={"old": "1", "kept": "2", "edited": "3"}
    )
    candidate = make_outcomes(
        "b", {"edited": "-", "kept": "-", "new": "-"}, keys={"edited": "9", "kept": "2", "new": "1"}
    )
    comparison = compare_runs(baseline, candidate)
    assert [flip.case for flip in comparison.broken] == ["new", "kept"]
    assert [(pair.baseline, pair.candidate) for pair in comparison.unpaired.renamed] == [("old", "new")]
    assert comparison.unpaired.only_baseline == comparison.unpaired.only_candidate == ("edited",)


def test_cases_that_are_the_same_twice_keep_their_ids_first_and_then_their_order() -> None:
    same = dict.fromkeys(("p", "q", "r", "s"), "same")
    comparison = compare_runs(
        make_outcomes("a", {"p": "+", "q": "+", "r": "+"}, keys=same),
        make_outcomes("b", {"s": "-", "q": "+"}, keys=same),
    )
    assert [(pair.baseline, pair.candidate) for pair in comparison.unpaired.renamed] == [("p", "s")]
    assert comparison.unpaired.only_baseline == ("r",)


def test_a_split_leaves_the_cases_of_the_other_out() -> None:
    split = {"x": "dev", "y": "holdout"}
    baseline, candidate = (
        make_outcomes("a", {"x": "+", "y": "+"}, split=split),
        make_outcomes("b", {"x": "-", "y": "+"}, split=split),
    )
    dev, holdout = (
        compare_runs(baseline, candidate, split="dev"),
        compare_runs(baseline, candidate, split="holdout"),
    )
    assert (dev.whole.value, holdout.whole.value) == (-1.0, 0.0)
    assert dev.unpaired.only_baseline == ()
    assert [part.name for part in compare_runs(baseline, candidate).splits] == ["dev", "holdout"]


def test_a_split_is_that_of_the_run_that_has_one_and_none_where_they_do_not_agree() -> None:
    baseline = make_outcomes("a", {"x": "+", "y": "+"}, split={"x": "holdout", "y": "dev"})
    assert compare_runs(baseline, make_outcomes("b", {"x": "-", "y": "+"}), split="holdout").whole.pairs == 1
    candidate = make_outcomes("b", {"x": "-", "y": "+"}, split={"x": "dev", "y": "dev"})
    assert compare_runs(baseline, candidate, split="holdout").whole.pairs == 0
    assert compare_runs(baseline, candidate).splits == ()

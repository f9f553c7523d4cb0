"""What is a pair of two runs, what has no partner, and which split a pair is in."""

from __future__ import annotations

import pytest

from proctor.comparison.compare import compare_runs
from proctor.model import Verdict
from support.outcomes import make_outcomes

VERDICTS = {"!": Verdict.ERROR, "?": Verdict.UNSCORED}


def test_trials_are_paired_by_case_and_repeat() -> None:
    found = compare_runs(
        make_outcomes("a", {"x": "+-+", "y": "-"}), make_outcomes("b", {"y": "+", "x": "--+"})
    )
    assert (found.whole.cases, found.whole.pairs) == (2, 4)
    assert [(flip.case, flip.repeat) for flip in found.fixed] == [("y", 0)]
    assert [(flip.case, flip.repeat) for flip in found.broken] == [("x", 0)]


def test_what_has_no_partner_is_told_and_in_no_number() -> None:
    found = compare_runs(
        make_outcomes("a", {"x": "++", "gone": "-"}),
        make_outcomes("b", {"x": "+", "new": "--", "newer": "+"}),
    )
    assert (found.whole.pairs, found.whole.value) == (1, 0.0)
    assert found.unpaired.only_baseline == ("gone",)
    assert found.unpaired.only_candidate == ("new", "newer")
    assert (found.unpaired.trials_only_baseline, found.unpaired.trials_only_candidate) == (1, 0)


@pytest.mark.parametrize("sign", ["!", "?"])
def test_a_pair_of_which_a_side_has_no_verdict_is_named_and_in_no_number(sign: str) -> None:
    found = compare_runs(
        make_outcomes("a", {"x": sign, "y": "+", "z": "+"}),
        make_outcomes("b", {"x": "+", "y": "-", "z": sign}),
    )
    assert found.whole.pairs == 1
    assert found.pairs == 3
    assert [(one.case, one.baseline, one.candidate) for one in found.not_measured] == [
        ("x", VERDICTS[sign], Verdict.PASS),
        ("z", Verdict.PASS, VERDICTS[sign]),
    ]
    assert [flip.case for flip in found.broken] == ["y"]


def test_by_digest_cases_are_found_under_another_id_and_changed_ones_are_not() -> None:
    one = make_outcomes(
        "a", {"old": "+", "kept": "+", "edited": "+"}, keys={"old": "1", "kept": "2", "edited": "3"}
    )
    other = make_outcomes(
        "b", {"edited": "-", "kept": "-", "new": "-"}, keys={"edited": "9", "kept": "2", "new": "1"}
    )
    found = compare_runs(one, other)
    assert [flip.case for flip in found.broken] == ["new", "kept"]
    assert [(each.baseline, each.candidate) for each in found.unpaired.renamed] == [("old", "new")]
    assert found.unpaired.only_baseline == found.unpaired.only_candidate == ("edited",)


def test_cases_that_are_the_same_twice_keep_their_ids_first_and_then_their_order() -> None:
    same = dict.fromkeys(("p", "q", "r", "s"), "same")
    found = compare_runs(
        make_outcomes("a", {"p": "+", "q": "+", "r": "+"}, keys=same),
        make_outcomes("b", {"s": "-", "q": "+"}, keys=same),
    )
    assert [(each.baseline, each.candidate) for each in found.unpaired.renamed] == [("p", "s")]
    assert found.unpaired.only_baseline == ("r",)


def test_a_split_leaves_the_cases_of_the_other_out() -> None:
    split = {"x": "dev", "y": "holdout"}
    one, other = (
        make_outcomes("a", {"x": "+", "y": "+"}, split=split),
        make_outcomes("b", {"x": "-", "y": "+"}, split=split),
    )
    dev, holdout = compare_runs(one, other, split="dev"), compare_runs(one, other, split="holdout")
    assert (dev.whole.value, holdout.whole.value) == (-1.0, 0.0)
    assert dev.unpaired.only_baseline == ()
    assert [part.name for part in compare_runs(one, other).splits] == ["dev", "holdout"]


def test_a_split_is_that_of_the_run_that_has_one_and_none_where_they_do_not_agree() -> None:
    one = make_outcomes("a", {"x": "+", "y": "+"}, split={"x": "holdout", "y": "dev"})
    assert compare_runs(one, make_outcomes("b", {"x": "-", "y": "+"}), split="holdout").whole.pairs == 1
    other = make_outcomes("b", {"x": "-", "y": "+"}, split={"x": "dev", "y": "dev"})
    assert compare_runs(one, other, split="holdout").whole.pairs == 0
    assert compare_runs(one, other).splits == ()

"""What is a pair of two runs, what has no partner, and which split a pair is in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from proctor.comparison.compare import compare_runs
from proctor.model import Verdict

Make = Callable[..., Any]
VERDICTS = {"!": Verdict.ERROR, "?": Verdict.UNSCORED}


def test_trials_are_paired_by_case_and_repeat(of: Make) -> None:
    found = compare_runs(of("a", {"x": "+-+", "y": "-"}), of("b", {"y": "+", "x": "--+"}))
    assert (found.whole.cases, found.whole.pairs) == (2, 4)
    assert [(flip.case, flip.repeat) for flip in found.fixed] == [("y", 0)]
    assert [(flip.case, flip.repeat) for flip in found.broken] == [("x", 0)]


def test_what_has_no_partner_is_told_and_in_no_number(of: Make) -> None:
    found = compare_runs(of("a", {"x": "++", "gone": "-"}), of("b", {"x": "+", "new": "--", "newer": "+"}))
    assert (found.whole.pairs, found.whole.value) == (1, 0.0)
    assert found.unpaired.only_baseline == ("gone",)
    assert found.unpaired.only_candidate == ("new", "newer")
    assert (found.unpaired.trials_only_baseline, found.unpaired.trials_only_candidate) == (1, 0)


@pytest.mark.parametrize("sign", ["!", "?"])
def test_a_pair_of_which_a_side_has_no_verdict_is_named_and_in_no_number(of: Make, sign: str) -> None:
    found = compare_runs(of("a", {"x": sign, "y": "+", "z": "+"}), of("b", {"x": "+", "y": "-", "z": sign}))
    assert found.whole.pairs == 1
    assert found.pairs == 3
    assert [(one.case, one.baseline, one.candidate) for one in found.not_measured] == [
        ("x", VERDICTS[sign], Verdict.PASS),
        ("z", Verdict.PASS, VERDICTS[sign]),
    ]
    assert [flip.case for flip in found.broken] == ["y"]


def test_by_digest_cases_are_found_under_another_id_and_changed_ones_are_not(of: Make) -> None:
    one = of("a", {"old": "+", "kept": "+", "edited": "+"}, keys={"old": "1", "kept": "2", "edited": "3"})
    other = of("b", {"edited": "-", "kept": "-", "new": "-"}, keys={"edited": "9", "kept": "2", "new": "1"})
    found = compare_runs(one, other)
    assert [flip.case for flip in found.broken] == ["new", "kept"]
    assert [(each.baseline, each.candidate) for each in found.unpaired.renamed] == [("old", "new")]
    assert found.unpaired.only_baseline == found.unpaired.only_candidate == ("edited",)


def test_cases_that_are_the_same_twice_keep_their_ids_first_and_then_their_order(of: Make) -> None:
    same = dict.fromkeys(("p", "q", "r", "s"), "same")
    found = compare_runs(
        of("a", {"p": "+", "q": "+", "r": "+"}, keys=same), of("b", {"s": "-", "q": "+"}, keys=same)
    )
    assert [(each.baseline, each.candidate) for each in found.unpaired.renamed] == [("p", "s")]
    assert found.unpaired.only_baseline == ("r",)


def test_a_split_leaves_the_cases_of_the_other_out(of: Make) -> None:
    split = {"x": "dev", "y": "holdout"}
    one, other = of("a", {"x": "+", "y": "+"}, split=split), of("b", {"x": "-", "y": "+"}, split=split)
    dev, holdout = compare_runs(one, other, split="dev"), compare_runs(one, other, split="holdout")
    assert (dev.whole.value, holdout.whole.value) == (-1.0, 0.0)
    assert dev.unpaired.only_baseline == ()
    assert [part.name for part in compare_runs(one, other).splits] == ["dev", "holdout"]


def test_a_split_is_that_of_the_run_that_has_one_and_none_where_they_do_not_agree(of: Make) -> None:
    one = of("a", {"x": "+", "y": "+"}, split={"x": "holdout", "y": "dev"})
    assert compare_runs(one, of("b", {"x": "-", "y": "+"}), split="holdout").whole.pairs == 1
    other = of("b", {"x": "-", "y": "+"}, split={"x": "dev", "y": "dev"})
    assert compare_runs(one, other, split="holdout").whole.pairs == 0
    assert compare_runs(one, other).splits == ()

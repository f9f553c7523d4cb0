"""Which cases are held out, how few move when the suite changes, and what sealing leaves of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import floor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.holdout import SEALED_REASON, holdout_positions, holdout_size, rank, seal_case, seal_trial
from proctor.model import (
    Assertion,
    Case,
    Evidence,
    Failure,
    Judgment,
    Message,
    PassRule,
    ResponseFormat,
    Score,
    SplitRule,
    Trial,
    Verdict,
    Workspace,
)
from support.builders import make_trial

RULE = SplitRule()
IDS = st.lists(st.text(max_size=6), unique=True, min_size=1, max_size=30)
RATIOS = st.integers(0, 100).map(lambda percent: percent / 100)
CATEGORISED = st.lists(st.sampled_from([None, "a", "b", "c", "d", "é"]), max_size=60)


def hold_out(ids: Sequence[str], rule: SplitRule = RULE) -> set[str]:
    """Returns the held-out ids of a suite without categories."""
    return {ids[position] for position in holdout_positions(ids, [None] * len(ids), rule)}


@pytest.mark.parametrize(
    ("seed", "case_id", "digest"),
    [
        (42, "a", "971344798d4f4ac737c1f205bab4307c36b45fecd1b964eda0d696c18ad21cbb"),
        (42, "case-1", "9719359af0c360691765f0a9aeda54319c43711749e0670704a0d56fc4bd4e15"),
        (7, "a", "82d9d62baa6a7870f2637c9be0181e6b8ec19b5c394ba7e569549a13bafe47b6"),
        (42, "é", "00d2a333bea1680ac3997e250a9d933c636ec7eb2e92f8723ef1c8084f8e52d7"),
    ],
)
def test_a_rank_is_sha_256_of_seed_colon_id(seed: int, case_id: str, digest: str) -> None:
    assert rank(seed, case_id).hex() == digest


def test_an_id_that_is_no_utf_8_has_a_rank_too() -> None:
    assert rank(42, "\ud800") != rank(42, "\ud801")


@pytest.mark.parametrize(
    ("ratio", "held_out"),
    [(0.0, ""), (0.1, "f"), (0.2, "fj"), (0.5, "fjcia"), (0.9, "fjciabhde"), (1.0, "fjciabhdeg")],
)
def test_ten_known_ids_are_held_out_in_the_order_of_their_ranks(ratio: float, held_out: str) -> None:
    assert hold_out("abcdefghij", SplitRule(ratio=ratio)) == set(held_out)


@pytest.mark.slow
def test_a_fifth_is_held_out_rounded_up_for_every_size() -> None:
    for count in range(501):
        ids = [f"case-{number}" for number in range(count)]
        assert len(hold_out(ids)) == holdout_size(count, 0.2) == -(-count // 5)


@pytest.mark.parametrize(
    ("count", "ratio", "size"),
    [(30, 0.1, 3), (100, 0.07, 7), (10, 0.3, 3), (1, 0.01, 1), (0, 0.5, 0), (5, 0.0, 0), (5, 1.0, 5)],
)
def test_the_size_is_free_of_binary_rounding(count: int, ratio: float, size: int) -> None:
    assert holdout_size(count, ratio) == size


@pytest.mark.parametrize("method", ["rank", "shuffle"])
def test_another_seed_holds_out_others(method: Any) -> None:
    ids = [f"case-{number}" for number in range(50)]
    assert hold_out(ids, SplitRule(method=method, seed=1)) != hold_out(ids, SplitRule(method=method, seed=2))


@given(
    st.lists(st.tuples(st.text(max_size=4), st.sampled_from([None, "a", "b"])), unique_by=lambda row: row[0]),
    RATIOS,
)
def test_the_order_of_cases_does_not_count(rows: list[tuple[str, str | None]], ratio: float) -> None:
    def hold_out_ids(rows: list[tuple[str, str | None]]) -> set[str]:
        ids, categories = [row[0] for row in rows], [row[1] for row in rows]
        return {ids[place] for place in holdout_positions(ids, categories, SplitRule(ratio=ratio))}

    assert (
        hold_out_ids(rows) == hold_out_ids(rows[::-1]) == hold_out_ids(sorted(rows, key=lambda row: row[0]))
    )


@given(IDS, st.text(max_size=6), RATIOS)
def test_adding_a_case_moves_at_most_one_other_and_only_to_keep_the_size(
    ids: list[str], new: str, ratio: float
) -> None:
    """Size kept: the new case displaces one or none. Size grown: it is held out, or one other is."""
    ids = [case_id for case_id in ids if case_id != new]
    rule = SplitRule(ratio=ratio)
    before, after = hold_out(ids, rule), hold_out([*ids, new], rule)
    moved_to_dev, moved_to_holdout = before - after, after - before - {new}
    if holdout_size(len(ids) + 1, ratio) == len(before):
        assert not moved_to_holdout
        assert len(moved_to_dev) == (new in after)
    else:
        assert not moved_to_dev
        assert len(moved_to_holdout) == (new not in after)


@given(IDS, st.data())
def test_removing_a_case_moves_at_most_one_other(ids: list[str], data: st.DataObject) -> None:
    removed_id = data.draw(st.sampled_from(ids))
    before, after = hold_out(ids), hold_out([case_id for case_id in ids if case_id != removed_id])
    assert len((before ^ after) - {removed_id}) <= 1


@given(IDS, st.text(max_size=6), st.data())
def test_renaming_a_case_moves_at_most_one_other(ids: list[str], new: str, data: st.DataObject) -> None:
    old = data.draw(st.sampled_from(ids))
    if new in ids:
        return
    before, after = hold_out(ids), hold_out([new if case_id == old else case_id for case_id in ids])
    assert len((before ^ after) - {old, new}) <= 1


@given(IDS, RATIOS, RATIOS)
def test_a_larger_share_holds_out_the_same_cases_and_more(
    ids: list[str], first: float, second: float
) -> None:
    small, large = (hold_out(ids, SplitRule(ratio=ratio)) for ratio in sorted((first, second)))
    assert small <= large


@pytest.mark.parametrize(
    ("categories", "shares"),
    [
        # 10 cases, 2 places: quotas 1.2 and 0.8
        ("aaaaaabbbb", {"a": 1, "b": 1}),
        # 10 cases, 2 places: quotas 0.8, 0.6, 0.6; the tie between b and c goes to the name that sorts first
        ("aaaacccbbb", {"a": 1, "b": 1}),
        # 6 cases, 2 places: quotas 1.0, 1/3, 1/3, 1/3
        ("aaabcd", {"a": 1, "b": 1}),
        # 5 cases, 1 place
        ("abbbb", {"b": 1}),
        # 20 cases, 4 places: quotas 3.6 and 0.4
        ("a" * 18 + "bb", {"a": 4}),
    ],
)
def test_each_category_gives_its_share_by_largest_remainder(categories: str, shares: dict[str, int]) -> None:
    ids = [f"case-{number}" for number in range(len(categories))]
    counts = Counter(categories[position] for position in holdout_positions(ids, list(categories), RULE))
    assert counts == shares


@given(CATEGORISED, RATIOS)
def test_each_category_gives_its_quota_rounded_down_or_up_and_all_together_the_size(
    categories: list[str | None], ratio: float
) -> None:
    ids = [f"case-{number}" for number in range(len(categories))]
    positions = holdout_positions(ids, categories, SplitRule(ratio=ratio))
    size = holdout_size(len(ids), ratio)
    assert len(positions) == size
    counts = Counter(categories[position] for position in positions)
    for category, count in Counter(categories).items():
        assert floor(size * count / len(ids)) <= counts[category] <= floor(size * count / len(ids)) + 1


def test_within_a_category_the_lowest_ranks_are_held_out() -> None:
    # ranks ascend as f j c i a | b h d e g
    positions = holdout_positions(
        "abcdefghij", ["x" if name in "abcde" else "y" for name in "abcdefghij"], RULE
    )
    assert {"abcdefghij"[position] for position in positions} == {"c", "f"}


def test_no_category_and_an_empty_one_are_one_group() -> None:
    assert holdout_positions("abcde", ["", None, "", None, ""], RULE) == holdout_positions(
        "abcde", [None] * 5, RULE
    )


# --- by shuffle --------------------------------------------------------------------------------------------

SHUFFLE = SplitRule(method="shuffle")


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (0, []),
        (1, [0]),
        (2, [0]),
        (5, [0]),
        (8, [0, 1]),
        (10, [0, 1]),
        (12, [0, 1, 10]),
        (15, [0, 1, 10]),
        (20, [0, 3, 7, 8]),
        (25, [0, 3, 7, 8, 20]),
        (30, [0, 3, 7, 8, 20, 23]),
    ],
)
def test_a_shuffle_holds_out_what_the_published_program_does(count: int, expected: list[int]) -> None:
    ids = [f"case-{number}" for number in range(count)]
    assert sorted(holdout_positions(ids, [None] * count, SHUFFLE)) == expected


def test_a_shuffle_leaves_four_fifths_rounded_down_to_dev_for_every_size() -> None:
    for count in range(501):
        assert count - len(holdout_positions([""] * count, [None] * count, SHUFFLE)) == 4 * count // 5


@pytest.mark.parametrize(("ratio", "size"), [(0.1, 1), (0.3, 3), (0.5, 5), (0.75, 8)])
def test_a_shuffle_can_hold_out_another_share(ratio: float, size: int) -> None:
    rule = SplitRule(method="shuffle", ratio=ratio)
    assert len(holdout_positions("abcdefghij", [None] * 10, rule)) == size


@given(IDS, st.data())
def test_a_shuffle_sees_places_and_neither_ids_nor_categories(ids: list[str], data: st.DataObject) -> None:
    places = holdout_positions(ids, [None] * len(ids), SHUFFLE)
    assert holdout_positions(data.draw(st.permutations(ids)), ids, SHUFFLE) == places


# --- sealing -----------------------------------------------------------------------------------------------


def make_detailed_trial() -> Trial:
    """Makes a trial with a value in every field that could reveal its answer."""
    score = Score(
        grader="rubric",
        name="kind",
        assertion="sha256:1",
        value=0.5,
        outcome=Verdict.FAIL,
        weight=2.0,
        required=0.7,
        reason="curt",
        entries=(Evidence(text="polite", passed=False, evidence="no"),),
        judgments=(Judgment(judge="j", prompt_digest="sha256:2", feedback="curt", raw="no"),),
        details={"words": 1},
    )
    return make_trial("no", score, case_id="a", position=3, repeat=1, split="holdout", source_run="r")


def test_a_sealed_trial_keeps_the_numbers_of_its_scores_and_nothing_of_its_answer() -> None:
    trial = make_detailed_trial()
    sealed_trial = seal_trial(trial)
    assert sealed_trial.output is None
    assert (sealed_trial.case_id, sealed_trial.position, sealed_trial.repeat, sealed_trial.split) == (
        "a",
        3,
        1,
        "holdout",
    )
    assert (sealed_trial.started_at, sealed_trial.source_run) == (trial.started_at, "r")
    assert sealed_trial.scores == (
        Score(
            grader="rubric",
            name="rubric",
            assertion="sha256:1",
            value=0.5,
            outcome=Verdict.FAIL,
            weight=2.0,
            required=0.7,
        ),
    )


def test_a_sealed_failure_keeps_its_stage_and_kind() -> None:
    sealed_trial = seal_trial(
        make_trial(None, failure=Failure(stage="grading", kind="http", message="It said: no."))
    )
    assert sealed_trial.failure == Failure(stage="grading", kind="http", message=SEALED_REASON)


def test_sealing_does_not_change_its_argument_and_is_idempotent() -> None:
    trial = make_detailed_trial()
    assert seal_trial(seal_trial(trial)) == seal_trial(trial)
    assert trial == make_detailed_trial()


def test_a_sealed_case_keeps_only_the_fields_that_statistics_need() -> None:
    kept_fields: dict[str, Any] = {
        "id": "a",
        "tags": ("t",),
        "category": "c",
        "repeats": 3,
        "pass_rule": PassRule(threshold=0.5),
        "target": "x",
        "only_targets": ("x",),
    }
    case = Case(
        input=(Message(role="user", content="2 + 2?"),),
        expected="4",
        criteria="It is right.",
        assertions=(Assertion(grader="exact", params={"expected": "4"}),),
        metadata={"hint": "4"},
        workspace=Workspace(template="four"),
        form=ResponseFormat(json=True),
        variables=("FOUR",),
        notes={"answer": 4},
        **kept_fields,
    )
    assert seal_case(case) == Case(input=(), **kept_fields)

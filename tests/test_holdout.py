"""Which cases are held out, how few move when the suite changes, and what is shown of them."""

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


def chosen(ids: Sequence[str], rule: SplitRule = RULE) -> set[str]:
    """The held-out ids of a suite without categories."""
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
    ("ratio", "held"),
    [(0.0, ""), (0.1, "f"), (0.2, "fj"), (0.5, "fjcia"), (0.9, "fjciabhde"), (1.0, "fjciabhdeg")],
)
def test_ten_known_ids_are_held_out_in_the_order_of_their_ranks(ratio: float, held: str) -> None:
    assert chosen("abcdefghij", SplitRule(ratio=ratio)) == set(held)


@pytest.mark.slow
def test_a_fifth_is_held_out_rounded_up_for_every_size() -> None:
    for count in range(501):
        ids = [f"case-{number}" for number in range(count)]
        assert len(chosen(ids)) == holdout_size(count, 0.2) == -(-count // 5)


@pytest.mark.parametrize(
    ("count", "ratio", "size"),
    [(30, 0.1, 3), (100, 0.07, 7), (10, 0.3, 3), (1, 0.01, 1), (0, 0.5, 0), (5, 0.0, 0), (5, 1.0, 5)],
)
def test_the_size_is_free_of_binary_rounding(count: int, ratio: float, size: int) -> None:
    assert holdout_size(count, ratio) == size


def test_another_seed_holds_out_others() -> None:
    ids = [f"case-{number}" for number in range(50)]
    assert chosen(ids, SplitRule(seed=1)) != chosen(ids, SplitRule(seed=2))


@given(IDS.flatmap(lambda ids: st.tuples(st.just(ids), st.permutations(ids))), RATIOS)
def test_the_order_of_cases_does_not_count(orders: tuple[list[str], list[str]], ratio: float) -> None:
    rule = SplitRule(ratio=ratio)
    assert chosen(orders[0], rule) == chosen(orders[1], rule)


@given(
    st.lists(st.tuples(st.text(max_size=4), st.sampled_from([None, "a", "b"])), unique_by=lambda row: row[0])
)
def test_the_order_of_cases_does_not_count_within_categories(rows: list[tuple[str, str | None]]) -> None:
    def held(rows: list[tuple[str, str | None]]) -> set[str]:
        ids, categories = [row[0] for row in rows], [row[1] for row in rows]
        return {ids[position] for position in holdout_positions(ids, categories, RULE)}

    assert held(rows) == held(rows[::-1]) == held(sorted(rows, key=lambda row: row[0]))


@given(IDS, st.text(max_size=6), RATIOS)
def test_adding_a_case_moves_at_most_one_other_and_only_to_keep_the_size(
    ids: list[str], new: str, ratio: float
) -> None:
    """Size kept: the new case displaces one or none. Size grown: it is held out, or one other is."""
    ids = [case_id for case_id in ids if case_id != new]
    rule = SplitRule(ratio=ratio)
    before, after = chosen(ids, rule), chosen([*ids, new], rule)
    left, entered = before - after, after - before - {new}
    if holdout_size(len(ids) + 1, ratio) == len(before):
        assert not entered
        assert len(left) == (new in after)
    else:
        assert not left
        assert len(entered) == (new not in after)


@given(IDS, st.data())
def test_removing_a_case_moves_at_most_one_other(ids: list[str], data: st.DataObject) -> None:
    gone = data.draw(st.sampled_from(ids))
    before, after = chosen(ids), chosen([case_id for case_id in ids if case_id != gone])
    assert len((before ^ after) - {gone}) <= 1


@given(IDS, st.text(max_size=6), st.data())
def test_renaming_a_case_moves_at_most_one_other(ids: list[str], new: str, data: st.DataObject) -> None:
    old = data.draw(st.sampled_from(ids))
    if new in ids:
        return
    before, after = chosen(ids), chosen([new if case_id == old else case_id for case_id in ids])
    assert len((before ^ after) - {old, new}) <= 1


@given(IDS, RATIOS, RATIOS)
def test_a_larger_share_holds_out_the_same_cases_and_more(ids: list[str], one: float, other: float) -> None:
    small, large = (chosen(ids, SplitRule(ratio=ratio)) for ratio in sorted((one, other)))
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
    found = Counter(categories[position] for position in holdout_positions(ids, list(categories), RULE))
    assert found == shares


@given(CATEGORISED, RATIOS)
def test_each_category_gives_its_quota_rounded_down_or_up_and_all_together_the_size(
    categories: list[str | None], ratio: float
) -> None:
    ids = [f"case-{number}" for number in range(len(categories))]
    held = holdout_positions(ids, categories, SplitRule(ratio=ratio))
    size = holdout_size(len(ids), ratio)
    assert len(held) == size
    found = Counter(categories[position] for position in held)
    for category, count in Counter(categories).items():
        assert floor(size * count / len(ids)) <= found[category] <= floor(size * count / len(ids)) + 1


def test_within_a_category_the_lowest_ranks_are_held_out() -> None:
    # ranks ascend as f j c i a | b h d e g
    held = holdout_positions("abcdefghij", ["x" if name in "abcde" else "y" for name in "abcdefghij"], RULE)
    assert {"abcdefghij"[position] for position in held} == {"c", "f"}


def test_no_category_and_an_empty_one_are_one_group() -> None:
    assert holdout_positions("abcde", ["", None, "", None, ""], RULE) == holdout_positions(
        "abcde", [None] * 5, RULE
    )


# --- by shuffle --------------------------------------------------------------------------------------------

SHUFFLE = SplitRule(method="shuffle")


@pytest.mark.parametrize(
    ("count", "held"),
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
def test_a_shuffle_holds_out_what_the_published_program_does(count: int, held: list[int]) -> None:
    ids = [f"case-{number}" for number in range(count)]
    assert sorted(holdout_positions(ids, [None] * count, SHUFFLE)) == held


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


def test_another_seed_shuffles_otherwise() -> None:
    nowhere = [None] * 30
    ids = [""] * 30
    assert holdout_positions(ids, nowhere, SplitRule(method="shuffle", seed=7)) != holdout_positions(
        ids, nowhere, SHUFFLE
    )


# --- sealing -----------------------------------------------------------------------------------------------


def told() -> Trial:
    """A trial with something in every place that tells of its answer."""
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
    whole = told()
    found = seal_trial(whole)
    assert found.output is None
    assert (found.case_id, found.position, found.repeat, found.split) == ("a", 3, 1, "holdout")
    assert (found.started_at, found.source_run) == (whole.started_at, "r")
    assert found.scores == (
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
    found = seal_trial(
        make_trial(None, failure=Failure(stage="grading", kind="http", message="It said: no."))
    )
    assert found.failure == Failure(stage="grading", kind="http", message=SEALED_REASON)


def test_sealing_leaves_the_trial_it_is_given_as_it_is_and_twice_is_once() -> None:
    whole = told()
    assert seal_trial(seal_trial(whole)) == seal_trial(whole)
    assert whole == told()


def test_a_sealed_case_keeps_only_what_numbers_are_counted_by() -> None:
    counted: dict[str, Any] = {
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
        **counted,
    )
    assert seal_case(case) == Case(input=(), **counted)

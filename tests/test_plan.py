"""Which trials a run makes: selection, repeats, splits, and what is there already."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from proctor.model import (
    Case,
    Output,
    RunSlot,
    Selection,
    SplitRule,
    Verdict,
    Workspace,
)
from proctor.plan import (
    CaseIndex,
    CaseIndexer,
    PlannedTrial,
    PriorTrial,
    PriorTrials,
    SequentialPriorTrials,
    count_repeats,
    is_selected,
    plan_trials,
)
from proctor.protocols import StoredCase, StoredTrial
from support.builders import make_case, make_trial

LETTERS = "abcdefghij"  # of which SplitRule() holds out f and j


def case(name: str, **fields: Any) -> Case:
    return make_case(name, name, **fields)


EVERY = Selection()


def indexer_of(
    cases: Iterable[Case], selection: Selection = EVERY, repeats: int | None = None
) -> CaseIndexer:
    indexer = CaseIndexer(selection, repeats)
    for each in cases:
        indexer.add(each)
    return indexer


def index_of(
    cases: Iterable[Case],
    selection: Selection = EVERY,
    rule: SplitRule | None = None,
    repeats: int | None = None,
) -> CaseIndex:
    return indexer_of(cases, selection, repeats).build(rule)


def ids(cases: list[Case], index: CaseIndex) -> str:
    return " ".join(cases[position].id for position in index.positions)


# --- selection ---------------------------------------------------------------------------------------------

MIXED = [
    case("math-1", tags=("easy",), category="math"),
    case("math-2", tags=("easy", "slow"), category="math"),
    case("words-1", tags=("hard",), category="words"),
    case("words-[2]"),
]


@pytest.mark.parametrize(
    ("selection", "selected"),
    [
        (Selection(), "math-1 math-2 words-1 words-[2]"),
        (Selection(tags=("easy",)), "math-1 math-2"),
        (Selection(tags=("easy", "hard")), "math-1 math-2 words-1"),
        (Selection(tags=("eas",)), ""),
        (Selection(tags=("slow,hard",)), "math-2 words-1"),
        (Selection(tags=("slow, hard", "easy")), "math-1 math-2 words-1"),
        (Selection(all_tags=("easy", "slow")), "math-2"),
        (Selection(all_tags=("easy,hard",)), "math-1 math-2 words-1"),
        (Selection(all_tags=("easy,hard", "hard,slow")), "math-2 words-1"),
        (Selection(tags=("easy", "hard"), all_tags=("slow,hard",)), "math-2 words-1"),
        (Selection(exclude_tags=("slow,hard",)), "math-1 words-[2]"),
        (Selection(all_tags=(",",)), ""),
        (Selection(exclude_tags=("slow",)), "math-1 words-1 words-[2]"),
        (Selection(exclude_tags=("slow", "hard")), "math-1 words-[2]"),
        (Selection(tags=("easy",), exclude_tags=("easy",)), ""),
        (Selection(categories=("words",)), "words-1"),
        (Selection(categories=("math", "words")), "math-1 math-2 words-1"),
        (Selection(ids=("math-*",)), "math-1 math-2"),
        (Selection(ids=("math-1", "*-1")), "math-1 words-1"),
        (Selection(ids=("MATH-1",)), ""),
        (Selection(ids=("words-[[]2]",)), "words-[2]"),
        (Selection(ids=("words-[2]",)), "words-[2]"),
        (Selection(ids=("words-[2*",)), "words-[2]"),
        (Selection(ids=("*-[12]",)), "math-1 math-2 words-1"),
        (Selection(ids=("math",)), ""),
        (Selection(ids=("*-1",), categories=("math",), tags=("easy",)), "math-1"),
        (Selection(limit=3), "math-1 math-2 words-1"),
        (Selection(limit=1, categories=("words",)), "words-1"),
        (Selection(limit=9), "math-1 math-2 words-1 words-[2]"),
    ],
)
def test_a_case_is_selected_when_every_filter_lets_it_through(selection: Selection, selected: str) -> None:
    assert ids(MIXED, index_of(MIXED, selection)) == selected


def test_a_tag_with_a_comma_is_found_by_its_whole_name() -> None:
    one = case("c", tags=("Paris, France",))
    assert is_selected(one, Selection(tags=("Paris, France",)))
    assert is_selected(one, Selection(all_tags=("Paris, France",)))
    assert not is_selected(one, Selection(exclude_tags=("Paris, France",)))
    assert not is_selected(one, Selection(tags=("Paris",)))


def test_split_and_limit_are_none_of_the_filters_of_a_case() -> None:
    assert is_selected(MIXED[0], Selection(split="holdout", limit=0))


@pytest.mark.parametrize(
    ("split", "limit", "selected"),
    [
        ("all", None, "a b c d e f g h i j"),
        ("dev", None, "a b c d e g h i"),
        ("holdout", None, "f j"),
        ("holdout", 1, "f"),
        ("dev", 6, "a b c d e g"),
        ("all", 6, "a b c d e f"),
    ],
)
def test_the_limit_counts_the_cases_of_the_split(split: Any, limit: int | None, selected: str) -> None:
    cases = [case(letter) for letter in LETTERS]
    index = index_of(cases, Selection(split=split, limit=limit), SplitRule())
    assert ids(cases, index) == selected
    assert index.trial_count == len(index.positions)


def test_a_filter_does_not_move_a_case_between_dev_and_holdout() -> None:
    cases = [case(letter, tags=("vowel",) if letter in "aei" else ()) for letter in LETTERS]
    whole = index_of(cases, Selection(), SplitRule())
    vowels = index_of(cases, Selection(tags=("vowel",)), SplitRule())
    assert vowels.holdout == whole.holdout
    assert [*(whole.holdout or ())] == [LETTERS.index("f"), LETTERS.index("j")]
    assert [whole.split_at(LETTERS.index(letter)) for letter in "aef"] == ["dev", "dev", "holdout"]


def test_the_split_keeps_the_shares_of_the_categories() -> None:
    cases = [case(str(number), category="ab"[number % 2]) for number in range(10)]
    index = index_of(cases, Selection(split="holdout"), SplitRule())
    assert sorted(str(cases[position].category) for position in index.positions) == ["a", "b"]


def test_a_suite_without_a_split_has_no_holdout() -> None:
    cases = [case(letter) for letter in LETTERS]
    assert index_of(cases).split_at(0) is None
    assert not index_of(cases, Selection(split="holdout")).positions


@pytest.mark.parametrize(
    ("of_run", "of_case", "repeats"),
    [(None, None, 1), (None, 3, 3), (2, None, 2), (2, 3, 3), (5, 3, 5), (1, 1, 1)],
)
def test_a_case_is_asked_as_the_run_wants_and_never_less_than_it_needs(
    of_run: int | None, of_case: int | None, repeats: int
) -> None:
    asked = case("a", repeats=of_case)
    assert count_repeats(asked, of_run) == repeats
    assert index_of([asked, case("b")], repeats=of_run).trial_count == repeats + (of_run or 1)


# --- trials ------------------------------------------------------------------------------------------------


def stored_cases(cases: Iterable[Case]) -> list[StoredCase]:
    return [StoredCase(case=each, sent_digest=f"sent {each.id}") for each in cases]


def plan(
    cases: list[Case],
    index: CaseIndex | None = None,
    repeats: int | None = None,
    earlier: PriorTrials | None = None,
    together: Callable[[Case], bool] = lambda _case: False,
) -> list[PlannedTrial]:
    found = plan_trials(
        stored_cases(cases),
        index or index_of(cases, repeats=repeats),
        repeats=repeats,
        together=together,
        earlier=earlier or PriorTrials(),
    )
    return list(found)


def stored(position: int, repeat: int = 0, state: str = "done") -> StoredTrial:
    """A stored trial: `done`, `waiting` for its grades, or an `error` without an output."""
    made = make_trial(
        None if state == "error" else f"answer {position}.{repeat}", position=position, repeat=repeat
    )
    verdict = {"done": Verdict.PASS, "waiting": None, "error": Verdict.ERROR}[state]
    return StoredTrial(trial=made, verdict=verdict)


def earlier_of(
    there: Iterable[StoredTrial],
    stays: Callable[[StoredTrial, Case], bool] = lambda _stored, _case: True,
    kept: Callable[[PriorTrial, Case], None] = lambda _known, _case: None,
    source_run: str | None = None,
) -> PriorTrials:
    return PriorTrials(find=SequentialPriorTrials(iter(there), stays, source_run), on_reuse=kept)


def places(planned: Iterable[PlannedTrial]) -> list[tuple[int, int]]:
    return [(one.position, one.repeat) for one in planned]


def test_every_repeat_of_every_selected_case_is_planned_once_in_suite_order() -> None:
    cases = [case("a"), case("b", repeats=3), case("c"), case("d")]
    index = index_of(cases, Selection(ids=("[abd]",)), repeats=2)
    planned = plan(cases, index, repeats=2)
    assert places(planned) == [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2), (3, 0), (3, 1)]
    assert len(planned) == index.trial_count
    assert [one.repeats for one in planned] == [2, 2, 3, 3, 3, 2, 2]


def test_a_planned_trial_has_its_case_its_digest_and_its_split() -> None:
    cases = [case(letter) for letter in LETTERS]
    planned = plan(cases, index_of(cases, Selection(ids=("e", "f")), SplitRule()))
    assert [(one.case.id, one.sent_digest, one.split) for one in planned] == [
        ("e", "sent e", "dev"),
        ("f", "sent f", "holdout"),
    ]
    assert all(one.output is None and one.source_run is None for one in planned)


def test_cases_after_the_last_one_wanted_are_not_read() -> None:
    cases = [case(letter) for letter in LETTERS]
    stream = iter(stored_cases(cases))
    index = index_of(cases, Selection(limit=2))
    assert len(list(plan_trials(stream, index, repeats=None, together=bool, earlier=PriorTrials()))) == 2
    assert [each.case.id for each in stream] == list("cdefghij")


def test_planning_takes_a_case_only_when_its_trial_is_wanted() -> None:
    stream = iter(stored_cases([case("a"), case("b"), case("c")]))
    index = index_of([case("a"), case("b"), case("c")])
    planned = plan_trials(stream, index, repeats=None, together=bool, earlier=PriorTrials())
    assert next(planned).case.id == "a"
    assert [each.case.id for each in stream] == ["b", "c"]


def test_what_was_graded_stays_and_what_waits_is_planned_with_its_output() -> None:
    cases = [case(letter) for letter in "abcd"]
    kept: list[tuple[str, str]] = []
    earlier = earlier_of(
        [stored(0), stored(1, state="waiting"), stored(2, state="error")],
        stays=lambda each, _case: each.verdict is not None,
        kept=lambda one, of: kept.append((str(one.trial.output and one.trial.output.text), of.id)),
    )
    planned = plan(cases, earlier=earlier)
    assert kept == [("answer 0.0", "a"), ("None", "c")]
    assert [(one.case.id, one.output) for one in planned] == [("b", Output(text="answer 1.0")), ("d", None)]


def test_what_went_wrong_is_asked_again_and_its_source_is_named_only_with_an_output() -> None:
    earlier = earlier_of(
        [stored(0), stored(1, state="error"), stored(2, state="waiting")],
        stays=lambda each, _case: each.verdict is Verdict.PASS,
        source_run="run-1",
    )
    planned = plan([case(letter) for letter in "abcd"], earlier=earlier)
    found = [(one.case.id, one.output is not None, one.source_run) for one in planned]
    assert found == [("b", False, None), ("c", True, "run-1"), ("d", False, None)]


def test_an_output_that_came_from_another_run_keeps_its_first_source() -> None:
    again = replace(stored(0).trial, source_run="the first")
    there = [StoredTrial(trial=again, verdict=None), stored(1, state="waiting")]
    earlier = earlier_of(there, stays=lambda each, _case: each.verdict is not None, source_run="the second")
    assert [one.source_run for one in plan([case("a"), case("b")], earlier=earlier)] == [
        "the first",
        "the second",
    ]


@pytest.mark.parametrize(
    ("states", "planned"),
    [
        (["done", "done", "done"], []),
        (["done", "done"], [(0, True), (1, True), (2, False)]),
        (["done", "waiting", "done"], [(0, True), (1, True), (2, True)]),
        (["waiting", "error", "waiting"], [(0, True), (1, False), (2, True)]),
        ([], [(0, False), (1, False), (2, False)]),
    ],
)
def test_outputs_graded_together_stay_together_or_are_all_graded_again(
    states: list[str], planned: list[tuple[int, bool]]
) -> None:
    earlier = earlier_of(
        [stored(0, repeat, state) for repeat, state in enumerate(states)],
        stays=lambda each, _case: each.verdict is not None,
    )
    found = plan([case("a", repeats=3)], earlier=earlier, together=lambda _case: True)
    assert [(one.repeat, one.output is not None) for one in found] == planned


def test_an_earlier_trial_of_a_case_that_is_not_asked_is_nobody_elses() -> None:
    cases = [case("a"), case("b")]
    earlier = earlier_of([stored(0)])
    assert places(plan(cases, index_of(cases, Selection(ids=("b",))), earlier=earlier)) == [(1, 0)]


def test_an_earlier_repeat_beyond_those_asked_does_not_stand_for_a_missing_one() -> None:
    earlier = earlier_of([stored(0, 0), stored(0, 2)])
    found = plan([case("a", repeats=2)], earlier=earlier, together=lambda _case: True)
    assert places(found) == [(0, 0), (0, 1)]


STATES = st.sampled_from([None, "done", "waiting", "error"])
SUITES = st.lists(
    st.tuples(st.lists(STATES, min_size=1, max_size=3), st.booleans()),
    min_size=1,
    max_size=6,
)


@given(SUITES, st.booleans())
def test_whatever_is_there_already_every_trial_is_kept_or_planned_and_never_both(
    suite: list[tuple[list[str | None], bool]], errors_stay: bool
) -> None:
    cases = [case(str(place), repeats=len(states)) for place, (states, _) in enumerate(suite)]
    there = {
        (position, repeat): stored(position, repeat, state)
        for position, (states, _) in enumerate(suite)
        for repeat, state in enumerate(states)
        if state is not None
    }
    kept: list[tuple[int, int]] = []

    def stays(each: StoredTrial, _case: Case) -> bool:
        return each.verdict is Verdict.PASS or (errors_stay and each.verdict is Verdict.ERROR)

    def keep(one: PriorTrial, of: Case) -> None:
        assert of.id == str(one.trial.position)
        kept.append((one.trial.position, one.trial.repeat))

    planned = plan(
        cases,
        earlier=earlier_of(there.values(), stays=stays, kept=keep),
        together=lambda of: suite[int(of.id)][1],
    )
    every = [
        (position, repeat) for position, (states, _) in enumerate(suite) for repeat in range(len(states))
    ]
    assert sorted(kept + places(planned)) == every
    assert places(planned) == sorted(places(planned))
    for one in planned:
        known = there.get((one.position, one.repeat))
        assert one.output == (known.trial.output if known is not None else None)
    for position, repeat in kept:
        assert stays(there[position, repeat], Case(id="any", input=()))
        if suite[position][1]:
            assert position not in {one.position for one in planned}


# --- seats -------------------------------------------------------------------------------------------------

GUESTS = [case("plain"), case("own", target="special"), case("some", only_targets=("a", "b"))]


@pytest.mark.parametrize(
    ("seat", "selected"),
    [
        (RunSlot(), "plain own some"),
        (RunSlot(target="c"), "plain own some"),
        (RunSlot(target="a", first=True, alone=False), "plain own some"),
        (RunSlot(target="b", first=False, alone=False), "plain some"),
        (RunSlot(target="c", first=True, alone=False), "plain own"),
        (RunSlot(target="c", first=False, alone=False), "plain"),
    ],
)
def test_a_case_with_a_target_of_its_own_is_asked_once_and_one_for_some_targets_on_these(
    seat: RunSlot, selected: str
) -> None:
    assert ids(GUESTS, indexer_of(GUESTS).build(None, seat)) == selected


def test_a_limit_takes_the_same_cases_in_every_run_of_a_group() -> None:
    indexer = indexer_of(GUESTS, Selection(limit=2))
    runs = [RunSlot(target="a", first=first, alone=False) for first in (True, False)]
    assert [ids(GUESTS, indexer.build(None, seat)) for seat in runs] == ["plain own", "plain"]


def test_cases_that_no_run_would_ask_are_named() -> None:
    indexer = indexer_of(GUESTS)
    assert indexer.find_case_without_target(["a", "c"]) is None
    assert indexer.find_case_without_target(["c", "d"]) == "some"


def test_an_index_knows_whether_a_selected_case_has_a_workspace() -> None:
    cases = [case("a"), case("b", workspace=Workspace())]
    selections = (Selection(), Selection(ids=("a",)), Selection(ids=("b",)))
    assert [index_of(cases, selection).has_workspaces for selection in selections] == [True, False, True]


def test_an_answer_made_in_a_workspace_that_is_gone_is_asked_for_again() -> None:
    trial = make_trial("x", case_id="a")
    inside = [StoredCase(case("a", workspace=Workspace()), "sha256:0")]
    outside = [StoredCase(case("a"), "sha256:0")]
    outputs = []
    for stored in (inside, outside):
        earlier = earlier_of([StoredTrial(trial, None)], stays=lambda each, _case: False)
        index = index_of([one.case for one in stored])
        (planned,) = plan_trials(stored, index, repeats=None, together=lambda _: False, earlier=earlier)
        outputs.append(planned.output)
    assert outputs == [None, Output(text="x")]


PROMPTED = [case("all"), case("some", prompts=("b", "c")), case("own", prompts=())]


@pytest.mark.parametrize(
    ("seat", "selected"),
    [
        (RunSlot(prompt="a", first_prompt=True), "all own"),
        (RunSlot(prompt="b", first_prompt=False), "all some"),
        (RunSlot(prompt=None), "all some own"),
    ],
)
def test_a_case_is_sent_with_its_prompts_of_the_suite_and_with_each_of_the_user(
    seat: RunSlot, selected: str
) -> None:
    indexer = indexer_of(PROMPTED)
    assert ids(PROMPTED, indexer.build(None, seat)) == selected
    assert indexer.find_case_without_target(["x", "y"]) is None

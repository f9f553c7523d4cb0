"""Which trials a run makes: selection, repeats, splits, and trials of an earlier run."""

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


def named_case(name: str, **fields: Any) -> Case:
    return make_case(name, name, **fields)


ALL_CASES = Selection()


def make_indexer(
    cases: Iterable[Case], selection: Selection = ALL_CASES, repeats: int | None = None
) -> CaseIndexer:
    indexer = CaseIndexer(selection, repeats)
    for case in cases:
        indexer.add(case)
    return indexer


def make_index(
    cases: Iterable[Case],
    selection: Selection = ALL_CASES,
    rule: SplitRule | None = None,
    repeats: int | None = None,
) -> CaseIndex:
    return make_indexer(cases, selection, repeats).build(rule)


def ids(cases: list[Case], index: CaseIndex) -> str:
    return " ".join(cases[position].id for position in index.positions)


# --- selection ---------------------------------------------------------------------------------------------

CASES = [
    named_case("math-1", tags=("easy",), category="math"),
    named_case("math-2", tags=("easy", "slow"), category="math"),
    named_case("words-1", tags=("hard",), category="words"),
    named_case("words-[2]"),
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
    assert ids(CASES, make_index(CASES, selection)) == selected


def test_a_tag_with_a_comma_is_found_by_its_whole_name() -> None:
    case = named_case("c", tags=("Paris, France",))
    assert is_selected(case, Selection(tags=("Paris, France",)))
    assert is_selected(case, Selection(all_tags=("Paris, France",)))
    assert not is_selected(case, Selection(exclude_tags=("Paris, France",)))
    assert not is_selected(case, Selection(tags=("Paris",)))


def test_split_and_limit_do_not_filter_single_cases() -> None:
    assert is_selected(CASES[0], Selection(split="holdout", limit=0))


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
    cases = [named_case(letter) for letter in LETTERS]
    index = make_index(cases, Selection(split=split, limit=limit), SplitRule())
    assert ids(cases, index) == selected
    assert index.trial_count == len(index.positions)


def test_a_filter_does_not_move_a_case_between_dev_and_holdout() -> None:
    cases = [named_case(letter, tags=("vowel",) if letter in "aei" else ()) for letter in LETTERS]
    whole = make_index(cases, Selection(), SplitRule())
    vowels = make_index(cases, Selection(tags=("vowel",)), SplitRule())
    assert vowels.holdout == whole.holdout
    assert [*(whole.holdout or ())] == [LETTERS.index("f"), LETTERS.index("j")]
    assert [whole.split_at(LETTERS.index(letter)) for letter in "aef"] == ["dev", "dev", "holdout"]


def test_the_split_keeps_the_shares_of_the_categories() -> None:
    cases = [named_case(str(number), category="ab"[number % 2]) for number in range(10)]
    index = make_index(cases, Selection(split="holdout"), SplitRule())
    assert sorted(str(cases[position].category) for position in index.positions) == ["a", "b"]


def test_a_suite_without_a_split_has_no_holdout() -> None:
    cases = [named_case(letter) for letter in LETTERS]
    assert make_index(cases).split_at(0) is None
    assert not make_index(cases, Selection(split="holdout")).positions


@pytest.mark.parametrize(
    ("run_repeats", "case_repeats", "repeats"),
    [(None, None, 1), (None, 3, 3), (2, None, 2), (2, 3, 3), (5, 3, 5), (1, 1, 1)],
)
def test_a_case_has_the_repeats_of_the_run_or_its_own_if_more(
    run_repeats: int | None, case_repeats: int | None, repeats: int
) -> None:
    case = named_case("a", repeats=case_repeats)
    assert count_repeats(case, run_repeats) == repeats
    assert make_index([case, named_case("b")], repeats=run_repeats).trial_count == repeats + (
        run_repeats or 1
    )


# --- trials ------------------------------------------------------------------------------------------------


def stored_cases(cases: Iterable[Case]) -> list[StoredCase]:
    return [StoredCase(case=case, sent_digest=f"sent {case.id}") for case in cases]


def plan(
    cases: list[Case],
    index: CaseIndex | None = None,
    repeats: int | None = None,
    earlier: PriorTrials | None = None,
    together: Callable[[Case], bool] = lambda _case: False,
) -> list[PlannedTrial]:
    trials = plan_trials(
        stored_cases(cases),
        index or make_index(cases, repeats=repeats),
        repeats=repeats,
        together=together,
        earlier=earlier or PriorTrials(),
    )
    return list(trials)


def make_stored_trial(position: int, repeat: int = 0, state: str = "done") -> StoredTrial:
    """A stored trial: `done`, `waiting` for its grades, or an `error` without an output."""
    trial = make_trial(
        None if state == "error" else f"answer {position}.{repeat}", position=position, repeat=repeat
    )
    verdict = {"done": Verdict.PASS, "waiting": None, "error": Verdict.ERROR}[state]
    return StoredTrial(trial=trial, verdict=verdict)


def make_prior_trials(
    trials: Iterable[StoredTrial],
    stays: Callable[[StoredTrial, Case], bool] = lambda _trial, _case: True,
    on_reuse: Callable[[PriorTrial, Case], None] = lambda _trial, _case: None,
    source_run: str | None = None,
) -> PriorTrials:
    return PriorTrials(find=SequentialPriorTrials(iter(trials), stays, source_run), on_reuse=on_reuse)


def places(trials: Iterable[PlannedTrial]) -> list[tuple[int, int]]:
    return [(trial.position, trial.repeat) for trial in trials]


def test_every_repeat_of_every_selected_case_is_planned_once_in_suite_order() -> None:
    cases = [named_case("a"), named_case("b", repeats=3), named_case("c"), named_case("d")]
    index = make_index(cases, Selection(ids=("[abd]",)), repeats=2)
    trials = plan(cases, index, repeats=2)
    assert places(trials) == [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2), (3, 0), (3, 1)]
    assert len(trials) == index.trial_count
    assert [trial.repeats for trial in trials] == [2, 2, 3, 3, 3, 2, 2]


def test_a_planned_trial_has_its_case_its_digest_and_its_split() -> None:
    cases = [named_case(letter) for letter in LETTERS]
    trials = plan(cases, make_index(cases, Selection(ids=("e", "f")), SplitRule()))
    assert [(trial.case.id, trial.sent_digest, trial.split) for trial in trials] == [
        ("e", "sent e", "dev"),
        ("f", "sent f", "holdout"),
    ]
    assert all(trial.output is None and trial.source_run is None for trial in trials)


def test_cases_after_the_last_selected_one_are_not_read() -> None:
    cases = [named_case(letter) for letter in LETTERS]
    stream = iter(stored_cases(cases))
    index = make_index(cases, Selection(limit=2))
    assert len(list(plan_trials(stream, index, repeats=None, together=bool, earlier=PriorTrials()))) == 2
    assert [remaining.case.id for remaining in stream] == list("cdefghij")


def test_planning_takes_a_case_only_when_its_trial_is_wanted() -> None:
    stream = iter(stored_cases([named_case("a"), named_case("b"), named_case("c")]))
    index = make_index([named_case("a"), named_case("b"), named_case("c")])
    trials = plan_trials(stream, index, repeats=None, together=bool, earlier=PriorTrials())
    assert next(trials).case.id == "a"
    assert [remaining.case.id for remaining in stream] == ["b", "c"]


def test_graded_trials_stay_and_waiting_ones_are_planned_with_their_output() -> None:
    cases = [named_case(letter) for letter in "abcd"]
    reused: list[tuple[str, str]] = []
    earlier = make_prior_trials(
        [make_stored_trial(0), make_stored_trial(1, state="waiting"), make_stored_trial(2, state="error")],
        stays=lambda trial, _case: trial.verdict is not None,
        on_reuse=lambda prior, case: reused.append(
            (str(prior.trial.output and prior.trial.output.text), case.id)
        ),
    )
    trials = plan(cases, earlier=earlier)
    assert reused == [("answer 0.0", "a"), ("None", "c")]
    assert [(trial.case.id, trial.output) for trial in trials] == [
        ("b", Output(text="answer 1.0")),
        ("d", None),
    ]


def test_failed_trials_are_planned_again_and_have_a_source_only_with_an_output() -> None:
    earlier = make_prior_trials(
        [make_stored_trial(0), make_stored_trial(1, state="error"), make_stored_trial(2, state="waiting")],
        stays=lambda trial, _case: trial.verdict is Verdict.PASS,
        source_run="run-1",
    )
    trials = plan([named_case(letter) for letter in "abcd"], earlier=earlier)
    sources = [(trial.case.id, trial.output is not None, trial.source_run) for trial in trials]
    assert sources == [("b", False, None), ("c", True, "run-1"), ("d", False, None)]


def test_an_output_that_came_from_another_run_keeps_its_first_source() -> None:
    again = replace(make_stored_trial(0).trial, source_run="the first")
    stored_trials = [StoredTrial(trial=again, verdict=None), make_stored_trial(1, state="waiting")]
    earlier = make_prior_trials(
        stored_trials, stays=lambda trial, _case: trial.verdict is not None, source_run="the second"
    )
    assert [trial.source_run for trial in plan([named_case("a"), named_case("b")], earlier=earlier)] == [
        "the first",
        "the second",
    ]


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        (["done", "done", "done"], []),
        (["done", "done"], [(0, True), (1, True), (2, False)]),
        (["done", "waiting", "done"], [(0, True), (1, True), (2, True)]),
        (["waiting", "error", "waiting"], [(0, True), (1, False), (2, True)]),
        ([], [(0, False), (1, False), (2, False)]),
    ],
)
def test_outputs_graded_together_stay_together_or_are_all_graded_again(
    states: list[str], expected: list[tuple[int, bool]]
) -> None:
    earlier = make_prior_trials(
        [make_stored_trial(0, repeat, state) for repeat, state in enumerate(states)],
        stays=lambda trial, _case: trial.verdict is not None,
    )
    trials = plan([named_case("a", repeats=3)], earlier=earlier, together=lambda _case: True)
    assert [(trial.repeat, trial.output is not None) for trial in trials] == expected


def test_an_earlier_trial_of_an_unselected_case_is_ignored() -> None:
    cases = [named_case("a"), named_case("b")]
    earlier = make_prior_trials([make_stored_trial(0)])
    assert places(plan(cases, make_index(cases, Selection(ids=("b",))), earlier=earlier)) == [(1, 0)]


def test_an_earlier_repeat_beyond_those_asked_does_not_stand_for_a_missing_one() -> None:
    earlier = make_prior_trials([make_stored_trial(0, 0), make_stored_trial(0, 2)])
    trials = plan([named_case("a", repeats=2)], earlier=earlier, together=lambda _case: True)
    assert places(trials) == [(0, 0), (0, 1)]


STATES = st.sampled_from([None, "done", "waiting", "error"])
SUITES = st.lists(
    st.tuples(st.lists(STATES, min_size=1, max_size=3), st.booleans()),
    min_size=1,
    max_size=6,
)


@given(SUITES, st.booleans())
def test_every_trial_is_either_reused_or_planned(
    suite: list[tuple[list[str | None], bool]], errors_stay: bool
) -> None:
    cases = [named_case(str(place), repeats=len(states)) for place, (states, _) in enumerate(suite)]
    stored_trials = {
        (position, repeat): make_stored_trial(position, repeat, state)
        for position, (states, _) in enumerate(suite)
        for repeat, state in enumerate(states)
        if state is not None
    }
    reused: list[tuple[int, int]] = []

    def stays(prior_trial: StoredTrial, _case: Case) -> bool:
        return prior_trial.verdict is Verdict.PASS or (errors_stay and prior_trial.verdict is Verdict.ERROR)

    def keep(prior: PriorTrial, case: Case) -> None:
        assert case.id == str(prior.trial.position)
        reused.append((prior.trial.position, prior.trial.repeat))

    trials = plan(
        cases,
        earlier=make_prior_trials(stored_trials.values(), stays=stays, on_reuse=keep),
        together=lambda case: suite[int(case.id)][1],
    )
    expected = [
        (position, repeat) for position, (states, _) in enumerate(suite) for repeat in range(len(states))
    ]
    assert sorted(reused + places(trials)) == expected
    assert places(trials) == sorted(places(trials))
    for trial in trials:
        stored_trial = stored_trials.get((trial.position, trial.repeat))
        assert trial.output == (stored_trial.trial.output if stored_trial is not None else None)
    for position, repeat in reused:
        assert stays(stored_trials[position, repeat], Case(id="any", input=()))
        if suite[position][1]:
            assert position not in {trial.position for trial in trials}


# --- runs of a group ----------------------------------------------------------------------------------------

TARGET_CASES = [
    named_case("plain"),
    named_case("own", target="special"),
    named_case("some", only_targets=("a", "b")),
]


@pytest.mark.parametrize(
    ("slot", "selected"),
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
    slot: RunSlot, selected: str
) -> None:
    assert ids(TARGET_CASES, make_indexer(TARGET_CASES).build(None, slot)) == selected


def test_a_limit_takes_the_same_cases_in_every_run_of_a_group() -> None:
    indexer = make_indexer(TARGET_CASES, Selection(limit=2))
    runs = [RunSlot(target="a", first=first, alone=False) for first in (True, False)]
    assert [ids(TARGET_CASES, indexer.build(None, slot)) for slot in runs] == ["plain own", "plain"]


def test_cases_that_no_run_would_ask_are_named() -> None:
    indexer = make_indexer(TARGET_CASES)
    assert indexer.find_case_without_target(["a", "c"]) is None
    assert indexer.find_case_without_target(["c", "d"]) == "some"


def test_an_index_knows_whether_a_selected_case_has_a_workspace() -> None:
    cases = [named_case("a"), named_case("b", workspace=Workspace())]
    selections = (Selection(), Selection(ids=("a",)), Selection(ids=("b",)))
    assert [make_index(cases, selection).has_workspaces for selection in selections] == [True, False, True]


def test_an_answer_made_in_a_workspace_that_is_gone_is_asked_for_again() -> None:
    trial = make_trial("x", case_id="a")
    inside = [StoredCase(named_case("a", workspace=Workspace()), "sha256:0")]
    outside = [StoredCase(named_case("a"), "sha256:0")]
    outputs = []
    for cases in (inside, outside):
        earlier = make_prior_trials([StoredTrial(trial, None)], stays=lambda _trial, _case: False)
        index = make_index([stored_case.case for stored_case in cases])
        (planned_trial,) = plan_trials(cases, index, repeats=None, together=lambda _: False, earlier=earlier)
        outputs.append(planned_trial.output)
    assert outputs == [None, Output(text="x")]


PROMPT_CASES = [named_case("all"), named_case("some", prompts=("b", "c")), named_case("own", prompts=())]


@pytest.mark.parametrize(
    ("slot", "selected"),
    [
        (RunSlot(prompt="a", first_prompt=True), "all own"),
        (RunSlot(prompt="b", first_prompt=False), "all some"),
        (RunSlot(prompt=None), "all some own"),
    ],
)
def test_a_case_is_sent_with_its_prompts_of_the_suite_and_with_each_of_the_user(
    slot: RunSlot, selected: str
) -> None:
    indexer = make_indexer(PROMPT_CASES)
    assert ids(PROMPT_CASES, indexer.build(None, slot)) == selected
    assert indexer.find_case_without_target(["x", "y"]) is None

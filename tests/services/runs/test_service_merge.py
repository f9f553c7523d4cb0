"""Merges of the runs of shards into one run with every trial once, and with its labels and batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import fields as fields_of
from msgspec.structs import replace

from proctor.errors import StoreError, UsageError
from proctor.model import (
    Comment,
    HoldoutAccess,
    Label,
    Output,
    PromptTemplate,
    Run,
    Selection,
    Settings,
    Shard,
    Trial,
    Usage,
    Verdict,
)
from proctor.protocols import Store, StoredBatch, StoredTrial
from proctor.services.runs.execution.variable_values import VariableValues
from proctor.services.runs.merging.merge_runs import MergedRun, merge_runs
from proctor.services.runs.merging.parts import MergeInput
from proctor.services.runs.planning.earlier_run import (
    UNFINISHED_MERGE,
    check_not_imported,
    is_unfinished_merge,
)
from proctor.services.runs.reading.report import build_report
from proctor.shards import is_in_shard
from proctor.stores.memory import memory_location
from support.builders import ECHO, NOON, make_case, make_score, make_spec, make_trial
from support.stores import add_run, save_cases

CASES = [make_case(f"c{number}", str(number)) for number in range(8)]
Fill = Callable[..., Run]


class Stores:
    """Stores in memory, each with a shard of the same run."""

    def __init__(self) -> None:
        self.by_name: dict[str, Store] = {}

    def open(self, name: str) -> Store:
        if name not in self.by_name:
            self.by_name[name] = memory_location().open_store()
        return self.by_name[name]

    def inputs(self, *names: str) -> list[MergeInput]:
        return [MergeInput(name, self.by_name[name]) for name in names]

    def merge(self, *names: str, to: str = "out", environ: dict[str, str] | None = None) -> MergedRun:
        (merged,) = merge_runs(self.inputs(*names), self.open(to), environ or {})
        return merged

    def add_shard(
        self,
        name: str,
        index: int | None,
        count: int = 2,
        *,
        answer: Callable[[int], str] = str,
        skipped: Sequence[int] = (),
        start_s: int = 0,
        **fields: Any,
    ) -> Run:
        """Stores the finished run of a shard; trials at some positions are missing."""
        store = self.open(name)
        own = Settings(**fields.pop("settings", {}))
        shard = None if index is None else Shard(index=index, count=count)
        own = replace(own, selection=replace(own.selection, shard=shard))
        positions = [n for n, case in enumerate(CASES) if shard is None or is_in_shard(case, shard)]
        suite = save_cases(store, CASES, **fields.pop("suite", {}))
        at = NOON + timedelta(seconds=start_s)
        run = add_run(
            store,
            suite,
            **{
                "id": f"20260301-1200{len(self.by_name):02}-abc{(index or 0):03}",
                "group": f"g-{name}",
                "settings": own,
                "planned": len(positions),
                "started_at": at,
            }
            | fields,
        )
        for position in positions:
            if position not in skipped:
                trial = self.make_trial(position, answer(position))
                store.save_trial(run.id, trial, Verdict.PASS if position % 3 else Verdict.FAIL)
        is_whole = not set(positions) & set(skipped)
        run = replace(
            run, status="finished" if is_whole else "interrupted", finished_at=at + timedelta(seconds=5)
        )
        store.update_run(run)
        return run

    @staticmethod
    def make_trial(position: int, text: str) -> Trial:
        return make_trial(
            text,
            make_score(1.0 if position % 3 else 0.0),
            case_id=f"c{position}",
            position=position,
            started_at=NOON,
        )


@pytest.fixture
def stores() -> Iterator[Stores]:
    stores = Stores()
    yield stores
    for store in stores.by_name.values():
        store.close()


def list_trials(store: Store, run: Run) -> list[StoredTrial]:
    return list(store.trials(run.id))


def comparable(run: Run) -> Run:
    return replace(run, id="", group="", merged_from=())


def test_the_merged_run_is_that_of_the_whole_suite(stores: Stores) -> None:
    whole = stores.add_shard("whole", None)
    first = stores.add_shard("a", 0, start_s=7, tags=("x",), warnings=("w",), prices_date="2026-01-02")
    second = stores.add_shard(
        "b", 1, start_s=3, tags=("y",), warnings=("v", "w"), versions={"python": "3.12"}
    )
    merged = stores.merge("a", "b")
    run, out = merged.run, stores.by_name["out"]
    assert merged.is_new
    assert merged.notes == ()
    assert (run.status, run.planned, run.settings) == ("finished", 8, Settings())
    assert (run.started_at, run.finished_at) == (second.started_at, first.finished_at)
    assert (run.tags, run.warnings, run.prices_date) == (("x", "y"), ("w", "v"), "2026-01-02")
    assert run.merged_from == (first.id, second.id)
    assert out.run(run.id) == run
    assert list_trials(out, run) == list_trials(stores.by_name["whole"], whole)
    reports = [build_report(out, run, stored=True), build_report(stores.by_name["whole"], whole)]
    assert reports[0].tally.state() == reports[1].tally.state()
    assert reports[0].exit_code == reports[1].exit_code


PARTS = st.lists(st.sets(st.integers(0, 3), min_size=1), min_size=2, max_size=4)


@pytest.mark.slow
@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(PARTS, st.randoms())
def test_neither_order_nor_steps_nor_repetition_matter(parts: list[set[int]], random: Any) -> None:
    """Stores with some shards of four each are merged at once, in another order, and in two steps."""
    stores = Stores()
    names = []
    for number, indices in enumerate(parts):
        for index in sorted(indices):
            names.append(f"{number}-{index}")
            stores.add_shard(names[-1], index, 4)
    at_once = stores.merge(*names, to="at once").run
    shuffled = random.sample(names, len(names))
    results = [stores.merge(*shuffled, *names[:1], to="shuffled")]
    count = random.randrange(1, len(names)) if len(names) > 1 else 1
    stores.merge(*shuffled[:count], to="some")
    results.append(stores.merge("some", *shuffled[count - 1 :], to="steps"))
    results.append(stores.merge("at once", to="again"))
    expected = list_trials(stores.by_name["at once"], at_once)
    assert len(expected) == sum(
        any(is_in_shard(case, Shard(index=index, count=4)) for index in set().union(*parts)) for case in CASES
    )
    for result, name in zip(results, ("shuffled", "steps", "again"), strict=True):
        assert comparable(result.run) == comparable(at_once)
        assert list_trials(stores.by_name[name], result.run) == expected
        assert set(at_once.merged_from) <= set(result.run.merged_from)
    for store in stores.by_name.values():
        store.close()


def test_the_same_runs_are_merged_once(stores: Stores) -> None:
    stores.add_shard("a", 0)
    stores.add_shard("b", 1)
    first, second = stores.merge("a", "b"), stores.merge("b", "a", "b")
    assert (second.run, second.is_new) == (first.run, False)
    assert len(list(stores.by_name["out"].runs())) == 1


def test_the_same_runs_with_gaps_are_merged_once_unless_one_has_more_trials_now(stores: Stores) -> None:
    own = [number for number, case in enumerate(CASES) if is_in_shard(case, Shard(index=0, count=2))]
    run = stores.add_shard("a", 0, skipped=own[:2])
    stores.add_shard("b", 1)
    first, second = stores.merge("a", "b"), stores.merge("b", "a")
    assert (second.run, second.is_new, second.notes) == (first.run, False, first.notes)
    stores.by_name["a"].save_trial(run.id, stores.make_trial(own[0], str(own[0])), Verdict.PASS)
    third = stores.merge("a", "b")
    assert third.is_new
    assert len(list_trials(stores.by_name["out"], third.run)) == 7


def test_a_store_that_is_merged_into_itself_gets_one_merged_run(stores: Stores) -> None:
    for index in range(2):
        stores.add_shard("out", index, id=f"r{index}", group="g")
    first = stores.merge("out")
    for names in (("out",), ("out", "out")):
        again = stores.merge(*names)
        assert (again.run, again.is_new) == (first.run, False)
    assert len(list(stores.by_name["out"].runs())) == 3


def test_shards_in_one_store_without_a_common_group_are_named(stores: Stores) -> None:
    for index in range(2):
        stores.add_shard("a", index, id=f"r{index}", group=f"g{index}", start_s=index)
    assert stores.merge("a").notes == (
        "Shard 0 of 2 is missing.",
        (
            "A store has other shards of the suite in another group. Shards that share a store need "
            "the same --group."
        ),
    )


def test_a_merged_run_merges_with_the_shards_that_it_lacks(stores: Stores) -> None:
    for index in range(4):
        stores.add_shard(str(index), index, 4)
    part = stores.merge("2", "0", to="part")
    assert part.run.status == "interrupted"
    assert part.notes == ("Shards 1, 3 of 4 are missing.",)
    whole = stores.merge("part", "3", "1")
    assert whole.run.status == "finished"
    assert len(list_trials(stores.by_name["out"], whole.run)) == 8


def test_a_shard_that_lacks_trials_is_named(stores: Stores) -> None:
    shard = Shard(index=0, count=2)
    own = [number for number, case in enumerate(CASES) if is_in_shard(case, shard)]
    run = stores.add_shard("a", 0, skipped=own[:2], stopped="The disk is full.")
    stores.add_shard("b", 1)
    merged = stores.merge("a", "b")
    assert (merged.run.status, merged.run.stopped) == ("interrupted", "The disk is full.")
    assert merged.notes == (f"a (run {run.id}), shard 0 of 2, has {len(own) - 2} of {len(own)} trials.",)


def test_an_empty_shard_counts_as_there(stores: Stores) -> None:
    empty = next(
        index for index in range(40) if not any(is_in_shard(c, Shard(index=index, count=40)) for c in CASES)
    )
    names = []
    for index in range(40):
        if index == empty or any(is_in_shard(case, Shard(index=index, count=40)) for case in CASES):
            names.append(str(index))
            assert stores.add_shard(str(index), index, 40).planned == (
                0
                if index == empty
                else len([case for case in CASES if is_in_shard(case, Shard(index=index, count=40))])
            )
    assert stores.merge(*names).run.status == "finished"


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"settings": {"repeats": 3}}, "--repeat: none in a; 3 in b"),
        ({"settings": {"threshold": 0.5}}, "--threshold: none in a; 0.5 in b"),
        ({"settings": {"min_pass_rate": 0.5}}, "--min-pass-rate: none in a; 0.5 in b"),
        ({"settings": {"selection": Selection(tags=("x",))}}, "--tag: none in a; x in b"),
        (
            {"settings": {"selection": Selection(failed_in="r", case_ids=("c1",))}},
            "--last-failed: none in a; r in b",
        ),
        ({"target": make_spec("openai", "m")}, "--target: echo in a; openai:m in b"),
        (
            {"target": replace(ECHO, params=replace(ECHO.params, temperature=0.5))},
            "--temperature: 0 in a; 0.5 in b",
        ),
        ({"target": replace(ECHO, endpoint="http://x")}, "the configuration of the target: echo (sha256:"),
        ({"prompt": PromptTemplate(name="p", messages=())}, "--prompt: none in a; p in b"),
        ({"judges": (ECHO,)}, "the judges: none in a; echo (sha256:"),
        ({"named_targets": (ECHO,)}, "the targets that cases name: none in a; echo"),
        ({"embedder": "local"}, "the embedding model: none in a; local in b"),
        (
            {"suite": {"digest": "sha256:" + "cd" * 32}},
            "the cases of the suite: sha256:abababababab in a; sha256:cdcd",
        ),
        ({"suite": {"name": "t"}}, "the suite: s in a; t in b"),
        ({"count": 3}, "the number of shards: 2 in a; 3 in b"),
    ],
)
def test_runs_that_differ_are_refused_with_each_difference(
    stores: Stores, changes: dict[str, Any], line: str
) -> None:
    stores.add_shard("a", 0)
    stores.add_shard("b", 1, **changes)
    with pytest.raises(UsageError) as caught:
        stores.merge("a", "b")
    assert f"\n  {line}" in str(caught.value)
    assert list(stores.by_name["out"].runs()) == []
    assert stores.by_name["out"].versions() == []


def test_all_differences_are_listed_with_their_stores(stores: Stores) -> None:
    stores.add_shard("a", 0, 3)
    stores.add_shard("b", 1, 3, settings={"repeats": 2}, prompt=PromptTemplate(name="p", messages=()))
    stores.add_shard("c", 2, 3, settings={"judge_repeats": 3})
    with pytest.raises(UsageError) as caught:
        stores.merge("a", "b", "c")
    lines = str(caught.value).splitlines()
    assert "  --repeat: none in a, c; 2 in b" in lines
    assert "  --prompt: none in a, c; p in b" in lines
    assert "  --judge-repeat: 1 in a, b; 3 in c" in lines
    assert lines[-1].startswith("The newest run of each store is merged.")


FREE = {"concurrency": 1, "timeout_s": 1.0, "retries": 0, "max_answer_bytes": 5, "max_failures": 3}


def test_settings_that_a_resumed_run_may_change_may_differ(stores: Stores) -> None:
    first = stores.add_shard("a", 0)
    stores.add_shard("b", 1, settings=FREE)
    merged = stores.merge("a", "b")
    run = merged.run
    assert merged.notes == run.warnings
    assert replace(run.settings, selection=first.settings.selection) == first.settings
    assert len(run.warnings) == len(FREE)
    assert "The merged runs differ in concurrency: 32, 1." in run.warnings


def test_every_setting_must_be_the_same_or_is_known_to_be_free(stores: Stores) -> None:
    free = {*FREE, "budget_usd", "keep_workspaces", "engine"}
    follows = {"order_seed"}  # from `until`, with which no run is merged
    for field in fields_of(Settings):
        if field.name in free | follows | {"selection"}:
            continue
        words: dict[str, Any] = {
            "gate_mode": "interval",
            "judge_rule": "any",
            "cluster": "tag:x",
            "repeats": 3,
        }
        other = words.get(field.name, {bool: True, int: 7}.get(type(field.default), 0.5))
        stores.add_shard(f"a {field.name}", 0)
        stores.add_shard(f"b {field.name}", 1, settings={field.name: other})
        with pytest.raises(UsageError, match="because they differ"):
            stores.merge(f"a {field.name}", f"b {field.name}")


def test_the_budget_of_the_whole_is_that_of_all_shards(stores: Stores) -> None:
    for index in range(3):
        stores.add_shard(str(index), index, 3, settings={"budget_usd": 0.1})
    part = stores.merge("0", "1", to="part")
    assert part.run.settings.budget_usd == 0.3
    assert stores.merge("part", "2").run.settings.budget_usd == 0.3


def test_a_store_that_lacks_cases_of_its_suite_is_refused(stores: Stores) -> None:
    run = stores.add_shard("a", 0)
    stores.add_shard("b", 1)
    part = replace(run, suite=replace(run.suite, case_count=9))
    stores.by_name["a"].update_run(part)
    with pytest.raises(StoreError, match=r"^a \(run .*\) has 8 of 9 cases of its suite\."):
        stores.merge("a", "b")
    assert stores.by_name["out"].versions() == []


def test_a_trial_of_a_case_that_the_suite_lacks_is_refused(stores: Stores) -> None:
    run = stores.add_shard("a", 0)
    stores.add_shard("b", 1)
    stores.by_name["a"].save_trial(run.id, stores.make_trial(99, "x"), Verdict.PASS)
    with pytest.raises(
        StoreError,
        match=r"a trial of case 'c99', which is not in its suite",
    ):
        stores.merge("a", "b")
    assert list(stores.by_name["out"].runs()) == []
    assert stores.by_name["out"].versions() == []


def test_two_answers_to_the_same_case_are_refused(stores: Stores) -> None:
    first = stores.add_shard("a", 0)
    second = stores.add_shard("b", 0, answer=lambda position: "other" if position > 4 else str(position))
    case = next(n for n, case in enumerate(CASES) if n > 4 and is_in_shard(case, Shard(index=0, count=2)))
    with pytest.raises(UsageError) as caught:
        stores.merge("a", "b")
    assert str(caught.value) == (
        f"Case 'c{case}', repeat 0, was run twice, with different answers in a (run {first.id}) and in "
        f"b (run {second.id}). Remove one of the two. Nothing was stored."
    )
    out = stores.by_name["out"]
    assert list(out.runs()) == []
    assert out.versions() == []


def test_an_answer_that_waits_for_its_judge_is_kept_and_the_graded_one_counts(stores: Stores) -> None:
    shard = Shard(index=0, count=2)
    own = [number for number, case in enumerate(CASES) if is_in_shard(case, shard)]
    run = stores.add_shard("a", 0, skipped=own[:1])
    waiting = replace(stores.make_trial(own[0], str(own[0])), scores=())
    stores.by_name["a"].save_output(run.id, waiting)
    stores.add_shard("b", 1)
    merged = stores.merge("a", "b")
    assert merged.run.status == "interrupted"
    assert StoredTrial(waiting, None) in list_trials(stores.by_name["out"], merged.run)
    stores.add_shard("graded", 0)
    for names in (("a", "graded", "b"), ("graded", "b", "a")):
        whole = stores.merge(*names, to=f"out {names}")
        assert whole.run.status == "finished"
        assert all(row.verdict for row in list_trials(stores.by_name[f"out {names}"], whole.run))


def test_costs_tokens_and_grades_are_those_of_all_shards(stores: Stores) -> None:
    run = stores.add_shard("a", 0, skipped=range(8))
    positions = [number for number, case in enumerate(CASES) if is_in_shard(case, Shard(index=0, count=2))]
    for position in positions:
        usage = Usage(input_tokens=3, output_tokens=1)
        trial = replace(
            stores.make_trial(position, ""),
            output=Output(text="x", usage=usage, cost_usd=0.5),
            source_run=None if position == positions[0] else "earlier",
            graded_in=None if position == positions[0] else run.id,
        )
        stores.by_name["a"].save_trial(run.id, trial, Verdict.PASS)
    stores.add_shard("b", 1)
    merged = stores.merge("a", "b").run
    alone = build_report(stores.by_name["a"], run).tally
    tally = build_report(stores.by_name["out"], merged).tally
    assert (alone.graded_count, alone.reused_count) == (len(positions), len(positions) - 1)
    assert (tally.graded_count, tally.reused_count) == (8, len(positions) - 1)
    assert tally.target_usage.input_tokens == alone.target_usage.input_tokens == 3
    assert (alone.least_cost_usd, tally.least_cost_usd) == (0.5, 0.5)


def test_labels_comments_and_accesses_come_along_once(stores: Stores) -> None:
    first, second = stores.add_shard("a", 0), stores.add_shard("b", 1)
    a, b = stores.by_name["a"], stores.by_name["b"]
    a.add_label(Label(run=first.id, case_id="c1", passed=True, by="ana", note="old"))
    a.add_label(Label(run=first.id, case_id="c1", passed=False, by="ana"), held_out=True)
    b.add_label(Label(run=second.id, case_id="c2", passed=True, by="bo"))
    a.add_comment(Comment(run=first.id, case_id="c1", by="ana", text="Hm."))
    accesses = [
        HoldoutAccess(suite=first.suite.digest, run=name, kind="rate", at=NOON + timedelta(hours=hour))
        for hour, name in enumerate(("x", "y"))
    ]
    for store, access in ((a, accesses[1]), (b, accesses[0]), (b, accesses[1])):
        store.add_holdout_access(access)
    run, out = stores.merge("a", "b").run, stores.by_name["out"]
    assert [(row.label.case_id, row.label.passed, row.held_out) for row in out.labels(run.id)] == [
        ("c1", False, True),
        ("c2", True, False),
    ]
    assert [row.comment.text for row in out.comments(run.id)] == ["Hm."]
    assert out.holdout_accesses(run.suite.digest) == accesses
    stores.merge("out", "a", to="next")
    assert stores.by_name["next"].holdout_accesses(run.suite.digest) == accesses


def test_labels_and_comments_keep_their_times_and_the_newest_label_counts(stores: Stores) -> None:
    times = [NOON + timedelta(hours=hour) for hour in range(3)]
    for name, passed, at in zip("abc", (True, False, True), times, strict=True):
        run = stores.add_shard(name, 0, 1)
        label = Label(run=run.id, case_id="c1", passed=passed, by="ana")
        stores.by_name[name].add_label(label, at=at)
        stores.by_name[name].add_comment(Comment(run=run.id, case_id="c1", by="ana", text=name), at=at)
    for names, to in (("abc", "out"), (("out", "c", "b"), "next")):
        run, out = stores.merge(*names, to=to).run, stores.by_name[to]
        assert [(row.label.passed, row.at) for row in out.labels(run.id)] == [(True, times[2])]
        assert [(row.comment.text, row.at) for row in out.comments(run.id)] == list(
            zip("abc", times, strict=True)
        )


def test_values_of_variables_are_known_again_where_all_shards_had_that_of_now(stores: Stores) -> None:
    environ = {"SAME": "1", "LOST": "2"}
    for index, name in enumerate("ab"):
        run = stores.add_shard(name, index, 3)
        VariableValues(stores.by_name[name], environ).record(run.id, environ)
    merged = stores.merge("a", "b", environ={"SAME": "1"})
    values = VariableValues(stores.by_name["out"], environ)
    assert values.compare(merged.run.id) == {"SAME": True}
    assert merged.notes == (
        "Shard 2 of 3 is missing.",
        (
            "These variables are unset, or have other values than in the shards: LOST. Set them before you "
            "resume the run."
        ),
    )


def test_shards_with_several_values_of_a_variable_are_refused(stores: Stores) -> None:
    for index, name in enumerate("ab"):
        run = stores.add_shard(name, index)
        VariableValues(stores.by_name[name], {"REGION": name}).record(run.id, ["REGION"])
    with pytest.raises(UsageError, match="the variable REGION: the current value in a; another value in b"):
        stores.merge("a", "b", environ={"REGION": "a"})


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"imported": "trusted"}, "was imported from a bundle"),
        ({"regrade_of": "r"}, "is a regrade of run r"),
    ],
)
def test_a_run_that_called_no_target_is_not_merged(stores: Stores, fields: dict[str, Any], why: str) -> None:
    stores.add_shard("a", 0)
    run = stores.add_shard("b", 1, **fields)
    with pytest.raises(UsageError) as caught:
        stores.merge("a", "b")
    assert f"b (run {run.id}) {why}" in str(caught.value)


def test_batches_that_may_be_answered_are_not_paid_twice(stores: Stores) -> None:
    stores.add_shard("a b", 0)
    run = stores.add_shard("a b", 0, skipped=range(8), group="g2", id="again")
    batch = StoredBatch(key="k", custom_ids=("0-0",), submitted_at=NOON, batch_id="batch-1")
    stores.by_name["a b"].save_batch(run.id, batch)
    with pytest.raises(UsageError) as caught:
        stores.merge("a b")
    assert "Finish it first: proctor run --resume=again --store 'a b'" in str(caught.value)


def test_a_run_in_progress_is_waited_for(stores: Stores) -> None:
    stores.add_shard("a", 0)
    run = stores.add_shard("b", 1)
    stores.by_name["b"].update_run(replace(run, status="running", finished_at=None))
    with pytest.raises(UsageError, match="is still running"):
        stores.merge("a", "b")


def test_a_store_without_a_run_is_named(stores: Stores) -> None:
    stores.add_shard("a", 0)
    stores.open("b")
    with pytest.raises(UsageError, match="b has no run"):
        stores.merge("a", "b")


def test_the_newest_group_of_each_store_is_merged_run_by_run(stores: Stores) -> None:
    other = make_spec("openai", "m")
    for index, name in enumerate("ab"):
        stores.add_shard(name, index, group="old", id=f"old{index}", answer=lambda _: "old")
        stores.add_shard(name, index, group="new", id=f"echo{index}")
        stores.add_shard(name, index, group="new", id=f"model{index}", target=other)
    merged = merge_runs(stores.inputs("a", "b"), stores.open("out"), {})
    assert [(row.run.target.name, row.run.merged_from) for row in merged] == [
        ("echo", ("echo0", "echo1")),
        ("openai:m", ("model0", "model1")),
    ]
    assert {row.run.group for row in merged} == {"new"}
    assert all(row.run.status == "finished" for row in merged)


def test_a_run_that_was_not_started_in_one_store_is_missing_there(stores: Stores) -> None:
    other = make_spec("openai", "m")
    stores.add_shard("a", 0, group="g", id="echo0")
    for index, target in enumerate((ECHO, other)):
        stores.add_shard("b", 1, group="g", id=f"b{index}", target=target)
    merged = merge_runs(stores.inputs("a", "b"), stores.open("out"), {})
    assert [(row.run.target.name, row.run.status) for row in merged] == [
        ("echo", "finished"),
        ("openai:m", "interrupted"),
    ]
    assert merged[1].notes == ("Shard 0 of 2 is missing.",)
    conflicting = [
        stores.add_shard("d", 1, group="g", id=f"d{n}", target=t) for n, t in enumerate((ECHO, other))
    ]
    stores.by_name["d"].delete_run(conflicting[1].id)
    stores.add_shard("d", 1, group="g", id="d2", target=other, answer=lambda _: "other")
    with pytest.raises(UsageError, match="was run twice, with different answers"):
        merge_runs(stores.inputs("a", "b", "d"), stores.open("empty"), {})
    assert list(stores.by_name["empty"].runs()) == []
    assert stores.by_name["empty"].versions() == []
    stores.add_shard("c", 0, group="g", id="c0")
    stores.add_shard("c", 0, group="g", id="c1", target=make_spec("openai", "n"))
    with pytest.raises(UsageError, match="s on openai:m: only in b\n  s on openai:n: only in c"):
        merge_runs(stores.inputs("b", "c"), stores.open("out"), {})


def test_shards_of_one_group_in_one_store_are_merged_into_it(stores: Stores) -> None:
    for index in range(3):
        stores.add_shard("all", index, 3, group="g", id=f"r{index}")
    stores.add_shard("all", 1, 3, group="g", id="r1 again")
    merged = stores.merge("all", to="all")
    assert merged.run.merged_from == ("r0", "r1 again", "r2")
    assert merged.run.status == "finished"
    assert merged.run.group != "g"


class Killed(BaseException):
    """What ends a merge at any moment."""


def test_what_a_killed_merge_left_is_replaced_and_one_that_failed_leaves_nothing(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    stores.add_shard("a", 0)
    stores.add_shard("b", 1)
    location = memory_location()
    with closing(location.open_store()) as out, monkeypatch.context() as patched:
        stores.by_name["out"] = out
        patched.setattr(out, "save_trial", _raise)
        with pytest.raises(Killed):
            stores.merge("a", "b")
        assert list(out.runs()) == []
        patched.setattr(out, "delete_run", _raise)  # as if the process had ended before it
        with pytest.raises(Killed):
            stores.merge("a", "b")
    with closing(location.open_store()) as out:
        stores.by_name["out"] = out
        (unfinished,) = out.runs()
        assert is_unfinished_merge(unfinished)
        with pytest.raises(UsageError, match=r"was not merged completely\. Resuming it would pay"):
            check_not_imported(unfinished)  # as planning does before a run is resumed or retried
        merged = stores.merge("a", "b")
        assert [run.id for run in out.runs()] == [merged.run.id]


def test_what_a_killed_merge_left_is_not_merged(stores: Stores) -> None:
    unfinished_fields = {"status": "running", "stopped": UNFINISHED_MERGE, "merged_from": ("r0", "r1")}
    for index in range(2):
        stores.add_shard("out", index, id=f"r{index}", group="g")
    add_run(stores.by_name["out"], save_cases(stores.by_name["out"], CASES), id="left", **unfinished_fields)
    merged = stores.merge("out").run
    assert (merged.status, merged.merged_from) == ("finished", ("r0", "r1"))
    only = stores.open("only")
    add_run(only, save_cases(only, CASES), id="left", **unfinished_fields)
    with pytest.raises(UsageError, match="only part of a merge that was stopped"):
        stores.merge("only", to="third")


def _raise(*_: object) -> None:
    raise Killed

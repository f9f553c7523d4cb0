"""Comparisons of stored runs: which runs are named, which cannot be compared, how looks are counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from proctor.comparison.compare import compare_runs
from proctor.errors import StoreError, UsageError
from proctor.model import Message, PromptTemplate, Run, Settings, Verdict
from proctor.services.analysis.compare import (
    check_comparable,
    compare_pairwise,
    describe_judges,
    load_outcomes,
    record_comparison_access,
    resolve_runs,
)
from proctor.stores.sqlite.store import SqliteStore
from support.sessions import MakeRuns, WriteSuite

WRITE = Callable[..., str]


async def make_run(make: MakeRuns, *words: Any, **fields: Any) -> Run:
    (result,) = await make(*words, **fields)
    run: Run = result.run
    return run


@pytest.fixture
def ten(suite: WriteSuite) -> str:
    """Ten cases of which `echo` passes five; two of them are held out."""
    return suite(*((f"c{n}", f"say {n}", f"say {n}" if n % 2 else "no") for n in range(10)))


# --- words -------------------------------------------------------------------------------------------------


async def test_runs_are_found_by_id_by_last_and_by_tag(make: MakeRuns, store: SqliteStore, ten: str) -> None:
    first, second = await make_run(make, ten), await make_run(make, ten)
    store.update_run(replace(first, tags=("baseline",)))
    assert [run.id for run in resolve_runs(store, ["baseline", "last", first.id])] == [
        first.id,
        second.id,
        first.id,
    ]
    with pytest.raises(StoreError, match="There is no run 'nightly'"):
        resolve_runs(store, ["baseline", "nightly"])


async def test_one_word_is_the_runs_of_one_suite_that_one_command_made(
    make: MakeRuns, store: SqliteStore, ten: str, suite: WriteSuite
) -> None:
    other = suite(("a", "b", "b"), name="other.jsonl")
    await make(ten)
    results = await make(f"{ten} {other}", "echo mock")
    runs_of_ten = [result.run for result in results if result.run.suite.name == "s"]
    assert [run.id for run in resolve_runs(store, [runs_of_ten[1].id])] == [run.id for run in runs_of_ten]
    assert [run.id for run in resolve_runs(store, [runs_of_ten[0].group])] == [
        result.run.id for result in results
    ]


async def test_a_run_that_was_made_alone_is_compared_with_nothing(
    make: MakeRuns, store: SqliteStore, ten: str
) -> None:
    run = await make_run(make, ten)
    for word in (run.id, run.group, "last"):
        with pytest.raises(UsageError, match="is a single run that is not part of a group"):
            resolve_runs(store, [word])


# --- what can be compared ----------------------------------------------------------------------------------


async def test_edited_cases_are_paired_as_long_as_their_checks_are_the_same(
    make: MakeRuns, store: SqliteStore, suite: WriteSuite
) -> None:
    rows = [("same", "a", "a"), ("input", "b", "b"), ("checks", "c", "c"), ("both", "d", "d")]
    first = await make_run(make, suite(*rows))
    rows = [("same", "a", "a"), ("input", "B", "b"), ("checks", "c", "C"), ("both", "D", "D")]
    second = await make_run(make, suite(*rows))
    check_comparable(store, [first, second], by_digest=False)
    comparison = compare_runs(*load_outcomes(store, [first, second]))
    assert comparison.whole.cases == 2
    assert comparison.unpaired.input_changed == ("input",)
    assert comparison.unpaired.checks_changed == ("checks", "both")
    assert comparison.unedited is not None
    assert (comparison.unedited.cases, comparison.unedited.value, comparison.whole.value) == (1, 0.0, -0.5)
    assert comparison.unpaired.is_partial
    assert (comparison.unpaired.only_baseline, comparison.unpaired.only_candidate) == ((), ())


async def test_the_prompt_of_a_run_is_no_part_of_its_cases(
    make: MakeRuns, store: SqliteStore, ten: str
) -> None:
    run = await make_run(make, ten)
    prompt = PromptTemplate(name="terse", messages=(Message(role="system", content="Be brief."),))
    facts = load_outcomes(store, [run, replace(run, prompt=prompt)], with_digests=True)
    comparison = compare_runs(*facts)
    assert (comparison.whole.cases, comparison.unedited, comparison.unpaired.is_partial) == (10, None, False)


async def test_runs_without_a_common_case_are_refused_with_what_differs(
    make: MakeRuns, store: SqliteStore, suite: WriteSuite
) -> None:
    rows = [("old", "b", "b"), ("gone", "c", "c"), ("edited", "d", "d")]
    first = await make_run(make, suite(*rows))
    rows = [("new", "b", "b"), ("added", "x", "x"), ("edited", "d", "D")]
    second = await make_run(make, suite(*rows))
    with pytest.raises(UsageError) as error:
        check_comparable(store, [first, second], by_digest=False)
    message = str(error.value)
    for words in (
        "s v1 and s v2",
        "1 case only in the first (gone)",
        "1 case only in the second (added)",
        "1 case with another id (old → new)",
        "1 case changed (edited: expected, assertions[0].params.value)",
        "--by-case-digest",
    ):
        assert words in message


async def test_a_suite_of_which_only_tags_changed_is_the_same_suite(
    make: MakeRuns, store: SqliteStore, folder: Any
) -> None:
    row = '{"id": "x", "input": "a", "expected": "a", "tags": ["%s"]}'
    runs = []
    for tag in ("old", "new"):
        (folder / "s.jsonl").write_text(row % tag, encoding="utf-8")
        runs.append(await make_run(make, "s.jsonl"))
    check_comparable(store, runs, by_digest=False)
    first, second = load_outcomes(store, runs)
    assert [part.name for part in compare_runs(first, second, by="tag").parts] == ["new"]


async def test_by_digest_only_what_is_sent_and_judged_alike_is_paired(
    make: MakeRuns, store: SqliteStore, suite: WriteSuite
) -> None:
    first = await make_run(make, suite(("same", "a", "a"), ("old", "b", "b"), ("edited", "d", "d")))
    second = await make_run(make, suite(("new", "b", "b"), ("edited", "d", "D"), ("same", "a", "a")))
    check_comparable(store, [first, second], by_digest=True)
    comparison = compare_runs(*load_outcomes(store, [first, second], by_digest=True))
    assert comparison.whole.pairs == 2
    assert [(pair.baseline, pair.candidate) for pair in comparison.unpaired.renamed] == [("old", "new")]
    assert comparison.unpaired.only_baseline == ("edited",)


async def test_suites_that_count_repeats_by_other_rules_are_refused(
    make: MakeRuns, store: SqliteStore, ten: str
) -> None:
    run = await make_run(make, ten)
    other = replace(run, suite=replace(run.suite, digest="sha256:1", repeats_rule="any"))
    with pytest.raises(UsageError, match="by different rules, 'each' and 'any'"):
        check_comparable(store, [run, other], by_digest=True)


# --- facts -------------------------------------------------------------------------------------------------


async def test_facts_are_the_verdicts_as_they_are_counted_now(
    make: MakeRuns, store: SqliteStore, ten: str
) -> None:
    run = await make_run(make, ten, settings=Settings(repeats=2))
    (facts,) = load_outcomes(store, [run])
    assert [case.id for case in facts.cases] == [f"c{n}" for n in range(10)]
    assert [[fact.verdict for fact in case.trials] for case in facts.cases] == [
        [Verdict.PASS if n % 2 else Verdict.FAIL] * 2 for n in range(10)
    ]
    assert (facts.trials, facts.missing) == (20, 0)
    assert facts.count_verdicts().pass_rate == 0.5


async def test_a_run_that_is_named_twice_is_read_once(make: MakeRuns, store: SqliteStore, ten: str) -> None:
    run = await make_run(make, ten)
    first, second = load_outcomes(store, [run, run])
    assert first is second


@pytest.mark.slow
async def test_how_far_reading_is_is_told(make: MakeRuns, store: SqliteStore, suite: WriteSuite) -> None:
    run = await make_run(make, suite(*((f"c{n}", "a", "a") for n in range(2100))))
    counts: list[tuple[int, int]] = []
    load_outcomes(store, [run], on_progress=lambda read_count, total: counts.append((read_count, total)))
    assert counts == [(1000, 2100), (2000, 2100)]


# --- holdouts and judges -----------------------------------------------------------------------------------


async def test_a_look_is_counted_for_each_run_whose_holdout_is_shown(
    make: MakeRuns, store: SqliteStore, ten: str
) -> None:
    runs = [await make_run(make, ten), await make_run(make, ten)]
    facts = load_outcomes(store, [*runs, runs[0]])
    assert record_comparison_access(store, facts, "dev") is None
    assert store.holdout_accesses(runs[0].suite.digest) == []
    assert record_comparison_access(store, facts, "all") == 2
    assert record_comparison_access(store, facts, "holdout") == 4
    assert [(look.run, look.kind) for look in store.holdout_accesses(runs[0].suite.digest)] == [
        (runs[0].id, "rate"),
        (runs[1].id, "rate"),
    ] * 2


async def test_a_split_that_no_run_has_is_refused(make: MakeRuns, store: SqliteStore, folder: Any) -> None:
    (folder / "flat.jsonl").write_text(
        '{"id": "p", "category": "reasoning", "input": "a", "ideal": "a", "assertion": {"type": "contains"}, '
        '"metadata": {"difficulty": "easy", "tokens_est": 1}}\n',
        encoding="utf-8",
    )
    facts = load_outcomes(store, [await make_run(make, "flat.jsonl")]) * 2
    (whole,) = compare_pairwise(facts, split="all", by="category").comparisons
    assert whole.whole.value == 0
    with pytest.raises(UsageError, match="None of these runs has holdout cases"):
        compare_pairwise(facts, split="holdout", by="category")


async def test_what_is_known_of_a_judge_is_told_once(make: MakeRuns, store: SqliteStore, folder: Any) -> None:
    (folder / "judged.eval.yaml").write_text(
        "tests:\n  - id: x\n    input: Name a colour.\n    criteria: It names one.\n", encoding="utf-8"
    )
    runs = [await make_run(make, "judged.eval.yaml", judges=("echo",)) for _ in range(2)]
    facts = load_outcomes(store, runs)
    assert all(outcomes.prompts.keys() == {"echo"} for outcomes in facts)
    (note,) = describe_judges(store, facts)
    assert "'echo'" in note

"""Outcomes in columns: they come back as they were, and take little memory."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
from msgspec.structs import replace

from proctor.comparison.compare import compare_runs
from proctor.comparison.outcome_table import CaseOutcomes, OutcomeTable, TrialOutcome
from proctor.comparison.outcomes import RunOutcomes
from proctor.comparison.pairing import pair_trials
from proctor.model import Verdict
from support.builders import make_run
from support.outcomes import make_outcomes

TRIALS = (
    TrialOutcome(0, Verdict.PASS, 1.0, 12.5, 0.01, (1.0, 2.0), 3.0, 40.0),
    TrialOutcome(1, Verdict.ERROR),
    TrialOutcome(2, Verdict.FAIL, 0.25, 0.0, 0.0),
)
DIGESTS = "sha256:" + "0f" * 32, "sha256:" + "a1" * 32
CASES = [
    CaseOutcomes("a", "a", "math", ("easy", "new"), "dev", TRIALS, 0, "doc", DIGESTS),
    CaseOutcomes("ü\ud800", "ü\ud800", None, (), None, (), 7, None, ("sha256:x", "SHA256:" + "0f" * 32)),
    CaseOutcomes("", "", "math", ("easy",), "holdout", TRIALS[::-1], 9, "", ("sha256:" + "0F" * 32, "")),
]


def fill_table(cases: list[CaseOutcomes], **fields: bool) -> OutcomeTable:
    table = OutcomeTable(**{"by_digest": False, "with_digests": False} | fields)
    for case in cases:
        table.append(case)
    return table


def test_cases_come_back_as_they_were() -> None:
    table = fill_table(CASES, with_digests=True)
    assert list(table) == CASES
    assert (len(table), table[-1], table[1:]) == (3, CASES[-1], CASES[1:])
    with pytest.raises(IndexError):
        table[3]


def test_cases_of_one_kind_come_back_as_they_were() -> None:
    cases = [
        CaseOutcomes(name, name, None, (), None, (TRIALS[2],), number) for number, name in enumerate("xyz")
    ]
    assert list(fill_table(cases)) == cases


def test_the_key_is_the_id_or_both_digests() -> None:
    assert list(fill_table(CASES).names()) == [(case.id, case.id) for case in CASES]
    assert fill_table(CASES, by_digest=True)[0].key == " ".join(DIGESTS)


def test_a_table_knows_its_splits_and_verdicts() -> None:
    table = fill_table(CASES)
    assert [table.has_split(name) for name in ("dev", "holdout", "train")] == [True, True, False]
    assert next(table.verdicts()) == ([Verdict.PASS, Verdict.ERROR, Verdict.FAIL], "doc")


@pytest.mark.parametrize("split", ["all", "dev", "holdout"])
@pytest.mark.parametrize("candidate", ["abc", "cab", "bxc", "", "dcba"])
def test_pairs_are_the_same_in_columns_and_in_records(candidate: str, split: Any) -> None:
    splits = {"a": "dev", "b": "holdout", "c": "dev"}
    keys = {"x": "a"}  # a case with another id
    runs = [
        make_outcomes("one", {"a": "+-", "b": "-", "c": "!"}, split=splits),
        make_outcomes("two", dict.fromkeys(candidate, "-+"), split=splits, keys=keys),
    ]
    in_columns = [
        replace(run, cases=fill_table(list(run.cases))) if run.run.id == "one" else run for run in runs
    ]
    pairs, pairs_in_columns = (pair_trials(pair[0], pair[1], split) for pair in (runs, in_columns))
    assert list(pairs.cases) == list(pairs_in_columns.cases)
    assert replace(pairs, cases=()) == replace(pairs_in_columns, cases=())


def test_values_beyond_a_byte_come_back_as_they_were() -> None:
    cases = [CaseOutcomes(f"{n}", f"{n}", f"part {n}", (), None, ()) for n in range(300)]
    assert list(fill_table(cases)) == cases


@pytest.mark.slow
def test_the_memory_of_a_comparison_hardly_grows_with_its_pairs() -> None:
    def collect(run_id: str, count: int) -> RunOutcomes:
        table = OutcomeTable(by_digest=False, with_digests=False)
        for n in range(count):
            name, verdict = f"case-{n}", Verdict.PASS if n % 50 != len(run_id) else Verdict.FAIL
            trial = TrialOutcome(0, verdict, float(n % 2), n / 7)
            table.append(CaseOutcomes(name, name, None, (), None, (trial,), n))
        run = make_run(id=run_id, group=run_id, planned=count, status="finished")
        return RunOutcomes(run=run, cases=table, trials=count)

    def measure(count: int) -> int:
        tracemalloc.start()
        try:
            compare_runs(collect("a", count), collect("bc", count))
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    measure(2_000)  # so that nothing is imported or cached later
    assert measure(2_000) - measure(200) < 400 * 1_800  # 1,300 with a record for each case and trial

"""The split of a run: stored with the run, and the same when the run is resumed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from proctor.errors import UsageError
from proctor.model import Selection, Settings, SplitRule, Suite
from proctor.plan import CaseIndexer
from proctor.services import events
from proctor.services.runs.planning.judge_choice import RequiredTargets
from proctor.services.runs.reading.report import (
    build_report,
    has_holdout,
    read_trial_rows,
    record_report_access,
)
from proctor.services.runs.request import Request
from proctor.services.suites.holdout_split import apply_split
from proctor.services.suites.load import LoadedSuite
from proctor.stores.sqlite.store import SqliteStore
from support.sessions import MakeRuns, WriteModule, WriteSuite


@pytest.fixture
def ten(suite: WriteSuite) -> str:
    return suite(*((f"t{n}", f"say {n}", "say 3") for n in range(10)))


def splits(store: SqliteStore, run_id: str) -> dict[str, str | None]:
    return {stored_trial.trial.case_id: stored_trial.trial.split for stored_trial in store.trials(run_id)}


async def test_the_rule_that_was_asked_for_stands_in_the_stored_run(
    make: MakeRuns, store: SqliteStore, ten: str
) -> None:
    (usual,) = await make(ten)
    (other,) = await make(ten, holdout=0.3, split_method="shuffle")
    assert store.run(usual.run.id).suite.split_rule == SplitRule()
    assert store.run(other.run.id).suite.split_rule == SplitRule(ratio=0.3, method="shuffle")
    assert usual.run.suite.digest == other.run.suite.digest
    assert list(splits(store, other.run.id).values()).count("holdout") == 3


async def test_a_method_alone_keeps_the_share_of_the_suite(make: MakeRuns, ten: str) -> None:
    (result,) = await make(ten, split_method="shuffle")
    assert result.run.suite.split_rule == SplitRule(method="shuffle")


@pytest.mark.parametrize("how", ["resume", "resume-newest", "retry_errors"])
async def test_a_run_that_is_taken_up_again_keeps_its_split(
    make: MakeRuns, store: SqliteStore, ten: str, module: WriteModule, how: str
) -> None:
    name = module(
        "from pathlib import Path\n"
        "def f(prompt):\n"
        "    if not Path('mended').exists() and prompt.endswith(('2', '5', '7')):\n"
        "        raise ValueError('broken')\n"
        "    return prompt\n"
    )
    split_fields: dict[str, Any] = {"holdout": 0.3, "split_method": "shuffle"}
    (result,) = await make(ten, f"function:{name}:f", **split_fields)
    before = splits(store, result.run.id)
    Path("mended").touch()
    options: dict[str, Any] = {
        "resume": {"resume": result.run.id},
        "resume-newest": {"suites": ten, "targets": f"function:{name}:f", "resume": "", **split_fields},
        "retry_errors": {"retry_errors": result.run.id},
    }[how]
    if how == "resume-newest":
        store.update_run(replace(result.run, status="interrupted"))
    else:
        options["targets"] = ""
    (again,) = await make(**options)
    assert again.run.suite.split_rule == SplitRule(ratio=0.3, method="shuffle")
    assert splits(store, again.run.id) == before
    assert (again.run.id == result.run.id) == (how != "retry_errors")


async def test_the_newest_run_with_another_split_is_not_continued(
    make: MakeRuns, store: SqliteStore, ten: str
) -> None:
    (result,) = await make(ten, holdout=0.3)
    store.update_run(replace(result.run, status="interrupted"))
    with pytest.raises(UsageError, match=r"--holdout: the run has 0\.3, this command sets 0\.2"):
        await make(ten, resume="")


@pytest.mark.parametrize("flag", ["resume", "retry_errors"])
async def test_a_stored_run_is_not_divided_anew(make: MakeRuns, ten: str, flag: str) -> None:
    (result,) = await make(ten)
    options = {flag: result.run.id, "flags": frozenset({"--holdout"})}
    with pytest.raises(UsageError, match="--holdout: the run has"):
        await make(ten, **options, holdout=0.3)
    (same,) = await make(ten, **options, holdout=0.2)
    assert same.run.suite.split_rule == SplitRule()


async def test_answers_that_are_graded_again_by_a_changed_suite_stay_where_they_were(
    make: MakeRuns, store: SqliteStore, ten: str, suite: WriteSuite
) -> None:
    (result,) = await make(ten, holdout=0.3, split_method="shuffle")
    changed = suite(*((f"t{n}", f"say {n}", "say 4") for n in range(10)))
    (again,) = await make(changed, "", regrade=result.run.id)
    assert again.tally.all.passed == 1
    assert splits(store, again.run.id) == splits(store, result.run.id)


def test_a_built_in_suite_from_the_store_is_not_split_either() -> None:
    suite = LoadedSuite(
        path="builtin:cheap@v1",
        suite=Suite(name="builtin:cheap", dialect="pramana"),
        indexer=CaseIndexer(Selection(), None),
        required=RequiredTargets(),
        problems=(),
    )
    assert apply_split(suite, Request()) is suite
    with pytest.raises(UsageError, match="Built-in suites have no holdout"):
        apply_split(suite, Request(holdout=0.2))


async def test_a_run_plans_what_it_tells(
    make: MakeRuns, ten: str, session_events: list[events.Event]
) -> None:
    await make(ten, holdout=0.5)
    (event,) = (item for item in session_events if isinstance(item, events.RunStarted))
    assert (event.dev, event.holdout) == (5, 5)


async def test_rows_are_sealed_at_the_source_and_numbers_are_of_whole_trials(
    make: MakeRuns, store: SqliteStore, ten: str
) -> None:
    (result,) = await make(ten)
    all_rows = list(read_trial_rows(store, result.run, reveal=True))
    sealed_rows = list(read_trial_rows(store, result.run))
    assert [row.verdict for row in sealed_rows] == [row.verdict for row in all_rows]
    assert [row.sealed for row in sealed_rows] == [row.trial.split == "holdout" for row in all_rows]
    assert all((row.trial.output is None) == row.sealed for row in sealed_rows)
    assert not any(row.sealed or row.trial.output is None for row in all_rows)
    assert list(build_report(store, result.run).rows()) == sealed_rows
    assert list(build_report(store, result.run, reveal=True).rows()) == all_rows
    tally = build_report(store, result.run).tally
    assert (tally.all.passed, tally.all.failed, tally.asked_count) == (1, 9, 10)
    assert tally.latency_ms().mean is not None


async def test_a_look_is_kept_with_its_run_and_suite(make: MakeRuns, store: SqliteStore, ten: str) -> None:
    (result,) = await make(ten)
    report = build_report(store, result.run, result.tally)
    assert report.looks == 0
    assert record_report_access(store, report, reveal=False).looks == 1
    assert record_report_access(store, report, reveal=True).looks == 3
    accesses = [(look.suite, look.run, look.kind) for look in store.holdout_accesses(result.run.suite.digest)]
    assert accesses == [(result.run.suite.digest, result.run.id, kind) for kind in ("rate", "rate", "reveal")]


async def test_where_nothing_is_held_out_nobody_can_look(
    make: MakeRuns, store: SqliteStore, ten: str
) -> None:
    settings = Settings(selection=Selection(split="dev"))
    (dev,) = await make(ten, settings=settings)
    report = build_report(store, dev.run)
    assert record_report_access(store, report, reveal=True) is report
    assert store.holdout_accesses(dev.run.suite.digest) == []
    assert not has_holdout(store, dev.run)
    (whole_run,) = await make(ten)
    assert has_holdout(store, whole_run.run)

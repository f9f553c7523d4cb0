"""Stored totals equal those counted again, or there are none, after any writes and any end."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from msgspec.structs import replace

from proctor import __version__
from proctor.model import Judgment, Label, Output, PassRule, Run, Score, Settings, Trial, Verdict
from proctor.protocols import Store
from proctor.reports.runs.console import document_for
from proctor.services import events
from proctor.services.runs.reading.listing import summarize_run
from proctor.services.runs.reading.report import build_report, read_trial_rows
from proctor.services.runs.reading.totals import encode_totals, load_totals
from proctor.stores import open_store
from proctor.stores.sqlite.store import SqliteStore
from proctor.verdicts import MAX_FIRST_FAILURES, RepeatsRule, Tally, is_reused
from support.builders import NOON, make_case
from support.stores import add_run, save_cases

Make = Callable[..., Awaitable[list[events.RunFinished]]]

CASES, REPEATS = 4, 2
FOLDER = Path(__file__).parent


def count_again(store: Store, run: Run) -> Tally:
    tally = Tally.for_run(run)
    for row in read_trial_rows(store, run, reveal=True):
        tally.add(row.trial, row.case, kept=is_reused(row.trial, run))
    return tally


def check_totals(store: Store, run: Run, *, is_required: bool = True) -> None:
    """Compares stored totals with the trials."""
    body = store.totals(run.id).body
    assert (body is not None) >= is_required
    if body is not None:
        assert body == encode_totals(count_again(store, run))


def begin(store: Store, repeats_rule: RepeatsRule = "each", cases: int = CASES) -> Run:
    saved = [
        make_case(f"c{position}", f"q{position}", tags=(f"t{position % 2}",), category="k")
        for position in range(cases)
    ]
    suite = save_cases(store, saved, repeats_rule=repeats_rule)
    return add_run(store, suite, id="r1", planned=cases * REPEATS, settings=Settings(repeats=REPEATS))


def judged_trial(position: int, repeat: int, verdict: Verdict = Verdict.PASS) -> Trial:
    judgment = Judgment(judge="j", prompt_digest=f"sha256:{position}", passed=True)
    score = Score(
        grader="g",
        name="g",
        value=None if verdict is Verdict.UNSCORED else float(verdict is Verdict.PASS),
        outcome=verdict,
        judgments=(judgment,),
    )
    return Trial(
        case_id=f"c{position}",
        position=position,
        repeat=repeat,
        sent="sha256:0",
        split="holdout" if position % 2 else "dev",
        output=None if verdict is Verdict.ERROR else Output(text="a", latency_ms=2.0**position, cost_usd=0.5),
        scores=() if verdict is Verdict.ERROR else (score,),
        started_at=NOON,
    )


class StoredTotalsMachine(RuleBasedStateMachine):
    """Whatever is done with a run, its stored totals are those of its trials, or there are none."""

    places = st.tuples(st.integers(0, CASES - 1), st.integers(0, REPEATS - 1))
    verdicts = st.sampled_from(Verdict)

    def __init__(self) -> None:
        super().__init__()
        self.store = open_store(":memory:")
        self.run = begin(self.store)

    def teardown(self) -> None:
        self.store.close()

    @rule(place=places)
    def answer(self, place: tuple[int, int]) -> None:
        self.store.save_output("r1", judged_trial(*place))

    @rule(place=places, verdict=verdicts)
    def grade(self, place: tuple[int, int], verdict: Verdict) -> None:
        self.store.save_trial("r1", judged_trial(*place, verdict), verdict)

    @rule(has_totals=st.booleans())
    def finish(self, has_totals: bool) -> None:
        totals = encode_totals(count_again(self.store, self.run)) if has_totals else None
        self.run = replace(self.run, status="finished", finished_at=NOON)
        self.store.update_run(self.run, totals=totals)

    @rule(tag=st.sampled_from(["a", "b"]))
    def tag(self, tag: str) -> None:
        self.run = replace(self.run, tags=(tag,))
        self.store.update_run(self.run)

    @rule()
    def label(self) -> None:
        self.store.add_label(Label(run="r1", case_id="c0", passed=True, by="ana"))

    @rule()
    def look(self) -> None:
        build_report(self.store, self.run, stored=True)

    @rule(place=places, verdict=verdicts)
    def count_while_another_process_writes(self, place: tuple[int, int], verdict: Verdict) -> None:
        totals = self.store.totals("r1")
        body = encode_totals(count_again(self.store, self.run))
        self.store.save_trial("r1", judged_trial(*place, verdict), verdict)
        self.store.flush()
        self.store.save_totals("r1", replace(totals, body=body))

    @rule(repeats_rule=st.sampled_from(["each", "any", "mean"]))
    def begin_again(self, repeats_rule: RepeatsRule) -> None:
        self.store.delete_run("r1")
        self.run = begin(self.store, repeats_rule)

    @invariant()
    def stored_totals_are_those_of_the_trials(self) -> None:
        check_totals(self.store, self.run, is_required=False)
        totals = load_totals(self.store, self.run)
        if totals is not None:
            assert encode_totals(count_again(self.store, self.run)) == self.store.totals("r1").body
            summary = summarize_run(self.store, self.run)
            assert summary.counts == count_again(self.store, self.run).result_counts


StoredTotalsMachine.TestCase.settings = settings(max_examples=25, stateful_step_count=20, deadline=None)
test_whatever_is_done_stored_totals_are_those_of_the_trials = StoredTotalsMachine.TestCase


# --- whole runs --------------------------------------------------------------------------------------------

ANSWERS = """
asked = []
def answer(prompt):
    asked.append(prompt)
    if "broken" in prompt and len(asked) < 5:
        raise RuntimeError("no")
    return prompt
"""


async def test_runs_resumed_retried_regraded_and_repeated_ones_have_totals_when_they_end(
    make: Make, suite: Callable[..., str], store: Store, module: Callable[[str], str]
) -> None:
    path = suite(("a", "one", "one"), ("b", "two", "no"), ("c", "broken", "broken"), ("d", "four", "four"))
    target = f"function:{module(ANSWERS)}:answer"
    (first,) = await make(path, target)
    assert first.tally.all.errors == 1
    (again,) = await make(retry_errors=first.run.id)
    (regraded,) = await make(regrade=first.run.id)
    (resumed,) = await make(path, target, resume=first.run.id)
    (other,) = await make(path, "echo")
    for finished in (first, again, regraded, resumed, other):
        check_totals(store, finished.run)


async def test_a_retry_that_lost_its_copies_takes_them_from_the_run_again_when_it_is_resumed(
    make: Make, suite: Callable[..., str], store: Store, module: Callable[[str], str]
) -> None:
    path = suite(("a", "one", "one"), ("b", "two", "no"), ("c", "broken", "broken"), ("d", "four", "four"))
    (first,) = await make(path, f"function:{module(ANSWERS)}:answer")
    (again,) = await make(retry_errors=first.run.id)
    lost_run = replace(again.run, id="lost", status="interrupted", finished_at=None)
    store.add_run(lost_run)
    (resumed,) = await make(resume="lost")
    assert resumed.tally.all == again.tally.all
    sources = {
        stored_trial.trial.case_id: stored_trial.trial.source_run for stored_trial in store.trials("lost")
    }
    assert sources == {"a": first.run.id, "b": first.run.id, "c": None, "d": first.run.id}
    check_totals(store, resumed.run)


MOODY = """
is_broken = False
def answer(prompt):
    if is_broken:
        raise RuntimeError("no")
    return prompt
"""


@pytest.mark.parametrize("address", ["kept.db"])
async def test_a_run_that_is_stopped_again_before_all_its_trials_were_seen_has_no_wrong_totals(
    make: Make, suite: Callable[..., str], store: SqliteStore, module: Callable[[str], str]
) -> None:
    path = suite(*((f"c{number}", f"q{number}", "q") for number in range(300)))
    name = module(MOODY)
    limits = Settings(max_failures=1, concurrency=1)
    (first,) = await make(path, f"function:{name}:answer", settings=limits)
    store._db.execute("DELETE FROM trials WHERE position < 150")  # as if they had never come
    store.update_run(replace(first.run, status="interrupted"))
    sys.modules[name].is_broken = True  # type: ignore[attr-defined]
    (again,) = await make(path, f"function:{name}:answer", resume=first.run.id, settings=limits)
    assert (again.run.status, again.tally.all.total < 150) == ("interrupted", True)
    check_totals(store, again.run, is_required=False)
    assert build_report(store, again.run, stored=True).tally.all.total >= 150
    check_totals(store, again.run)


def test_the_report_of_stored_totals_is_that_of_counted_ones() -> None:
    with closing(open_store(":memory:")) as store:
        run = replace(begin(store, cases=40), status="finished", finished_at=NOON)
        for place in reversed(range(80)):
            verdict = list(Verdict)[place % 4]
            store.save_trial("r1", judged_trial(place // 2, place % 2, verdict), verdict)
        store.update_run(run)
        report = build_report(store, run)
        report_from_totals = build_report(store, run, stored=True)
        assert (len(report.tally.latencies_ms), len(report_from_totals.tally.latencies_ms)) == (60, 0)
        assert list(document_for(report)) == list(document_for(report_from_totals))
        assert len(report_from_totals.tally.first_failures) == MAX_FIRST_FAILURES


def test_totals_whose_numbers_meant_something_else_are_counted_again() -> None:
    with closing(open_store(":memory:")) as store:
        run = replace(begin(store), status="finished", finished_at=NOON)
        store.save_trial("r1", judged_trial(0, 0), Verdict.PASS)
        store.update_run(run)
        tally = build_report(store, run).tally
        totals = store.totals("r1")
        assert totals.body is not None
        _, _, record = totals.body.partition(b"\n")
        # With latencies of cached and reused answers, and without their number.
        older = f"{__version__} 1\n".encode() + record.replace(b'"p50":1.0', b'"p50":9.0')
        store.save_totals("r1", replace(totals, body=older))
        assert store.totals("r1").body == older
        assert load_totals(store, run) is None
        assert build_report(store, run, stored=True).tally.latency_ms() == tally.latency_ms()


def test_the_first_cases_that_did_not_pass_are_those_of_the_suite_whatever_comes_first() -> None:
    tally = Tally(lambda _case: PassRule())
    for position in (7, 30, *range(40, 20, -1), 3, 3, 7):
        verdict = Verdict.PASS if position == 30 else Verdict.FAIL
        tally.add(judged_trial(position, 0, verdict), make_case())
    assert tally.first_failures == [3, 7, 21, 22, 23, 24, 25, 26, 27, 28]


def test_totals_that_cannot_be_saved_are_counted_each_time(tmp_path: Path) -> None:
    path = str(tmp_path / "kept.db")
    with closing(open_store(path)) as store, closing(open_store(path)) as other:
        run = begin(store)
        store.save_trial("r1", judged_trial(0, 0), Verdict.PASS)
        store.update_run(replace(run, status="interrupted"))
        run = other.run("r1")
        with closing(sqlite3.connect(path, isolation_level=None)) as lock:
            lock.execute("BEGIN IMMEDIATE")  # as a process that saves a suite
            assert build_report(other, run, stored=True).tally.all.passed == 1
        check_totals(other, run, is_required=False)
        assert other.totals("r1").body is None
        build_report(other, run, stored=True)
        check_totals(other, run)


# --- killed ------------------------------------------------------------------------------------------------

WRITER = """
import sys
from msgspec.structs import replace
from proctor.model import Verdict
from proctor.services.runs.reading.totals import encode_totals
from proctor.stores import open_store
from proctor.verdicts import Tally
sys.path[:0] = sys.argv[2:]
from test_service_totals import begin, count_again, judged_trial

store = open_store(sys.argv[1])
run = store.run("r1")
for round in range(1000):
    for position in range(4):
        store.save_trial("r1", judged_trial(position, round * 2), Verdict.FAIL)
    store.flush()
    store.update_run(replace(run, status="finished"), totals=encode_totals(count_again(store, run)))
    print(round, flush=True)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
@pytest.mark.parametrize("rounds", [1, 3, 8])
def test_a_killed_process_leaves_totals_of_all_trials_or_none(tmp_path: Path, rounds: int) -> None:
    path = str(tmp_path / "kept.db")
    with closing(open_store(path)) as store:
        begin(store)
    command = [sys.executable, "-c", WRITER, path, str(FOLDER), str(FOLDER.parents[1])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for _ in range(rounds):
            assert process.stdout.readline()
        process.send_signal(signal.SIGKILL)
    with closing(open_store(path)) as store:
        run = store.run("r1")
        check_totals(store, run, is_required=False)
        build_report(store, run, stored=True)
        check_totals(store, run)

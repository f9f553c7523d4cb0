"""Summaries of runs for pages: of a run in progress, counted once, and from stored totals."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from proctor.codec import target_digest
from proctor.errors import StoreError
from proctor.model import (
    Calibration,
    Case,
    HoldoutAccess,
    Judgment,
    Output,
    Run,
    Score,
    Settings,
    SplitRule,
    Trial,
    Verdict,
)
from proctor.protocols import Store
from proctor.reports.runs.serialize import run_record
from proctor.services.runs.reading.report import build_report
from proctor.services.runs.reading.run_summaries import RunSummary, SummaryReader
from proctor.services.runs.reading.trial_table import (
    TrialFilter,
    TrialFinder,
    TrialQuery,
    TrialRow,
    read_table_rows,
)
from proctor.stores import open_store
from support.builders import ECHO, NOON, make_case, make_score, make_trial
from support.stores import add_run, save_cases

ALL = TrialFilter()


class SummaryBench:
    """A store, and runs of one suite in it."""

    def __init__(self, folder: Path) -> None:
        self.path = str(folder / "kept.db")
        self.store = open_store(self.path)
        self.summaries = SummaryReader(self.opens)
        self.finder = TrialFinder()
        self.cases: list[Case] = []

    def opens(self) -> AbstractContextManager[Store]:
        return closing(open_store(self.path))

    def open_reader(self) -> SummaryReader:
        """A reader of another server over the same store."""
        return SummaryReader(self.opens)

    def find_positions(self, trial_filter: TrialFilter = ALL, *, revealed: bool = False) -> list[int]:
        """The positions of the trials that a filter selects."""
        summary = self.summaries.refresh_in(self.store, self.store.run("r1"))
        query = TrialQuery(filter=trial_filter, revealed=revealed)
        page = self.finder.select(self.store, summary, query).page(limit=1000)
        assert page.total == len(page.places)
        return [position for position, _ in page.places]

    def rows(self, *positions: int, revealed: bool = False) -> list[TrialRow]:
        """Some trials as a table shows them."""
        places = [(position, 0) for position in positions]
        return list(read_table_rows(self.store, self.store.run("r1"), places, revealed=revealed))

    def begin(self, run_id: str = "r1", cases: int = 6, **fields: Any) -> Run:
        self.cases = [
            make_case(f"c{place}", f"What is {place}?", tags=(f"t{place % 2}",), category=f"k{place % 3}")
            for place in range(cases)
        ]
        suite = save_cases(self.store, self.cases, digest="sha256:0", split_rule=SplitRule())
        return add_run(self.store, suite, **{"id": run_id} | fields)

    def trial(self, position: int, verdict: Verdict = Verdict.PASS, **fields: Any) -> Trial:
        value = {Verdict.PASS: 1.0, Verdict.FAIL: 0.0}.get(verdict)
        answer = Output(text=f"It is {position}.", latency_ms=position + 0.1, cost_usd=0.1 * position)
        scores = (make_score(value, reason="not so" if verdict is Verdict.FAIL else ""),)
        split = "holdout" if position == 5 else "dev"
        defaults = {"case_id": f"c{position}", "position": position, "split": split, "output": answer}
        return make_trial("", *fields.pop("scores", scores), **defaults | fields)

    def record(
        self, position: int, verdict: Verdict = Verdict.PASS, run_id: str = "r1", **fields: Any
    ) -> None:
        self.store.save_trial(run_id, self.trial(position, verdict, **fields), verdict)
        self.store.flush()

    def finish(self, run: Run) -> Run:
        run = replace(run, status="finished", finished_at=NOON + timedelta(seconds=9))
        self.store.update_run(run)
        self.store.close()  # the process that made it has ended
        self.store = open_store(self.path)
        return run

    def add_finished_run(self, run_id: str = "r1", cases: int = 6) -> Run:
        """A finished run, every third trial of which failed."""
        run = self.begin(run_id, cases)
        for place in range(cases):
            self.store.save_trial(run_id, *self._make_trial(place))
        return self.finish(run)

    def _make_trial(self, place: int) -> tuple[Trial, Verdict]:
        verdict = Verdict.PASS if place % 3 else Verdict.FAIL
        return self.trial(place, verdict), verdict


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[SummaryBench]:
    bench = SummaryBench(tmp_path)
    yield bench
    bench.store.close()


# --- a finished run ----------------------------------------------------------------------------------------


def test_a_run_has_the_numbers_that_the_command_line_counts(bench: SummaryBench) -> None:
    run = bench.add_finished_run()
    for _ in range(3):  # counted; from memory or file; from the file alone
        summary = bench.summaries.refresh("r1")
        assert summary.summary == run_record(build_report(bench.store, run))
        assert (summary.counts.passed, summary.counts.total, summary.counts.cases) == (4, 6, 6)
        assert (summary.done, summary.stored, summary.planned) == (6, 6, 6)
        assert (summary.whole, summary.alive, summary.status) == (True, False, "finished")
        assert summary.graders == ("exact",)
        bench.summaries = bench.open_reader()


def test_its_trials_are_rows_with_all_that_a_table_shows(bench: SummaryBench) -> None:
    bench.add_finished_run()
    (row,) = bench.rows(3)
    assert (row.position, row.verdict, row.score, row.split) == (3, Verdict.FAIL, 0.0, "dev")
    assert (row.latency_ms, row.cost_usd, row.sealed) == (3.1, 0.1 * 3, False)
    assert (row.question, row.answer, row.why) == ("What is 3?", "It is 3.", "exact: not so")


def test_what_is_held_out_is_not_in_its_rows_and_not_found(bench: SummaryBench) -> None:
    bench.add_finished_run()
    for revealed, positions in ((False, []), (True, [5])):
        assert bench.find_positions(TrialFilter(text="it is 5"), revealed=revealed) == positions
    (sealed_row,) = bench.rows(5)
    assert (sealed_row.sealed, sealed_row.verdict) == (True, Verdict.PASS)
    assert (sealed_row.question, sealed_row.answer, sealed_row.why, sealed_row.latency_ms) == (
        "",
        "",
        "",
        None,
    )
    assert bench.rows(5, revealed=True)[0].answer == "It is 5."


def test_tags_looks_and_calibrations_are_those_of_the_moment_though_nothing_is_counted_again(
    bench: SummaryBench,
) -> None:
    judgment = Judgment(judge="echo", prompt_digest="sha256:1", passed=True)
    judged = Score(grader="judge", name="judge", value=1.0, outcome=Verdict.PASS, judgments=(judgment,))
    run = bench.begin(judges=(ECHO,))
    for place in range(6):
        bench.record(place, scores=(judged,))
    run = bench.finish(run)
    before = bench.summaries.refresh("r1")
    assert "It has not been measured" in before.judges[0]
    assert before.summary.looks == 0
    digest = target_digest(run.judges[0])
    calibration = Calibration(
        judge=digest,
        name="echo",
        at=NOON,
        labels="l",
        count=40,
        agreed=36,
        passed=20,
        true_passes=18,
        prompts=("sha256:1",),
    )
    bench.store.add_calibration(calibration)
    bench.store.add_holdout_access(HoldoutAccess(suite=run.suite.digest, run="r1", kind="rate", at=NOON))
    bench.store.update_run(replace(run, tags=("nightly",)))
    after = bench.summaries.refresh("r1")
    expected = run_record(build_report(bench.store, bench.store.run("r1")))
    assert after.summary == expected
    assert (after.summary.looks, after.summary.tags) == (1, ("nightly",))
    assert "agrees with people" in after.judges[0]


def test_how_far_judges_agree_is_said_again_though_nothing_is_counted_again(bench: SummaryBench) -> None:
    judgments_by_verdict = [
        tuple(Judgment(judge=name, prompt_digest="sha256:1", passed=passed) for name in ("a", "b"))
        for passed in (True, False)
    ]
    agreed, parted = judgments_by_verdict[0], (judgments_by_verdict[0][0], judgments_by_verdict[1][1])
    run = bench.begin()
    for place in range(6):
        judgments = agreed if place else parted
        score = Score(grader="judge", name="judge", value=1.0, outcome=Verdict.PASS, judgments=judgments)
        bench.record(place, scores=(score,))
    bench.finish(run)
    for _ in range(3):
        judges = bench.summaries.refresh("r1").judges
        assert judges[0] == "All judgments agree on 5 of 6 scores that several decided."
        bench.summaries = bench.open_reader()


@pytest.mark.parametrize("body", [b"0.1.0 1\n{}", b"damaged", b""], ids=["earlier", "damaged", "empty"])
def test_totals_of_an_earlier_version_and_damaged_ones_are_counted_again(
    bench: SummaryBench, body: bytes
) -> None:
    bench.add_finished_run()
    summary = bench.summaries.refresh("r1").summary
    totals = bench.store.totals("r1")
    assert totals.body
    damaged = totals.body[:-9] if body == b"damaged" else body
    bench.store.save_totals("r1", replace(totals, body=damaged))
    assert bench.open_reader().refresh("r1").summary == summary
    assert bench.store.totals("r1").body == totals.body


def test_an_unknown_run_is_an_error(bench: SummaryBench) -> None:
    with pytest.raises(StoreError, match="There is no run"):
        bench.summaries.refresh("r9")


# --- a run that is being made ------------------------------------------------------------------------------


def test_a_run_that_is_being_made_is_followed_trial_by_trial(bench: SummaryBench) -> None:
    run = bench.begin()
    empty = bench.summaries.refresh("r1")
    assert (empty.done, empty.planned, empty.whole, empty.alive) == (0, 6, True, True)
    assert (empty.status, empty.summary.pass_rate) == ("running", None)
    for count, place in enumerate((4, 0, 5, 1, 2, 3), 1):
        bench.record(place, Verdict.FAIL if place == 4 else Verdict.PASS)
        summary = bench.summaries.refresh("r1")
        assert (summary.done, summary.counts.passed, summary.alive) == (count, count - 1, True)
    assert bench.find_positions() == [0, 1, 2, 3, 4, 5]
    run = bench.finish(run)
    assert bench.summaries.refresh("r1").summary.passed == 5
    assert bench.summaries.refresh("r1").alive is False


def test_an_answer_that_waits_for_its_judge_counts_when_it_is_judged(bench: SummaryBench) -> None:
    bench.begin()
    bench.store.save_output("r1", bench.trial(0))
    bench.record(1)
    waiting = bench.summaries.refresh("r1")
    assert (waiting.done, waiting.stored) == (1, 2)
    assert waiting.notes == ()
    assert bench.find_positions() == [1]
    bench.record(0, Verdict.FAIL)
    judged = bench.summaries.refresh("r1")
    assert (judged.done, judged.stored, judged.counts.failed) == (2, 2, 1)


def test_a_run_whose_process_died_is_interrupted_and_tells_what_is_missing(bench: SummaryBench) -> None:
    bench.begin()
    bench.record(0)
    assert bench.summaries.refresh("r1").alive
    bench.store.close()
    died = bench.summaries.refresh("r1")
    assert (died.run.status, died.alive, died.status) == ("interrupted", False, "interrupted")
    assert any("5 of 6 trials are missing" in note for note in died.notes)
    assert bench.open_reader().refresh("r1").summary == died.summary


def test_a_run_that_is_taken_up_again_is_seen_again(bench: SummaryBench) -> None:
    run = bench.begin()
    bench.record(0)
    stopped = replace(run, status="interrupted", finished_at=NOON)
    bench.store.update_run(stopped)
    bench.store.close()
    assert bench.summaries.refresh("r1").done == 1
    bench.store = open_store(bench.path)
    bench.store.lock_run("r1")
    bench.store.update_run(replace(run, status="running"))
    bench.record(1)
    again = bench.summaries.refresh("r1")
    assert (again.done, again.alive) == (2, True)
    for place in range(2, 6):
        bench.record(place)
    bench.finish(run)
    assert bench.summaries.refresh("r1").summary.passed == 6
    assert bench.find_positions() == [0, 1, 2, 3, 4, 5]


def test_what_the_numbers_come_to_in_the_end_is_not_said_before(bench: SummaryBench) -> None:
    run = bench.begin(settings=Settings(min_pass_rate=0.9))
    bench.record(0, Verdict.FAIL)
    assert not any("gate" in note for note in bench.summaries.refresh("r1").notes)
    for place in range(1, 6):
        bench.record(place)
    bench.finish(run)
    sentence = (
        "The gate failed: the pass rate is 83.33%, and at least 90.00% is required. With 6 cases a target"
    )
    assert any(note.startswith(sentence) for note in bench.summaries.refresh("r1").notes)


# --- slices and several at once ----------------------------------------------------------------------------


def test_whoever_has_no_patience_is_told_how_far_it_is_until_all_is_there(bench: SummaryBench) -> None:
    run = bench.add_finished_run(cases=700)
    summaries: list[RunSummary] = []
    while not summaries or not summaries[-1].whole:
        summaries.append(bench.summaries.refresh("r1", patience_s=0.0))
        assert summaries[-1].stored == 700
    counts = [summary.done for summary in summaries]
    assert len(counts) > 2
    assert counts == sorted(set(counts))
    assert summaries[0].counts.total == counts[0]
    assert not any("missing" in note for summary in summaries for note in summary.notes)  # it is finished
    assert summaries[-1].summary == run_record(build_report(bench.store, run))


def test_many_can_look_at_once_and_all_see_the_same_in_the_end(bench: SummaryBench) -> None:
    run = bench.add_finished_run(cases=300)
    readers = [bench.summaries, bench.open_reader()]
    problems: list[BaseException] = []

    def look(mine: SummaryReader) -> None:
        try:
            while not mine.refresh("r1", patience_s=0.001).whole:
                pass
        except BaseException as error:  # noqa: BLE001  # handed to the test
            problems.append(error)

    threads = [threading.Thread(target=partial(look, readers[number % 2])) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    expected = run_record(build_report(bench.store, run))
    assert [reader.refresh("r1").summary for reader in readers] == [expected] * 2


# --- lists -------------------------------------------------------------------------------------------------


def test_a_list_has_the_numbers_of_runs_that_were_counted_before(bench: SummaryBench) -> None:
    bench.add_finished_run("r1")
    bench.add_finished_run("r2")
    bench.summaries.refresh("r1")
    runs = list(bench.store.runs())
    totals_in_store = bench.open_reader().read_totals(bench.store, runs, patience_s=0.0)
    assert {name: totals.tally.all.passed for name, totals in totals_in_store.items()} == {"r1": 4}
    all_totals = bench.summaries.read_totals(bench.store, runs, patience_s=30)
    assert {name: totals.tally.all.passed for name, totals in all_totals.items()} == {"r1": 4, "r2": 4}


def test_a_run_that_is_stored_again_under_its_id_is_read_again(bench: SummaryBench) -> None:
    bench.add_finished_run()
    assert bench.find_positions(TrialFilter(text="it is 4")) == [4]
    bench.store.delete_run("r1")
    bench.begin()
    bench.record(4, Verdict.FAIL, output=Output(text="Not any more."))
    assert bench.summaries.refresh("r1").counts.failed == 1
    assert bench.find_positions(TrialFilter(text="it is 4")) == []

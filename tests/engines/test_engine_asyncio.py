"""The engine of one process, on virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from time import sleep
from typing import Any

import pytest

from proctor.engines.asyncio_engine import GRACE_S, LONG_GRACE_S, AsyncioEngine
from proctor.engines.protocol import RunWork, TrialWorker, TrialWriter
from proctor.errors import StoreError, TargetError, WorkspaceError
from proctor.grading import GradingMode
from proctor.model import Case, Output, Score, Trial, Verdict, Workspace
from proctor.plan import PlannedTrial
from proctor.protocols import WorkspaceVisit
from support.builders import make_case, make_run
from support.virtual_time import run_virtually


class RecordingWorker(TrialWorker, TrialWriter):
    """A worker and a writer that record every call."""

    def __init__(
        self,
        ask: Callable[[PlannedTrial], Awaitable[Output]],
        *,
        mode: GradingMode = GradingMode.IMMEDIATE,
        judge_s: float = 0,
        fails_after: int | None = None,
        enter_fails: bool = False,
        enter_s: float = 0,
    ) -> None:
        self.events: list[tuple[str, str, int]] = []
        self.finished: list[Trial] = []
        self.sent_trials: list[PlannedTrial] = []
        self.in_flight = self.peak = 0
        self._ask = ask
        self._judge_s = judge_s
        self._fails_after = fails_after
        self._enter_fails = enter_fails
        self._enter_s = enter_s
        self._mode = mode

    def grading_mode(self, case: Case) -> GradingMode:
        return self._mode

    def grade_immediately(self, case: Case, output: Output) -> tuple[Score, ...] | None:
        return _scores(output)

    def store_answer(self, trial: Trial, planned_trial: PlannedTrial) -> None:
        self.events.append(("arrived", trial.case_id, trial.repeat))

    async def enter(self, planned_trial: PlannedTrial) -> WorkspaceVisit:
        self.events.append(("enter", planned_trial.case.id, planned_trial.repeat))
        await asyncio.sleep(self._enter_s)
        if self._enter_fails:
            raise WorkspaceError("The hook before_each ended with exit code 1.")
        return OneChangeVisit(planned_trial.case.id)

    async def leave(self, visit: WorkspaceVisit, passed: bool) -> None:
        self.events.append(("leave " + ("passed" if passed else "failed"), visit.path, 0))

    async def answer(self, planned_trial: PlannedTrial, workspace: str | None) -> Output:
        if workspace is not None:
            self.events.append(("ask", workspace, planned_trial.repeat))
        self.sent_trials.append(planned_trial)
        self.in_flight += 1
        self.peak = max(self.peak, self.in_flight)
        try:
            return await self._ask(planned_trial)
        finally:
            self.in_flight -= 1

    async def grade(
        self, planned_trial: PlannedTrial, output: Output, workspace: str | None
    ) -> tuple[Score, ...]:
        self.events.append(("judging", workspace or planned_trial.case.id, 0))
        await asyncio.sleep(self._judge_s)
        return _scores(output)

    async def grade_repeats(
        self, group: Sequence[PlannedTrial], outputs: Sequence[Output | None]
    ) -> list[tuple[Score, ...]]:
        texts = ",".join("-" if output is None else output.text for output in outputs)
        assert [planned_trial.repeat for planned_trial in group] == list(range(len(outputs)))
        self.events.append(("together " + texts, group[0].case.id, len(outputs)))
        await asyncio.sleep(self._judge_s)
        return [() if output is None else _scores(output) for output in outputs]

    def store_trial(self, trial: Trial, planned_trial: PlannedTrial) -> Verdict:
        assert trial.case_id == planned_trial.case.id
        if self._fails_after is not None and len(self.finished) >= self._fails_after:
            raise StoreError("The disk is full.")
        self.events.append(("finished", trial.case_id, trial.repeat))
        self.finished.append(trial)
        return Verdict.PASS if trial.scores else Verdict.ERROR

    def run(self, max_concurrency: int, planned_trials: Iterable[PlannedTrial]) -> None:
        run_virtually(_engine(self, max_concurrency).run(iter(planned_trials)))

    @property
    def ids(self) -> list[str]:
        return [trial.case_id for trial in self.finished]


class OneChangeVisit:
    """A visit whose diff is one line."""

    def __init__(self, path: str) -> None:
        self.path = path

    async def diff(self) -> str | None:
        return f"+{self.path}"


def _engine(worker: RecordingWorker, max_concurrency: int) -> AsyncioEngine:
    return AsyncioEngine(RunWork(run=make_run(), max_concurrency=max_concurrency), worker, worker)


def _scores(output: Output) -> tuple[Score, ...]:
    return (Score(grader="g", name=output.text, value=1.0, outcome=Verdict.PASS),)


def plan(count: int, *, repeats: int = 1, in_workspace: bool = False, **fields: Any) -> list[PlannedTrial]:
    """The planned trials of `count` cases."""
    return [
        PlannedTrial(
            case=make_case(f"c{position}", workspace=Workspace() if in_workspace else None),
            position=position,
            repeat=repeat,
            repeats=repeats,
            split=None,
            sent_digest="sha256:0",
            **fields,
        )
        for position in range(count)
        for repeat in range(repeats)
    ]


async def _answer_slowly(planned_trial: PlannedTrial) -> Output:
    await asyncio.sleep(1)
    return Output(text=f"{planned_trial.case.id}/{planned_trial.repeat}")


async def _answer_immediately(planned_trial: PlannedTrial) -> Output:
    return Output(text=planned_trial.case.id)


def test_every_trial_is_made_once_with_its_own_output() -> None:
    worker = RecordingWorker(_answer_slowly)
    worker.run(7, plan(200))
    assert sorted(worker.ids) == sorted(f"c{number}" for number in range(200))
    for trial in worker.finished:
        assert trial.output is not None
        assert trial.output.text == f"{trial.case_id}/0" == trial.scores[0].name


@pytest.mark.parametrize(("workers", "trials", "peak"), [(1, 5, 1), (8, 200, 8), (8, 3, 3)])
def test_so_many_are_under_way_and_never_more(workers: int, trials: int, peak: int) -> None:
    worker = RecordingWorker(_answer_slowly)
    worker.run(workers, plan(trials))
    assert worker.peak == peak


@pytest.mark.parametrize("ask", [_answer_slowly, _answer_immediately])
def test_planned_trials_are_pulled_as_they_are_needed(ask: Any) -> None:
    worker, lead = RecordingWorker(ask), 0

    def read_plan() -> Iterator[PlannedTrial]:
        nonlocal lead
        for count, planned_trial in enumerate(plan(3000)):
            lead = max(lead, count - len(worker.finished))
            yield planned_trial

    run_virtually(_engine(worker, 4).run(read_plan()))
    assert len(worker.finished) == 3000
    assert lead <= 4 + 2 * 64  # a batch that is planned and one that waits to be stored


def test_no_trials_are_no_work() -> None:
    worker = RecordingWorker(_answer_slowly)
    worker.run(4, ())
    assert worker.events == []


def test_a_target_that_fails_makes_a_trial_with_its_failure() -> None:
    async def odd_ones_fail(planned_trial: PlannedTrial) -> Output:
        if planned_trial.position % 2:
            raise TargetError("no\nanswer", kind="refused")
        return await _answer_slowly(planned_trial)

    worker = RecordingWorker(odd_ones_fail, mode=GradingMode.ASYNC)
    worker.run(4, plan(10))
    failed = [trial for trial in worker.finished if trial.output is None]
    assert len(worker.finished) == 10
    assert sorted(trial.position for trial in failed) == [1, 3, 5, 7, 9]
    for trial in failed:
        assert trial.failure is not None
        assert (trial.failure.stage, trial.failure.kind, trial.failure.message) == (
            "target",
            "refused",
            "no\nanswer",
        )
        assert trial.scores == ()
    assert not any(kind == "arrived" and int(case[1:]) % 2 for kind, case, _ in worker.events)


# --- stopping ----------------------------------------------------------------------------------------------


def test_what_was_asked_gets_time_to_finish_when_the_run_is_stopped() -> None:
    worker = RecordingWorker(_answer_slowly)
    engine = _engine(worker, 4)

    async def go() -> float:
        loop = asyncio.get_running_loop()
        loop.call_at(2.5, engine.stop)
        await engine.run(iter(plan(100)))
        return loop.time()

    ended_at = run_virtually(go())
    assert sorted(worker.ids) == sorted(f"c{number}" for number in range(12))  # three rounds of four
    assert len(worker.sent_trials) == 12
    assert engine.is_stopped
    assert ended_at < 3.5


@pytest.mark.parametrize(("reason", "grace_s"), [(None, GRACE_S), ("Every call failed.", LONG_GRACE_S)])
def test_what_does_not_finish_in_the_grace_is_cancelled_and_the_rest_is_kept(
    reason: str | None, grace_s: float
) -> None:
    async def some_hang(planned_trial: PlannedTrial) -> Output:
        await asyncio.sleep({0: 1.5, 1: 1000.0}.get(planned_trial.position, 0.5))
        return Output(text="x")

    worker = RecordingWorker(some_hang)
    engine = _engine(worker, 3)

    async def go() -> float:
        loop = asyncio.get_running_loop()
        loop.call_at(0.75, engine.stop, reason)
        await engine.run(iter(plan(100)))
        return loop.time()

    assert run_virtually(go()) == pytest.approx(0.75 + grace_s, abs=0.2)
    assert sorted(worker.ids) == ["c0", "c2", "c3"]
    assert worker.in_flight == 0
    assert (GRACE_S, LONG_GRACE_S) == (1, 5)


def test_the_user_cuts_short_the_grace_of_a_run_that_stops_by_itself() -> None:
    async def hangs(_planned_trial: PlannedTrial) -> Output:
        await asyncio.sleep(1000)
        return Output(text="x")

    engine = _engine(RecordingWorker(hangs), 3)

    async def go() -> float:
        loop = asyncio.get_running_loop()
        loop.call_at(0.75, engine.stop, "Every call failed.")
        loop.call_at(2.0, engine.stop)
        await engine.run(iter(plan(100)))
        return loop.time()

    assert run_virtually(go()) == pytest.approx(2.0, abs=0.2)


@pytest.mark.parametrize(("user_stops_at", "ends_at", "finished_count"), [(None, 30.0, 3), (2.0, 3.0, 0)])
def test_calls_under_way_end_by_themselves_unless_the_user_stops_the_run(
    user_stops_at: float | None, ends_at: float, finished_count: int
) -> None:
    async def takes_long(_planned_trial: PlannedTrial) -> Output:
        await asyncio.sleep(30)
        return Output(text="x")

    worker = RecordingWorker(takes_long)
    engine = _engine(worker, 3)

    async def go() -> float:
        loop = asyncio.get_running_loop()
        loop.call_at(0.75, engine.finish_calls, "A file has changed.")
        if user_stops_at is not None:
            loop.call_at(user_stops_at, engine.stop)
        await engine.run(iter(plan(100)))
        return loop.time()

    assert run_virtually(go()) <= ends_at + 0.2
    assert len(worker.finished) == finished_count
    assert engine.stop_reason == "A file has changed."


def test_a_target_that_answers_at_once_can_still_be_stopped() -> None:
    worker = RecordingWorker(_answer_immediately)
    engine = _engine(worker, 4)

    async def go() -> None:
        asyncio.get_running_loop().call_soon(engine.stop)
        await engine.run(iter(plan(5000)))

    run_virtually(go())
    assert len(worker.finished) < 1000
    assert len(worker.finished) == len(worker.sent_trials)


def test_a_run_cancelled_from_outside_keeps_what_was_answered_and_leaves_nothing_running() -> None:
    worker = RecordingWorker(_answer_slowly)

    async def go() -> None:
        running = asyncio.create_task(_engine(worker, 4).run(iter(plan(100))))
        await asyncio.sleep(2.5)
        running.cancel()
        await asyncio.wait([running])
        assert running.cancelled()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run_virtually(go())
    assert len(worker.finished) == 8
    assert worker.in_flight == 0


# --- what cannot go on -------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [GradingMode.IMMEDIATE, GradingMode.ASYNC, GradingMode.ACROSS_REPEATS])
def test_a_store_that_fails_stops_the_run_and_is_told(mode: GradingMode) -> None:
    worker = RecordingWorker(_answer_slowly, mode=mode, fails_after=10)

    async def go() -> None:
        with pytest.raises(StoreError, match="disk is full"):
            await _engine(worker, 4).run(iter(plan(500)))
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run_virtually(go())
    assert len(worker.finished) == 10
    assert len(worker.sent_trials) < 100
    assert worker.in_flight == 0


def test_a_fault_while_asking_is_raised_and_is_no_trial() -> None:
    async def breaks(planned_trial: PlannedTrial) -> Output:
        if planned_trial.position == 20:
            raise KeyError("a fault")
        return await _answer_slowly(planned_trial)

    worker = RecordingWorker(breaks)
    with pytest.raises(KeyError):
        worker.run(4, plan(500))
    assert "c20" not in worker.ids
    assert len(worker.sent_trials) < 50
    assert set(worker.ids) >= {f"c{number}" for number in range(20)}


def test_a_plan_that_cannot_be_read_on_is_raised() -> None:
    def read_broken_plan() -> Iterator[PlannedTrial]:
        yield from plan(5)
        raise StoreError("The store cannot be read.")

    worker = RecordingWorker(_answer_slowly)
    with pytest.raises(StoreError, match="cannot be read"):
        run_virtually(_engine(worker, 4).run(read_broken_plan()))
    assert worker.in_flight == 0


# --- grading -----------------------------------------------------------------------------------------------


def test_an_output_is_handed_over_before_its_judge_is_asked() -> None:
    worker = RecordingWorker(_answer_slowly, mode=GradingMode.ASYNC, judge_s=60)
    worker.run(1, plan(2))
    assert worker.events == [
        (event, case, 0) for case in ("c0", "c1") for event in ("arrived", "judging", "finished")
    ]


def test_an_output_that_is_graded_at_once_is_handed_over_once() -> None:
    worker = RecordingWorker(_answer_slowly)
    worker.run(2, plan(4))
    assert {event for event, _, _ in worker.events} == {"finished"}


@pytest.mark.parametrize("mode", [GradingMode.IMMEDIATE, GradingMode.ASYNC])
def test_an_output_that_is_there_already_is_graded_and_not_paid_for_again(mode: GradingMode) -> None:
    worker = RecordingWorker(_answer_slowly, mode=mode)
    worker.run(2, plan(3, output=Output(text="paid"), source_run="earlier"))
    assert worker.sent_trials == []
    assert sorted(worker.ids) == ["c0", "c1", "c2"]
    assert {(trial.scores[0].name, trial.source_run) for trial in worker.finished} == {("paid", "earlier")}
    assert not any(event == "arrived" for event, _, _ in worker.events)


def test_repeats_that_are_graded_together_wait_for_the_last_of_them() -> None:
    async def last_first(planned_trial: PlannedTrial) -> Output:
        await asyncio.sleep(10 - planned_trial.repeat)
        return Output(text=f"r{planned_trial.repeat}")

    worker = RecordingWorker(last_first, mode=GradingMode.ACROSS_REPEATS)
    worker.run(3, plan(1, repeats=3))
    assert worker.events == [
        ("arrived", "c0", 2),
        ("arrived", "c0", 1),
        ("arrived", "c0", 0),
        ("together r0,r1,r2", "c0", 3),
        ("finished", "c0", 0),
        ("finished", "c0", 1),
        ("finished", "c0", 2),
    ]
    assert [trial.scores[0].name for trial in worker.finished] == ["r0", "r1", "r2"]


def test_a_repeat_that_failed_stays_a_failure_among_those_graded_together() -> None:
    async def second_fails(planned_trial: PlannedTrial) -> Output:
        if planned_trial.repeat == 1:
            raise TargetError("no")
        return Output(text="yes")

    worker = RecordingWorker(second_fails, mode=GradingMode.ACROSS_REPEATS)
    worker.run(2, plan(4, repeats=3))
    assert len(worker.finished) == 12
    assert {event[0] for event in worker.events if event[0].startswith("together")} == {"together yes,-,yes"}
    assert [trial.repeat for trial in worker.finished if trial.failure is not None] == [1, 1, 1, 1]


def test_repeats_whose_group_is_incomplete_when_stopped_are_kept_as_outputs_only() -> None:
    async def third_hangs(planned_trial: PlannedTrial) -> Output:
        await asyncio.sleep(1000 if planned_trial.repeat == 2 else 1)
        return Output(text="x")

    worker = RecordingWorker(third_hangs, mode=GradingMode.ACROSS_REPEATS)
    engine = _engine(worker, 3)

    async def go() -> None:
        asyncio.get_running_loop().call_at(2, engine.stop)
        await engine.run(iter(plan(1, repeats=3)))

    run_virtually(go())
    assert worker.events == [("arrived", "c0", 0), ("arrived", "c0", 1)]


def test_an_answer_that_takes_long_to_grade_is_graded_beside_the_others() -> None:
    class FirstIsSlow(RecordingWorker):
        def grade_immediately(self, case: Case, output: Output) -> tuple[Score, ...] | None:
            return None if case.id == plan(1)[0].case.id else _scores(output)

    worker = FirstIsSlow(_answer_slowly)
    worker.run(4, plan(4))
    events = [(event, case_id) for event, case_id, _ in worker.events]
    first = plan(1)[0].case.id
    assert events.count(("arrived", first)) == 1
    assert events.count(("finished", first)) == 1
    assert events[-1] == ("finished", first)


def test_answers_that_wait_for_slow_graders_are_handed_over_before_they_are_graded() -> None:
    class Slow(RecordingWorker):
        def grade_immediately(self, case: Case, output: Output) -> tuple[Score, ...] | None:
            sleep(0.02)
            self.events.append(("graded", case.id, 0))
            return _scores(output)

    worker = Slow(_answer_slowly)
    worker.run(4, plan(4))
    events = [(event, case_id) for event, case_id, _ in worker.events if event in ("arrived", "graded")]
    assert [event for event, _ in events] == ["graded", *["arrived"] * 3, *["graded"] * 3]
    assert {case_id for _, case_id in events[1:4]} == {case_id for _, case_id in events[4:]}
    assert sorted(worker.ids) == ["c0", "c1", "c2", "c3"]


# --- workspaces --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [GradingMode.IMMEDIATE, GradingMode.ASYNC])
def test_a_workspace_is_left_after_its_answer_is_graded(mode: GradingMode) -> None:
    worker = RecordingWorker(_answer_slowly, mode=mode)
    worker.run(2, plan(1, in_workspace=True))
    assert [event for event, *_ in worker.events] == [
        "enter", "ask", "arrived", "judging", "finished", "leave passed",
    ]  # fmt: skip
    assert worker.finished[0].output is not None
    assert worker.finished[0].output.file_changes == "+c0"


def test_a_workspace_that_cannot_be_made_is_an_error_of_its_trial_and_nobody_is_asked() -> None:
    worker = RecordingWorker(_answer_slowly, enter_fails=True)
    worker.run(2, [*plan(1, in_workspace=True), plan(2)[1]])
    failures = {trial.case_id: trial.failure for trial in worker.finished}
    assert failures["c1"] is None
    assert failures["c0"] is not None
    assert (failures["c0"].stage, failures["c0"].kind) == ("setup", "workspace")
    assert [planned_trial.case.id for planned_trial in worker.sent_trials] == ["c1"]


def test_who_gets_into_a_workspace_after_the_run_was_stopped_leaves_it_and_asks_nobody() -> None:
    worker = RecordingWorker(_answer_slowly, enter_s=1)
    engine = _engine(worker, 2)

    async def go() -> None:
        asyncio.get_running_loop().call_at(0.5, engine.stop)
        await engine.run(iter(plan(4, in_workspace=True)))

    run_virtually(go())
    assert sorted(worker.events) == [
        ("enter", "c0", 0),
        ("enter", "c1", 0),
        ("leave passed", "c0", 0),
        ("leave passed", "c1", 0),
    ]


def test_a_workspace_is_left_though_its_target_fails() -> None:
    async def refuse(_planned_trial: PlannedTrial) -> Output:
        raise TargetError("Nobody is there.", kind="connection")

    worker = RecordingWorker(refuse)
    worker.run(1, plan(1, in_workspace=True))
    assert worker.events[-1] == ("leave failed", "c0", 0)

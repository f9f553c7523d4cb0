"""The protocol of engines: the smallest worker and writer, every engine of the table, and plain data."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Iterator

import pytest

from proctor.engines import ENGINES
from proctor.engines.asyncio_engine import AsyncioEngine
from proctor.engines.protocol import RunWork, TrialWorker, TrialWriter
from proctor.model import Judgment, Output, Score, TargetSpec, Trial, Verdict
from proctor.plan import PlannedTrial
from support.builders import make_case, make_run

WORK = RunWork(
    run=make_run(target=TargetSpec(name="echo", kind="echo", options={"env": {"KEY": "${{ KEY }}"}})),
    variables=frozenset({"NAME"}),
    max_concurrency=2,
)


LOCAL_ENGINES = [
    name for name, factory in ENGINES.load_all().items() if not getattr(factory, "is_remote", False)
]
"""The engines of this process; `test_service_ray.py` has the other one."""


class Echo(TrialWorker, TrialWriter):
    """The smallest worker and writer of an engine."""

    def __init__(self) -> None:
        self.trials: list[Trial] = []

    async def answer(self, planned_trial: PlannedTrial, workspace: str | None) -> Output:
        return Output(text=planned_trial.case.input[0].content)

    async def grade(
        self, planned_trial: PlannedTrial, output: Output, workspace: str | None
    ) -> tuple[Score, ...]:
        return (Score(grader="g", name=output.text, value=1.0, outcome=Verdict.PASS),)

    def store_trial(self, trial: Trial, planned_trial: PlannedTrial) -> Verdict:
        self.trials.append(trial)
        return Verdict.PASS


def planned_trials(count: int) -> Iterator[PlannedTrial]:
    for position in range(count):
        judgment = Judgment(judge="j", prompt_digest="sha256:2", passed=True)
        yield PlannedTrial(
            case=make_case(f"c{position}", f"question {position}"),
            position=position,
            repeat=0,
            repeats=1,
            split="dev",
            sent_digest="sha256:0",
            prior_judgments={"sha256:1": (judgment,)},
        )


@pytest.mark.parametrize("name", LOCAL_ENGINES)
def test_every_engine_makes_each_trial_once(name: str) -> None:
    parts = Echo()
    asyncio.run(ENGINES.get(name)(WORK, parts, parts).run(planned_trials(5)))
    answers = {trial.case_id: trial.output and trial.output.text for trial in parts.trials}
    assert answers == {f"c{number}": f"question {number}" for number in range(5)}
    assert [trial.scores[0].name for trial in parts.trials] == [f"question {number}" for number in range(5)]


def test_no_trial_is_planned_while_the_store_is_full() -> None:
    planned_ids: list[str] = []

    class Full(Echo):
        full = True
        questions = 0

        def is_full(self) -> bool:
            self.questions += 1
            return self.full

    def plan() -> Iterator[PlannedTrial]:
        for planned_trial in planned_trials(3):
            planned_ids.append(planned_trial.case.id)
            yield planned_trial

    async def run() -> None:
        parts = Full()
        running = asyncio.create_task(AsyncioEngine(WORK, parts, parts).run(plan()))
        while parts.questions < 3:
            await asyncio.sleep(0)
        assert planned_ids == []
        parts.full = False
        await running
        assert len(parts.trials) == 3

    asyncio.run(run())


@pytest.mark.parametrize("name", LOCAL_ENGINES)
def test_every_engine_can_be_stopped_with_a_reason(name: str) -> None:
    parts = Echo()

    async def stop_first() -> None:
        engine = ENGINES.get(name)(WORK, parts, parts)
        engine.stop("The budget is spent.")
        await engine.run(planned_trials(5))
        assert engine.is_stopped
        assert engine.stop_reason == "The budget is spent."

    asyncio.run(stop_first())
    assert parts.trials == []


def test_a_worker_elsewhere_gets_plain_data() -> None:
    trials = list(planned_trials(3))
    assert pickle.loads(pickle.dumps((WORK, trials))) == (WORK, trials)

"""A run whose trials are made in another process, which gets pickled data alone."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from proctor.engines import ENGINES
from proctor.engines.protocol import RunWork, TrialWorker, TrialWriter
from proctor.model import Settings, Verdict
from proctor.plan import PlannedTrial
from proctor.stores.sqlite.store import SqliteStore
from support.sessions import MakeRuns

OTHER_PROCESS = """
import asyncio, os, pickle, sys
from pathlib import Path

from proctor.engines import ENGINES
from proctor.engines.protocol import TrialWriter
from proctor.engines.retries import RetryPolicy
from proctor.services.runs.execution.target_pool import TargetPool, load_prices
from proctor.services.runs.execution.worker import open_worker
from proctor.verdicts import pass_rules_for, decide_verdict


class Collector(TrialWriter):
    def __init__(self, run):
        self.rules, self.trials = pass_rules_for(run), []

    def store_trial(self, trial, planned_trial):
        self.trials.append((planned_trial, trial))
        return decide_verdict(trial, self.rules(planned_trial.case))


def fail(message):
    raise AssertionError(message)


async def make(work, planned_trials):
    settings = work.run.settings
    pool = TargetPool(
        os.environ,
        concurrency=work.max_concurrency,
        retry_policy=RetryPolicy(timeout_s=settings.timeout_s, retries=settings.retries),
        prices=load_prices(os.environ, Path()),
        notify=print,
    )
    collector = Collector(work.run)
    worker = await open_worker(work, pool, stop=fail, warn=fail)
    try:
        await ENGINES.get("asyncio")(work, worker, collector).run(iter(planned_trials))
    finally:
        await worker.aclose()
        await pool.aclose()
    return collector.trials


trials = asyncio.run(make(*pickle.loads(sys.stdin.buffer.read())))
sys.stdout.buffer.write(pickle.dumps(trials))
"""

SUITE = """
workspace:
  template: seed
  hooks:
    before_all: {command: [sh, -c, 'echo ${{ WORD }} > "$1/word"', sh, '{{workspace_path}}']}
tests:
  - {id: a, input: Look., expected_output: x, assertions: [{type: contains, value: an owl in a tree}]}
  - {id: b, input: Look., expected_output: x, assertions: [{type: contains, value: a cat}]}
  - id: c
    input: Look.
    expected_output: x
    workspace: {template: seed, isolation: per_test}
    assertions: [{type: contains, value: in a tree}]
"""


class SubprocessEngine:
    """An engine that hands its whole run to another process."""

    works: ClassVar[list[RunWork]] = []

    def __init__(self, work: RunWork, _worker: TrialWorker, writer: TrialWriter) -> None:
        self._work = work
        self._writer = writer
        self.is_stopped = False
        self.stop_reason: str | None = None

    def stop(self, reason: str | None = None) -> None:
        self.is_stopped, self.stop_reason = True, reason

    async def run(self, planned_trials: Iterator[PlannedTrial]) -> None:
        self.works.append(self._work)
        process = subprocess.run(
            [sys.executable, "-c", OTHER_PROCESS],
            input=pickle.dumps((self._work, list(planned_trials))),
            stdout=subprocess.PIPE,
            check=True,
        )
        for planned_trial, trial in pickle.loads(process.stdout):
            self._writer.store_trial(trial, planned_trial)


@pytest.fixture(autouse=True)
def register_engine() -> Iterator[None]:
    ENGINES.add("elsewhere", SubprocessEngine)
    yield
    SubprocessEngine.works.clear()
    for table in (ENGINES._locations, ENGINES._instances):
        del table["elsewhere"]


@pytest.mark.slow
async def test_another_process_gives_the_same_verdicts_in_workspaces_of_its_own(
    make: MakeRuns, folder: Path, store: SqliteStore, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    environ["WORD"] = "owl"
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    (folder / "seed").mkdir()
    (folder / "seed" / "xyz").write_text("in a tree", encoding="utf-8")
    (folder / "s.eval.yaml").write_text(SUITE, encoding="utf-8")
    targets = "targets: [{name: agent, provider: cli, command: 'echo an $(cat *)'}]"
    (folder / "targets.yaml").write_text(targets, encoding="utf-8")

    async def read_verdicts(engine: str) -> dict[tuple[str, int], Any]:
        settings = Settings(engine=engine, repeats=2, keep_workspaces="none")
        (result,) = await make("s.eval.yaml", "agent", settings=settings)
        assert result.run.status == "finished"
        rows = [(row.trial, row.verdict) for row in store.trials(result.run.id)]
        return {
            (trial.case_id, trial.repeat): (verdict, trial.output and trial.output.text)
            for trial, verdict in rows
        }

    local_verdicts = await read_verdicts("asyncio")
    assert {key: verdict for key, (verdict, _) in local_verdicts.items()} == {
        (case, repeat): Verdict.FAIL if case == "b" else Verdict.PASS for case in "abc" for repeat in range(2)
    }
    assert await read_verdicts("elsewhere") == local_verdicts
    (work,) = SubprocessEngine.works
    assert [(use.case.id, use.case_count, use.trial_count) for use in work.workspaces] == [
        ("a", 2, 4),
        ("c", 1, 2),
    ]
    assert b"owl" not in pickle.dumps(work).replace(b"an owl in a tree", b"")  # the variable's value
    assert pickle.loads(pickle.dumps(work)) == work

"""What tests of several folders need: cases and trials in one line, and files that hold what is expected.

After a change that is meant, `PROCTOR_REWRITE_GOLDEN=1 pytest` writes every golden file anew; read the
difference before you keep it.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

import clock
from proctor.eval import CodeSandbox
from proctor.model import Case, Failure, Message, Output, Run, Score, Suite, TargetSpec, Trial, Verdict
from proctor.reports.runs.serialize import RunReport, TrialResult
from proctor.verdicts import Tally, pass_rules_for, run_exit_code

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)

# Every run tries other examples, so 30 of them each time find what hypothesis' hundred would. No deadline: on
# a busy machine an example takes as long as it takes.
settings.register_profile("development", max_examples=10, deadline=None)
settings.register_profile("ci", max_examples=30, deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "development")

MEMORY = "/dev/shm"  # a folder here costs a test a tenth of what it costs on a disk


def in_memory(folder: str) -> bool:
    """Whether there is such a folder, with room for what tests write and leave for the programs among it."""
    if sys.platform != "linux" or not os.access(folder, os.W_OK):
        return False
    there = os.statvfs(folder)
    return there.f_bavail * there.f_frsize > 2**30 and not there.f_flag & os.ST_NOEXEC


def pytest_configure(config: pytest.Config) -> None:
    """Let Python keep what it compiles, which else every program that a test starts compiles again.

    Where memory has room the folders of tests are there. Nothing that is collected here is garbage. Under
    faketime, which breaks Python's waits, the tests start again by a clock of their own.
    """
    if offset := os.environ.get("FAKETIME"):
        capture: Any = config.pluginmanager.getplugin("capturemanager")
        capture.stop_global_capturing()  # or this process's output would go to a file that nobody reads
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], clock.moved(os.environ, offset))
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    gc.disable()
    if in_memory(MEMORY):
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", MEMORY)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the tests that open a browser."""
    for item in items:
        if "chromium" in getattr(item, "fixturenames", ()):
            item.add_marker("browser")


def pytest_collection_finish() -> None:
    """Let the garbage collector look at what tests make, and not at thousands of tests again and again."""
    gc.freeze()
    gc.set_threshold(10_000, 10, 10)
    gc.enable()


@pytest.fixture(scope="session")
def sandboxed() -> None:
    """For a test that runs programs in a `CodeSandbox`: skips it where this system cannot isolate them."""
    lack = CodeSandbox.lack()
    if lack:
        pytest.skip(lack)


@pytest.fixture(scope="session")
def case() -> Callable[..., Case]:
    """A case of one user message; further fields by name."""

    def make(id: str = "c", text: str = "2 + 2?", **fields: Any) -> Case:  # noqa: A002  # the field's name
        return Case(id=id, input=(Message(role="user", content=text),), **fields)

    return make


@pytest.fixture(scope="session")
def score() -> Callable[..., Score]:
    """A score from its value: 1 passes, less fails, None is unscored; further fields by name."""

    def make(value: float | None, **fields: Any) -> Score:
        outcome = Verdict.UNSCORED if value is None else Verdict.PASS if value == 1 else Verdict.FAIL
        given: dict[str, Any] = {"grader": "exact", "name": "exact", "value": value, "outcome": outcome}
        return Score(**given | fields)

    return make


@pytest.fixture(scope="session")
def trial() -> Callable[..., Trial]:
    """A trial that answered with a text, or failed when the text is None; scores and fields follow."""

    def make(text: str | None, *scores: Score, **fields: Any) -> Trial:
        output = None if text is None else Output(text=text)
        failure = Failure(stage="target", kind="timeout", message="Too late.") if text is None else None
        given: dict[str, Any] = {
            "case_id": "c",
            "position": 0,
            "sent": "sha256:0",
            "output": output,
            "failure": failure,
            "scores": scores,
            "started_at": NOON,
        }
        return Trial(**given | fields)

    return make


@pytest.fixture(scope="session")
def reported() -> Callable[..., RunReport]:
    """A finished run as reports see it, of trials and their cases; fields of the run follow by name."""

    def make(*pairs: tuple[Trial, Case], **fields: Any) -> RunReport:
        given: dict[str, Any] = {
            "id": "20260301-120000-abc123",
            "group": "20260301-120000-000000",
            "suite": Suite(name="s", dialect="pramana"),
            "target": TargetSpec(name="echo", kind="echo"),
            "status": "finished",
            "started_at": NOON,
            "finished_at": NOON + timedelta(seconds=2.5),
            "planned": len(pairs),
        }
        run = Run(**given | fields)
        tally = Tally(pass_rules_for(run), run.suite.repeats_rule, run.settings.repeats)
        rows = [TrialResult(trial=made, verdict=tally.add(made, of), case=of) for made, of in pairs]
        return RunReport(
            run=run,
            tally=tally,
            exit_code=run_exit_code(tally.result_counts, run.settings),
            rows=lambda: iter(rows),
        )

    return make


@pytest.fixture(scope="session")
def golden() -> Callable[[Path, str], None]:
    """Holds a text against a file, byte for byte."""

    def check(path: Path, text: str) -> None:
        if os.environ.get("PROCTOR_REWRITE_GOLDEN"):
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(text.encode("utf-8"))
        assert path.read_bytes().decode("utf-8") == text

    return check

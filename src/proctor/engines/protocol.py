"""The door to engines: what an engine does, what it gets, and the two parts of a run that it brings together.

A `TrialWorker` calls the target and the graders. All that it needs is in `RunWork` and in the planned
trials, which are plain data, so it may run on another machine. A `TrialWriter` stays with the store and the
listener.
"""

# ruff: noqa: ARG002 - the defaults of a protocol ignore what they get

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Protocol

from msgspec import Struct

from proctor.errors import WorkspaceError
from proctor.grading import Manner
from proctor.model import Case, Failure, Output, Run, Score, Trial, Verdict
from proctor.plan import Planned
from proctor.protocols import Stay


class WorkspaceUse(Struct, frozen=True, kw_only=True):
    """A workspace of a run, and how many trials will be in it."""

    case: Case
    """The first case that has this workspace, with its references to variables as they are written."""
    case_count: int
    trial_count: int


class RunWork(Struct, frozen=True, kw_only=True):
    """What a worker must know of a run besides the planned trials. It can be pickled, and so can they.

    It has no keys and no values of variables: a worker reads those from its own environment.
    """

    run: Run
    """With its targets, judges and settings, such as timeouts, retries and the budget."""
    variables: frozenset[str] = frozenset()
    """The environment variables that cases name."""
    max_concurrency: int = 1
    """How many trials may be under way at once."""
    workspaces: tuple[WorkspaceUse, ...] = ()
    """The workspaces of the selected cases, from which a worker opens its own."""


class TrialWorker(Protocol):
    """Calls the target and the graders of one run. Only `answer` and `grade` have to be written."""

    @abstractmethod
    def answer(self, planned_trial: Planned, workspace: str | None) -> Awaitable[Output]:
        """Call the target, in the folder of a workspace if there is one.

        Raises:
            EndpointFailed: the target's endpoint answers no call any more; the run stops.
            TargetError: this call failed.
        """

    @abstractmethod
    def grade(
        self, planned_trial: Planned, output: Output, workspace: str | None
    ) -> Awaitable[tuple[Score, ...]]:
        """One score for each assertion of the case."""

    def grading_mode(self, case: Case) -> Manner:
        """Which of the three grading methods the case needs."""
        return Manner.ASKING

    def grade_at_once(self, case: Case, output: Output) -> tuple[Score, ...] | None:
        """The scores of a case that waits for nothing; None where that takes too long: `grade` follows."""
        return None

    async def grade_repeats(
        self, group: Sequence[Planned], outputs: Sequence[Output | None]
    ) -> list[tuple[Score, ...]]:
        """The scores of all repeats of a case, in their order; none for a repeat without an output."""
        return [
            () if output is None else await self.grade(planned_trial, output, None)
            for planned_trial, output in zip(group, outputs, strict=True)
        ]

    async def enter(self, planned_trial: Planned) -> Stay:
        """Start a stay in the case's workspace.

        Raises:
            WorkspaceError: the workspace cannot be made.
        """
        raise WorkspaceError(f"There is no workspace for case {planned_trial.case.id!r}.")

    async def leave(self, stay: Stay, passed: bool) -> None:
        """End a stay in a workspace, whose trial passed or not."""
        return


class TrialWriter(Protocol):
    """Stores and reports the trials of one run. Only `store_trial` has to be written."""

    @abstractmethod
    def store_trial(self, trial: Trial, planned_trial: Planned) -> Verdict:
        """Store a finished trial, and give its verdict."""

    def store_answer(self, trial: Trial, planned_trial: Planned) -> None:
        """Store an answer whose grading will take a while."""
        return

    def now(self) -> datetime:
        """The time at which a trial starts."""
        return datetime.now(UTC)

    def is_full(self) -> bool:
        """Whether too many trials wait to be stored for another one to start."""
        return False


class Engine(Protocol):
    """Makes the planned trials of one run, once."""

    stop_reason: str | None
    """Why the run was stopped, as a sentence; None where it was not, or the user stopped it."""

    @property
    def stopped(self) -> bool:
        """Whether `stop` was called."""

    def stop(self, reason: str | None = None) -> None:
        """Start no further trial, and give what is under way a few seconds.

        Args:
            reason: why, as a sentence, where that is not the user's wish; the first one counts.
        """

    async def run(self, planned_trials: Iterator[Planned]) -> None:
        """Make every planned trial, or what can be made until `stop`.

        Raises:
            ProctorError: something other than a target failed, such as the store.
        """


EngineFactory = Callable[[RunWork, TrialWorker, TrialWriter], Engine]


def make_trial(
    planned_trial: Planned,
    started_at: datetime,
    output: Output | None,
    failure: Failure | None = None,
    scores: tuple[Score, ...] = (),
) -> Trial:
    """The trial that a planned one became."""
    return Trial(
        case_id=planned_trial.case.id,
        position=planned_trial.position,
        repeat=planned_trial.repeat,
        sent=planned_trial.sent,
        split=planned_trial.split,
        output=output,
        scores=scores,
        failure=failure,
        started_at=started_at,
        source_run=planned_trial.source_run,
        target=planned_trial.case.target,
    )

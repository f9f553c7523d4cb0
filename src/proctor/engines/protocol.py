"""The protocols of engines, and of the worker and the writer that an engine brings together.

A `TrialWorker` calls the target and the graders. All its input is in `RunWork` and in the planned trials,
which are plain data, so it may run on another machine. A `TrialWriter` stays with the store and the listener.
"""

# ruff: noqa: ARG002 - default methods of a protocol ignore their arguments

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, Protocol

from msgspec import Struct

from proctor.errors import TargetError, WorkspaceError
from proctor.grading import GradingMode
from proctor.model import Case, Failure, Output, Run, Score, Trial, Verdict
from proctor.plan import PlannedTrial
from proctor.protocols import StoredBatch, StoredTrial, WorkspaceVisit

if TYPE_CHECKING:
    from proctor.batch_protocol import BatchReply, BatchService
    from proctor.engines.caching import CallCounts
    from proctor.engines.call_limits import CallLimits


class WorkspaceUse(Struct, frozen=True, kw_only=True):
    """A workspace of a run, and how many trials will be in it."""

    case: Case
    """The first case that has this workspace, with its references to variables as they are written."""
    case_count: int
    trial_count: int


class RunWork(Struct, frozen=True, kw_only=True):
    """The input of a worker besides the planned trials; all of it can be pickled.

    It has no keys and no values of variables: a worker reads those from its own environment.
    """

    run: Run
    """With its targets, judges and settings, such as timeouts, retries and the budget."""
    variables: frozenset[str] = frozenset()
    """The environment variables in references of cases."""
    max_concurrency: int = 1
    """The maximum number of concurrent trials."""
    workspaces: tuple[WorkspaceUse, ...] = ()
    """The workspaces of the selected cases, from which a worker opens its own."""
    spent_usd: float = 0.0
    """What the run has cost already, if it has a budget and is continued."""


class BatchTarget(Protocol):
    """A target of a run whose requests can be sent in batches."""

    name: str
    service: BatchService
    first_poll_s: float
    """The time until a batch is polled again for the first time; later intervals are longer."""

    @property
    def refused_params(self) -> frozenset[str]:
        """The parameters that the service refused so far, by its names."""

    def leave_out(self, names: Iterable[str]) -> None:
        """Learns parameters that the service refused in an earlier process."""

    def encode(self, planned_trial: PlannedTrial, left_out: frozenset[str]) -> bytes:
        """Returns the request for a trial, without the parameters of these names."""

    def decode(self, planned_trial: PlannedTrial, reply: BatchReply, batch_id: str) -> Output:
        """Returns the answer in a reply, with its cost; raises TargetError if there is none."""

    def can_send_again(
        self, planned_trial: PlannedTrial, error: TargetError, left_out: frozenset[str]
    ) -> bool:
        """Returns whether a request was refused only for a parameter that may be left out; learns its name.

        Args:
            planned_trial: the trial.
            error: why there is no answer.
            left_out: the parameters that the request did not have.
        """

    def reserve(self, planned_trial: PlannedTrial, *, is_sent: bool = False) -> bool:
        """Reserves the maximum cost of a trial from the budget; returns False if it does not fit now.

        Raises:
            TargetError: the budget is spent, and the request has not been sent.
        """

    def settle(self, planned_trial: PlannedTrial, result: Output | TargetError | None) -> None:
        """Settles a trial whose cost was reserved, by its answer or its error; None if it was not sent."""


class TrialWorker(Protocol):
    """Calls the target and the graders of one run. Only `answer` and `grade` must be implemented."""

    @abstractmethod
    def answer(self, planned_trial: PlannedTrial, workspace: str | None) -> Awaitable[Output]:
        """Calls the target, in the folder of a workspace if there is one.

        Raises:
            EndpointFailed: the target's endpoint was given up; the run stops.
            TargetError: this call failed.
        """

    @abstractmethod
    def grade(
        self, planned_trial: PlannedTrial, output: Output, workspace: str | None
    ) -> Awaitable[tuple[Score, ...]]:
        """Returns one score for each assertion of the case."""

    def batch_target(self, case: Case) -> BatchTarget | None:
        """Returns the target of the case, if its requests are to be sent in batches."""
        return None

    def grading_mode(self, case: Case) -> GradingMode:
        """Returns which of the three grading methods the case needs."""
        return GradingMode.ASYNC

    def grade_immediately(self, case: Case, output: Output) -> tuple[Score, ...] | None:
        """Returns the scores of a case without waiting; None if that takes too long and `grade` is needed."""
        return None

    async def grade_repeats(
        self, group: Sequence[PlannedTrial], outputs: Sequence[Output | None]
    ) -> list[tuple[Score, ...]]:
        """Returns the scores of all repeats of a case, in order; none for a repeat without an output."""
        return [
            () if output is None else await self.grade(planned_trial, output, None)
            for planned_trial, output in zip(group, outputs, strict=True)
        ]

    async def enter(self, planned_trial: PlannedTrial) -> WorkspaceVisit:
        """Enters the case's workspace.

        Raises:
            WorkspaceError: the workspace cannot be created.
        """
        raise WorkspaceError(f"There is no workspace for case {planned_trial.case.id!r}.")

    async def leave(self, visit: WorkspaceVisit, passed: bool) -> None:
        """Leaves a workspace after its trial."""
        return


class TrialWriter(Protocol):
    """Stores and reports the trials of one run. Only `store_trial` must be implemented."""

    @abstractmethod
    def store_trial(self, trial: Trial, planned_trial: PlannedTrial) -> Verdict:
        """Stores a finished trial and returns its verdict."""

    def store_answer(self, trial: Trial, planned_trial: PlannedTrial) -> None:
        """Stores an answer whose grading takes longer."""
        return

    def count_trial(self, trial: Trial, planned_trial: PlannedTrial) -> Verdict:
        """Counts a finished trial that its worker has stored, and returns its verdict."""
        return self.store_trial(trial, planned_trial)

    def add_call_counts(self, counts: CallCounts) -> None:
        """Adds the calls of a worker in another process, which is closed."""
        return

    def find_stored(self, planned_trial: PlannedTrial) -> StoredTrial | None:
        """Returns what a worker that has ended had stored of a trial; None if workers store nothing."""
        return None

    def now(self) -> datetime:
        """Returns the start time of a trial."""
        return datetime.now(UTC)

    def batches(self) -> list[StoredBatch]:
        """Returns the batches that the run has submitted, oldest first."""
        return []

    def save_batch(self, batch: StoredBatch) -> None:
        """Stores a batch, or its new state; it is durable on return."""
        return

    def report(self, message: str) -> None:
        """Reports a sentence about something that takes long."""
        return

    def warn(self, message: str) -> None:
        """Reports a warning, as a sentence."""
        return

    def is_full(self) -> bool:
        """Whether too many trials wait to be stored for another one to start."""
        return False


class Engine(Protocol):
    """Runs the planned trials of one run, once."""

    stop_reason: str | None
    """Why the run was stopped, as a sentence; None if it was not, or the user stopped it."""

    @property
    def is_stopped(self) -> bool:
        """Whether `stop` was called."""

    def stop(self, reason: str | None = None) -> None:
        """Starts no further trials and gives running ones a few seconds.

        An engine may also have `finish_calls(reason)`, which lets running trials end by themselves. That of a
        remote worker has `has_failing_endpoint()`, as a `RemoteWorker` has, and `has_lost_worker`, whether
        one ended that had trials to make.

        Args:
            reason: why, as a sentence; None if the user stopped the run. The first reason is kept.
        """

    async def run(self, planned_trials: Iterator[PlannedTrial]) -> None:
        """Runs every planned trial, or as many as possible before `stop`.

        Raises:
            ProctorError: something other than a target failed, such as the store.
        """


EngineFactory = Callable[[RunWork, Any, TrialWriter], Engine]
"""Makes the engine of one run. The second argument is the open `TrialWorker` of the run.

A factory with an attribute `is_remote` is a `RemoteEngineFactory`."""


class RemoteWorker(Protocol):
    """The open worker of a run in another process than the run's store, and what that process needs."""

    @property
    def worker(self) -> TrialWorker:
        """Calls the target and the graders."""

    def fill(self, planned_trial: PlannedTrial) -> PlannedTrial:
        """Returns a trial with the values of the variables in its case."""

    def mask(self, trial: Trial, planned_trial: PlannedTrial) -> Trial:
        """Returns a trial with names of variables in place of their values."""

    def store_answer(self, trial: Trial) -> bool:
        """Stores a masked answer that is being graded; returns False if that is the engine's."""

    def store_trial(self, trial: Trial, verdict: Verdict) -> bool:
        """Stores a masked trial that is finished; returns False if that is the engine's."""

    def is_full(self) -> bool:
        """Returns whether too many trials wait to be stored here for another one to start."""

    def flush(self) -> None:
        """Waits until all that was stored here is durable; called on a thread of its own."""

    def has_failing_endpoint(self) -> bool:
        """Returns whether the last call to any endpoint failed in a way that may be the endpoint's fault."""

    def stop(self) -> None:
        """Ends graders that take long, as the user stopped the run."""

    def call_counts(self) -> CallCounts:
        """Returns the counts of its calls so far."""

    async def aclose(self) -> list[str]:
        """Closes everything; returns sentences for the end of the run."""


class WorkerHost(Protocol):
    """What a remote worker reports to the process that made it, and the limits that it shares with others."""

    @property
    def number(self) -> int:
        """The number of the worker, which no other of the run has."""

    @property
    def limits(self) -> CallLimits:
        """The limits of its calls."""

    def stop(self, reason: str) -> None:
        """Stops the run, as the endpoint of a judge was given up."""

    def report(self, message: str) -> None:
        """Reports a sentence about something that takes long."""

    def warn(self, message: str) -> None:
        """Reports a warning, as a sentence."""


class WorkerOpener(Protocol):
    """Opens the worker of a run in another process; can be pickled, and holds no keys."""

    def __call__(self, work: RunWork, host: WorkerHost) -> Awaitable[RemoteWorker]:
        """Opens the worker, with the keys and variables of its process.

        Raises:
            UsageError: a target or judge cannot be opened there.
        """


class EngineCluster(Protocol):
    """The cluster of a remote engine, which all runs of a command use; a factory's `connect` returns it."""

    async def __aenter__(self) -> EngineCluster:
        """Connects.

        Raises:
            UsageError: the cluster cannot be reached, or its library is not installed.
        """

    async def __aexit__(self, *_error: object) -> None:
        """Disconnects, and stops a cluster that was started for the command."""

    async def check(self, work: RunWork, opener: WorkerOpener) -> None:
        """Opens the worker of a run on the cluster and closes it, so that what is missing is known before it.

        Raises:
            UsageError: a target or judge cannot be opened there.
        """


class RemoteEngine(Engine, Protocol):
    """An engine whose workers are in other processes; its trials come with references as they are written."""

    def has_failing_endpoint(self) -> bool:
        """Returns whether the last call of any worker failed in a way that may be an endpoint's fault."""


class RemoteEngineFactory(Protocol):
    """Makes remote engines, and connects to the cluster where their workers are."""

    is_remote: Literal[True]

    def __call__(self, work: RunWork, opener: WorkerOpener, writer: TrialWriter) -> RemoteEngine:
        """Makes the engine of one run."""

    def connect(self, address: str | None, report: Callable[[str], None]) -> EngineCluster:
        """Returns the cluster, which is not connected yet.

        Args:
            address: where it is, as the engine reads it; None for its default.
            report: called with a sentence when something takes long.
        """


def make_trial(
    planned_trial: PlannedTrial,
    started_at: datetime,
    output: Output | None,
    failure: Failure | None = None,
    scores: tuple[Score, ...] = (),
) -> Trial:
    """Returns the trial of a planned trial and its results."""
    return Trial(
        case_id=planned_trial.case.id,
        position=planned_trial.position,
        repeat=planned_trial.repeat,
        sent=planned_trial.sent_digest,
        split=planned_trial.split,
        output=output,
        scores=scores,
        failure=failure,
        started_at=started_at,
        source_run=planned_trial.source_run,
        target=planned_trial.case.target,
    )

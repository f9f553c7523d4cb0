"""The half of a run that calls targets and graders; it needs no store and no listener."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from proctor.engines.protocol import BatchTarget, RunWork, TrialWorker
from proctor.engines.turns import RunTurns
from proctor.env_substitution import mask
from proctor.errors import EndpointFailed, WorkspaceError
from proctor.graders import GRADERS
from proctor.grading import (
    GradingMode,
    grade,
    grade_immediately,
    grade_repeats,
    grading_mode,
    uninterrupted_size,
)
from proctor.model import Case, Output, Prompt, Score
from proctor.plan import PlannedTrial
from proctor.protocols import Answerer, WorkspaceVisit
from proctor.services.runs.execution.open_targets import OpenTargets
from proctor.services.runs.execution.target_pool import TargetPool
from proctor.services.runs.execution.trial_variables import list_program_variables

if TYPE_CHECKING:
    from proctor.workspaces.environment import Workspaces


class RunWorker(TrialWorker):
    """Calls the open targets and judges of one run, in workspaces if cases have them."""

    def __init__(
        self, targets: OpenTargets, workspaces: Workspaces | None, turns: RunTurns | None = None
    ) -> None:
        """Use `open_worker`."""
        self._targets = targets
        self._workspaces = workspaces
        self._turns = turns

    def stop(self) -> None:
        """Ends graders that take long, as the run is stopped."""
        self._targets.isolation.stop()

    async def aclose(self) -> list[str]:
        """Closes programs and workspaces; returns sentences about workspaces that stay on disk."""
        await self._targets.aclose()
        if self._workspaces is None:
            return []
        from proctor.services.runs.execution.workspaces import describe_kept_workspaces

        await self._workspaces.aclose()
        return describe_kept_workspaces(self._workspaces)

    def answer(self, planned_trial: PlannedTrial, workspace: str | None) -> Awaitable[Output]:
        """Calls the target of the case, in an interleaved run when it is its turn."""
        answerer = self._targets.target_for(planned_trial.case)
        prompt = planned_trial.make_prompt(workspace)
        if self._turns is None:
            return answerer.answer(prompt)
        return _answer_in_turn(self._turns, planned_trial, answerer, prompt)

    def batch_target(self, case: Case) -> BatchTarget | None:
        """Returns the target of the case, if the run sends its requests in batches."""
        return self._targets.batches_for(case)

    def grade(
        self, planned_trial: PlannedTrial, output: Output, workspace: str | None
    ) -> Awaitable[tuple[Score, ...]]:
        """Calls the graders of the case, and the judges that they name."""
        context = self._targets.grading_context_for(
            planned_trial.case, workspace, planned_trial.prior_judgments
        )
        return grade(planned_trial.case, output, GRADERS.get, context)

    def grading_mode(self, case: Case) -> GradingMode:
        """Returns whether the graders wait for anything, or grade all repeats together."""
        return grading_mode(case, GRADERS.get)

    def grade_immediately(self, case: Case, output: Output) -> tuple[Score, ...] | None:
        """Returns the scores, or None if the graders would block the event loop for too long."""
        return self._targets.isolation.attempt(
            partial(grade_immediately, case, output, GRADERS.get),
            uninterrupted_size(case.assertions, (output,), GRADERS.get),
        )

    async def grade_repeats(
        self, group: Sequence[PlannedTrial], outputs: Sequence[Output | None]
    ) -> list[tuple[Score, ...]]:
        """Calls the graders of a case with all of its outputs."""
        case = group[0].case
        known_judgments = [planned_trial.prior_judgments for planned_trial in group]
        return await grade_repeats(
            case, outputs, GRADERS.get, self._targets.grading_context_for(case), known_judgments
        )

    async def enter(self, planned_trial: PlannedTrial) -> WorkspaceVisit:
        """Enters the case's workspace for a trial; raises WorkspaceError."""
        assert self._workspaces is not None
        try:
            return await self._workspaces.enter(planned_trial.case, planned_trial.repeat)
        except WorkspaceError:
            if self._turns is not None:
                self._turns.skip(planned_trial)
            raise

    async def leave(self, visit: WorkspaceVisit, passed: bool) -> None:
        """Leaves the workspace, and removes what need not be kept."""
        assert self._workspaces is not None
        await self._workspaces.leave(visit, passed=passed)


async def open_worker(
    work: RunWork,
    pool: TargetPool,
    *,
    stop: Callable[[str], None],
    warn: Callable[[str], None],
    turns: RunTurns | None = None,
    first_folder: int = 1,
) -> RunWorker:
    """Opens a worker with everything that its run calls, perhaps in another process than the run's store.

    Args:
        work: the run.
        pool: opens its targets and judges, with the keys and variables of this machine.
        stop: called with the reason when a judge's endpoint was given up.
        warn: called with a sentence, without values of variables, if something failed after a trial.
        turns: the turns of an interleaved run; None for a run by itself.
        first_folder: the number of its first workspace folder, where workers share the folder of the run.

    Raises:
        UsageError: a target or judge cannot be opened.
    """
    targets = await OpenTargets.open_for_run(work.run, pool, stop)
    if not work.workspaces:
        return RunWorker(targets, None, turns)
    from proctor.services.runs.execution.workspaces import open_workspaces

    names = (*work.variables, *list_program_variables(work.run))

    def warn_masked(message: str) -> None:
        warn(mask(message, names, pool.environ))

    workspaces = open_workspaces(work, pool.environ, targets.programs, warn_masked, first_folder=first_folder)
    return RunWorker(targets, workspaces, turns)


async def _answer_in_turn(
    turns: RunTurns, planned_trial: PlannedTrial, answerer: Answerer, prompt: Prompt
) -> Output:
    """Returns the answer; waiting for the turn counts as waiting for the concurrency limit."""
    waited_ms = await turns.start(planned_trial)
    try:
        output = await answerer.answer(prompt)
    except EndpointFailed:
        turns.leave()  # the run stops
        raise
    finally:
        turns.end()
    return replace(output, queue_ms=output.queue_ms + waited_ms)

"""The half of a run that calls targets and graders; it needs no store and no listener."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from proctor.engines.protocol import RunWork, TrialWorker
from proctor.env_vars import masked, names_in
from proctor.graders import GRADERS
from proctor.grading import Manner, grade, grade_at_once, grade_repeats, manner_of, uninterrupted_size
from proctor.model import Case, Output, Prompt, Score
from proctor.plan import Planned
from proctor.protocols import Stay
from proctor.services.runs.execution.open_targets import Cast
from proctor.services.runs.execution.target_pool import Reach
from proctor.services.runs.planning.judge_choice import specs_of

if TYPE_CHECKING:
    from proctor.workspaces.environment import Workspaces


class RunWorker(TrialWorker):
    """Calls the opened targets and judges of one run, in workspaces where cases have them."""

    def __init__(self, targets: Cast, workspaces: Workspaces | None) -> None:
        """Use `open_worker`."""
        self._targets = targets
        self._workspaces = workspaces

    def stop(self) -> None:
        """End graders that take long, as the run is stopped."""
        self._targets.isolation.stop()

    async def aclose(self) -> list[str]:
        """Close the targets' programs and the workspaces; tells in sentences which of these stay on disk."""
        await self._targets.aclose()
        if self._workspaces is None:
            return []
        from proctor.services.runs.execution.workspaces import kept

        await self._workspaces.aclose()
        return kept(self._workspaces)

    def answer(self, planned_trial: Planned, workspace: str | None) -> Awaitable[Output]:
        """Call the target of the case."""
        return self._targets.target(planned_trial.case).answer(_prompt(planned_trial, workspace))

    def grade(
        self, planned_trial: Planned, output: Output, workspace: str | None
    ) -> Awaitable[tuple[Score, ...]]:
        """Call the graders of the case, and the judges that they name."""
        context = self._targets.help(planned_trial.case, workspace, planned_trial.known)
        return grade(planned_trial.case, output, GRADERS.get, context)

    def grading_mode(self, case: Case) -> Manner:
        """Whether the graders wait for anything, or look at all repeats."""
        return manner_of(case, GRADERS.get)

    def grade_at_once(self, case: Case, output: Output) -> tuple[Score, ...] | None:
        """The scores, unless the graders take longer than the event loop may wait."""
        return self._targets.isolation.attempt(
            partial(grade_at_once, case, output, GRADERS.get),
            uninterrupted_size(case.assertions, (output,), GRADERS.get),
        )

    async def grade_repeats(
        self, group: Sequence[Planned], outputs: Sequence[Output | None]
    ) -> list[tuple[Score, ...]]:
        """Call the graders of a case with all of its outputs."""
        case = group[0].case
        known_judgments = [planned_trial.known for planned_trial in group]
        return await grade_repeats(case, outputs, GRADERS.get, self._targets.help(case), known_judgments)

    async def enter(self, planned_trial: Planned) -> Stay:
        """Start a stay in the case's workspace; raises WorkspaceError."""
        assert self._workspaces is not None
        return await self._workspaces.enter(planned_trial.case, planned_trial.repeat)

    async def leave(self, stay: Stay, passed: bool) -> None:
        """End a stay, and clean up what need not be kept."""
        assert self._workspaces is not None
        await self._workspaces.leave(stay, passed=passed)


async def open_worker(
    work: RunWork, pool: Reach, *, stop: Callable[[str], None], warn: Callable[[str], None]
) -> RunWorker:
    """A worker with all that its run calls. This may be done in another process than where the run is stored.

    Args:
        work: the run.
        pool: opens its targets and judges, with the keys and variables of this machine.
        stop: told why when no judge answers any more because its endpoint was given up.
        warn: told, in a sentence without values of variables, what failed after a trial in a workspace.

    Raises:
        UsageError: a target or judge cannot be opened.
    """
    targets = await Cast.of(work.run, pool, stop)
    if not work.workspaces:
        return RunWorker(targets, None)
    from proctor.services.runs.execution.workspaces import open_workspaces

    program_variables = names_in([spec.options.get("env", {}) for spec in specs_of(work.run)])
    names = (*work.variables, *program_variables)

    def warn_masked(message: str) -> None:
        warn(masked(message, names, pool.environ))

    return RunWorker(targets, open_workspaces(work, pool.environ, targets.programs, warn_masked))


def _prompt(planned_trial: Planned, workspace: str | None) -> Prompt:
    case, form = planned_trial.case, planned_trial.case.form
    prompt = Prompt(messages=case.input, case_id=case.id, repeat=planned_trial.repeat, workspace=workspace)
    if form is None:
        return prompt
    return replace(prompt, json_answer=form.json, response_schema=form.schema, tools=form.tools)

"""The open targets, judges and programs of one run, and the choice among them for a case."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace

from proctor.errors import EndpointFailed
from proctor.grading import GradingContext
from proctor.model import Case, Judgment, Output, Prompt, Run, TargetSpec
from proctor.protocols import Answerer, JudgeTarget
from proctor.services.concurrency import gather_results
from proctor.services.grading.isolated_grading import EventLoopIsolation
from proctor.services.runs.execution.reuse import NoTarget
from proctor.services.runs.execution.target_pool import TargetPool
from proctor.services.runs.planning.judge_choice import judges_for_target
from proctor.targets.process.suite_programs import SuiteProgramRunner

if TYPE_CHECKING:
    from proctor.engines.protocol import BatchTarget
    from proctor.services.runs.execution.judge_proxy import JudgeProxy


class OpenTargets:
    """The targets, judges and programs of one run, all open."""

    def __init__(
        self,
        run: Run,
        target: Answerer,
        programs: SuiteProgramRunner,
        help_: GradingContext,
        isolation: EventLoopIsolation,
    ) -> None:
        """Use `OpenTargets.open_for_run`."""
        self._run = run
        self._target = target
        self._grading_context = help_
        self._targets: dict[str, Answerer] = {}
        self._judges: dict[str, tuple[JudgeTarget, ...]] = {}
        self._judge_proxy: JudgeProxy | None = None
        self._batches: dict[str | None, BatchTarget] = {}
        """The targets whose requests are sent in batches, by the name that cases give; None is the run's."""
        self.programs = programs
        self.isolation = isolation

    @classmethod
    async def open_for_run(cls, run: Run, pool: TargetPool, stop: Callable[[str], None]) -> OpenTargets:
        """Opens the targets and judges of a run.

        Args:
            run: the run.
            pool: opens targets and judges.
            stop: called with the reason when a judge's endpoint was given up.

        Raises:
            UsageError: a target or judge cannot be opened.
        """

        async def open_judge(spec: TargetSpec) -> JudgeTarget:
            target = await pool.open_target(spec, judging=True)
            return JudgeTarget(name=spec.name, target=_StoppingJudge(spec.name, target, stop))

        programs = SuiteProgramRunner(run.suite.folder, pool.environ)
        judges = [await open_judge(spec) for spec in run.judges]
        named_judges = [await open_judge(spec) for spec in run.named_judges]
        isolation = EventLoopIsolation()
        context = GradingContext(
            judges=tuple(judges),
            named_judges={judge.name: judge for judge in named_judges},
            judge_repeats=run.settings.judge_repeats,
            judge_rule=run.settings.judge_rule,
            gather=gather_results,
            embedder=pool.get_embedder,
            programs=programs,
            isolation=isolation,
        )
        target = await pool.open_target(run.target) if run.regrade_of is None else NoTarget(run.regrade_of)
        cast = cls(run, target, programs, context, isolation)
        if run.judges:
            from proctor.services.runs.execution.judge_proxy import JudgeProxy

            cast._judge_proxy = JudgeProxy()
            cast._grading_context = replace(context, judge_provider=cast._judge_proxy)
        for spec in run.named_targets:
            cast._targets[spec.name] = await pool.open_target(spec) if run.regrade_of is None else target
            cast._judges[spec.name] = tuple(
                [await open_judge(judge_spec) for judge_spec in judges_for_target(run, spec.name)]
            )
        if run.settings.is_batch and run.regrade_of is None:
            cast._batches[None] = await pool.open_batches(run.target)
            for spec in run.named_targets:
                cast._batches[spec.name] = await pool.open_batches(spec)
        return cast

    def target_for(self, case: Case) -> Answerer:
        """Returns the target of a case."""
        return self._target if case.target is None else self._targets[case.target]

    def batches_for(self, case: Case) -> BatchTarget | None:
        """Returns the target of a case, if the run sends its requests in batches."""
        return self._batches.get(case.target)

    def grading_context_for(
        self, case: Case, workspace: str | None = None, known: Mapping[str, tuple[Judgment, ...]] = {}
    ) -> GradingContext:
        """Returns what graders may call, the folder of the answer, and the judgments that are reused."""
        judges = self._judges.get(case.target) if case.target is not None else None
        if judges is None and workspace is None and not known:
            return self._grading_context
        judges = self._grading_context.judges if judges is None else judges
        return replace(self._grading_context, judges=judges, workspace=workspace, prior_judgments=known)

    async def aclose(self) -> None:
        """Closes the judge proxy and ends graders; targets stay open. Safe to call twice."""
        self.isolation.close()
        await self.programs.aclose()
        if self._judge_proxy is not None:
            await self._judge_proxy.aclose()


class _StoppingJudge:
    """A judge that stops the run when its endpoint was given up; graders would see only a missing reply."""

    def __init__(self, name: str, target: Answerer, stop: Callable[[str], None]) -> None:
        self._name = name
        self._target = target
        self._stop = stop

    async def answer(self, prompt: Prompt) -> Output:
        try:
            return await self._target.answer(prompt)
        except EndpointFailed as error:
            self._stop(f"The judge {self._name!r} failed. {error}")
            raise

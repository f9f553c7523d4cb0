"""The opened targets, judges and programs of one run, and who of them a case gets."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from proctor.grading import Help
from proctor.model import Case, Judgment, Run, TargetSpec
from proctor.ports import Answers, Judge, Programs
from proctor.session.casting import judges_for, judges_of
from proctor.session.reaching import Reach
from proctor.session.reusing import Nobody
from proctor.targets.programs import SuitePrograms

if TYPE_CHECKING:
    from proctor.session.lending import Lending


def specs_of(run: Run) -> tuple[TargetSpec, ...]:
    """Everybody who may be asked in a run; a run that grades another one again asks judges alone."""
    judges = judges_of(run)
    return judges if run.regrade_of is not None else (run.target, *run.named_targets, *judges)


class Cast:
    """Who is asked in one run, all of them open."""

    def __init__(self, run: Run, target: Answers, programs: Programs, help_: Help) -> None:
        """Use `Cast.of`."""
        self._run = run
        self._target = target
        self._help = help_
        self._targets: dict[str, Answers] = {}
        self._judges: dict[str, tuple[Judge, ...]] = {}
        self._lending: Lending | None = None
        self.programs = programs

    @classmethod
    async def of(cls, run: Run, reach: Reach) -> Cast:
        """The cast of a run, opened.

        Raises:
            UsageError: a target or judge cannot be opened.
        """
        programs = SuitePrograms(run.suite.folder, reach.environ)
        judges = [await _judge(spec, reach) for spec in run.judges]
        named = [await _judge(spec, reach) for spec in run.named_judges]
        help_ = Help(
            judges=tuple(judges),
            named={judge.name: judge for judge in named},
            judge_repeats=run.settings.judge_repeats,
            judge_rule=run.settings.judge_rule,
            together=together,
            embedder=reach.embedder,
            programs=programs,
        )
        target = await reach.target(run.target) if run.regrade_of is None else Nobody(run.regrade_of)
        cast = cls(run, target, programs, help_)
        if run.judges:
            from proctor.session.lending import Lending

            cast._lending = Lending()
            cast._help = replace(help_, lender=cast._lending)
        for spec in run.named_targets:
            cast._targets[spec.name] = await reach.target(spec) if run.regrade_of is None else target
            cast._judges[spec.name] = tuple([await _judge(one, reach) for one in judges_for(run, spec.name)])
        return cast

    def target(self, case: Case) -> Answers:
        """Whom the case asks."""
        return self._target if case.target is None else self._targets[case.target]

    def help(
        self, case: Case, workspace: str | None = None, known: Mapping[str, tuple[Judgment, ...]] = {}
    ) -> Help:
        """Whom the graders of the case may ask, the folder its answer was made in, and what is known."""
        judges = self._judges.get(case.target) if case.target is not None else None
        if judges is None and workspace is None and not known:
            return self._help
        judges = self._help.judges if judges is None else judges
        return replace(self._help, judges=judges, workspace=workspace, known=known)

    async def aclose(self) -> None:
        """Let no program ask any more; targets stay open for other runs. Safe to call twice."""
        if self._lending is not None:
            await self._lending.aclose()


async def _judge(spec: TargetSpec, reach: Reach) -> Judge:
    return Judge(name=spec.name, target=await reach.target(spec, judging=True))


async def together(things: Iterable[Awaitable[Any]]) -> list[Any]:
    """Await several things at the same time, and give what came of them in order."""
    results = await asyncio.gather(
        *things, return_exceptions=True
    )  # none is left running behind a broken one
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results

"""The example agent on its example suite, with everything real but the command line of Proctor."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from proctor.dialects.agentv.dialect import AgentV
from proctor.graders import GRADERS
from proctor.grading import GradingContext, grade
from proctor.model import Case, Output, Params, Prompt, Score, Verdict
from proctor.protocols import CaseAtLine
from proctor.services.suites.file_source import source_from_path
from proctor.targets.context import TargetContext
from proctor.targets.process.cli import open_target
from proctor.targets.process.suite_programs import SuiteProgramRunner
from proctor.targets.targets_file import TargetsFile
from proctor.workspaces.environment import Workspaces
from proctor.workspaces.run_shared import WorkspaceRoot
from support.workspaces import Ground

pytestmark = pytest.mark.slow

EXAMPLE = Path(__file__).parents[2] / "examples" / "agent"
ENVIRON = dict(os.environ)
OPENING = TargetContext(ENVIRON)


def _read_cases() -> list[Case]:
    items = list(AgentV().read(source_from_path(EXAMPLE / "desk.eval.yaml")))
    return [item.case for item in items if isinstance(item, CaseAtLine)]


async def _run_cases(ground: Ground, cases: list[Case]) -> dict[str, tuple[Output, tuple[Score, ...]]]:
    """The output and scores of each case, by its id."""
    programs = SuiteProgramRunner(str(EXAMPLE), ENVIRON)
    site = WorkspaceRoot(
        str(EXAMPLE),
        ground.root,
        "run-1",
        programs=programs,
        keep="none",
        warn=ground.warnings.append,
        environ=ENVIRON,
    )
    environment = Workspaces(site)
    text = (EXAMPLE / "targets.yaml").read_text(encoding="utf-8")
    spec = TargetsFile(text, "targets.yaml", str(EXAMPLE)).get_spec("clerk", Params(), ENVIRON)
    target = await open_target(spec, OPENING)

    async def trial(case: Case) -> tuple[Output, tuple[Score, ...]]:
        async with ground.stay(environment, case) as (stay, folder):
            output = await target.answer(Prompt(messages=case.input, workspace=str(folder)))
            output = replace(output, file_changes=await stay.diff())
            help_ = GradingContext(programs=programs, workspace=str(folder))
            return output, await grade(case, output, GRADERS.get, help_)

    results = await asyncio.gather(*map(trial, cases))
    await environment.aclose()
    return dict(zip((case.id for case in cases), results, strict=True))


def _read_files() -> dict[str, bytes]:
    """Every file of the example; no run may change them."""
    return {str(path): path.read_bytes() for path in EXAMPLE.rglob("*") if path.is_file()}


def _verdicts(scores: tuple[Score, ...]) -> list[Verdict]:
    return [score.outcome for score in scores]


async def test_the_agent_passes_what_it_understands_and_every_grader_has_what_it_needs(
    ground: Ground,
) -> None:
    before = _read_files()
    results = await _run_cases(ground, _read_cases())
    assert _read_files() == before
    output, scores = results["rename-shop"]
    assert [call.name for call in output.tool_calls] == ["read", "edit"]
    assert output.usage is not None
    assert output.cost_usd
    assert output.duration_ms
    assert "-Corner Shop\n+Harbour Shop\n" in (output.file_changes or "")
    for name in ("rename-shop", "clear-drafts", "locked-ledger"):
        assert {*_verdicts(results[name][1])} == {Verdict.PASS}, results[name][1]
    assert len(scores) == 4
    assert results["locked-ledger"][0].file_changes is None
    assert ground.warnings == []
    assert ground.list_files() == []


async def test_the_agent_fails_what_it_does_not_understand(ground: Ground) -> None:
    cases = [case for case in _read_cases() if case.id == "vague-wish"]
    [(output, scores)] = (await _run_cases(ground, cases)).values()
    assert output.text == "I do not understand what I am to do."
    assert output.file_changes is None
    assert {score.name: score.outcome for score in scores}["desk"] is Verdict.FAIL

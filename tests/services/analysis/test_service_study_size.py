"""Which stored runs a plan takes as the same target, and which as another."""

from __future__ import annotations

from msgspec.structs import replace

from proctor.model import Message, PromptTemplate
from proctor.reports.document import render_terminal
from proctor.reports.study.report import document_for
from proctor.services.analysis.study_size import StudyQuery, StudyRequest
from proctor.services.runs.config import Config
from proctor.stores.sqlite.store import SqliteStore
from support.sessions import MakeRuns, WriteSuite


async def test_a_target_with_another_prompt_is_another_one(
    make: MakeRuns, store: SqliteStore, suite: WriteSuite, environ: dict[str, str]
) -> None:
    name = suite(*((f"c{n}", f"say {n}", f"say {n}" if n % 2 else "no") for n in range(10)))
    query, request = (
        StudyQuery(store, environ, Config()),
        StudyRequest(suite=name, difference=0.1, power=0.8),
    )
    for text in ("", "Be brief.", "Be kind."):
        (result,) = await make(name)
        prompt = PromptTemplate(name="p", messages=(Message(role="system", content=text),))
        store.update_run(replace(result.run, prompt=prompt if text else None))
    report = query.plan(request)
    assert (report.plan.noise.basis, report.plan.noise.targets) == ("targets", 2)
    text = "\n".join(render_terminal(document_for(report)))
    assert "on echo · p passed 50.0%" in text
    assert "Compared with 2 other targets or prompts, its target has a different result in" in text

"""The prompt of a planned trial."""

from __future__ import annotations

from msgspec.structs import replace

from proctor.model import Prompt
from proctor.plan import PlannedTrial


def make_prompt(planned_trial: PlannedTrial, workspace: str | None = None) -> Prompt:
    """Returns what the target of a trial receives.

    Args:
        planned_trial: the trial.
        workspace: the folder to work in, if there is one.
    """
    case, form = planned_trial.case, planned_trial.case.form
    prompt = Prompt(messages=case.input, case_id=case.id, repeat=planned_trial.repeat, workspace=workspace)
    if form is None:
        return prompt
    return replace(
        prompt,
        json_answer=form.json,
        response_schema=form.schema,
        tools=form.tools,
        params=form.params,
    )

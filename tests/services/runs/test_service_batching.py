"""Which targets can be called in batches."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from proctor.errors import UsageError
from proctor.model import Params, Selection, Settings, TargetSpec
from proctor.plan import CaseIndexer
from proctor.services.runs.execution.batching import check_batching
from proctor.services.runs.planning.judge_choice import RequiredTargets
from proctor.services.runs.planning.planned_run import PlannedRun
from support.builders import make_run


def plan(**params: object) -> PlannedRun:
    target = TargetSpec(name="mine", kind="openai", model="m", params=Params(**params))  # type: ignore[arg-type]
    run = make_run(target=target, settings=Settings(engine="batch"))
    return PlannedRun(run=run, index=CaseIndexer(Selection(), None).build(None), required=RequiredTargets())


def test_likelihoods_of_choices_take_several_requests() -> None:
    planned_run = plan()
    required = replace(planned_run.required, choice_cases={(None, ()): "capital"})
    with pytest.raises(UsageError, match=r"Case 'capital' of .* is scored by the likelihood of its choices"):
        check_batching([replace(planned_run, required=required)], {})


@pytest.mark.parametrize("tier", [None, "auto", "Default"])
def test_the_usual_tier_may_be_named(tier: str | None) -> None:
    check_batching([plan(service_tier=tier)], {})


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"service_tier": "flex"}, "requests the service tier 'flex', but batches have their own price"),
        ({"stream": True}, "Target 'mine' streams its answers, which a batch cannot do"),
    ],
)
def test_what_a_batch_cannot_give_is_refused(params: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        check_batching([plan(**params)], {})

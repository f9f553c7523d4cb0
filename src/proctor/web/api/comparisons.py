"""Comparisons of runs over the API."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from proctor.comparison.compare import By
from proctor.comparison.outcomes import Split
from proctor.errors import UsageError
from proctor.protocols import Store
from proctor.reports.comparison.json import render
from proctor.reports.comparison.text import Compared
from proctor.services.analysis import compare as comparing
from proctor.web.api.models import comparisons as models
from proctor.web.api.responses import answer
from proctor.web.project import site_of
from proctor.web.templates_env import run_of

router = APIRouter(tags=["comparisons"])

_MOST = 10
"""So many runs are compared at once: each of them with each other one."""


@router.get("/comparisons", response_model=models.ComparisonRow, responses={400: {}, 404: {}})
def compare_runs(
    request: Request,
    run: Annotated[
        list[str],
        Query(
            min_length=2,
            max_length=_MOST,
            json_schema_extra={"uniqueItems": True},
            examples=[["20261121-225349-e91629", "20261122-101500-0a1b2c"]],
            description="The ids of two or more runs of one suite, the earlier one first.",
        ),
    ],
    split: Annotated[Split, Query(description="One part of the suite.")] = "all",
    by: Annotated[By, Query(description="What `parts` are by.")] = "category",
    by_case_digest: Annotated[
        bool, Query(description="Pair cases that are sent and judged alike, also of different suites.")
    ] = False,
) -> Response:
    """The runs against one another, pair by pair of the same case and repeat; of more than two, their ranks.

    Comparing runs that have a holdout counts as a look at it.
    """
    if len(set(run)) < len(run):
        raise UsageError("A run is given twice. Name each once.")
    with site_of(request).store() as store:
        return answer(render(_compared(store, run, split, by, by_case_digest=by_case_digest)))


def _compared(store: Store, ids: list[str], split: Split, by: By, *, by_case_digest: bool) -> Compared:
    runs = [run_of(store, one) for one in ids]
    try:
        comparing.check_comparable(store, runs, by_digest=by_case_digest)
    except comparing.DifferentSuites as error:
        wanted = "Add `by_case_digest=true` to compare the cases that are sent and judged alike."
        raise UsageError(f"{error.why} {wanted}") from None
    facts = comparing.load_outcomes(store, runs, by_digest=by_case_digest)
    found = comparing.compare_pairwise(facts, split=split, by=by)
    looks = comparing.looked_at(store, facts, split) if found.shows_rates else None
    return replace(found, looks=looks, judges=comparing.about_judges(store, facts))

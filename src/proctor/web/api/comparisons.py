"""Comparisons of runs over the API."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from msgspec.structs import replace
from starlette.requests import Request

from proctor.comparison.compare import GroupBy
from proctor.comparison.outcomes import SplitName
from proctor.errors import UsageError
from proctor.protocols import Store
from proctor.reports.comparison.json import ComparisonRecord, comparison_record
from proctor.reports.comparison.report import ComparisonReport
from proctor.services.analysis import compare as comparing
from proctor.web.api.operations import operation
from proctor.web.project import get_project
from proctor.web.templates_env import load_run

router = APIRouter(tags=["comparisons"])

_MAX_RUNS = 10
"""Maximum number of runs in one comparison; every pair of them is compared."""


@operation(router.get, "/comparisons", 400, 404)
def compare_runs(
    request: Request,
    run: Annotated[
        list[str],
        Query(
            min_length=2,
            max_length=_MAX_RUNS,
            json_schema_extra={"uniqueItems": True},
            examples=[["20261121-225349-e91629", "20261122-101500-0a1b2c"]],
            description="The ids of two or more runs, the earlier one first.",
        ),
    ],
    split: Annotated[SplitName, Query(description="Only this split of the suite.")] = "all",
    by: Annotated[
        GroupBy,
        Query(description="What `parts` of two runs are grouped by; `prompt` is for several runs."),
    ] = "category",
    by_case_digest: Annotated[
        bool, Query(description="Pair cases with the same prompt and grading, also across suites.")
    ] = False,
) -> ComparisonRecord:
    """Compare runs by pairs of the same case and repeat; more than two runs are also ranked.

    Comparing runs that have a holdout counts as a holdout access.
    """
    if len(set(run)) < len(run):
        raise UsageError("A run is named twice. Name each run once.")
    with get_project(request).open_store() as store:
        return comparison_record(_compare(store, run, split, by, by_case_digest=by_case_digest))


def _compare(
    store: Store, ids: list[str], split: SplitName, by: GroupBy, *, by_case_digest: bool
) -> ComparisonReport:
    runs = [load_run(store, run_id) for run_id in ids]
    try:
        comparing.check_comparable(store, runs, by_digest=by_case_digest)
    except comparing.DifferentSuites as error:
        hint = "Add `by_case_digest=true` to pair cases by their input and checks instead of their ids."
        raise UsageError(f"{error.why} {hint}") from None
    facts = comparing.load_outcomes(store, runs, by_digest=by_case_digest)
    report = comparing.compare_pairwise(facts, split=split, by=by)
    access_count = comparing.record_comparison_access(store, facts, split) if report.shows_rates else None
    return replace(report, looks=access_count, judges=comparing.describe_judges(store, facts))

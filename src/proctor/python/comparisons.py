"""Comparisons of runs, as `proctor compare` makes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any, get_args

from msgspec.structs import replace

from proctor.comparison.compare import GroupBy
from proctor.comparison.outcomes import RunOutcomes, SplitName
from proctor.errors import UsageError, suggestion
from proctor.model import Run
from proctor.protocols import Store
from proctor.python.locations import LocatedRun, open_location
from proctor.reports.comparison.report import ComparisonReport, document_for
from proctor.reports.document import Block, render_terminal
from proctor.services.analysis import compare


def compare_runs(
    runs: Sequence[LocatedRun],
    *,
    by: GroupBy = "category",
    split: SplitName = "all",
    by_case_digest: bool = False,
    cluster: str | None = None,
) -> RunComparison:
    """Compares runs of one suite, the earliest one first.

    Args:
        runs: at least two runs.
        by: how the parts of a comparison of two runs are grouped. `prompt`, for several runs with several
            prompts, compares the targets for each prompt.
        split: one split of the suite, or all of it.
        by_case_digest: pair cases by input and grading instead of by id, also across suites.
        cluster: the field that names related cases; None for that of the runs.

    Returns:
        The comparison of two runs, or the ranking of several.

    Raises:
        UsageError: there are fewer than two runs, or their suites share no case with the same id and checks.
    """
    _check_arguments(runs, by=by, split=split)
    records = [run.run for run in runs]
    with ExitStack() as stack:
        stores = _open_stores(runs, stack)
        compare.check_comparable(stores[0], records, by_digest=by_case_digest, stores=stores)
        outcomes = _load_outcomes(stores, records, by_digest=by_case_digest, cluster=cluster)
        report = compare.compare_pairwise(outcomes, split=split, by=by)
        looks: int | None = None
        judges: dict[str, None] = {}
        for store in dict.fromkeys(stores):
            own = [facts for facts, its in zip(outcomes, stores, strict=True) if its is store]
            judges |= dict.fromkeys(compare.describe_judges(store, own))
            if report.shows_rates:
                looks = compare.record_comparison_access(store, own, split) or looks
        return RunComparison(replace(report, looks=looks, judges=tuple(judges)))


def _check_arguments(runs: Sequence[Any], *, by: str, split: str) -> None:
    if len(runs) < 2:
        raise UsageError("A comparison needs at least two runs.")
    for run in runs:
        if not isinstance(getattr(run, "run", None), Run):
            raise UsageError(f"{run!r:.60} is not a run. Pass a run, such as proctor.load_run('last').")
    for name, value, values in (("by", by, get_args(GroupBy)), ("split", split, get_args(SplitName))):
        if value not in values:
            raise UsageError(f"`{name}` is {value!r}. {suggestion(str(value), values)}")


def _open_stores(runs: Sequence[LocatedRun], stack: ExitStack) -> list[Store]:
    """Returns the open store of each run; runs in the same store share it."""
    stores: dict[str, Store] = {}
    for run in runs:
        key = _location_key(run)
        if key not in stores:
            stores[key] = stack.enter_context(open_location(run.location))
    return [stores[_location_key(run)] for run in runs]


def _location_key(run: LocatedRun) -> str:
    location = run.location
    return location.address if location.is_durable else f"memory {id(location)}"


def _load_outcomes(
    stores: Sequence[Store], runs: Sequence[Run], *, by_digest: bool, cluster: str | None
) -> list[RunOutcomes]:
    outcomes: dict[tuple[int, str], RunOutcomes] = {}
    with_digests = not by_digest and compare.has_several_suites(runs)
    for store, run in zip(stores, runs, strict=True):
        if (id(store), run.id) not in outcomes:
            (facts,) = compare.load_outcomes(
                store, [run], by_digest=by_digest, with_digests=with_digests, cluster=cluster
            )
            outcomes[id(store), run.id] = facts
    return [outcomes[id(store), run.id] for store, run in zip(stores, runs, strict=True)]


class RunComparison:
    """A comparison of runs. In a terminal and in a notebook, it shows what `proctor compare` prints."""

    def __init__(self, report: ComparisonReport) -> None:
        """Takes the report."""
        self.report = report

    @property
    def difference(self) -> float | None:
        """The pass rate of the second run minus that of the first, as a fraction of 1."""
        return self.report.comparisons[0].whole.value

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % interval of the difference."""
        return self.report.comparisons[0].whole.ci95

    @property
    def p_value(self) -> float | None:
        """The p-value: how probable a difference of this size is if the runs are equally good."""
        return self.report.comparisons[0].whole.p_value

    def __repr__(self) -> str:
        return "\n".join(render_terminal(self._blocks()))

    def _repr_html_(self) -> str:
        """Returns the tables that a notebook shows."""
        from proctor.reports.html_templates import render_fragment

        return render_fragment(self._blocks())

    def _blocks(self) -> Iterator[Block]:
        return document_for(self.report, 10)

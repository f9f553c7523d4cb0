"""Comparisons of runs, as `proctor compare` makes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from msgspec.structs import replace

from proctor.comparison.outcomes import SplitName
from proctor.errors import UsageError
from proctor.reports.comparison.report import ComparisonReport, document_for
from proctor.reports.document import Block, render_terminal
from proctor.services.analysis import compare

if TYPE_CHECKING:
    from proctor.python.results import RunResult


def compare_runs(
    runs: Sequence[RunResult],
    *,
    by: Literal["category", "tag"] = "category",
    split: SplitName = "all",
    by_case_digest: bool = False,
    cluster: str | None = None,
) -> RunComparison:
    """Compares runs, the earlier one first.

    Args:
        runs: at least two.
        by: how the parts of a comparison of two runs are grouped.
        split: one split of the suite, or all of it.
        by_case_digest: pair cases with the same input and grading, also across suites.
        cluster: the field that says which cases are related; None for that of the runs.

    Raises:
        UsageError: there are fewer than two, they are of different suites, or in different stores.
    """
    from proctor.python.results import open_location

    if len(runs) < 2:
        raise UsageError("A comparison takes two runs or more.")
    with open_location(runs[0].location) as store:
        stored_runs = [store.run(run.id) for run in runs]
        compare.check_comparable(store, stored_runs, by_digest=by_case_digest)
        outcomes = compare.load_outcomes(store, stored_runs, by_digest=by_case_digest, cluster=cluster)
        report = compare.compare_pairwise(outcomes, split=split, by=by)
        looks = compare.record_comparison_access(store, outcomes, split) if report.shows_rates else None
        return RunComparison(replace(report, looks=looks, judges=compare.describe_judges(store, outcomes)))


class RunComparison:
    """A comparison of runs; on a terminal and in a notebook it shows as `proctor compare` prints it."""

    def __init__(self, report: ComparisonReport) -> None:
        """Takes the report."""
        self.report = report

    @property
    def difference(self) -> float | None:
        """By how much more cases pass in the second run than in the first, as a fraction of 1."""
        return self.report.comparisons[0].whole.value

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % interval of the difference."""
        return self.report.comparisons[0].whole.ci95

    @property
    def p_value(self) -> float | None:
        """The probability of such a difference between equal runs."""
        return self.report.comparisons[0].whole.p_value

    def __repr__(self) -> str:
        return "\n".join(render_terminal(self._blocks()))

    def _repr_html_(self) -> str:
        """Returns the tables that a notebook shows."""
        from proctor.reports.html_templates import render_fragment

        return render_fragment(self._blocks())

    def _blocks(self) -> Iterator[Block]:
        return document_for(self.report, 10)

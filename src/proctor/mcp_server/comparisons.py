"""`compare`: two runs of one suite, pair by pair."""

from __future__ import annotations

from itertools import islice
from typing import Annotated

from msgspec import Struct
from msgspec.structs import replace

from proctor.errors import UsageError
from proctor.mcp_server.arguments import CompareArguments
from proctor.mcp_server.project import AgentProject
from proctor.mcp_server.results import Link, ToolResult
from proctor.protocols import Store
from proctor.reports.comparison import sentences
from proctor.reports.comparison.report import ComparisonReport, document_for
from proctor.reports.document import render_terminal
from proctor.reports.record_fields import Interval, about
from proctor.safe_text import one_line, truncate
from proctor.services.analysis import compare as comparing

_MAX_FLIPS = 10
"""The maximum number of listed cases of each kind."""
_MAX_LINES = 60


class RunComparisonResult(Struct, frozen=True, kw_only=True):
    """How the second run differs from the first."""

    baseline: str
    candidate: str
    pairs: Annotated[int, about("Number of pairs of the same case and repeat.")]
    difference: Annotated[float | None, about("Of the pass rates; positive if the candidate is better.")]
    ci95: Interval
    p_value: float | None
    verdict: Annotated[str, about("The conclusion, in a sentence.")]
    fixed: Annotated[int, about("Number of trials that pass in the candidate only.")]
    broken: Annotated[int, about("Number of trials that pass in the baseline only.")]
    not_measured: Annotated[int, about("Number of pairs with an ERROR or UNSCORED trial.")]
    fixed_cases: tuple[str, ...]
    broken_cases: tuple[str, ...]
    left_out: Annotated[int, about("Number of flipped trials that are not listed.")]
    warnings: tuple[str, ...]
    command: Annotated[str, about("The same on the command line, with every flip.")]


def compare(project: AgentProject, arguments: CompareArguments) -> ToolResult:
    """Compares two runs; for runs with a holdout, this counts as a holdout access."""
    with project.read_store() as store:
        report = _compare(store, arguments)
    record = _comparison_record(project, report, arguments)
    lines = list(islice(render_terminal(document_for(report, _MAX_FLIPS)), _MAX_LINES))
    return ToolResult(
        record=record,
        lines=(*lines, *map(one_line, record.warnings), f"To list every flip: {record.command}"),
        links=tuple(
            Link(f"proctor://runs/{run}", f"Report of run {run}")
            for run in (record.baseline, record.candidate)
        ),
    )


def _compare(store: Store, arguments: CompareArguments) -> ComparisonReport:
    runs = [store.run(arguments.baseline), store.run(arguments.candidate)]
    try:
        comparing.check_comparable(store, runs, by_digest=False)
    except comparing.DifferentSuites as error:
        command = f"proctor compare {runs[0].id} {runs[1].id} --by-case-digest"
        raise UsageError(
            f"{error.why} `{command}` compares the cases with the same input and checks."
        ) from None
    outcomes = comparing.load_outcomes(store, runs)
    report = comparing.compare_pairwise(outcomes, split=arguments.split, by="category")
    looks = (
        comparing.record_comparison_access(store, outcomes, arguments.split) if report.shows_rates else None
    )
    return replace(report, looks=looks, judges=comparing.describe_judges(store, outcomes))


def _comparison_record(
    project: AgentProject, report: ComparisonReport, arguments: CompareArguments
) -> RunComparisonResult:
    comparison = report.comparisons[0]
    whole = comparison.whole
    fixed, broken = comparison.fixed[:_MAX_FLIPS], comparison.broken[:_MAX_FLIPS]
    words = ["proctor", "compare", comparison.baseline.id, comparison.candidate.id]
    words += [] if arguments.split == "all" else [f"--split={arguments.split}"]
    return RunComparisonResult(
        baseline=comparison.baseline.id,
        candidate=comparison.candidate.id,
        pairs=whole.pairs,
        difference=whole.value,
        ci95=whole.ci95,
        p_value=whole.p_value,
        verdict=one_line(sentences.verdict_sentence(comparison)),
        fixed=whole.fixed,
        broken=whole.broken,
        not_measured=whole.unmeasured,
        fixed_cases=tuple([truncate(flip.case, 120) for flip in fixed]),
        broken_cases=tuple([truncate(flip.case, 120) for flip in broken]),
        left_out=len(comparison.fixed) + len(comparison.broken) - len(fixed) - len(broken),
        warnings=tuple(report.warnings),
        command=" ".join((*words, *project.store_flags)),
    )

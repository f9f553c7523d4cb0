"""Renders comparisons as one JSON object. Pure.

Differences, rates and their intervals are fractions of 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from proctor.comparison.compare import Comparison, SubsetDifference, VerdictFlip
from proctor.comparison.differences import Interval, MetricDifference, PassRateDifference, RunPassRate
from proctor.comparison.gate import gate_exit_code
from proctor.model import Run
from proctor.reports.comparison import sentences as words
from proctor.reports.comparison.report import ComparisonReport
from proctor.reports.formatting import format_utc, to_json
from proctor.reports.runs.serialize import counts_row


def render(report: ComparisonReport) -> str:
    """Returns the runs, every comparison of two of them, and the result of the gate."""
    ranking = report.ranking
    first = report.comparisons[0]
    runs = (
        [_run_row(run) for run in (first.baseline, first.candidate)]
        if ranking is None
        else [
            _run_row(ranked_run.run) | {"rank": ranked_run.rank} | counts_row(ranked_run.counts)
            for ranked_run in ranking.runs
        ]
    )
    row = {
        "runs": runs,
        "split": first.split,
        "comparisons": [
            _comparison_row(comparison, whole=ranking is None) for comparison in report.comparisons
        ],
        "gate": _gate_row(report),
        "looks": report.looks,
        "judges": list(report.judges),
        "warnings": report.warnings,
        "exit_code": int(report.exit_code),
    }
    return to_json(row) + "\n"


def _run_row(run: Run) -> dict[str, Any]:
    return {
        "run": run.id,
        "group": run.group,
        "suite": run.suite.name,
        "suite_version": run.suite.version,
        "suite_digest": run.suite.digest,
        "target": run.target.name,
        "judges": [judge.name for judge in run.judges],
        "status": run.status,
        "planned": run.planned,
        "tags": list(run.tags),
        "started_at": format_utc(run.started_at),
    }


def _comparison_row(comparison: Comparison, *, whole: bool) -> dict[str, Any]:
    """Returns one comparison; parts and cases only with `whole`."""
    unpaired = comparison.unpaired
    row = {
        "baseline": comparison.baseline.id,
        "candidate": comparison.candidate.id,
        **_difference_row(comparison.whole),
        "not_measured": len(comparison.not_measured),
        "unmatched": {
            "only_baseline": len(unpaired.only_baseline),
            "only_candidate": len(unpaired.only_candidate),
            "trials_only_baseline": unpaired.trials_only_baseline,
            "trials_only_candidate": unpaired.trials_only_candidate,
        },
    }
    if not whole:
        return row
    return row | {
        "verdict": words.verdict_sentence(comparison),
        "smallest_difference": comparison.smallest,
        "splits": _part_rows(comparison.splits),
        "by": comparison.by,
        "parts": _part_rows(comparison.parts),
        "score": _measure_row(comparison.score),
        "latency_ms": _measure_row(comparison.latency_ms),
        "cost_usd": _measure_row(comparison.cost_usd),
        "fixed_cases": _flip_rows(comparison.fixed),
        "broken_cases": _flip_rows(comparison.broken),
        "not_measured_cases": [
            {
                "case_id": pair.case,
                "repeat": pair.repeat,
                "baseline": pair.baseline.value,
                "candidate": pair.candidate.value,
            }
            for pair in comparison.not_measured
        ],
        "only_baseline_cases": list(unpaired.only_baseline),
        "only_candidate_cases": list(unpaired.only_candidate),
        "renamed_cases": [
            {"baseline": pair.baseline, "candidate": pair.candidate} for pair in unpaired.renamed
        ],
    }


def _difference_row(difference: PassRateDifference) -> dict[str, Any]:
    by_case = difference.by_case
    return {
        "cases": difference.cases,
        "pairs": difference.pairs,
        "baseline_rate": _side_row(difference.baseline),
        "candidate_rate": _side_row(difference.candidate),
        "fixed": difference.fixed,
        "broken": difference.broken,
        "difference": difference.value,
        "ci95": _bounds(difference.ci95),
        "p_value": difference.p_value,
        "p_holm": difference.p_holm,
        "shows": difference.direction,
        "interval_by": "t over cases, two added" if by_case else "Newcombe, paired",
        "test": "permutation by case" if by_case else "McNemar, exact",
    }


def _side_row(side: RunPassRate | None) -> dict[str, Any] | None:
    return None if side is None else {"passed": side.passed, "rate": side.rate, "ci95": _bounds(side.ci95)}


def _part_rows(parts: Sequence[SubsetDifference]) -> list[dict[str, Any]]:
    return [{"name": part.name, **_difference_row(part.difference)} for part in parts]


def _measure_row(measure: MetricDifference | None) -> dict[str, Any] | None:
    return None if measure is None else {
        "cases": measure.cases,
        "pairs": measure.pairs,
        "baseline": measure.baseline,
        "candidate": measure.candidate,
        "difference": measure.difference,
        "ci95": _bounds(measure.ci95),
        "median_difference": measure.median,
        "median_ci95": _bounds(measure.median_ci95),
    }  # fmt: skip


def _flip_rows(flips: Sequence[VerdictFlip]) -> list[dict[str, Any]]:
    return [{"case_id": flip.case, "repeat": flip.repeat} for flip in flips]


def _bounds(interval: Interval | None) -> list[float] | None:
    return None if interval is None else list(interval)


def _gate_row(report: ComparisonReport) -> dict[str, Any] | None:
    rule = report.rule
    if rule is None:
        return None
    return {
        "max_regression": rule.max_regression,
        "strict": rule.strict,
        "allow_errors": rule.allow_errors,
        "partial": rule.partial,
        "candidates": [
            {
                "candidate": comparison.candidate.id,
                "exit_code": int(gate_exit_code(comparison, rule)),
                "message": words.gate_sentence(comparison, rule),
            }
            for comparison in report.baseline_comparisons
        ],
    }

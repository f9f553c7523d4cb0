"""Comparisons to one JSON object. Pure.

Differences, rates and their intervals are shares of 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from proctor.comparison.compare import Comparison, Flip, Part
from proctor.comparison.differences import Difference, Interval, Measure, Side
from proctor.comparison.gate import exit_code
from proctor.model import Run
from proctor.reports.comparison import sentences as words
from proctor.reports.comparison.text import Compared
from proctor.reports.formatting import as_json, utc
from proctor.reports.runs.serialize import counts_row


def render(compared: Compared) -> str:
    """The runs, every comparison of two of them, and what the gate says."""
    ranking = compared.ranking
    first = compared.comparisons[0]
    runs = (
        [_run_row(run) for run in (first.baseline, first.candidate)]
        if ranking is None
        else [_run_row(one.run) | {"rank": one.rank} | counts_row(one.counts) for one in ranking.runs]
    )
    row = {
        "runs": runs,
        "split": first.split,
        "comparisons": [_comparison_row(found, whole=ranking is None) for found in compared.comparisons],
        "gate": _gate_row(compared),
        "looks": compared.looks,
        "judges": list(compared.judges),
        "warnings": compared.doubts,
        "exit_code": int(compared.exit_code),
    }
    return as_json(row) + "\n"


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
        "started_at": utc(run.started_at),
    }


def _comparison_row(found: Comparison, *, whole: bool) -> dict[str, Any]:
    """One comparison; of several runs without its parts and its cases."""
    row = {
        "baseline": found.baseline.id,
        "candidate": found.candidate.id,
        **_difference_row(found.whole),
        "not_measured": len(found.not_measured),
        "unmatched": {
            "only_baseline": len(found.unpaired.only_baseline),
            "only_candidate": len(found.unpaired.only_candidate),
            "trials_only_baseline": found.unpaired.trials_only_baseline,
            "trials_only_candidate": found.unpaired.trials_only_candidate,
        },
    }
    if not whole:
        return row
    unpaired = found.unpaired
    return row | {
        "verdict": words.verdict(found),
        "smallest_difference": found.smallest,
        "splits": _part_rows(found.splits),
        "by": found.by,
        "parts": _part_rows(found.parts),
        "score": _measure_row(found.score),
        "latency_ms": _measure_row(found.latency_ms),
        "cost_usd": _measure_row(found.cost_usd),
        "fixed_cases": _flip_rows(found.fixed),
        "broken_cases": _flip_rows(found.broken),
        "not_measured_cases": [
            {
                "case_id": one.case,
                "repeat": one.repeat,
                "baseline": one.baseline.value,
                "candidate": one.candidate.value,
            }
            for one in found.not_measured
        ],
        "only_baseline_cases": list(unpaired.only_baseline),
        "only_candidate_cases": list(unpaired.only_candidate),
        "renamed_cases": [{"baseline": one.baseline, "candidate": one.candidate} for one in unpaired.renamed],
    }


def _difference_row(difference: Difference) -> dict[str, Any]:
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
        "shows": difference.shows,
        "interval_by": "t over cases, two added" if by_case else "Newcombe, paired",
        "test": "permutation by case" if by_case else "McNemar, exact",
    }


def _side_row(side: Side | None) -> dict[str, Any] | None:
    return None if side is None else {"passed": side.passed, "rate": side.rate, "ci95": _bounds(side.ci95)}


def _part_rows(parts: Sequence[Part]) -> list[dict[str, Any]]:
    return [{"name": part.name, **_difference_row(part.difference)} for part in parts]


def _measure_row(measure: Measure | None) -> dict[str, Any] | None:
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


def _flip_rows(flips: Sequence[Flip]) -> list[dict[str, Any]]:
    return [{"case_id": flip.case, "repeat": flip.repeat} for flip in flips]


def _bounds(interval: Interval | None) -> list[float] | None:
    return None if interval is None else list(interval)


def _gate_row(compared: Compared) -> dict[str, Any] | None:
    rule = compared.rule
    if rule is None:
        return None
    return {
        "max_regression": rule.max_regression,
        "strict": rule.strict,
        "allow_errors": rule.allow_errors,
        "partial": rule.partial,
        "candidates": [
            {
                "candidate": found.candidate.id,
                "exit_code": int(exit_code(found, rule)),
                "message": words.gate(found, rule),
            }
            for found in compared.gated
        ],
    }

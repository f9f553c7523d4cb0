"""Renders the drift of a target as JSON. Pure."""

from __future__ import annotations

from typing import Any

from proctor.codec import target_digest
from proctor.drift.detector import Drift, SeriesPoint
from proctor.drift.flips import CaseFlips
from proctor.drift.identical_answers import IdenticalShare
from proctor.reports.drift.report import DriftReport, describe_drift
from proctor.reports.formatting import format_utc


def to_dict(report: DriftReport) -> dict[str, Any]:
    """Returns everything as plain data; rates are fractions of 1, times ISO 8601 in UTC."""
    drift, run = report.drift, report.last_run
    lowest = drift.last.lowest
    return {
        "drift": {
            "suite": run.suite.name,
            "suite_version": run.suite.version,
            "suite_digest": run.suite.digest,
            "target": run.target.name,
            "target_digest": target_digest(run.target),
            "prompt": run.prompt and run.prompt.name,
            "state": drift.state,
            "since": None if drift.since is None else format_utc(drift.since),
            "by_answers": drift.by_answers,
            "by_verdicts": drift.by_verdicts,
            "identical": _identical_row(lowest),
            "noise": _identical_row(drift.noise),
            "rewords_nightly": drift.rewords_nightly,
            "verdicts": _verdicts_row(drift),
            "change_point": _change_point_row(drift),
            "changed": [
                {
                    "run": drift.points[change.place].observation.run.id,
                    "side": change.side,
                    "what": change.what,
                    "was": change.was,
                    "now": change.now,
                }
                for change in drift.recorded_changes
            ],
            "measured": drift.last.observation.is_measured,
            "looks": report.looks,
            "sentences": list(describe_drift(report)),
            "runs": [_step_row(step) for step in drift.points],
        },
        "exit_code": int(drift.exit_code),
    }


def _step_row(step: SeriesPoint) -> dict[str, Any]:
    observation, counts = step.observation, step.observation.passed
    return {
        "run": observation.run.id,
        "started_at": format_utc(step.started_at),
        "passed": counts.passed,
        "failed": counts.failed,
        "pass_rate": counts.pass_rate,
        "ci95": counts.ci95,
        **{name: getattr(observation.excluded, name) for name in observation.excluded.__struct_fields__},
        "with_first": _identical_row(step.with_first),
        "with_before": _identical_row(step.with_before),
        "verdicts": _flips_row(step.flips),
        "models": sorted(observation.models),
        "fingerprints": sorted(observation.fingerprints),
    }


def _identical_row(same: IdenticalShare | None) -> dict[str, Any] | None:
    if same is None:
        return None
    return {
        "share": same.share,
        "ci95": same.ci95,
        "cases": same.cases,
        "clusters": same.clusters,
        "level": same.level,
    }


def _flips_row(flips: CaseFlips | None) -> dict[str, Any] | None:
    if flips is None:
        return None
    return {
        "cases": flips.cases,
        "clusters": flips.clusters,
        "worse": list(flips.worse),
        "better": list(flips.better),
        "regraded": list(flips.regraded),
        "difference": flips.difference,
        "ci95": flips.ci95,
    }


def _verdicts_row(drift: Drift) -> dict[str, Any] | None:
    flips, change_point = _flips_row(drift.last.flips), drift.pass_rate_change
    if flips is None:
        return None
    return {
        **flips,
        "comparison": drift.comparison,
        "p_value": 1.0 if change_point is None else change_point.p_value,
        "p_cases": 1.0 if change_point is None else change_point.p_cases,
        "p_nights": 1.0 if change_point is None else change_point.p_nights,
        "shown": change_point is not None and change_point.is_significant,
        "suspected": drift.is_suspected,
    }


def _change_point_row(drift: Drift) -> dict[str, Any] | None:
    change_point = drift.change_point
    if change_point is None:
        return None
    before, after = drift.points[change_point.before], drift.points[change_point.after]
    return {
        "what": {"first": "identical with the first run", "last": "identical with the last run"}.get(
            change_point.kind, "verdicts"
        ),
        "last_before": {"run": before.observation.run.id, "started_at": format_utc(before.started_at)},
        "first_after": {"run": after.observation.run.id, "started_at": format_utc(after.started_at)},
        "share_before": change_point.split.before,
        "share_after": change_point.split.after,
        "cases": change_point.split.cases,
        "p_value": change_point.p_value,
    }

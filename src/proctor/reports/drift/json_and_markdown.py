"""Renders the drift of a target as JSON and Markdown. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from proctor.codec import target_digest
from proctor.drift.confounders import Changed
from proctor.drift.detector import Drift, Step
from proctor.drift.flips import Flips
from proctor.drift.identical_answers import Sameness
from proctor.reports.drift.text import COLUMNS, Drifted, rows, sentences
from proctor.reports.formatting import utc
from proctor.safe_text import markdown_text


def data(report: Drifted) -> dict[str, Any]:
    """Returns everything as plain data; rates are fractions of 1, times ISO 8601 in UTC."""
    drift, run = report.drift, report.last
    lowest = drift.last.lowest
    return {
        "drift": {
            "suite": run.suite.name,
            "suite_version": run.suite.version,
            "suite_digest": run.suite.digest,
            "target": run.target.name,
            "target_digest": target_digest(run.target),
            "state": drift.state,
            "since": None if drift.since is None else utc(drift.since),
            "by_answers": drift.by_answers,
            "by_verdicts": drift.by_verdicts,
            "identical": _same_row(lowest),
            "noise": _same_row(drift.noise),
            "verdicts": _verdicts_row(drift),
            "change_point": _change_point_row(drift),
            "changed": [_change_row(drift, change) for change in drift.changed],
            "measured": drift.last.seen.measured,
            "looks": report.looks,
            "sentences": list(sentences(report)),
            "runs": [_step_row(step) for step in drift.steps],
        },
        "exit_code": int(drift.exit_code),
    }


def _step_row(step: Step) -> dict[str, Any]:
    observation, counts = step.seen, step.seen.passed
    return {
        "run": observation.run.id,
        "started_at": utc(step.at),
        "passed": counts.passed,
        "failed": counts.failed,
        "pass_rate": counts.pass_rate,
        "ci95": counts.ci95,
        **{name: getattr(observation.aside, name) for name in observation.aside.__struct_fields__},
        "with_first": _same_row(step.with_first),
        "with_before": _same_row(step.with_before),
        "verdicts": _flips_row(step.flips),
        "models": sorted(observation.models),
        "fingerprints": sorted(observation.fingerprints),
    }


def _same_row(same: Sameness | None) -> dict[str, Any] | None:
    if same is None:
        return None
    return {"share": same.share, "ci95": same.ci95, "cases": same.cases, "level": same.level}


def _flips_row(flips: Flips | None) -> dict[str, Any] | None:
    if flips is None:
        return None
    return {
        "cases": flips.cases,
        "worse": list(flips.worse),
        "better": list(flips.better),
        "regraded": list(flips.regraded),
        "difference": flips.difference,
        "ci95": flips.ci95,
    }


def _verdicts_row(drift: Drift) -> dict[str, Any] | None:
    flips, turning = _flips_row(drift.last.flips), drift.passing
    if flips is None:
        return None
    p_value, is_shown = (1.0, False) if turning is None else (turning.p_value, turning.shown)
    return {**flips, "comparison": drift.comparison, "p_value": p_value, "shown": is_shown}


def _change_point_row(drift: Drift) -> dict[str, Any] | None:
    turning = drift.turning
    if turning is None:
        return None
    before, after = drift.steps[turning.before], drift.steps[turning.after]
    return {
        "what": {"first": "identical with the first run", "last": "identical with the last run"}.get(
            turning.what, "verdicts"
        ),
        "last_before": {"run": before.seen.run.id, "started_at": utc(before.at)},
        "first_after": {"run": after.seen.run.id, "started_at": utc(after.at)},
        "share_before": turning.split.before,
        "share_after": turning.split.after,
        "cases": turning.split.cases,
        "p_value": turning.p_value,
    }


def _change_row(drift: Drift, change: Changed) -> dict[str, Any]:
    run = drift.steps[change.place].seen.run
    return {"run": run.id, "side": change.side, "what": change.what, "was": change.was, "now": change.now}


def markdown(report: Drifted) -> Iterator[str]:
    """Yields a section with the sentences as a list and a table of the runs."""
    run = report.last
    yield f"# {markdown_text(run.suite.title)} on {markdown_text(run.target.name)}\n\n"
    first, *other_sentences = sentences(report)
    yield f"**{markdown_text(first)}**\n\n"
    for sentence in other_sentences:
        yield f"* {markdown_text(sentence)}\n"
    yield f"\n| {' | '.join(COLUMNS)} |\n|---|---|{'--:|' * (len(COLUMNS) - 2)}\n"
    for row in rows(report.drift):
        yield f"| {' | '.join(map(markdown_text, row))} |\n"

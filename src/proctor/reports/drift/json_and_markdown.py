"""What became of a target over time as JSON and as Markdown. Pure."""

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


def data(drifted: Drifted) -> dict[str, Any]:
    """All that is known, as plain data; shares are from 0 to 1, times ISO 8601 in UTC."""
    drift, run = drifted.drift, drifted.last
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
            "identical": _same(lowest),
            "noise": _same(drift.noise),
            "verdicts": _verdicts(drift),
            "change_point": _turning(drift),
            "changed": [_changed(drift, one) for one in drift.changed],
            "measured": drift.last.seen.measured,
            "looks": drifted.looks,
            "sentences": list(sentences(drifted)),
            "runs": [_step(step) for step in drift.steps],
        },
        "exit_code": int(drift.exit_code),
    }


def _step(step: Step) -> dict[str, Any]:
    seen, counts = step.seen, step.seen.passed
    return {
        "run": seen.run.id,
        "started_at": utc(step.at),
        "passed": counts.passed,
        "failed": counts.failed,
        "pass_rate": counts.pass_rate,
        "ci95": counts.ci95,
        **{name: getattr(seen.aside, name) for name in seen.aside.__struct_fields__},
        "with_first": _same(step.with_first),
        "with_before": _same(step.with_before),
        "verdicts": _flips(step.flips),
        "models": sorted(seen.models),
        "fingerprints": sorted(seen.fingerprints),
    }


def _same(same: Sameness | None) -> dict[str, Any] | None:
    if same is None:
        return None
    return {"share": same.share, "ci95": same.ci95, "cases": same.cases, "level": same.level}


def _flips(flips: Flips | None) -> dict[str, Any] | None:
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


def _verdicts(drift: Drift) -> dict[str, Any] | None:
    flips, found = _flips(drift.last.flips), drift.passing
    if flips is None:
        return None
    p_value, shown = (1.0, False) if found is None else (found.p_value, found.shown)
    return {**flips, "comparison": drift.comparison, "p_value": p_value, "shown": shown}


def _turning(drift: Drift) -> dict[str, Any] | None:
    found = drift.turning
    if found is None:
        return None
    before, after = drift.steps[found.before], drift.steps[found.after]
    return {
        "what": {"first": "identical with the first run", "last": "identical with the last run"}.get(
            found.what, "verdicts"
        ),
        "last_before": {"run": before.seen.run.id, "started_at": utc(before.at)},
        "first_after": {"run": after.seen.run.id, "started_at": utc(after.at)},
        "share_before": found.split.before,
        "share_after": found.split.after,
        "cases": found.split.cases,
        "p_value": found.p_value,
    }


def _changed(drift: Drift, one: Changed) -> dict[str, Any]:
    run = drift.steps[one.place].seen.run
    return {"run": run.id, "side": one.side, "what": one.what, "was": one.was, "now": one.now}


def markdown(drifted: Drifted) -> Iterator[str]:
    """A section: the sentences as a list, and a table of the runs."""
    run = drifted.last
    yield f"# {markdown_text(run.suite.title)} on {markdown_text(run.target.name)}\n\n"
    first, *rest = sentences(drifted)
    yield f"**{markdown_text(first)}**\n\n"
    for sentence in rest:
        yield f"* {markdown_text(sentence)}\n"
    yield f"\n| {' | '.join(COLUMNS)} |\n|---|---|{'--:|' * (len(COLUMNS) - 2)}\n"
    for row in rows(drifted.drift):
        yield f"| {' | '.join(map(markdown_text, row))} |\n"

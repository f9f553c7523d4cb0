"""The settings and totals of a run, as names and values for its page."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import UNSET

from proctor.codec import template_digest
from proctor.model import CHOICE_METRICS, Run
from proctor.parameters import describe_parameters
from proctor.reports.formatting import costs, milliseconds, percent, rate, seconds, token_counts
from proctor.reports.runs.records import RunRecord
from proctor.reports.runs.serialize import latency_scope, speed_scope
from proctor.reports.runs.settings import describe_settings
from proctor.services.runs.reading.run_summaries import RunSummary


def list_facts(run_summary: RunSummary) -> list[tuple[str, str]]:
    """Returns the names and values; empty values are left out."""
    return [(name, value) for name, value in _facts(run_summary.run, run_summary.summary) if value]


def _facts(run: Run, row: RunRecord) -> Iterator[tuple[str, str]]:
    latency, judge = row.latency_ms, row.judge
    yield "cost", costs(row.cost_usd, judge.cost_usd, judge.calls)
    if latency.p50 is not None or (latency.left_out and not run.settings.is_batch):
        scope = latency_scope(latency)
        yield "latency", f"median {milliseconds(latency.p50)}, 95 % within {milliseconds(latency.p95)}{scope}"
    if first := row.first_token_ms:
        text = f"median {milliseconds(first.p50)}, 95 % within {milliseconds(first.p95)}"
        yield "first token", text + speed_scope(first, latency.answers)
    if speed := row.tokens_per_second:
        text = f"median {rate(speed.p50)} tokens/s, 95 % above {rate(speed.p5)}"
        yield "speed", text + speed_scope(speed, latency.answers)
    yield "tokens", token_counts(row.usage)
    yield "reused", ", ".join(_reused_answers(row))
    if row.mean_score is not None:
        yield "mean score", f"{row.mean_score:.3f}"
    if row.multiple_choice is not UNSET:
        rates = ((metric, getattr(row.multiple_choice, metric)) for metric in CHOICE_METRICS)
        yield "multiple choice", ", ".join(f"{metric} {percent(rate)}" for metric, rate in rates)
    yield "model", run.target.model
    if run.prompt is not None:
        yield "prompt", f"{run.prompt.name}, {template_digest(run.prompt)[:19]}"
    yield "parameters", describe_parameters(run.target.params, with_defaults=True)
    yield "not applied", ", ".join(row.refused_params)
    yield "judges", ", ".join(row.judges)
    yield "settings", ", ".join(describe_settings(run.settings))
    if run.finished_at is not None:
        yield "duration", seconds((run.finished_at - run.started_at).total_seconds())
    yield "prices of", run.prices_date or ""
    yield "software", ", ".join(f"{name} {version}" for name, version in run.versions.items())


def _reused_answers(row: RunRecord) -> Iterator[str]:
    judged = row.judge.cached
    counts = ((row.cached, "from the cache"), (row.reused, "from earlier runs"), (judged, "judgments"))
    return (f"{count:,} {source}" for count, source in counts if count)

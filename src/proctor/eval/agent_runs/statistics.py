"""Runs of agents to shares, percentiles and a curve over time. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum, isfinite
from typing import TYPE_CHECKING, Any

from proctor.eval.agent_runs.records import AgentRun, measured, status_counts
from proctor.eval.json_files import plain
from proctor.stats import deviation, mean_interval, quantile, wilson

if TYPE_CHECKING:
    from proctor.charts import Chart, Point

_STEPS = 200
"""Of a curve."""


def statistics_of(runs: Sequence[AgentRun], label: str) -> dict[str, Any]:
    """Do what `AgentRuns.statistics` says."""
    turns = [turn for run in runs for turn in run.turns]
    succeeded = sum(run.succeeded() for run in runs)
    actions: dict[str, list[float]] = {}
    for turn in turns:
        actions.setdefault(turn.action, []).append(turn.duration_s)
    return {
        "label": label,
        "n_questions": len(runs),
        "n_succeeded": succeeded,
        "success_rate": succeeded / len(runs) if runs else None,
        "success_ci95": plain(wilson(succeeded, len(runs))),
        "status_counts": status_counts(runs),
        "n_empty": sum(not (run.status or run.turns or run.n_candidates) for run in runs),
        **{name: _spread(values) for name, values in measured(runs).items()},
        "input_tokens": _spread([run.total_input_tokens() for run in runs]),
        "output_tokens": _spread([run.total_output_tokens() for run in runs]),
        "unknown_tokens": sum(None in (turn.input_tokens, turn.output_tokens) for turn in turns),
        "turn_seconds": _spread([turn.duration_s for turn in turns]),
        "actions": {
            action: {"turns": len(times), "seconds": fsum(filter(isfinite, times))}
            for action, times in sorted(actions.items())
        },
    }


def chart_of(runs: Sequence[AgentRun], label: str) -> Chart:
    """Do what `AgentRuns.chart` says."""
    from proctor.charts import lines

    ordered = sorted(runs, key=lambda run: run.wall_seconds)
    if not ordered:
        raise ValueError("There is nothing to draw: there are no runs.")
    good = sum(run.succeeded() for run in ordered)
    counted = f"{good:,} of {len(ordered):,} runs succeeded"
    return lines(
        [
            *_curve("ended", [run.wall_seconds for run in ordered], ordered),
            *_curve("succeeded", [run.wall_seconds for run in ordered if run.succeeded()], ordered),
        ],
        title=f"{label}: {counted}" if label else counted,
        x="seconds since the question was asked",
        y="share of runs",
        scale="share",
        steps=True,
    )


def _curve(series: str, times: Sequence[float], runs: Sequence[AgentRun]) -> list[Point]:
    from proctor.charts import Point

    every = -(-len(times) // _STEPS) or 1
    shown = [*range(every, len(times), every), *([len(times)] if times else [])]
    points = [Point(times[count - 1], count / len(runs), series=series) for count in shown]
    end = Point(runs[-1].wall_seconds, len(times) / len(runs), series=series)
    return [Point(0, 0, series=series), *points, end]


def _spread(measures: Sequence[float]) -> dict[str, Any]:
    """Of what is finite."""
    values = [value for value in measures if isfinite(value)]
    ordered = sorted(values)
    return {
        "n": len(values),
        "total": fsum(values),
        "mean": fsum(values) / len(values) if values else None,
        "ci95": plain(mean_interval(values)),
        "stdev": deviation(values),
        "median": quantile(ordered, 0.5),
        "p90": quantile(ordered, 0.9),
        "p95": quantile(ordered, 0.95),
        "p99": quantile(ordered, 0.99),
        "min": ordered[0] if ordered else None,
        "max": ordered[-1] if ordered else None,
    }

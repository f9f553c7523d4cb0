"""Which latencies were measured in a run, and their summary. Pure.

An answer from the cache, or reused from another run, has the latency of the day on which it was requested.
That is not a latency of the run that shows it, and an answer in a batch has none, so every number of a run's
latency leaves such answers out.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from proctor.model import Output, Trial
from proctor.stats import quantile


class LatencySummary(Struct, frozen=True, kw_only=True):
    """The latencies of a run's answers, in milliseconds; None without any that was measured in the run."""

    p50: float | None = None
    p95: float | None = None
    mean: float | None = None
    answers: int = 0
    """The number of answers whose latency was measured in the run."""
    left_out: int = 0
    """The number of answers from the cache, another run or a batch, which are in no other number."""


def answer_latency(output: Output | None) -> float | None:
    """Returns the latency of an answer in milliseconds; None for no answer, and for one in a batch."""
    return None if output is None or output.batch_id is not None else output.latency_ms


def measured_latency(trial: Trial) -> float | None:
    """Returns the latency of a trial's answer in milliseconds; None if it was not measured in its run."""
    output = trial.output
    if output is None or output.cached or trial.source_run is not None:
        return None
    return answer_latency(output)


def summarize_latencies(latencies_ms: Iterable[float], left_out: int) -> LatencySummary:
    """Returns the summary of measured latencies.

    Args:
        latencies_ms: the latencies, in milliseconds, in any order.
        left_out: the number of answers without a measured latency.
    """
    ordered = sorted(latencies_ms)
    return LatencySummary(
        p50=quantile(ordered, 0.5),
        p95=quantile(ordered, 0.95),
        mean=sum(ordered) / len(ordered) if ordered else None,
        answers=len(ordered),
        left_out=left_out,
    )

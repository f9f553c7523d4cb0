"""Which latencies and speeds were measured in a run, and their summaries. Pure.

An answer from the cache, or reused from another run, has the latency of the day on which it was requested.
That is not a latency of the run that shows it, and an answer in a batch has none, so every number of a run's
latency leaves such answers out. The same holds for the time to the first token and for tokens per second,
which only streamed answers have.
"""

from __future__ import annotations

from msgspec import Struct

from proctor.model import Output, Trial
from proctor.spools import NumberSpool
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


class SpeedSummary(Struct, frozen=True, kw_only=True):
    """The times to the first token, in milliseconds, or the tokens per second of a run's streamed answers."""

    p5: float
    p50: float
    p95: float
    mean: float
    answers: int
    """The number of answers that have it."""


class RunSpeeds(Struct, frozen=True, kw_only=True):
    """The speeds of a run's streamed answers; None for what was measured of no answer."""

    first_token_ms: SpeedSummary | None = None
    tokens_per_second: SpeedSummary | None = None


def measured_output(trial: Trial) -> Output | None:
    """Returns the answer of a trial if its times were measured in the trial's run, else None."""
    output = trial.output
    if output is None or output.cached or output.batch_id is not None or trial.source_run is not None:
        return None
    return output


def measured_latency(trial: Trial) -> float | None:
    """Returns the latency of a trial's answer in milliseconds; None if it was not measured in its run."""
    output = measured_output(trial)
    return None if output is None else output.latency_ms


def summarize_latencies(latencies_ms: NumberSpool, left_out: int) -> LatencySummary:
    """Returns the summary of measured latencies.

    Args:
        latencies_ms: the latencies, in milliseconds.
        left_out: the number of answers without a measured latency.
    """
    ordered = latencies_ms.sort()
    return LatencySummary(
        p50=quantile(ordered, 0.5),
        p95=quantile(ordered, 0.95),
        mean=sum(ordered) / len(ordered) if ordered else None,
        answers=len(ordered),
        left_out=left_out,
    )


class SpeedValues:
    """The times to the first token and the tokens per second of the streamed answers of a run."""

    def __init__(self) -> None:
        """Starts without answers."""
        self._first_tokens_ms = NumberSpool()
        self._token_rates = NumberSpool()

    def add(self, output: Output) -> None:
        """Adds a streamed answer whose times were measured in the run."""
        if output.first_token_ms is not None and output.first_token_ms >= 0:
            self._first_tokens_ms.append(output.first_token_ms)
            if (token_rate := output.tokens_per_second) is not None:
                self._token_rates.append(token_rate)

    def summarize(self) -> RunSpeeds:
        """Returns the summaries of the answers so far."""
        return RunSpeeds(
            first_token_ms=_summarize_speeds(self._first_tokens_ms),
            tokens_per_second=_summarize_speeds(self._token_rates),
        )


def _summarize_speeds(values: NumberSpool) -> SpeedSummary | None:
    ordered = values.sort()
    p5, p50, p95 = (quantile(ordered, share) for share in (0.05, 0.5, 0.95))
    if p5 is None or p50 is None or p95 is None:
        return None
    return SpeedSummary(p5=p5, p50=p50, p95=p95, mean=sum(ordered) / len(ordered), answers=len(ordered))

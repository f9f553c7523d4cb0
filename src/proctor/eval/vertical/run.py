"""The result of a run over questions: scored calls with their report and chart."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from proctor.eval.bench.bench import Bench

if TYPE_CHECKING:
    from proctor.charts import Chart
    from proctor.eval.bench.statistics import Statistic

ACCURACY = "accuracy"
UNSCORED = "unscored"
"""The tag, always true, of calls whose judge gave no score."""


@dataclass(repr=False)
class VerticalRun(Bench):
    """A bench of scored answers, with the metrics `accuracy` and `refusal`."""

    planned: int = field(default=0, kw_only=True)
    """How many questions the run should send."""
    aborted: bool = field(default=False, kw_only=True)
    """Whether `should_abort` ended the run early."""

    @property
    def unscored(self) -> int:
        """How many answers got no score from the judge; they count as 0.0."""
        return sum(call.tags.get(UNSCORED) is True for call in list(self.calls))

    def accuracy(self) -> Statistic:
        """Returns the mean score with its 95 % interval, and the mean if failed calls count as 0."""
        return self.statistics()[ACCURACY]

    def by(self, tag: str) -> dict[str, Statistic]:
        """Returns `accuracy` for each value of a tag, in the order of their first questions.

        Raises:
            ValueError: no call has that tag.
        """
        return {value: statistics[ACCURACY] for value, statistics in self.statistics(by=tag).items()}

    def report(self, *, statistics: bool = False, by: str | None = None) -> str:
        """Returns `Bench.report`, and below it failures, missing scores and an early end."""
        lines, accuracy = [super().report(statistics=statistics, by=by), ""], self.accuracy()
        if accuracy.n and accuracy.unit != "share":
            lines.append(f"- {accuracy.summary_line()}")
        if accuracy.failed and accuracy.mean_failed_as_0 is not None:
            interval = accuracy.interval_failed_as_0
            bounds = "" if interval is None else f" (95 % interval {interval[0]:.3f} to {interval[1]:.3f})"
            lines.append(f"- accuracy with failures as 0: {accuracy.mean_failed_as_0:.3f}{bounds}")
        if self.unscored:
            lines.append(f"- unscored, counted as 0: {self.unscored}")
        if self.aborted:
            lines.append(f"- aborted after {len(self.calls)} of {self.planned} questions")
        return "\n".join(lines) if len(lines) > 2 else lines[0]

    def chart(self, *metrics: str, by: str | None = None) -> Chart:
        """Draws the accuracy with its 95 % intervals, of all and of each value of a tag, as bars.

        Args:
            *metrics: names; draws their bars as `Bench.chart` does.
            by: a tag.

        Raises:
            ValueError: no call has that tag, or none has a score.
        """
        if metrics:
            return super().chart(*metrics, by=by)
        from proctor.charts import Bar, bars

        slices = {"all": self.accuracy()} | ({} if by is None else self.by(by))
        scored = {name: accuracy for name, accuracy in slices.items() if accuracy.mean is not None}
        accuracy_bars = []
        for name, accuracy in scored.items():
            low, high = accuracy.interval or (None, None)
            accuracy_bars.append(Bar(f"{name} (n = {accuracy.n})", accuracy.mean or 0.0, low, high))
        shares = all(accuracy.unit == "share" for accuracy in scored.values())
        title = self.name if by is None else f"{self.name} by {by}"
        unit = "mean score, with its 95 % interval"
        return bars(accuracy_bars, title=title, unit=unit, scale="share" if shares else "number")

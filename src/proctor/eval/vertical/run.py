"""One sweep over questions: what was scored, and how it is summed up and drawn."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING, Any

from proctor.eval.bench.bench import Bench, OrderedCalls
from proctor.eval.bench.calls import BenchCall

if TYPE_CHECKING:
    from proctor.charts import Chart
    from proctor.eval.bench.statistics import Statistic
    from proctor.eval.vertical.rows import VerticalQA

ACCURACY = "accuracy"
UNSCORED = "unscored"
"""The tag, always true, of calls whose judge gave no score."""

Scorer = Callable[..., float]
Model = Callable[[str], "str | Awaitable[str]"]


@dataclass(repr=False)
class VerticalRun(Bench):
    """A bench of scored answers, with the metrics `accuracy` and `refusal`."""

    planned: int = field(default=0, kw_only=True)
    """How many questions were to be asked."""
    aborted: bool = field(default=False, kw_only=True)
    """Whether `should_abort` ended the run before all were asked."""

    @property
    def unscored(self) -> int:
        """Answers whose judge gave no score; they count as 0.0."""
        return sum(call.tags.get(UNSCORED) is True for call in list(self.calls))

    def accuracy(self) -> Statistic:
        """The mean score with its 95 % interval, and beside it the mean where failed calls count as 0."""
        return self.statistics()[ACCURACY]

    def by(self, tag: str) -> dict[str, Statistic]:
        """`accuracy` for each value of a tag, in the order of their first questions.

        Raises:
            ValueError: no call has that tag.
        """
        return {value: found[ACCURACY] for value, found in self.statistics(by=tag).items()}

    def report(self, *, statistics: bool = False, by: str | None = None) -> str:
        """`Bench.report`, with what it does not say below: failures, missing scores, and an early end."""
        lines, found = [super().report(statistics=statistics, by=by), ""], self.accuracy()
        if found.n and found.unit != "share":
            lines.append(f"- {found.sure()}")
        if found.failed and found.mean_failed_as_0 is not None:
            shown = f"{found.mean_failed_as_0:.3f}{_written(found.interval_failed_as_0)}"
            lines.append(f"- accuracy with failures as 0: {shown}")
        if self.unscored:
            lines.append(f"- unscored, counted as 0: {self.unscored}")
        if self.aborted:
            lines.append(f"- aborted after {len(self.calls)} of {self.planned} questions")
        return "\n".join(lines) if len(lines) > 2 else lines[0]

    def chart(self, *metrics: str, by: str | None = None) -> Chart:
        """Bars of the accuracy with its 95 % intervals, of all and of each value of a tag.

        Args:
            *metrics: names, for the bars that `Bench.chart` draws of them.
            by: a tag.

        Raises:
            ValueError: no call has that tag, or none has a score.
        """
        if metrics:
            return super().chart(*metrics, by=by)
        from proctor.charts import Bar, bars

        slices = {"all": self.accuracy()} | ({} if by is None else self.by(by))
        scored = {name: found for name, found in slices.items() if found.mean is not None}
        drawn = []
        for name, found in scored.items():
            low, high = found.interval or (None, None)
            drawn.append(Bar(f"{name} (n = {found.n})", found.mean or 0.0, low, high))
        shares = all(found.unit == "share" for found in scored.values())
        title = self.name if by is None else f"{self.name} by {by}"
        unit = "mean score, with its 95 % interval"
        return bars(drawn, title=title, unit=unit, scale="share" if shares else "number")


def _written(interval: tuple[float, float] | None) -> str:
    return "" if interval is None else f" (95 % interval {interval[0]:.3f} to {interval[1]:.3f})"


# --- the sweep ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Asked:
    """A question at its place in a run, with all that its call will carry."""

    place: int
    question: VerticalQA
    scorer_kwargs: dict[str, Any]
    tags: dict[str, Any]


class Sweep:
    """Asks and scores questions, and keeps each call when it ends, at the place of its question.

    It is called in any thread, and gives an awaitable where the model does.
    """

    def __init__(
        self,
        run: VerticalRun,
        model_fn: Model,
        scorer: Scorer,
        *,
        records: bool,
        on_row: Callable[[], None] | None,
    ) -> None:
        from threading import RLock

        from proctor.eval.refusals import is_refusal  # 90 ms, and only runs need it

        self._is_refusal = is_refusal
        self._run = run
        self._model_fn = model_fn
        self._scorer = scorer
        self._records = records
        self._on_row = on_row
        self._lock = RLock()
        self._ordered_calls = OrderedCalls(run)

    def __call__(self, asked: Asked) -> Awaitable[None] | None:
        """Ask one question, and keep what came of it."""
        from inspect import isawaitable

        began = perf_counter()
        try:
            output = self._model_fn(asked.question.question)
        except Exception as error:  # noqa: BLE001  # recorded, or raised again
            self._failed(asked, _since(began), None, error)
            return None
        if isawaitable(output):
            return self._awaited(asked, output)
        self._answered(asked, _since(began), output)
        return None

    async def _awaited(self, asked: Asked, awaitable: Awaitable[str]) -> None:
        from asyncio import CancelledError, current_task, to_thread

        began = perf_counter()
        try:
            output = await awaitable
        except (Exception, CancelledError) as error:
            task = current_task()
            if isinstance(error, CancelledError) and task is not None and task.cancelling():
                raise  # the run has ended, and this question was not answered
            self._failed(asked, _since(began), None, error)
            return
        latency_ms = _since(began)
        await to_thread(self._answered, asked, latency_ms, output)  # a judge may take its time

    def _answered(self, asked: Asked, latency_ms: float, output: Any) -> None:
        if not isinstance(output, str):
            wrong = TypeError(f"The model gave {type(output).__name__}, and only text can be scored.")
            self._failed(asked, latency_ms, output, wrong)
            return
        scorer_kwargs, watched = _watching(asked.scorer_kwargs)
        try:
            score = _finite(self._scorer(output, asked.question.expected, **scorer_kwargs))
            metrics = {ACCURACY: score, "refusal": float(self._is_refusal(output))}
        except Exception as error:  # noqa: BLE001  # recorded, or raised again
            self._failed(asked, latency_ms, output, error, f" (from the scorer {name_of(self._scorer)})")
            return
        tags = asked.tags | ({UNSCORED: True} if watched is not None and watched.silent else {})
        call = BenchCall(asked.question.question, output, latency_ms, metrics=dict(metrics), tags=tags)
        self._keep(asked.place, call)

    def _failed(
        self, asked: Asked, latency_ms: float, output: Any, error: BaseException, where: str = ""
    ) -> None:
        if not self._records:
            raise error
        told = f"{type(error).__name__}: {error}{where}"
        call = BenchCall(asked.question.question, output, latency_ms, False, told, {}, asked.tags)
        self._keep(asked.place, call)

    def _keep(self, place: int, call: BenchCall) -> None:
        with self._lock:
            if self._ordered_calls.add(place, call) and self._on_row is not None:
                self._on_row()

    def close(self) -> None:
        """Keep nothing from now on."""
        self._ordered_calls.close()


def name_of(scorer: Scorer) -> str:
    """What a scorer is called; `custom` of one without a name."""
    return str(getattr(scorer, "__name__", "custom"))


def _since(began: float) -> float:
    return round((perf_counter() - began) * 1000, 2)


def _finite(score: Any) -> float:
    from math import isfinite

    number = float(score)
    if not isfinite(number):
        raise ValueError(f"The score {number} is no finite number.")
    return number


class _WatchedJudge:
    """A judge for the scoring of one answer, which notes whether it gave no score."""

    def __init__(self, judge: Any) -> None:
        self._judge = judge
        self.silent = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._judge, name)

    def grade(self, *arguments: Any, **named: Any) -> Any:
        """What the judge says."""
        result = self._judge.grade(*arguments, **named)
        self.silent = getattr(result, "score", 0) is None
        return result


def _watching(scorer_kwargs: dict[str, Any]) -> tuple[dict[str, Any], _WatchedJudge | None]:
    """The arguments with their judge watched, where they have one."""
    judge = scorer_kwargs.get("judge")
    if not callable(getattr(judge, "grade", None)):
        return scorer_kwargs, None
    watched = _WatchedJudge(judge)
    return scorer_kwargs | {"judge": watched}, watched

"""The result of pass@k and pass^k: means over tasks, their intervals, and curves over k. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import fsum
from operator import index
from typing import TYPE_CHECKING, Any

from proctor.eval.json_files import to_plain
from proctor.eval.jsonl_rows import parse_number
from proctor.stats import bounded_interval, pass_at_k, pass_hat_k

if TYPE_CHECKING:
    from proctor.charts import Chart, Point

Estimator = Callable[[int, int, int], float]

_MAX_COUNT = 10**15
_MAX_POINTS = 12
"""Points of a curve."""


@dataclass(frozen=True, slots=True)
class UngradedAnswer:
    """An answer that could not be graded. It does not count, and is not a failure."""

    task_id: str
    answer: int
    """Its place among the answers to the task, from 0."""
    reason: str


@dataclass(frozen=True, slots=True)
class TaskCount:
    """How many answers to a task were graded, and how many of them passed."""

    task_id: str
    n: int
    passed: int


@dataclass(frozen=True, slots=True)
class PassAtKResult:
    """pass@k over tasks. Immutable, so it may be shared between threads."""

    n_problems: int
    """Tasks with a graded answer."""
    samples_per_problem: int
    """Graded answers to each task; the smallest number if they differ. The largest possible k."""
    per_task: list[dict[str, Any]]
    """A row for each task: task_id, n, passed, and the result of `extras_fn`."""
    pass_at: dict[int, float]
    """Each k with the mean over the tasks, from 0 to 1."""
    ungraded: tuple[UngradedAnswer, ...] = ()
    """Answers that do not count."""
    counts: tuple[tuple[int, int], ...] | None = field(default=None, repr=False, compare=False)
    """(n, passed) of each task; None: as in `per_task`, where extras may replace them."""

    def __repr__(self) -> str:
        shares = ", ".join(f"pass@{k} = {share:.4g}" for k, share in self.pass_at.items())
        return f"<PassAtKResult: {self._describe_size()}{'; ' if shares else ''}{shares}>"

    def _repr_html_(self) -> str:
        from proctor.eval.tables import html_table

        rows = [
            (k, self.estimate(k), self.interval(k), self.pass_hat(k), self.pass_hat_interval(k))
            for k in self._ks()
        ]
        columns = ["k", "pass@k", "95 % interval", "pass^k", "95 % interval"]
        return html_table(f"pass@k of {self._describe_size()}", columns, rows)

    def _describe_size(self) -> str:
        ungraded = f", {len(self.ungraded)} ungraded" if self.ungraded else ""
        return f"{self.n_problems} tasks, {self.samples_per_problem} answers each{ungraded}"

    def to_dict(self) -> dict[str, Any]:
        """Returns n_problems, samples_per_problem, pass_at ({"pass@1": share of 4 digits}) and per_task."""
        return {
            "n_problems": self.n_problems,
            "samples_per_problem": self.samples_per_problem,
            "pass_at": {f"pass@{k}": round(share, 4) for k, share in self.pass_at.items()},
            "per_task": [to_plain(row) for row in self.per_task],
        }

    def estimate(self, k: int) -> float | None:
        """Returns pass@k for any k from 1 to `samples_per_problem`, from 0 to 1; None without tasks.

        Raises:
            ValueError: a task has fewer than k answers, or k is below 1.
            TypeError: k is not a whole number.
        """
        return _mean(self._estimate_tasks(pass_at_k, k))

    def interval(self, k: int) -> tuple[float, float] | None:
        """Returns the 95 % interval of pass@k as (low, high); None below two tasks.

        It is `bounded_interval` over the tasks, as another set of tasks would have another value: Wilson's
        interval for the number of tasks that only pass or fail and would vary as much.

        Raises:
            ValueError: as `estimate`.
            TypeError: as `estimate`.
        """
        return bounded_interval(self._estimate_tasks(pass_at_k, k))

    def pass_hat(self, k: int) -> float | None:
        """Returns pass^k, that all of k answers pass: the mean over the tasks. Otherwise as `estimate`."""
        return _mean(self._estimate_tasks(pass_hat_k, k))

    def pass_hat_interval(self, k: int) -> tuple[float, float] | None:
        """Returns the 95 % interval of pass^k, otherwise as `interval`."""
        return bounded_interval(self._estimate_tasks(pass_hat_k, k))

    def statistics(self) -> dict[str, Any]:
        """Returns everything as plain data, unrounded, for the ks of `pass_at`.

        Keys: tasks, answers (total, min, max of a task), ungraded (answers), ungraded_tasks (ids of tasks
        that are left out), pass_at and pass_hat ({"pass@1": {"value", "ci95"}}, shares of 1 or null).
        """
        sizes = [n for n, _ in self._counts()]
        graded = {str(row.get("task_id")) for row in self.per_task}
        ungraded_tasks = dict.fromkeys(
            answer.task_id for answer in self.ungraded if answer.task_id not in graded
        )
        return {
            "tasks": self.n_problems,
            "answers": {"total": sum(sizes), "min": min(sizes, default=0), "max": max(sizes, default=0)},
            "ungraded": len(self.ungraded),
            "ungraded_tasks": list(ungraded_tasks),
            "pass_at": {
                f"pass@{k}": {"value": self.estimate(k), "ci95": to_plain(self.interval(k))}
                for k in self._ks()
            },
            "pass_hat": {
                f"pass^{k}": {"value": self.pass_hat(k), "ci95": to_plain(self.pass_hat_interval(k))}
                for k in self._ks()
            },
        }

    def chart(self) -> Chart:
        """Draws pass@k and pass^k over k, each with the band of its interval.

        Raises:
            ValueError: there are no tasks.
        """
        return draw_curves({"": self})

    def _ks(self) -> list[int]:
        return list(self.pass_at) if self.n_problems else []

    def _counts(self) -> tuple[tuple[int, int], ...]:
        if self.counts is not None:
            return self.counts
        return tuple((count.n, count.passed) for count in map(parse_count, self.per_task))

    def _estimate_tasks(self, estimator: Estimator, k: int) -> list[float]:
        return [estimator(*to_whole_numbers(n, c, k)) for n, c in self._counts()]


def build_result(
    counts: Iterable[TaskCount],
    ks: Iterable[int],
    *,
    rows: Sequence[dict[str, Any]] | None = None,
    ungraded: Iterable[UngradedAnswer] = (),
) -> PassAtKResult:
    """Builds the result of counted tasks; tasks without a graded answer are left out.

    Without tasks every pass@k is 0.0; if there are tasks and none has a graded answer, there is no pass@k.

    Args:
        counts: the tasks.
        ks: each from 1 to the smallest n.
        rows: the rows of `per_task`; None for the counts.
        ungraded: answers that do not count.

    Raises:
        ValueError: a k is below 1 or above the smallest n.
        TypeError: a k is not a whole number.
    """
    ks, counts = list(ks), list(counts)
    graded_counts = [count for count in counts if count.n]
    fewest = min(graded_counts, key=lambda count: count.n, default=None)
    if fewest is not None:
        check_ks(ks, fewest.n, f"task {fewest.task_id!r}")
    shares = {} if counts and not graded_counts else dict.fromkeys(ks, 0.0)
    for k in shares:
        shares[k] = _mean([pass_at_k(count.n, count.passed, k) for count in graded_counts]) or 0.0
    if rows is None:
        rows = [{"task_id": count.task_id, "n": count.n, "passed": count.passed} for count in graded_counts]
    return PassAtKResult(
        n_problems=len(graded_counts),
        samples_per_problem=fewest.n if fewest else 0,
        per_task=list(rows),
        pass_at=shares,
        ungraded=tuple(ungraded),
        counts=tuple((count.n, count.passed) for count in graded_counts),
    )


def draw_curves(results: Mapping[str, PassAtKResult]) -> Chart:
    """Draws pass@k and pass^k over k: one result in two colours, several in one each with pass^k dashed.

    One or two results have bands for their intervals; bands of more results would hide one another.

    Args:
        results: by their names in the legend; a single result needs no name.

    Raises:
        ValueError: no result has tasks.
    """
    from proctor.charts import lines

    drawable = {name: result for name, result in results.items() if result.n_problems}
    if not drawable:
        raise ValueError("There is nothing to draw: no task has a graded answer.")
    is_comparison = len(results) > 1
    points = [
        point
        for name, result in drawable.items()
        for point in _curve_points(result, name if is_comparison else None, bands=len(drawable) <= 2)
    ]
    sizes = sorted({result.n_problems for result in drawable.values()})
    tasks = (
        f"{sizes[0]:,} task{'s' * (sizes[0] > 1)}" if len(sizes) == 1 else f"{sizes[0]:,}–{sizes[-1]:,} tasks"
    )
    line_styles = (" (solid)", " (dashed)") if is_comparison else ("", "")
    return lines(
        points,
        title="{}: at least one of k answers passes{}, or all of them{}".format(tasks, *line_styles),
        x="k, answers drawn",
        y="share of tasks",
        scale="share",
    )


def _curve_points(result: PassAtKResult, name: str | None, *, bands: bool) -> list[Point]:
    from proctor.charts import Point

    points = []
    for k in _sample_ks(result.samples_per_problem):
        for series, value, interval in (
            ("pass@k", result.estimate(k), result.interval),
            ("pass^k", result.pass_hat(k), result.pass_hat_interval),
        ):
            assert value is not None
            low, high = (interval(k) if bands else None) or (None, None)
            dashed = name is not None and series == "pass^k"
            points.append(Point(k, value, low, high, series if name is None else name, dashed))
    return points


def _sample_ks(n: int) -> list[int]:
    """Returns numbers from 1 to n: all if n is small, else a sample, denser for small numbers."""
    if n <= _MAX_POINTS:
        return list(range(1, n + 1))
    return sorted({round(n ** (place / (_MAX_POINTS - 1))) for place in range(_MAX_POINTS)})


def check_ks(ks: Iterable[int], n: int, task: str) -> None:
    """Raises ValueError for a k below 1 or above n, and TypeError for one that is not a whole number."""
    for k in ks:
        to_whole_numbers(n, 0, k)
        if k < 1:
            raise ValueError(f"k must be at least 1, not {k}.")
        if k > n:
            raise ValueError(f"k={k} is more than the {n} graded answers of {task}, which say nothing of it.")


def _mean(values: Sequence[float]) -> float | None:
    return fsum(values) / len(values) if values else None


def to_whole_numbers(n: int, c: int, k: int) -> tuple[int, int, int]:
    """Returns the numbers as Python's own; raises TypeError for others, such as 2.0."""
    try:
        return index(n), index(c), index(k)
    except TypeError as error:
        raise TypeError(f"n, c and k must be whole numbers, not {n!r}, {c!r} and {k!r}.") from error


def parse_count(row: Mapping[str, Any], place: int = 1) -> TaskCount:
    """Returns the counts of a row.

    Raises:
        ValueError: the row has no counts, or impossible ones.
    """
    n, passed = (_parse_number(row, name, place) for name in ("n", "passed"))
    if max(n, abs(passed)) > _MAX_COUNT:
        raise ValueError(f"Row {place} has a count above {_MAX_COUNT:,}. No task has that many answers.")
    if n < 1 or not 0 <= passed <= n:
        raise ValueError(f"Row {place} has n={n} and passed={passed}. It needs n >= 1 and 0 <= passed <= n.")
    return TaskCount(str(row.get("task_id", "")), n, passed)


def _parse_number(row: Mapping[str, Any], name: str, place: int) -> int:
    value: Any = row.get(name)
    number = parse_number(value, int)
    if number is None or (isinstance(value, float) and number != value):
        raise ValueError(f"Row {place} has {name}={value!r}. It must be a whole number.")
    return number

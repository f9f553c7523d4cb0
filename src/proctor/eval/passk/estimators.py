"""Estimates pass@k and pass^k from answers: how often one of k answers passes, and how often all do.

Files are read by `files`; how one answer is graded is up to the caller.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from typing import Any

from proctor.eval.parallel import OnError, map_ordered, should_record
from proctor.eval.passk.result import (
    PassAtKResult,
    TaskCount,
    UngradedAnswer,
    build_result,
    check_ks,
    parse_count,
    to_whole_numbers,
)
from proctor.stats import pass_at_k, pass_hat_k

__all__ = [
    "PassAtK",
    "PassAtKResult",
    "TaskCount",
    "UngradedAnswer",
    "pass_at_k_estimator",
    "pass_hat_k_estimator",
]


def pass_at_k_estimator(n: int, c: int, k: int) -> float:
    """Returns the unbiased estimate that at least one of k answers passes: `1 - C(n-c, k) / C(n, k)`.

    Takes at most min(c, k) steps and no large integer; exact to 1e-12 for n of a million.

    Source: M. Chen et al., "Evaluating Large Language Models Trained on Code" (2021), arXiv:2107.03374.

    Args:
        n: the answers to a task, at least 1.
        c: those that passed, 0 to n.
        k: how many are drawn, 1 to n.

    Raises:
        ValueError: one of them is out of its range. A k above n is no 1.0: n answers say nothing of it.
        TypeError: one of them is not a whole number.
    """
    return pass_at_k(*to_whole_numbers(n, c, k))


def pass_hat_k_estimator(n: int, c: int, k: int) -> float:
    """Returns the unbiased estimate that all of k answers pass, written pass^k: `C(c, k) / C(n, k)`.

    Source: S. Yao et al., "τ-bench: A Benchmark for Tool-Agent-User Interaction in Real-World Domains"
    (2024), arXiv:2406.12045.

    Arguments and errors are those of `pass_at_k_estimator`.
    """
    return pass_hat_k(*to_whole_numbers(n, c, k))


@dataclass
class PassAtK:
    """Computes pass@k for some k. Threads may share it."""

    ks: Sequence[int] = (1,)
    """Each at least 1; repeated ones count once."""

    def __post_init__(self) -> None:
        self.ks = tuple(self.ks)

    def score(
        self,
        problems: Sequence[dict[str, Any]],
        samples: Sequence[Sequence[Any]],
        grader: Callable[[Any, dict[str, Any]], Any],
        *,
        extras_fn: Callable[[dict[str, Any], Sequence[Any]], dict[str, Any]] | None = None,
        task_id_field: str = "task_id",
        workers: int = 1,
        on_error: OnError = "raise",
    ) -> PassAtKResult:
        """Grades each answer to each task.

        Args:
            problems: the tasks.
            samples: the answers to each task, the same number for all.
            grader: called as `grader(answer, problem)`; an answer passes if the result is true, or has a
                true `passed`, as a `GradeResult`, `CheckResult` or `SandboxResult` does. It may be async,
                and is called from several threads when there are several workers.
            extras_fn: called as `extras_fn(problem, answers)` after the grading; its result is added to the
                task's row, where it may replace displayed values, but not the counts.
            task_id_field: the key of a task's id.
            workers: how many answers are graded at once, at least 1; the order of results is the same.
            on_error: how an exception of the grader is handled: "raise" raises the first in input order.
                "record" leaves the answer out and lists it in `ungraded`; a task of which no answer is
                left is not in `per_task`, and a k above what is left of some task is not in `pass_at`.

        Raises:
            ValueError: tasks and lists of answers differ in number, lists differ in length, `ks` is empty,
                a k is below 1 or above the number of answers, or workers is below 1.
            Exception: raised by the grader, with on_error="raise", or by extras_fn.
            TypeError: a k is not a whole number, or a task's answers are one text.
        """
        records = should_record(on_error)
        self._check(problems, samples)
        pairs = [(text, task) for task, texts in zip(problems, samples, strict=True) for text in texts]
        rows, counts, ungraded = [], [], []
        with closing(map_ordered(lambda pair: grader(*pair), pairs, workers=workers)) as outcomes:
            for task, texts in zip(problems, samples, strict=True):
                name = str(task.get(task_id_field, ""))
                grades = []
                for grade in islice(outcomes, len(texts)):
                    if not records:
                        grade.result()
                    grades.append(grade)
                bad = [(place, grade.error) for place, grade in enumerate(grades) if grade.error is not None]
                ungraded += [
                    UngradedAnswer(name, place, f"{type(why).__name__}: {why}") for place, why in bad
                ]
                count = TaskCount(name, len(grades) - len(bad), sum(_passes(grade.value) for grade in grades))
                if count.n:
                    extras = {} if extras_fn is None else extras_fn(task, texts)
                    counts.append(count)
                    rows.append({"task_id": name, "n": count.n, "passed": count.passed, **extras})
        fewest = min((count.n for count in counts), default=0 if problems else max(self.ks))
        return build_result(counts, [k for k in self.ks if k <= fewest], rows=rows, ungraded=ungraded)

    def from_rows(self, rows: Iterable[Mapping[str, Any] | Sequence[Any]]) -> PassAtKResult:
        """Computes the result from tasks whose answers are counted already.

        Args:
            rows: objects with n and passed (and task_id and whatever else), or (task_id, n, passed).

        Raises:
            ValueError: a row has no such numbers, n differs between rows (see `from_trials`), or a k is
                below 1 or above n.
            TypeError: a row is neither, or a k is not a whole number.
        """
        objects = [_row_to_dict(row, place) for place, row in enumerate(rows, 1)]
        counts = [parse_count(row, place) for place, row in enumerate(objects, 1)]
        sizes = sorted({count.n for count in counts})
        if len(sizes) > 1:
            raise ValueError(
                f"The rows have different numbers of answers: n is {sizes[0]} to {sizes[-1]}. Give each task "
                "as many, or give one row for each answer to from_trials, where they may differ."
            )
        return build_result(counts, self.ks, rows=objects)

    def from_trials(
        self, rows: Iterable[Mapping[str, Any]], *, task_id_field: str = "task_id"
    ) -> PassAtKResult:
        """Computes the result from single graded answers; tasks may have different numbers of them.

        The estimator is unbiased for each task with that task's own n, as long as k is at most that n, so
        the mean over tasks is unbiased too: no k may be above the smallest n. A task with fewer answers
        counts as much as one with many.

        Args:
            rows: for each answer `{"task_id": …, "passed": true or false}`, in any order. Where passed is
                null the answer was not graded; its `reason`, if there is one, is kept in `ungraded`.
            task_id_field: the key of a task's id.

        Raises:
            ValueError: a row has no task id or no such grade, or a k is below 1 or above the smallest n.
            TypeError: a row is not an object, or a k is not a whole number.
        """
        tasks: dict[str, list[bool | None]] = {}
        ungraded: list[UngradedAnswer] = []
        for place, row in enumerate(rows, 1):
            name, passed = parse_trial(row, place, task_id_field)
            grades = tasks.setdefault(name, [])
            if passed is None:
                ungraded.append(UngradedAnswer(name, len(grades), str(row.get("reason") or "passed is null")))
            grades.append(passed)
        counts = [
            TaskCount(name, len(grades) - grades.count(None), grades.count(True))
            for name, grades in tasks.items()
        ]
        return build_result(counts, self.ks, ungraded=ungraded)

    def _check(self, problems: Sequence[Any], samples: Sequence[Sequence[Any]]) -> None:
        """Checks the arguments before anything is graded."""
        if len(problems) != len(samples):
            raise ValueError(
                f"{len(problems)} problems have {len(samples)} lists of samples. Pass one list per problem."
            )
        if not self.ks:
            raise ValueError("ks is empty: name at least one k, as in PassAtK(ks=(1, 8)).")
        for place, texts in enumerate(samples):
            if isinstance(texts, str | bytes):
                raise TypeError(f"samples[{place}] is one text. It must be a list of answers.")
        sizes = {len(texts) for texts in samples}
        if len(sizes) > 1:
            raise ValueError(
                f"Every problem must have the same number of samples, not {min(sizes)} to {max(sizes)}."
            )
        if problems:
            check_ks(self.ks, max(sizes), "each problem")


def _row_to_dict(row: Mapping[str, Any] | Sequence[Any], place: int) -> dict[str, Any]:
    if isinstance(row, Mapping):
        return dict(row)
    if isinstance(row, str | bytes) or not isinstance(row, Sequence) or len(row) != 3:
        raise TypeError(f"Row {place} is {row!r}. It must be an object, or (task_id, n, passed).")
    return dict(zip(("task_id", "n", "passed"), row, strict=True))


def parse_trial(row: Mapping[str, Any], place: int, task_id_field: str) -> tuple[str, bool | None]:
    """Returns the task of a row, and whether the answer passed; None if it was not graded.

    Raises:
        ValueError: the row has no task id or no `passed`.
        TypeError: the row is not an object.
    """
    if not isinstance(row, Mapping):
        raise TypeError(f"Row {place} is {row!r}. It must be an object with {task_id_field!r} and 'passed'.")
    name = row.get(task_id_field)
    if name is None or name == "":
        raise ValueError(f"Row {place} has no {task_id_field!r}, so nothing says which task it answers.")
    passed = row.get("passed", "")
    if passed is not None and not isinstance(passed, bool):
        raise ValueError(f"Row {place} has passed={passed!r}. It must be true, false or null.")
    return str(name), passed


def _passes(grade: Any) -> bool:
    return bool(getattr(grade, "passed", grade))

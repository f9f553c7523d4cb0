"""Reads files of answers for pass@k: counts, single answers, dumps, exported runs, and completions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from proctor.eval.jsonl_rows import (
    DroppedRow,
    flatten_trials,
    read_object_rows,
    read_single_object,
    register_trial,
)
from proctor.eval.parallel import map_ordered
from proctor.eval.passk.estimators import parse_trial
from proctor.eval.passk.result import PassAtKResult, TaskCount, UngradedAnswer, build_result, parse_count

NOT_GRADED = "not graded"
_VERDICTS = {"pass": True, "fail": False, "error": None, "unscored": None}


class Completion(NamedTuple):
    """An answer that is not graded yet."""

    task_id: str
    text: str
    problem: Mapping[str, Any]


@dataclass
class RunAnswers:
    """The answers of a file, or of one run in it."""

    run: str = ""
    """The target, if the rows name it, and of several runs the run."""
    completions: list[Completion] = field(default_factory=list)
    """Answers that are still to be graded."""
    ungraded: list[UngradedAnswer] = field(default_factory=list)
    """Answers that do not count."""
    ungraded_counts: Counter[str] = field(default_factory=Counter)
    """How many of them are an error, unscored, or not graded."""
    pooled_tasks: dict[str, None] = field(default_factory=dict)
    """Tasks whose counts were in more than one row."""
    _tasks: dict[str, list[int]] = field(default_factory=dict)
    """Each task with its answers, graded answers and passes."""
    trials: set[tuple[str, ...]] = field(default_factory=set)
    """The exported trials so far, for `register_trial`."""

    def add_count(self, counts: TaskCount) -> None:
        """Adds the counts of a task."""
        if counts.task_id in self._tasks:
            self.pooled_tasks[counts.task_id] = None
        self._add(counts.task_id, counts.n, counts.n, counts.passed)

    def add_grade(
        self, task_id: str, passed: bool | None, *, reason: str = "", kind: str = NOT_GRADED
    ) -> None:
        """Adds one answer; None for `passed` means that it was not graded, for this reason."""
        if passed is None:
            place = self._tasks.get(task_id, [0])[0]
            self.ungraded.append(UngradedAnswer(task_id, place, reason or kind))
            self.ungraded_counts[kind] += 1
        self._add(task_id, 1, int(passed is not None), int(passed is True))

    def discard_completions(self, reason: str) -> None:
        """Counts the completions as not graded."""
        for completion in self.completions:
            self.add_grade(completion.task_id, None, reason=reason)
        self.completions = []

    @property
    def counts(self) -> list[TaskCount]:
        """The tasks that have a graded answer."""
        return [TaskCount(name, n, passed) for name, (_, n, passed) in self._tasks.items() if n]

    @property
    def min_answers(self) -> int:
        """The fewest answers, graded or still to be graded, that a task has; 0 without tasks."""
        sizes = Counter({count.task_id: count.n for count in self.counts})
        sizes.update(completion.task_id for completion in self.completions)
        return min(sizes.values(), default=0)

    @property
    def ungraded_tasks(self) -> list[str]:
        """The tasks without a graded answer."""
        return [name for name, (_, n, _) in self._tasks.items() if not n]

    def result(self, ks: Iterable[int]) -> PassAtKResult:
        """Returns pass@k for those ks that each task has enough answers for."""
        fewest = self.min_answers
        return build_result(self.counts, [k for k in ks if k <= fewest], ungraded=self.ungraded)

    def _add(self, task_id: str, *numbers: int) -> None:
        before = self._tasks.get(task_id, [0, 0, 0])
        self._tasks[task_id] = [old + new for old, new in zip(before, numbers, strict=True)]


@dataclass
class AnswerFile:
    """The content of a file."""

    path: str
    answers: list[RunAnswers]
    """One, or one for each exported run; empty if no line can be used."""
    dropped: list[DroppedRow]
    """Lines that cannot be used."""
    unanswered: list[str]
    """Problems without a completion, if problems were given."""


def read_answers(path: str | Path, problems: Mapping[str, Mapping[str, Any]] | None = None) -> AnswerFile:
    """Reads a file of JSON Lines, or of one JSON object.

    The form of a row is recognized by its fields: `{task_id, n, passed}`, `{task_id, passed}` (true, false or
    null), a dump of `PassAtKResult.to_dict()`, output of `proctor passk --json`, a trial of an exported run
    `{case_id, verdict}`, or with `problems` `{task_id, completion}`. Rows of counts without a task_id are
    tasks of their own. Each `run` and each `target` stands by itself.

    Args:
        path: the file, in UTF-8.
        problems: by task_id; their tests grade the completions, whose own `passed` is then ignored.

    Raises:
        OSError: the file cannot be read.
    """
    dropped: list[DroppedRow] = []
    runs: dict[tuple[str, str], RunAnswers] = {}
    for line, row in _read_rows(path, dropped):
        try:
            _add_row(row, line, runs, problems)
        except (TypeError, ValueError) as error:
            dropped.append(DroppedRow(line, str(error)))
    targets = Counter(target for _, target in runs)
    for (run, target), answers in runs.items():
        answers.run = f"{target} ({run})" if targets[target] > 1 else target
    answer_ids = {completion.task_id for answers in runs.values() for completion in answers.completions}
    unanswered = [name for name in problems or () if name not in answer_ids]
    return AnswerFile(str(path), list(runs.values()), sorted(dropped, key=lambda row: row.line), unanswered)


def read_problems(path: str | Path, dropped: list[DroppedRow]) -> dict[str, dict[str, Any]]:
    """Reads the problems of a file of JSON Lines in the form of HumanEval, by their task_id.

    Args:
        path: the file, in UTF-8.
        dropped: lines that are no problem, or one that was there before, are appended here.

    Raises:
        OSError: the file cannot be read.
    """
    problems: dict[str, dict[str, Any]] = {}
    for line, row in read_object_rows(path, dropped):
        missing = [name for name in ("task_id", "test", "entry_point") if row.get(name) in (None, "")]
        if missing:
            dropped.append(DroppedRow(line, f"The problem has no {' and no '.join(missing)}."))
        elif str(row["task_id"]) in problems:
            dropped.append(
                DroppedRow(line, f"The problem {row['task_id']!r} was there before; that one is used.")
            )
        else:
            problems[str(row["task_id"])] = row
    return problems


def grade_completions(
    answers: RunAnswers,
    grader: Callable[[str, Mapping[str, Any]], bool],
    *,
    workers: int = 1,
    on_graded: Callable[[bool | None], None] | None = None,
) -> None:
    """Grades the completions in place; an exception of the grader leaves the answer ungraded.

    After an interrupt the remaining completions are still in `answers.completions`.

    Args:
        answers: the answers of a file or a run.
        grader: called as `grader(text, problem)`, from several threads when there are several workers.
        workers: how many are graded at once, at least 1.
        on_graded: called with each grade, in the order of the file.

    Raises:
        ValueError: workers is below 1.
    """
    pending, n_graded = answers.completions, 0
    outcomes = map_ordered(
        lambda completion: grader(completion.text, completion.problem), pending, workers=workers
    )
    try:
        with closing(outcomes):
            for outcome in outcomes:
                error = outcome.error
                passed = None if error is not None else bool(outcome.value)
                reason = "" if error is None else f"{type(error).__name__}: {error}"
                answers.add_grade(outcome.item.task_id, passed, reason=reason)
                n_graded += 1
                if on_graded is not None:
                    on_graded(passed)
    finally:
        answers.completions = pending[n_graded:]


def _read_rows(path: str | Path, dropped: list[DroppedRow]) -> Iterator[tuple[int, Any]]:
    """Yields the rows of a file with their lines; rows inside dumps and reports with their places there."""
    whole = read_single_object(path)
    for line, row in read_object_rows(path, dropped) if whole is None else ((1, whole),):
        yield from _unpack_row(line, row)


def _unpack_row(line: int, row: dict[str, Any]) -> Iterator[tuple[int, Any]]:
    """Yields the rows inside a dump or a report with their places in it; any other row unchanged."""
    if isinstance(row.get("passk"), list):
        yield from enumerate(_report_rows(row["passk"]), 1)
    elif isinstance(row.get("per_task"), list):
        yield from enumerate(row["per_task"], 1)
    elif isinstance(row.get("runs"), list):
        yield from enumerate(flatten_trials(row["runs"]), 1)
    else:
        yield line, row


def _report_rows(columns: list[Any]) -> Iterator[Any]:
    """Yields the tasks and ungraded answers of each file or run in the output of `proctor passk --json`."""
    for column in columns:
        if not isinstance(column, dict) or not isinstance(column.get("per_task"), list):
            yield column
            continue
        target = {"target": column.get("run") or column.get("path")} if len(columns) > 1 else {}
        yield from ({**row, **target} if isinstance(row, dict) else row for row in column["per_task"])
        ungraded = column.get("ungraded")
        for row in ungraded if isinstance(ungraded, list) else ():
            yield {**row, **target, "passed": None} if isinstance(row, dict) else row


def _add_row(
    row: Any,
    line: int,
    runs: dict[tuple[str, str], RunAnswers],
    problems: Mapping[str, Mapping[str, Any]] | None,
) -> None:
    """Adds a row to the answers of its run.

    Raises:
        TypeError: the row cannot be used.
        ValueError: the row cannot be used.
    """
    if not isinstance(row, dict):
        raise TypeError(f"Row {line} is {row!r}. It must be an object.")
    if "case_id" in row and "verdict" in row:
        _add_trial(row, runs)
    elif "completion" in row and (problems is not None or "passed" not in row):
        _add_completion(row, runs, problems)
    elif "n" in row and "passed" in row:
        _add_counts(row, line, runs)
    elif "passed" in row:
        task_id, passed = parse_trial(row, line, "task_id")
        _answers_for(runs, row).add_grade(task_id, passed, reason=str(row.get("reason") or "passed is null"))
    else:
        raise ValueError(
            "The row has neither `passed` nor a `verdict`, so nothing says whether an answer passed."
        )


def _answers_for(runs: dict[tuple[str, str], RunAnswers], row: Mapping[str, Any]) -> RunAnswers:
    """Returns the answers of the row's run and target."""
    return runs.setdefault((str(row.get("run") or ""), str(row.get("target") or "")), RunAnswers())


def _add_counts(row: Mapping[str, Any], place: int, runs: dict[tuple[str, str], RunAnswers]) -> None:
    counts = parse_count(row, place)
    name = counts.task_id if row.get("task_id") not in (None, "") else f"(row {place})"
    _answers_for(runs, row).add_count(TaskCount(name, counts.n, counts.passed))


def _add_trial(row: Mapping[str, Any], runs: dict[tuple[str, str], RunAnswers]) -> None:
    verdict = row.get("verdict")
    if not isinstance(verdict, str) or verdict not in _VERDICTS:
        raise ValueError(f"The verdict is {verdict!r}. It must be pass, fail, error or unscored.")
    failure = row.get("failure")
    reason = str(failure.get("message") or "") if isinstance(failure, dict) else ""
    answers = _answers_for(runs, row)
    register_trial(row, answers.trials)
    answers.add_grade(str(row.get("case_id")), _VERDICTS[verdict], reason=reason, kind=verdict)


def _add_completion(
    row: Mapping[str, Any],
    runs: dict[tuple[str, str], RunAnswers],
    problems: Mapping[str, Mapping[str, Any]] | None,
) -> None:
    if problems is None:
        raise ValueError("The completion is not graded. Name the problems with their tests: --problems FILE.")
    name, text = str(row.get("task_id", "")), row["completion"]
    if name not in problems:
        raise ValueError(f"There is no problem {name!r} to grade the completion by.")
    if not isinstance(text, str):
        raise ValueError(f"The completion is {text!r}. It must be a text.")
    _answers_for(runs, row).completions.append(Completion(name, text, problems[name]))

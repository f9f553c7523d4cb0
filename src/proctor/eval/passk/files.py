"""Files of answers to the counts of pass@k: counts, single answers, dumps, exported runs, and completions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from proctor.eval.jsonl_rows import DroppedRow, check_new, list_trials, objects_of, read_object
from proctor.eval.parallel import in_order
from proctor.eval.passk.estimators import trial_of
from proctor.eval.passk.result import PassAtKResult, TaskCount, Ungraded, count_of, result_of

NOT_GRADED = "not graded"
_VERDICTS = {"pass": True, "fail": False, "error": None, "unscored": None}


class Completion(NamedTuple):
    """An answer that nobody has graded yet."""

    task_id: str
    text: str
    problem: Mapping[str, Any]


@dataclass
class Answers:
    """The answers of a file, or of one run in it."""

    run: str = ""
    """What was asked, where the rows say it, and of several runs the run."""
    completions: list[Completion] = field(default_factory=list)
    """Those still to be graded."""
    ungraded: list[Ungraded] = field(default_factory=list)
    """Those that do not count."""
    why_ungraded: Counter[str] = field(default_factory=Counter)
    """How many of them are an error, unscored, or not graded."""
    pooled: dict[str, None] = field(default_factory=dict)
    """Tasks whose counts stood in more than one row."""
    _tasks: dict[str, list[int]] = field(default_factory=dict)
    """Each task with its answers, graded answers and passes."""
    trials: set[tuple[str, ...]] = field(default_factory=set)
    """The exported trials that are in, for `check_new`."""

    def count(self, counted: TaskCount) -> None:
        """Add a task's counts."""
        if counted.task_id in self._tasks:
            self.pooled[counted.task_id] = None
        self._add(counted.task_id, counted.n, counted.n, counted.passed)

    def grade(self, task_id: str, passed: bool | None, *, reason: str = "", kind: str = NOT_GRADED) -> None:
        """Add one answer; None: it was not graded, for that reason."""
        if passed is None:
            place = self._tasks.get(task_id, [0])[0]
            self.ungraded.append(Ungraded(task_id, place, reason or kind))
            self.why_ungraded[kind] += 1
        self._add(task_id, 1, int(passed is not None), int(passed is True))

    def give_up(self, reason: str) -> None:
        """Count what is still to be graded as not graded."""
        for one in self.completions:
            self.grade(one.task_id, None, reason=reason)
        self.completions = []

    @property
    def counts(self) -> list[TaskCount]:
        """The tasks that have a graded answer."""
        return [TaskCount(name, n, passed) for name, (_, n, passed) in self._tasks.items() if n]

    @property
    def fewest(self) -> int:
        """The answers, graded or still to be, to the task that has the fewest; 0 where there are none."""
        sizes = Counter({one.task_id: one.n for one in self.counts})
        sizes.update(one.task_id for one in self.completions)
        return min(sizes.values(), default=0)

    @property
    def left_out(self) -> list[str]:
        """The tasks that have none."""
        return [name for name, (_, n, _) in self._tasks.items() if not n]

    def result(self, ks: Iterable[int]) -> PassAtKResult:
        """pass@k for those ks that each task has graded answers for."""
        fewest = self.fewest
        return result_of(self.counts, [k for k in ks if k <= fewest], ungraded=self.ungraded)

    def _add(self, task_id: str, *numbers: int) -> None:
        before = self._tasks.get(task_id, [0, 0, 0])
        self._tasks[task_id] = [old + new for old, new in zip(before, numbers, strict=True)]


@dataclass
class AnswerFile:
    """What a file holds."""

    path: str
    answers: list[Answers]
    """One, or one for each exported run; none where nothing can be used."""
    dropped: list[DroppedRow]
    """Lines that cannot be used."""
    unanswered: list[str]
    """Problems that no completion is for, if there are problems."""


def read_answers(path: str | Path, problems: Mapping[str, Mapping[str, Any]] | None = None) -> AnswerFile:
    """Read a file of JSON Lines, or of one JSON object.

    A row is told by its fields: `{task_id, n, passed}`, `{task_id, passed}` (true, false or null), a
    dump of `PassAtKResult.to_dict()`, what `proctor passk --json` printed, a trial of an exported run
    `{case_id, verdict}`, or with `problems` `{task_id, completion}`. Rows of counts without a task_id are
    tasks of their own. Each `run` and each `target` stands by itself.

    Args:
        path: the file, in UTF-8.
        problems: for each task_id what its completions are graded by; what they say of themselves, as
            `passed`, is then not looked at.

    Raises:
        OSError: the file cannot be read.
    """
    dropped: list[DroppedRow] = []
    runs: dict[tuple[str, str], Answers] = {}
    for line, row in _rows(path, dropped):
        try:
            _take(row, line, runs, problems)
        except (TypeError, ValueError) as error:
            dropped.append(DroppedRow(line, str(error)))
    targets = Counter(target for _, target in runs)
    for (run, target), answers in runs.items():
        answers.run = f"{target} ({run})" if targets[target] > 1 else target
    answered = {one.task_id for answers in runs.values() for one in answers.completions}
    unanswered = [name for name in problems or () if name not in answered]
    return AnswerFile(str(path), list(runs.values()), sorted(dropped, key=lambda row: row.line), unanswered)


def read_problems(path: str | Path, dropped: list[DroppedRow]) -> dict[str, dict[str, Any]]:
    """The problems of a file of JSON Lines by their task_id, as HumanEval has them.

    Args:
        path: the file, in UTF-8.
        dropped: lines that are no problem, or one that was there before, are appended here.

    Raises:
        OSError: the file cannot be read.
    """
    problems: dict[str, dict[str, Any]] = {}
    for line, row in objects_of(path, dropped):
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
    answers: Answers,
    grader: Callable[[str, Mapping[str, Any]], bool],
    *,
    workers: int = 1,
    on_graded: Callable[[bool | None], None] | None = None,
) -> None:
    """Grade what is still to be graded, in place; an exception of the grader leaves the answer ungraded.

    Where it is interrupted, what is left is still in `answers.completions`.

    Args:
        answers: what was read.
        grader: called as `grader(text, problem)`, from several threads when there are several workers.
        workers: how many are graded at once, at least 1.
        on_graded: told each grade, in the order of the file.

    Raises:
        ValueError: workers is below 1.
    """
    pending, done = answers.completions, 0
    outcomes = in_order(lambda one: grader(one.text, one.problem), pending, workers=workers)
    try:
        with closing(outcomes):
            for outcome in outcomes:
                error = outcome.error
                passed = None if error is not None else bool(outcome.value)
                reason = "" if error is None else f"{type(error).__name__}: {error}"
                answers.grade(outcome.item.task_id, passed, reason=reason)
                done += 1
                if on_graded is not None:
                    on_graded(passed)
    finally:
        answers.completions = pending[done:]


def _rows(path: str | Path, dropped: list[DroppedRow]) -> Iterator[tuple[int, Any]]:
    """The rows of a file with their lines, and those inside its dumps and reports with their places there."""
    whole = read_object(path)
    for line, row in objects_of(path, dropped) if whole is None else ((1, whole),):
        yield from _parts(line, row)


def _parts(line: int, row: dict[str, Any]) -> Iterator[tuple[int, Any]]:
    """The rows inside a dump or a report, each with its place in there; any other row as it is."""
    if isinstance(row.get("passk"), list):
        yield from enumerate(_reported(row["passk"]), 1)
    elif isinstance(row.get("per_task"), list):
        yield from enumerate(row["per_task"], 1)
    elif isinstance(row.get("runs"), list):
        yield from enumerate(list_trials(row["runs"]), 1)
    else:
        yield line, row


def _reported(columns: list[Any]) -> Iterator[Any]:
    """What `proctor passk --json` tells of each file or run: its tasks, and answers that were not graded."""
    for column in columns:
        if not isinstance(column, dict) or not isinstance(column.get("per_task"), list):
            yield column
            continue
        target = {"target": column.get("run") or column.get("path")} if len(columns) > 1 else {}
        yield from ({**row, **target} if isinstance(row, dict) else row for row in column["per_task"])
        ungraded = column.get("ungraded")
        for row in ungraded if isinstance(ungraded, list) else ():
            yield {**row, **target, "passed": None} if isinstance(row, dict) else row


def _take(
    row: Any,
    line: int,
    runs: dict[tuple[str, str], Answers],
    problems: Mapping[str, Mapping[str, Any]] | None,
) -> None:
    """Add a row to the answers of its run.

    Raises:
        TypeError: it cannot be used.
        ValueError: it cannot be used.
    """
    if not isinstance(row, dict):
        raise TypeError(f"Row {line} is {row!r}. It must be an object.")
    if "case_id" in row and "verdict" in row:
        _take_trial(row, runs)
    elif "completion" in row and (problems is not None or "passed" not in row):
        _take_completion(row, runs, problems)
    elif "n" in row and "passed" in row:
        _take_counts(row, line, runs)
    elif "passed" in row:
        task_id, passed = trial_of(row, line, "task_id")
        _own(runs, row).grade(task_id, passed, reason=str(row.get("reason") or "passed is null"))
    else:
        raise ValueError(
            "The row has neither `passed` nor a `verdict`, so nothing says whether an answer passed."
        )


def _own(runs: dict[tuple[str, str], Answers], row: Mapping[str, Any]) -> Answers:
    """Those of the row's run and target, if it has such."""
    return runs.setdefault((str(row.get("run") or ""), str(row.get("target") or "")), Answers())


def _take_counts(row: Mapping[str, Any], place: int, runs: dict[tuple[str, str], Answers]) -> None:
    counted = count_of(row, place)
    name = counted.task_id if row.get("task_id") not in (None, "") else f"(row {place})"
    _own(runs, row).count(TaskCount(name, counted.n, counted.passed))


def _take_trial(row: Mapping[str, Any], runs: dict[tuple[str, str], Answers]) -> None:
    verdict = row.get("verdict")
    if not isinstance(verdict, str) or verdict not in _VERDICTS:
        raise ValueError(f"The verdict is {verdict!r}. It must be pass, fail, error or unscored.")
    failure = row.get("failure")
    reason = str(failure.get("message") or "") if isinstance(failure, dict) else ""
    own = _own(runs, row)
    check_new(row, own.trials)
    own.grade(str(row.get("case_id")), _VERDICTS[verdict], reason=reason, kind=verdict)


def _take_completion(
    row: Mapping[str, Any],
    runs: dict[tuple[str, str], Answers],
    problems: Mapping[str, Mapping[str, Any]] | None,
) -> None:
    if problems is None:
        raise ValueError("The completion is not graded. Name the problems with their tests: --problems FILE.")
    name, text = str(row.get("task_id", "")), row["completion"]
    if name not in problems:
        raise ValueError(f"There is no problem {name!r} to grade the completion by.")
    if not isinstance(text, str):
        raise ValueError(f"The completion is {text!r}. It must be a text.")
    _own(runs, row).completions.append(Completion(name, text, problems[name]))

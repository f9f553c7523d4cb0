"""`proctor passk`: shows pass@k and pass^k of graded answers, or grades code first."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from proctor.cli.echo import echo
from proctor.cli.jsonl_tables import file_labels, open_input, text_table, warn_dropped, write_outputs
from proctor.cli.output_files import check_outputs, output_option
from proctor.errors import CannotScore, ExitCode, NothingSelected, UsageError
from proctor.reports.document import Table
from proctor.reports.formatting import NONE, interval, percent
from proctor.safe_text import one_line

if TYPE_CHECKING:
    from proctor.charts import Chart
    from proctor.eval.passk.estimators import PassAtKResult
    from proctor.eval.passk.files import AnswerFile, RunAnswers

_MAX_NAMED_TASKS = 5
"""Maximum number of tasks that a warning names."""
_FIRST_LINE_S = 2.0
_LINE_EVERY_S = 5.0


class AnswerColumn(NamedTuple):
    """A column of the table: answers with their pass@k."""

    label: str
    file: AnswerFile
    answers: RunAnswers
    result: PassAtKResult


@click.command("passk")
@click.argument("file", nargs=-1, required=True)
@click.option(
    "--k", "ks", metavar="N,N…", help="Values of k.  [default: 1,5,10, as far as there are enough answers]"
)
@click.option(
    "--problems", metavar="FILE", help="Problems with tests, as in HumanEval. Grades the completions first."
)
@click.option(
    "--workers",
    type=click.IntRange(1),
    metavar="N",
    help="Number of completions to grade at a time.  [default: one per CPU]",
)
@click.option(
    "--timeout",
    "timeout_s",
    type=float,
    metavar="S",
    help="Time limit per completion, in seconds.  [default: 10]",
)
@click.option(
    "--memory", "memory_mb", type=int, metavar="MB", help="Memory limit per completion.  [default: 512]"
)
@click.option(
    "--isolation",
    type=click.Choice(["kernel", "seccomp", "process"]),
    help="How completions are isolated. The default, kernel, needs Linux.",
)
@click.option("--json", "as_data", is_flag=True, help="Print one JSON object, with all tasks.")
@output_option
def command(
    file: tuple[str, ...],
    ks: str | None,
    problems: str | None,
    workers: int | None,
    as_data: bool,
    output: tuple[str, ...],
    **limits: Any,
) -> int:
    """Compute pass@k and pass^k, with 95 % intervals over tasks.

    Several FILEs appear side by side. FILE (- for stdin) has one line per task, such as {"task_id": "a", "n":
    10, "passed": 3}, or one line per answer, such as {"task_id": "a", "passed": true}. It can also be an
    exported run with repeats, a dump of PassAtKResult.to_dict(), or the output of --json. With --problems,
    the lines are completions such as {"task_id": "a", "completion": "…"}, which run in a sandbox with the
    tests of the problem. Answers that could not be graded are reported and do not count. Exit codes: 2 if you
    stopped the grading with Ctrl-C (the graded answers are shown), 3 if nothing could be graded, 4 if a file
    cannot be read, 5 if it has no valid line.

    \b
    proctor passk base.jsonl tuned.jsonl --k 1,10 -o passk.svg
    """  # noqa: D301  # click wants the character \b itself
    check_outputs(output, inputs=(*file, *([problems] if problems else ())))
    requested_ks = None if ks is None else _parse_ks(ks)
    limits = {name: limit for name, limit in limits.items() if limit is not None}
    if problems is None and (workers or limits):
        raise UsageError(
            "--workers, --timeout, --memory and --isolation apply to grading. Add --problems FILE to "
            "grade completions."
        )
    graded_by = None if problems is None else _load_problems(problems)
    files = [_load_answers(path, graded_by) for path in dict.fromkeys(file)]
    _check_ks(files, requested_ks)
    code = _grade(files, workers or os.cpu_count() or 1, limits)
    columns = _columns(files, requested_ks)
    data = {"passk": [_to_data(column) for column in columns], "exit_code": int(code)}
    tables = list(_tables(columns))
    write_outputs(output, as_data=as_data, chart=lambda: _chart(columns), data=data, tables=tables)
    return code


def _parse_ks(ks: str) -> list[int]:
    try:
        numbers = sorted({int(part) for part in ks.split(",")})
    except ValueError:
        numbers = []
    if not numbers or numbers[0] < 1:
        raise UsageError(f"--k is {ks!r}. Give whole numbers of at least 1, such as --k 1,5,10.")
    return numbers


# --- reading and grading -----------------------------------------------------------------------------------


def _load_problems(path: str) -> dict[str, dict[str, Any]]:
    from proctor.eval.jsonl_rows import DroppedRow
    from proctor.eval.passk.files import read_problems

    dropped_rows: list[DroppedRow] = []
    with open_input(path) as where:
        problems = read_problems(where, dropped_rows)
    warn_dropped(path, dropped_rows)
    if not problems:
        raise NothingSelected(
            f"{path}: error: The file has no problems: no line has task_id, test and entry_point."
        )
    return problems


def _load_answers(path: str, problems: Mapping[str, Mapping[str, Any]] | None) -> AnswerFile:
    from proctor.eval.passk.files import read_answers

    with open_input(path) as where:
        answer_file = replace(read_answers(where, problems), path=path)
    warn_dropped(path, answer_file.dropped)
    if not answer_file.answers:
        raise NothingSelected(f"{path}: error: The file has no answers: no line has `passed` or a `verdict`.")
    if answer_file.unanswered:
        _warn(
            path,
            answer_file.unanswered,
            "has no completion and does not count",
            "have no completion and do not count",
        )
    for answers in answer_file.answers:
        _warn(
            path,
            answers.pooled_tasks,
            "is in several rows, which are combined",
            "are in several rows",
        )
    return answer_file


def _warn(path: str, tasks: Sequence[str] | Mapping[str, Any], singular: str, plural: str) -> None:
    """Prints a warning about some tasks."""
    names = [one_line(name) for name in tasks]
    if len(names) == 1:
        echo(f"{path}: warning: Task {names[0]!r} {singular}.", err=True)
    elif names:
        more = ", …" if len(names) > _MAX_NAMED_TASKS else ""
        echo(
            f"{path}: warning: {len(names):,} tasks {plural}: {', '.join(names[:_MAX_NAMED_TASKS])}{more}.",
            err=True,
        )


def _grade(files: Sequence[AnswerFile], workers: int, limits: Mapping[str, Any]) -> ExitCode:
    """Grades completions in a sandbox; after Ctrl-C, those graded so far count.

    Raises:
        CannotScore: none of the answers of a file could be graded.
        KeyboardInterrupt: it came before the first answer was graded.
    """
    answer_sets = [(file, answers) for file in files for answers in file.answers]
    code = ExitCode.OK
    try:
        for file, answers in answer_sets:
            _grade_answers(file, answers, workers, limits)
    except KeyboardInterrupt:
        if not any(answers.counts for _, answers in answer_sets):
            raise
        code = ExitCode.INTERRUPTED
        remaining = sum(len(answers.completions) for _, answers in answer_sets)
        echo(f"Interrupted: {remaining:,} completions were not graded, and do not count.", err=True)
    for file, answers in answer_sets:
        answers.discard_completions("The grading was interrupted.")
        _warn(
            file.path, answers.ungraded_tasks, "has no graded answer and is left out", "have no graded answer"
        )
    for file in files:
        if code is ExitCode.OK and not any(answers.counts for answers in file.answers):
            why = one_line(file.answers[0].ungraded[0].reason)
            raise CannotScore(
                f"{file.path}: error: None of the answers could be graded. The reason for the first: {why}"
            )
    return code


def _grade_answers(file: AnswerFile, answers: RunAnswers, workers: int, limits: Mapping[str, Any]) -> None:
    if not answers.completions:
        return
    from proctor.eval.passk.files import grade_completions
    from proctor.eval.sandbox.sandbox import CodeSandbox, humaneval_run

    progress = GradingProgress(file.path, len(answers.completions))
    grader = partial(humaneval_run, sandbox=CodeSandbox(**limits))
    grade_completions(answers, grader, workers=workers, on_graded=progress)


class GradingProgress:
    """Prints the progress of grading on stderr, once it has taken a while."""

    def __init__(self, path: str, total: int, patience_s: float = _FIRST_LINE_S) -> None:
        """Prints nothing before `patience_s` seconds.

        Args:
            path: the file.
            total: how many completions it has.
            patience_s: the delay before the first line.
        """
        self._path, self._total = path, total
        self._count = self._passed = 0
        self._next = monotonic() + patience_s

    def __call__(self, passed: bool | None) -> None:
        """Counts one more graded completion."""
        self._count += 1
        self._passed += bool(passed)
        if monotonic() >= self._next:
            self._next = monotonic() + _LINE_EVERY_S
            echo(f"{self._path}: {self._count:,}/{self._total:,} graded, {self._passed:,} passed", err=True)


# --- results -----------------------------------------------------------------------------------------------


def _columns(files: Sequence[AnswerFile], requested_ks: Sequence[int] | None) -> list[AnswerColumn]:
    fewest = [answers.min_answers for file in files for answers in file.answers]
    # By default 1, 5 and 10 as far as there are answers, and the number of answers where it is below 10.
    ks = requested_ks or sorted(
        {1, *(k for k in (5, 10) if k <= max(fewest)), *(few for few in fewest if 0 < few < 10)}
    )
    columns = []
    for label, file in zip(file_labels([file.path for file in files]), files, strict=True):
        for answers in file.answers:
            run = one_line(answers.run) if len(file.answers) > 1 else ""
            columns.append(AnswerColumn(f"{label} {run}".rstrip(), file, answers, answers.result(ks)))
    _warn_missing(columns, ks)
    return columns


def _check_ks(files: Sequence[AnswerFile], ks: Sequence[int] | None) -> None:
    """Refuses, before anything is graded, values of k for which no file has enough answers.

    Raises:
        UsageError: no file has enough answers for any of them.
    """
    max_answers = max(answers.min_answers for file in files for answers in file.answers)
    if ks and 0 < max_answers < ks[0]:
        raise UsageError(
            f"pass@{ks[0]} cannot be computed: some task has only {max_answers:,} graded answers. Lower --k."
        )


def _warn_missing(columns: Sequence[AnswerColumn], ks: Sequence[int]) -> None:
    """Prints a warning for each column that has too few answers for some k."""
    for column in columns:
        count = column.result.samples_per_problem
        missing = ", ".join(f"pass@{k}" for k in ks if count < k)
        if missing:
            echo(
                f"{column.label}: warning: no {missing}: some task has only {count:,} graded answers.",
                err=True,
            )


def _to_data(column: AnswerColumn) -> dict[str, Any]:
    from proctor.eval.json_files import to_plain

    data: dict[str, Any] = to_plain(
        {
            "path": column.file.path,
            "run": column.answers.run or None,
            **column.result.to_dict(),
            "statistics": {**column.result.statistics(), "ungraded_tasks": column.answers.ungraded_tasks},
            "ungraded": column.answers.ungraded,
            "unanswered": column.file.unanswered,
            "dropped": column.file.dropped,
        }
    )
    return data


def _tables(columns: Sequence[AnswerColumn]) -> Iterator[Table]:
    labels = [column.label for column in columns]
    yield text_table("", ["", *labels], _figure_rows(columns))
    ks = sorted({k for column in columns for k in column.result.pass_at})
    if not ks:
        return
    if len(columns) == 1:
        head = ["k", "pass@k", "95 % interval", "pass^k", "95 % interval"]
        result = columns[0].result
        yield text_table("", head, ([str(k), *_rate_cells(result, k)] for k in ks))
        return
    for title, index in (("pass@k, one of k answers passes", 0), ("pass^k, all k pass", 2)):
        yield text_table(title, ["k", *labels], (_compared_row(columns, k, index) for k in ks))


def _figure_rows(columns: Sequence[AnswerColumn]) -> Iterator[list[str]]:
    counts = [[task.n for task in column.answers.counts] for column in columns]
    yield ["tasks", *(f"{len(sizes):,}" for sizes in counts)]
    yield ["graded answers", *(f"{sum(sizes):,}" for sizes in counts)]
    yield ["  of each task", *(_range_text(sizes) for sizes in counts)]
    if any(column.answers.ungraded for column in columns):
        counts_by_kind = [column.answers.ungraded_counts.items() for column in columns]
        texts = (", ".join(f"{count:,} {kind}" for kind, count in kinds) for kinds in counts_by_kind)
        yield ["not counted", *(text or "0" for text in texts)]
    if any(column.answers.ungraded_tasks for column in columns):
        yield ["tasks left out", *(f"{len(column.answers.ungraded_tasks):,}" for column in columns)]
    if any(column.file.dropped for column in columns):
        yield ["dropped lines", *(f"{len(column.file.dropped):,}" for column in columns)]


def _range_text(sizes: Sequence[int]) -> str:
    low, high = min(sizes, default=0), max(sizes, default=0)
    return f"{low:,}" if low == high else f"{low:,}–{high:,}"


def _rate_cells(result: PassAtKResult, k: int) -> list[str]:
    """Returns pass@k with its interval, then pass^k with its."""
    if k > result.samples_per_problem:
        return [NONE] * 4
    return [
        *(percent(result.estimate(k)), interval(result.interval(k))),
        *(percent(result.pass_hat(k)), interval(result.pass_hat_interval(k))),
    ]


def _compared_row(columns: Sequence[AnswerColumn], k: int, index: int) -> list[str]:
    """Returns the row of one k: the rate at that index of the cells, and its interval, by column."""
    row = [str(k)]
    for column in columns:
        value, bounds = _rate_cells(column.result, k)[index : index + 2]
        row.append(value if bounds == NONE else f"{value} ({bounds})")
    return row


def _chart(columns: Sequence[AnswerColumn]) -> Chart:
    from proctor.eval.passk.result import draw_curves

    return draw_curves({column.label: column.result for column in columns})

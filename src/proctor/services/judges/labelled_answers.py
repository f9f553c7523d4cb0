"""Finds the answers of labels: in stored runs, or in the file of labels itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime

from msgspec import Struct
from msgspec.structs import replace

from proctor.codec import encode
from proctor.env_substitution import check_variables_set, substitute_in_case, unmask
from proctor.errors import StoreError, SuiteError, UsageError
from proctor.graders import GRADERS
from proctor.grading import build_grader
from proctor.model import Assertion, Case, Label, PassRule, Problem, Run, Trial
from proctor.protocols import Store
from proctor.reports.runs.serialize import TrialResult
from proctor.services.judges.label_files import LabelLine, LabelSet
from proctor.services.runs.reading.report import read_trial_rows
from proctor.verdicts import pass_rules_for


class LabelledAnswer(Struct, frozen=True, kw_only=True):
    """One answer with all of its labels, ready to be judged."""

    case: Case
    """The case with its variables filled in."""
    trial: Trial
    """The trial, which has an output."""
    rule: PassRule
    labels: tuple[Label, ...]
    run: Run | None = None
    """The run of the answer; None if the file of labels has it."""


class AnswerSelection(Struct, frozen=True):
    """The labelled answers in the order of the file, and their runs."""

    answers: tuple[LabelledAnswer, ...]
    runs: tuple[Run, ...]
    unjudged: int
    """The number of further answers whose cases have no judge."""


def find_answers(
    labels: LabelSet, store: Store, run: str | None, environ: Mapping[str, str]
) -> AnswerSelection:
    """Finds the answers of labels.

    Args:
        labels: the labels.
        store: has the runs.
        run: the run of labels whose line names none; an id or `last`.
        environ: has the values of variables in cases.

    Raises:
        SuiteError: lines name no answer that can be judged, or contradict one another; has every problem.
        StoreError: there is no such run.
        UsageError: a variable is not set, or none of the answers has a judge.
    """
    finder = _AnswerFinder(labels, store, run, environ)
    selection = finder.find_all()
    if finder.problems:
        raise SuiteError(sorted(finder.problems, key=lambda problem: problem.line or 0))
    if not selection.answers:
        raise UsageError(f"No case in {labels.path!r} has an assertion that uses a judge.")
    return selection


def is_judged(assertion: Assertion) -> bool:
    """Whether an assertion counts and may call a judge about a single answer."""
    grader = build_grader(assertion, GRADERS.get)
    counts = assertion.weight > 0 or assertion.required is not None
    return counts and not grader.grades_repeats and "judge" in grader.requirements()


class _AnswerFinder:
    """Finds the answers of one file of labels, and problems of its lines."""

    def __init__(self, labels: LabelSet, store: Store, run: str | None, environ: Mapping[str, str]) -> None:
        self.problems: list[Problem] = []
        self._labels = labels
        self._store = store
        self._environ = environ
        self._default_run = None if run is None else store.run(run)
        self._unjudged = 0
        self._runs: dict[str, Run | None] = {}
        """By the word in a line; None for a run that does not exist."""

    def find_all(self) -> AnswerSelection:
        standalone: dict[bytes, list[LabelLine]] = {}
        by_run: dict[str, dict[tuple[str, int], list[LabelLine]]] = {}
        for label_line in self._labels.lines:
            if label_line.standalone is not None:
                content = encode(
                    (
                        label_line.standalone.case.input,
                        replace(label_line.standalone.case, id=""),
                        label_line.standalone.output,
                    )
                )
                standalone.setdefault(content, []).append(label_line)
                continue
            run = self._find_run(label_line)
            if run is not None:
                key = (label_line.label.case_id, label_line.label.repeat)
                by_run.setdefault(run.id, {}).setdefault(key, []).append(label_line)
        self._check_ids(standalone.values())
        answers = [(group[0].line, self._standalone_answer(group)) for group in standalone.values()]
        runs = {run.id: run for run in self._runs.values() if run is not None and run.id in by_run}
        for run_id, run in runs.items():
            answers += self._stored_answers(run, by_run[run_id])
        in_file_order = sorted(answers, key=lambda entry: entry[0])
        return AnswerSelection(
            tuple([answer for _, answer in in_file_order]), tuple(runs.values()), self._unjudged
        )

    def _add_problem(self, line: int, message: str) -> None:
        self.problems.append(Problem(code="bad-label", message=message, path=self._labels.path, line=line))

    def _find_run(self, label_line: LabelLine) -> Run | None:
        """Returns the run whose answer a line names."""
        word = label_line.label.run or (self._default_run.id if self._default_run is not None else "")
        if not word:
            self._add_problem(
                label_line.line,
                f"The line names case {label_line.label.case_id!r} but no run. Name the run with the "
                "answers: proctor certify RUN --judge T --labels FILE.",
            )
            return None
        if word not in self._runs:
            try:
                self._runs[word] = self._store.run(word)
            except StoreError as error:
                self._runs[word] = None
                self._add_problem(label_line.line, str(error))
        run = self._runs[word]
        if run is not None and self._default_run is not None and run.id != self._default_run.id:
            self._add_problem(
                label_line.line,
                f"The label belongs to run {run.id}, but you named run {self._default_run.id}.",
            )
            return None
        return run

    # --- answers of a run ---

    def _stored_answers(
        self, run: Run, groups: dict[tuple[str, int], list[LabelLine]]
    ) -> Iterator[tuple[int, LabelledAnswer]]:
        for row in read_trial_rows(self._store, run, reveal=True):
            group = groups.pop((row.trial.case_id, row.trial.repeat), None)
            if group is not None and self._can_be_judged(row, group):
                yield group[0].line, self._stored_answer(run, row, group)
        for (case_id, repeat), group in groups.items():
            answer_name = f"case {case_id!r}" + (f", repeat {repeat}" if repeat else "")
            self._add_problem(group[0].line, f"Run {run.id} has no finished answer to {answer_name}.")

    def _can_be_judged(self, row: TrialResult, group: list[LabelLine]) -> bool:
        line, case_id, output = group[0].line, row.trial.case_id, row.trial.output
        if output is None:
            self._add_problem(line, f"Case {case_id!r} has no answer in that run: {row.reason}")
            return False
        if not any(map(is_judged, row.case.assertions)):
            self._unjudged += 1
            return False
        mismatches = [
            label_line
            for label_line in group
            if label_line.answer not in (None, output.text, f"'{output.text}")
        ]
        for label_line in mismatches:
            self._add_problem(
                label_line.line,
                f"The answer to case {case_id!r} on this line differs from the one in the run, so the "
                "label may belong to another answer. Export the run again, or remove `output` from the "
                "line.",
            )
        return not mismatches

    def _stored_answer(self, run: Run, row: TrialResult, group: list[LabelLine]) -> LabelledAnswer:
        trial, variables, environ = row.trial, row.case.variables, self._environ
        check_variables_set(variables, environ)
        return LabelledAnswer(
            case=substitute_in_case(row.case, environ),
            trial=replace(trial, output=unmask(trial.output, variables, environ)),
            rule=pass_rules_for(run)(row.case),
            labels=self._merge_labels(group),
            run=run,
        )

    # --- answers beside their labels ---

    def _standalone_answer(self, group: list[LabelLine]) -> LabelledAnswer:
        standalone = group[0].standalone
        assert standalone is not None
        return LabelledAnswer(
            case=standalone.case,
            trial=Trial(
                case_id=standalone.case.id,
                position=0,
                sent="",
                output=standalone.output,
                started_at=datetime.now(UTC),
            ),
            rule=PassRule(),
            labels=self._merge_labels(group),
        )

    def _check_ids(self, groups: Iterable[list[LabelLine]]) -> None:
        first: dict[str, int] = {}
        for group in groups:
            for case_id in {
                label_line.label.case_id
                for label_line in group
                if label_line.standalone is not None and label_line.standalone.has_id
            }:
                line = first.setdefault(case_id, group[0].line)
                if line != group[0].line:
                    self._add_problem(
                        group[0].line,
                        f"The id {case_id!r} names another answer on line {line}. Give each answer its "
                        "own id.",
                    )

    def _merge_labels(self, group: list[LabelLine]) -> tuple[Label, ...]:
        """Returns one label per person; a repeated label counts once, a contradiction is a problem."""
        first: dict[str, LabelLine] = {}
        for label_line in group:
            earlier = first.setdefault(label_line.label.by, label_line)
            if earlier.label.passed != label_line.label.passed:
                who = label_line.label.by or "the same person"
                hint = (
                    "Keep one of them"
                    if label_line.label.by
                    else "Keep one of them, or name the people in `by`"
                )
                self._add_problem(
                    label_line.line,
                    f"{who} gave the same answer the opposite label on line {earlier.line}. {hint}.",
                )
        return tuple([label_line.label for label_line in first.values()])

"""Grades the recorded answers of a bundle again, and compares the scores.

Graders that call no model give the same score again, and those with judges do with the recorded replies.
Embedding models and programs are never called: their scores are counted as recorded, and only checked for
consistency.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, TypeVar

from proctor import __version__
from proctor.codec import assertion_digest, encode
from proctor.env_substitution import names_in
from proctor.errors import GraderBroke, TimeLimitExceeded, UnknownName, UsageError
from proctor.graders import GRADERS
from proctor.grading import build_grader, score, uninterrupted_size
from proctor.model import Assertion, Case, Judgment, Run, Score, Trial, Verdict
from proctor.plan import count_repeats
from proctor.prompts.fill import fill_case
from proctor.proof.check_statement import BundleDefect, format_value, read_or_fail, require_equal
from proctor.protocols import Grader, GradingInput
from proctor.services.bundles.recorded_judgments import (
    check_judgments,
    check_outcome,
    have_same_replies,
    with_recorded_judges,
)
from proctor.services.grading.isolated_grading import BlockingIsolation
from proctor.services.runs.planning.judge_choice import all_specs

T = TypeVar("T")

_KILLED_COST_S = 5.0
"""Counted as lost for each score whose grader was killed."""
_MAX_LOST_S = 20.0
"""A grader that has lost this many seconds is no longer run."""
_TIMEOUT_COST_S = 0.25
"""Counted as lost for each search that its grader timed out itself."""
_TIMEOUT_PHRASE = "did not end within"


class ScoreChecker:
    """Checks that the scores of trials follow from their answers, case by case."""

    def __init__(self, run: Run, isolation: BlockingIsolation) -> None:
        """Takes the run and the isolation for its graders.

        Args:
            run: the run.
            isolation: runs the graders, and stops those that take too long.
        """
        self._run = run
        self._isolation = isolation
        self._lost_s: defaultdict[str, float] = defaultdict(float)
        """The seconds that each grader used without a result."""
        self._has_masked_variables = bool(names_in([spec.options.get("env", {}) for spec in all_specs(run)]))
        """Whether values of variables may be masked in answers from a workspace."""
        self._grader_classes: dict[str, type[Any] | None] = {}
        self._group: list[tuple[str, Trial]] = []
        """The trials so far of a case whose answers are graded together, with their places in the file."""
        self.graded_again = 0
        """How many scores were derived again."""
        self.recounted: Counter[str] = Counter()
        """How many scores were counted as recorded, by grader."""
        self.unread_judgments = 0
        """How many judgments were not read again from their judges' replies."""
        self._hint = ""
        made_by = run.versions.get("proctor", "an unknown version")
        if made_by != __version__:
            self._hint = (
                f" Proctor {format_value(made_by)} graded the run; this is {__version__}, which may differ."
            )

    @property
    def timed_out(self) -> tuple[str, ...]:
        """The graders that took too long, sorted."""
        return tuple(sorted(name for name, lost_s in self._lost_s.items() if lost_s))

    def check(self, place: str, case: Case, trial: Trial) -> None:
        """Checks the scores of the next trial; scores over all repeats are checked with the last repeat.

        Args:
            place: where the trial is in the file, for messages.
            case: its case.
            trial: the trial; those of a case must come one after the other.

        Raises:
            BundleDefect: a score does not follow from the answer.
        """
        case = _fill_or_defect(place, case, self._run)
        grades_repeats, names_variables = False, _names_variables(case)
        for nth, assertion in enumerate(case.assertions):
            if trial.output is not None:
                _check_score_fields(
                    _score_place(place, trial, nth),
                    assertion,
                    trial.scores[nth],
                    names_variables=names_variables,
                )
            if self._grades_repeats(assertion):
                grades_repeats = True
            elif trial.output is not None:
                grading_input = GradingInput(case=case, output=trial.output)
                self._check(_score_place(place, trial, nth), assertion, trial.scores[nth], grading_input)
        if grades_repeats:
            self._group.append((place, trial))
            if len(self._group) == count_repeats(case, self._run.settings.repeats):
                self._check_repeats(case)
                self._group = []

    def _check_repeats(self, case: Case) -> None:
        outputs = tuple(trial.output for _, trial in self._group if trial.output is not None)
        missing = len(self._group) - len(outputs)
        for nth, assertion in enumerate(case.assertions):
            for place, trial in self._group if self._grades_repeats(assertion) else ():
                if trial.output is None:
                    continue
                recorded = trial.scores[nth]
                if missing:  # then there is no score over all repeats
                    require_equal(
                        _score_place(place, trial, nth), "the outcome", recorded.outcome.value, "unscored"
                    )
                    self.graded_again += 1
                else:
                    grading_input = GradingInput(case=case, output=outputs[0], outputs=outputs)
                    self._check(_score_place(place, trial, nth), assertion, recorded, grading_input)

    def _grades_repeats(self, assertion: Assertion) -> bool:
        kind = self._grader_class(assertion)
        return kind is not None and bool(kind.grades_repeats)

    def _grader_class(self, assertion: Assertion) -> type[Any] | None:
        """Returns the class of a grader; None for one that is not installed here."""
        if assertion.grader not in self._grader_classes:
            try:
                self._grader_classes[assertion.grader] = GRADERS.get(assertion.grader)
            except UnknownName:
                self._grader_classes[assertion.grader] = None
        return self._grader_classes[assertion.grader]

    def _check(self, place: str, assertion: Assertion, recorded: Score, grading_input: GradingInput) -> None:
        name = assertion.grader
        grader = None if self._grader_class(assertion) is None else self._bind_grader(place, assertion)
        derived = None if grader is None else self._derive_score(assertion, grader, recorded, grading_input)
        if derived is None or (recorded.outcome is Verdict.UNSCORED and _TIMEOUT_PHRASE in recorded.reason):
            self.recounted[name] += 1
            self.unread_judgments += 0 if name == "program" else len(recorded.judgments)
            if grader is not None:
                check_outcome(place, assertion, grader, recorded)
        elif grader is not None and "judge" in grader.requirements():
            self.recounted[name] += 1
            check_judgments(place, recorded.judgments, derived.judgments)
            self._compare(place, recorded, derived, "the judges' replies make it")
        else:
            self.graded_again += 1
            require_equal(place, "the number of judgments", len(recorded.judgments), 0)
            self._compare(place, recorded, derived, "grading the answer again gives")

    def _derive_score(
        self, assertion: Assertion, grader: Grader, recorded: Score, grading_input: GradingInput
    ) -> Score | None:
        """Grades an answer again, with judges that return their recorded replies.

        Returns None if the grader needs more than that, where the replies belong to other prompts, or
        where it takes too long.
        """
        wants = grader.requirements()
        if "embedder" in wants or _runs_programs(assertion, grader) or self._is_masked(grading_input.case):
            return None
        judgments = recorded.judgments if "judge" in wants else None
        size = uninterrupted_size(
            (assertion,), grading_input.outputs or (grading_input.output,), GRADERS.get
        ) + sum(len(judgment.raw) for judgment in judgments or ())
        work = partial(_score_with_replies, assertion, grading_input, self._run, judgments)
        (derived,) = self._run_limited(assertion.grader, work, size) or (None,)
        if derived is None or (
            "judge" in wants and not have_same_replies(recorded.judgments, derived.judgments)
        ):
            return None
        if derived.outcome is Verdict.UNSCORED and _TIMEOUT_PHRASE in derived.reason:
            self._lost_s[assertion.grader] += _TIMEOUT_COST_S
            return None
        return derived

    def _bind_grader(self, place: str, assertion: Assertion) -> Grader | None:
        """Returns the grader of an assertion; None if checking its parameters takes too long.

        Raises:
            BundleDefect: there is no such grader, or its parameters are wrong.
        """
        grader = self._run_limited(assertion.grader, partial(_bind_or_defect, place, assertion), 0)
        if isinstance(grader, BundleDefect):
            raise grader
        return grader

    def _run_limited(self, grader: str, work: Callable[[], T], size: int) -> T | None:
        """Returns the result of a grader's work; None if it takes too long, or did so too often before."""
        if self._lost_s[grader] >= _MAX_LOST_S:
            return None
        try:
            return self._isolation.call(work, size)
        except (TimeLimitExceeded, GraderBroke):
            self._lost_s[grader] += _KILLED_COST_S
            return None

    def _is_masked(self, case: Case) -> bool:
        """Whether the recorded answer may have a variable's name in place of the value that was graded."""
        return _names_variables(case) or (case.workspace is not None and self._has_masked_variables)

    def _compare(self, place: str, recorded: Score, derived: Score, again: str) -> None:
        if recorded.outcome is not derived.outcome:
            what, recorded_value, derived_value = "outcome", recorded.outcome.value, derived.outcome.value
        elif not _is_close(recorded.value, derived.value):
            what, recorded_value, derived_value = "value", str(recorded.value), str(derived.value)
        elif not _is_close(recorded.required, derived.required):
            what, recorded_value, derived_value = "gate", str(recorded.required), str(derived.required)
        else:
            return
        raise BundleDefect(
            f"{place}: the {what} is {recorded_value}, and {again} {derived_value}.{self._hint}"
        )


def _score_place(place: str, trial: Trial, nth: int) -> str:
    return f"{place}: score {nth + 1} ({format_value(trial.scores[nth].grader)})"


def _fill_or_defect(place: str, case: Case, run: Run) -> Case:
    """Returns the case with the messages that were sent for it.

    Raises:
        BundleDefect: it has no value for a variable of the run's prompt.
    """
    try:
        return fill_case(case, run)
    except UsageError as error:
        raise BundleDefect(f"{place}: {error}") from None


def _bind_or_defect(place: str, assertion: Assertion) -> Grader | BundleDefect:
    """Returns the grader of an assertion, or the defect that keeps it from being made."""
    try:
        return read_or_fail(place, partial(build_grader, assertion, GRADERS.get))
    except BundleDefect as defect:
        return defect


def _score_with_replies(
    assertion: Assertion, grading_input: GradingInput, run: Run, judgments: Sequence[Judgment] | None
) -> tuple[Score | None]:
    """Scores an answer, with the replies of these judgments if any; None if its grader has to wait."""
    if judgments is not None:
        grading_input = with_recorded_judges(grading_input, run, judgments)
    return (_run_without_waiting(score(assertion, grading_input, GRADERS.get)),)


def _runs_programs(assertion: Assertion, grader: Grader) -> bool:
    """Whether the grader may run a program; a composite does where a member does."""
    return grader.is_async and (assertion.grader != "composite" or b'"program"' in encode(assertion.params))


def _run_without_waiting(coroutine: Coroutine[Any, Any, T]) -> T | None:
    """Runs a coroutine and returns its result; closes it and returns None if it waits for something."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    finally:
        coroutine.close()
    return None


def _names_variables(case: Case) -> bool:
    """Whether the case names a variable in a field that the suite's digest covers."""
    if not case.variables:
        return False
    params = [assertion.params for assertion in case.assertions]
    covered = (case.input, case.expected, case.criteria, params, case.workspace, case.form)
    return bool(names_in(covered))


# --- what a score must be ----------------------------------------------------------------------------------


def _check_score_fields(place: str, assertion: Assertion, recorded: Score, *, names_variables: bool) -> None:
    """Checks what holds for every score of an assertion, whatever its grader.

    Where variables were filled in, the name may have a variable in place of a text that equals its value.
    """
    require_equal(place, "the grader", recorded.grader, assertion.grader)
    if not names_variables:
        require_equal(place, "the name", recorded.name, assertion.label or assertion.grader)
    right = read_or_fail(place, lambda: assertion_digest(assertion))
    require_equal(place, "the digest of the assertion", recorded.assertion, right)
    require_equal(place, "the weight", recorded.weight, assertion.weight)
    if recorded.outcome is Verdict.ERROR:
        raise BundleDefect(f"{place}: the outcome is error, which only a trial can be.")
    if (recorded.value is None) is not (recorded.outcome is Verdict.UNSCORED):
        raise BundleDefect(f"{place}: a score has a value or is unscored, and this one both or neither.")
    if recorded.value is not None and not 0 <= recorded.value <= 1:
        raise BundleDefect(f"{place}: the value is {recorded.value}, and should be within 0 and 1.")
    gate, own = assertion.required, recorded.required
    if gate is not None and (own is None or own < gate):
        raise BundleDefect(f"{place}: the gate is {format_value(own)}, and the assertion has {gate}.")


def _is_close(first: float | None, second: float | None) -> bool:
    """Whether values are equal up to the rounding of sums in another order."""
    if first is None or second is None:
        return first is second
    return abs(first - second) <= 1e-9

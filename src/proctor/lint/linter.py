"""The linter: applies all rules to a stream of cases. Pure.

Findings are warnings and never keep a suite from being run. A rule is silenced for one case by the case's
field `lint`, and for all cases by the caller. `docs/reference/lint/index.md` describes each code.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from time import thread_time
from typing import Any, Final, cast

from msgspec import Struct
from msgspec.structs import replace

from proctor.codec import judged_digest
from proctor.errors import CannotScore, UsageError, suggestion
from proctor.grading import (
    GraderLookup,
    GradingContext,
    GradingMode,
    build_grader,
    grade,
    grade_immediately,
    grading_mode,
    score,
)
from proctor.lint.always_passing import REFUSAL, AlwaysPassingRule, ProbeResult, last_prompt
from proctor.lint.answer_leaks import LabelCounter, find_leaks, may_be_label
from proctor.lint.case_ids import CaseIdRule
from proctor.lint.contamination import QuestionIndex, TextSearch
from proctor.lint.contradictions import find_contradictions
from proctor.lint.duplicates import DuplicateRule
from proctor.lint.expected_not_checked import (
    JUDGE_PARAMS,
    find_empty_expected,
    find_json_expected,
    find_judges_without_rubric,
)
from proctor.lint.findings import (
    GRADER_TRAITS,
    CaseLocation,
    Finding,
    PassesAssertion,
    counting_assertions,
)
from proctor.lint.regex_rules import BacktrackingRule, find_empty_matches
from proctor.lint.related_cases import RelatedCasesRule
from proctor.lint.suite_size import check_token_estimate
from proctor.lint.suppressions import IGNORE_ALL, find_unknown_codes, silenced_codes
from proctor.model import Assertion, Case, Output, PassRule, Problem, Score, Suite, Trial, Verdict
from proctor.protocols import MAX_STEP_LENGTH, CaseAtLine, GradingInput, TextGrader
from proctor.stats import reaches
from proctor.verdicts import decide_verdict, trial_score

CODES: Final = {
    "canary": "a canary of the suite appears in other text",
    "contaminated": "a question of the suite appears in other text",
    "contradiction": "no answer can pass two of a case's assertions",
    "empty-expected": "the expected answer is empty",
    "json-expected": "JSON is compared character by character",
    "judge-without-rubric": "a judge has no criteria to grade by",
    "leak": "the prompt contains the expected answer",
    "mixed-id-languages": "ids mix scripts, or only some cases have an id",
    "near-duplicate": "two cases have the same or nearly the same question",
    "regex-backtracking": "the search for a pattern can take an unbounded time",
    "regex-empty": "a pattern matches an empty answer",
    "related-cases": "cases look related and no cluster is set",
    "similar-id": "two ids differ only in upper and lower case or in white space",
    "tokens-est": "the token estimate of a case is far off",
    "too-few-cases": "the suite has too few cases for a comparison or a gate",
    "unknown-lint": "`lint` of a case names an unknown rule",
    "vacuous-echo": "a case passes on its own prompt",
    "vacuous-empty": "a case passes on an empty answer",
    "vacuous-refusal": "a case passes on a refusal",
}
"""Every code with its description; codes never change."""


class CaseRule(Struct, frozen=True):
    """A rule that needs only one case."""

    find: Callable[[Case, PassesAssertion], Iterator[Finding]]
    graders: frozenset[str] | None = None
    """It is about assertions with these graders, so that other cases need not be checked; None for all."""
    field: str | None = None
    """The field of metadata that it is about; None for none."""


_LITERAL_GRADERS: Final = frozenset(name for name, traits in GRADER_TRAITS.items() if traits.literal)
_RULES: Final = (
    CaseRule(lambda case, _passes: find_unknown_codes(case, CODES), field="lint"),
    CaseRule(find_judges_without_rubric, frozenset(JUDGE_PARAMS)),
    CaseRule(find_empty_expected),
    CaseRule(find_json_expected, _LITERAL_GRADERS),
    CaseRule(find_leaks),
    CaseRule(find_empty_matches, frozenset(("regex",))),
    CaseRule(find_contradictions),
    CaseRule(check_token_estimate, field="tokens_est"),
)
SLOW_S: Final = 0.05
"""Grading that takes more processor time counts as slow, mostly because a pattern backtracks."""
SLOW_BUDGET_S: Final = 3.0
"""The processor time for all slow grading of a suite; after that, answers are no longer graded."""
_FIXED_ANSWERS: Final = frozenset(("", REFUSAL))
_MAX_FIXED_ANSWERS: Final = 4096
_UNKNOWN_CHECKS: Final[list[tuple[Assertion, TextGrader]]] = []
_STARTED_AT: Final = datetime(2000, 1, 1, tzinfo=UTC)
_EMPTY_CASE: Final = Case(id="", input=())
_PASS_ALL: Final = PassRule(threshold=0.0)


def check_codes(codes: Collection[str]) -> None:
    """Checks that all codes exist.

    Raises:
        UsageError: a code does not exist.
    """
    for code in codes:
        if code not in CODES:
            raise UsageError(f"There is no lint rule {code!r} to ignore. {suggestion(code, list(CODES))}")


class _FindingLog:
    """Collects the findings of one suite, without those that are ignored or that a case silences."""

    def __init__(self, path: str, ignored: Collection[str]) -> None:
        self._path = path
        self._ignored = frozenset(ignored)
        self._silenced_codes: dict[str, frozenset[str]] = {}
        self.problems: list[Problem] = []

    def locate(self, case_at_line: CaseAtLine) -> CaseLocation:
        """Returns the location of a case, and notes what it silences."""
        case = case_at_line.case
        if "lint" in case.metadata:
            self._silenced_codes[case.id] = silenced_codes(case)
        return CaseLocation(case.id, case_at_line.path or self._path, case_at_line.line)

    def report(self, finding: Finding, *spots: CaseLocation) -> None:
        """Reports a finding for the first of these cases, unless any of them silences it."""
        codes = (finding.code, IGNORE_ALL)
        if finding.code not in self._ignored and all(
            self._silenced_codes.get(spot.case, frozenset()).isdisjoint(codes) for spot in spots
        ):
            self.problems.append(make_problem(finding, spots[0]))

    def report_suite(self, finding: Finding) -> None:
        """Reports a finding on the suite as a whole, which has no line."""
        if finding.code not in self._ignored:
            problem = make_problem(finding, CaseLocation("", self._path, 0))
            self.problems.append(replace(problem, line=None))


class Linter:
    """Lints the cases of one suite, as a stream."""

    def __init__(self, path: str, graders: GraderLookup, ignored: Collection[str] = ()) -> None:
        """Prepares the rules for one suite.

        Args:
            path: the suite's file, for cases that name none of their own.
            graders: grader classes by name.
            ignored: codes that are not reported.
        """
        self._graders = graders
        self._log = _FindingLog(path, ignored)
        self._ids = CaseIdRule()
        self._duplicates = DuplicateRule()
        self._related_cases = RelatedCasesRule()
        self._always_passing = AlwaysPassingRule(self._grade_text)
        self._labels = LabelCounter()
        self._pending_leaks: list[tuple[Finding, CaseLocation, Case]] = []
        """Leaks that are none if the answer turns out to be a label of the suite."""
        self._rules = (*_RULES, CaseRule(BacktrackingRule().check, frozenset(("regex",))))
        self._rules_by_graders: dict[frozenset[str], list[CaseRule]] = {}
        self._text_graders: dict[int, tuple[Assertion, TextGrader | None]] = {}
        """The graders of the current case, by the identities of its assertions."""
        self._text_checks: list[tuple[Assertion, TextGrader]] | None = None
        self._fixed_answers: dict[tuple[TextGrader, str], bool] = {}
        """Whether graders accept the answers that are the same for each case."""
        self.files: dict[str, None] = {path: None}
        """The files of the suite, in the order in which cases stand in them."""
        self.remaining_s = SLOW_BUDGET_S
        """The remaining time for slow grading."""

    def add(self, case_at_line: CaseAtLine) -> None:
        """Adds the next case, which must have no error."""
        case = case_at_line.case
        spot = self._log.locate(case_at_line)
        self.files.setdefault(spot.path)
        codes: set[str] = set()
        self._text_graders.clear()
        self._text_checks = _UNKNOWN_CHECKS
        for rule in self._rules_for(case):
            if rule.field is not None and rule.field not in case.metadata:
                continue
            for finding in rule.find(case, self._passes):
                codes.add(finding.code)
                if finding.code == "leak" and may_be_label(case) and not self._passes_on_prompt(case):
                    self._pending_leaks.append(
                        (finding, spot, Case(id=case.id, input=(), expected=case.expected))
                    )
                else:
                    self._log.report(finding, spot)
        for finding in self._always_passing.add(case, spot, codes):
            self._log.report(finding, spot)
        for finding in self._ids.add(spot, named=case_at_line.has_own_id):
            self._log.report(finding, spot)
        self._duplicates.add(case, spot, judged_digest(case).encode("ascii"))
        self._related_cases.add(case)
        self._labels.add(case)

    def _rules_for(self, case: Case) -> list[CaseRule]:
        """Returns the rules that are about the graders of a case, in their order."""
        graders = frozenset([assertion.grader for assertion in counting_assertions(case)])
        rules = self._rules_by_graders.get(graders)
        if rules is None:
            rules = [rule for rule in self._rules if rule.graders is None or rule.graders & graders]
            self._rules_by_graders[graders] = rules
        return rules

    def finish(self, suite: Suite) -> list[Problem]:
        """Returns all findings, by file and line.

        Args:
            suite: the suite's header.
        """
        for finding, spot, case in self._pending_leaks:
            if not self._labels.is_label(case):
                self._log.report(finding, spot)
        for finding, spot in self._always_passing.finish(suite.pass_rule):
            self._log.report(finding, spot)
        for finding, spot, other in self._duplicates.finish():
            self._log.report(finding, spot, other)
        for finding, spot in self._ids.finish():
            self._log.report(finding, spot)
        related = self._related_cases.finish() if suite.defaults.cluster is None else None
        if related is not None:
            self._log.report_suite(related)
        return in_file_order(self._log.problems, self.files)

    def _passes_on_prompt(self, case: Case) -> bool:
        return self._grade_text(case, last_prompt(case)) is not None

    # --- grading -------------------------------------------------------------------------------------------

    def _passes(self, assertion: Assertion, text: str) -> bool | None:
        """Returns whether an answer passes one assertion; None if that is unknown."""
        grader = self._text_grader(assertion)
        if grader is not None:
            accepted = self._accepts_text(grader, text)
            return None if accepted is None else _count_answer(assertion, accepted)[1]
        kind = self._graders(assertion.grader)
        if kind.needs or kind.grades_repeats:
            return None
        grading_input = GradingInput(case=_EMPTY_CASE, output=Output(text=text))
        scored = self._run_timed(lambda: _run_now(score(assertion, grading_input, self._graders)))
        if scored is None or scored.outcome is Verdict.UNSCORED:
            return None
        return scored.outcome is Verdict.PASS

    def _grade_text(self, case: Case, text: str) -> ProbeResult | None:
        """Grades an answer to a case by the graders that make no calls; None if that is not possible."""
        if self._text_checks is _UNKNOWN_CHECKS:
            self._text_checks = self._list_text_checks(case)
        if self._text_checks is not None:
            return _probe(
                [(assertion, self._accepts_text(grader, text)) for assertion, grader in self._text_checks]
            )
        output = Output(text=text)
        scores: tuple[Score, ...] | None = self._run_timed(lambda: self._scores(case, output))
        if scores is None or not any(score.value for score in scores):
            return None
        trial = Trial(
            case_id=case.id, position=0, sent="", output=output, scores=scores, started_at=_STARTED_AT
        )
        if decide_verdict(trial, _PASS_ALL) is not Verdict.PASS:
            return None
        return ProbeResult(
            strict=decide_verdict(trial, PassRule()) is Verdict.PASS, score=trial_score(trial) or 0.0
        )

    def _list_text_checks(self, case: Case) -> list[tuple[Assertion, TextGrader]] | None:
        """Returns the assertions of a case with their graders; None unless all are `TextGrader`s."""
        checks: list[tuple[Assertion, TextGrader]] = []
        for assertion in case.assertions:
            grader = self._text_grader(assertion)
            if grader is None:
                return None
            checks.append((assertion, grader))
        return checks

    def _text_grader(self, assertion: Assertion) -> TextGrader | None:
        """Returns the grader of an assertion, if it is a `TextGrader`; each is built once for a case."""
        entry = self._text_graders.get(id(assertion))
        if entry is None or entry[0] is not assertion:
            entry = self._text_graders[id(assertion)] = (assertion, self._build_text_grader(assertion))
        return entry[1]

    def _build_text_grader(self, assertion: Assertion) -> TextGrader | None:
        if assertion.on != "answer" or not issubclass(self._graders(assertion.grader), TextGrader):
            return None
        try:
            return cast("TextGrader", build_grader(assertion, self._graders))
        except ValueError:  # reported where the suite is read
            return None

    def _accepts_text(self, grader: TextGrader, text: str) -> bool | None:
        if self.remaining_s <= 0:
            return None
        if grader.reads_in_steps and len(text) <= MAX_STEP_LENGTH:  # always fast
            return grader.accepts(text)
        is_fixed = text in _FIXED_ANSWERS
        accepted: bool | None = self._fixed_answers.get((grader, text)) if is_fixed else None
        if accepted is not None:
            return accepted
        try:
            accepted = self._run_timed(lambda: grader.accepts(text))
        except CannotScore:
            return None
        if is_fixed and accepted is not None and len(self._fixed_answers) < _MAX_FIXED_ANSWERS:
            self._fixed_answers[grader, text] = accepted
        return accepted

    def _scores(self, case: Case, output: Output) -> tuple[Score, ...] | None:
        manner = grading_mode(case, self._graders)
        if manner is GradingMode.IMMEDIATE:
            return grade_immediately(case, output, self._graders)
        if manner is GradingMode.ASYNC and not any(
            self._graders(assertion.grader).needs for assertion in case.assertions
        ):
            scores: tuple[Score, ...] | None = _run_now(grade(case, output, self._graders, GradingContext()))
            return scores
        return None

    def _run_timed(self, work: Callable[[], Any]) -> Any:
        """Returns the result of the work; None once slow work has used up the time."""
        if self.remaining_s <= 0:
            return None
        start = thread_time()
        result = work()
        elapsed = thread_time() - start
        if elapsed > SLOW_S:
            self.remaining_s -= elapsed
        return result


def _count_answer(assertion: Assertion, accepted: bool) -> tuple[float, bool]:
    """Returns the value of an answer that a grader accepts or not, and whether it passes the assertion."""
    value, passed = (1.0 if accepted else 0.0), accepted
    if assertion.pass_at is not None:
        passed = reaches(value, assertion.pass_at)
    return (1.0 - value, not passed) if assertion.negated else (value, passed)


def _probe(answers: Sequence[tuple[Assertion, bool | None]]) -> ProbeResult | None:
    """Returns the result of an answer from whether each assertion accepts it, None being unknown.

    The rules are those of `decide_verdict` and `trial_score`.
    """
    total = weights = highest = 0.0
    has_counting, strict = False, True
    for assertion, accepted in answers:
        weight, required = assertion.weight, assertion.required
        counts = weight > 0 or required is not None
        if accepted is None:
            if counts:
                return None
            continue
        value, passed = (1.0, True) if accepted else (0.0, False)
        if assertion.negated or assertion.pass_at is not None:
            value, passed = _count_answer(assertion, accepted)
        if required is not None and not reaches(value, required):
            return None
        if counts:
            has_counting, strict = True, strict and passed
        highest = max(highest, value)
        if weight > 0:
            total += value * weight
            weights += weight
    if not (highest and has_counting):
        return None
    return ProbeResult(strict=strict, score=total / weights if weights else 0.0)


def _run_now(work: Coroutine[Any, Any, Any]) -> Any:
    """Returns the result of a coroutine that does not wait; None if it waits."""
    try:
        work.send(None)
    except StopIteration as end:
        return end.value
    work.close()
    return None


# --- other text --------------------------------------------------------------------------------------------


class ContaminationSearch:
    """Searches other texts for the cases of a suite."""

    def __init__(self, path: str, ignored: Collection[str] = ()) -> None:
        """Takes the same arguments as `Linter`."""
        self._log = _FindingLog(path, ignored)
        self._cases = QuestionIndex()
        self._is_closed = False

    def add(self, case_at_line: CaseAtLine) -> None:
        """Adds the next case."""
        self._cases.add(case_at_line.case, self._log.locate(case_at_line))

    def search(self, path: str, pieces: Iterator[str]) -> list[Problem]:
        """Returns a problem for each case that is found in a text.

        Args:
            path: the text's name, for messages.
            pieces: the text from beginning to end, each piece ending between two words.
        """
        if not self._is_closed:
            self._cases.close()
            self._is_closed = True
        search = TextSearch(self._cases, path)
        for piece in pieces:
            search.read(piece)
        self._log.problems = []
        for finding, spot in search.finish():
            self._log.report(finding, spot)
        return self._log.problems


def make_problem(finding: Finding, spot: CaseLocation) -> Problem:
    """Makes a warning of a finding at the location of its case."""
    return Problem(
        level="warning",
        code=finding.code,
        message=finding.message,
        path=spot.path,
        line=spot.line,
        field=finding.field,
        case=spot.case or None,
    )


def in_file_order(problems: Collection[Problem], files: Iterable[str] = ()) -> list[Problem]:
    """Sorts problems by file and line; files that are not given come last, in order of appearance."""
    paths = (*files, *(problem.path for problem in problems))
    places = {path: place for place, path in enumerate(dict.fromkeys(paths))}
    return sorted(problems, key=lambda problem: (places[problem.path], problem.line or 0))
